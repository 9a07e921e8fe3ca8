//! The ends of a cache's certificates. Takes its status, gives [`Certificate`]s. Pure; called by `cache`.

use jiff::Timestamp;
use serde::Serialize;

use crate::api::MemcachedStatus;

/// The end of one certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// The Secret that holds it.
    pub secret: String,
    /// When it ends; absent where the operator has not said so: it could not read the certificate, or is of an older
    /// release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Timestamp>,
}

/// The certificates that the status tells of, and that of `wanted`, the Secret that the spec names for TLS.
#[must_use]
pub fn from_status(status: &MemcachedStatus, wanted: Option<&str>) -> Vec<Certificate> {
    let told = status.secrets.iter().filter_map(|it| {
        let not_after = it.certificate_not_after.as_ref()?.0;
        Some(Certificate { secret: it.name.clone(), not_after: Some(not_after) })
    });
    let mut found: Vec<_> = told.collect();
    if let Some(secret) = wanted.filter(|secret| !found.iter().any(|it| it.secret == *secret)) {
        found.push(Certificate { secret: secret.to_owned(), not_after: None });
    }
    found
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::told(json!({"certificateNotAfter": "2027-01-31T12:00:00Z"}), Some("2027-01-31T12:00:00Z"))]
    #[case::not_told(json!({}), None)]
    fn the_end_is_known_where_the_operator_says_it(
        #[case] told: serde_json::Value,
        #[case] not_after: Option<&str>,
    ) {
        let mut secret = json!({"name": "tls", "uid": "u", "resourceVersion": "1"});
        secret.as_object_mut().unwrap().extend(told.as_object().unwrap().clone());
        let users = json!({"name": "users", "uid": "u", "resourceVersion": "1"});
        let status = serde_json::from_value(json!({"secrets": [users, secret]})).unwrap();
        let not_after = not_after.map(|time| time.parse().unwrap());
        assert_eq!(from_status(&status, Some("tls")), [Certificate { secret: "tls".to_owned(), not_after }]);
        assert_eq!(from_status(&status, None).len(), usize::from(not_after.is_some()));
    }
}
