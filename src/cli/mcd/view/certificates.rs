//! The certificates of a cache, and what the operator says of its Secrets. Takes the raw status; gives [`Certificate`]s and
//! lines. Pure; called by `cache`.
//!
//! The status is read as it is: an operator of an older release says nothing of this, and that is no error.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the operator says of one Secret, in `status.secrets`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Judged {
    name: String,
    #[serde(default)]
    certificate_not_after: Option<String>,
    #[serde(default)]
    invalid: Option<String>,
    #[serde(default)]
    warnings: Vec<String>,
}

/// The end of one certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// The Secret that holds it.
    pub secret: String,
    /// When it ends; absent where the operator has not said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Timestamp>,
}

/// The certificates that the status tells of, and that of `wanted`, the Secret that the spec names for TLS.
#[must_use]
pub fn of(status: &Value, wanted: Option<&str>) -> Vec<Certificate> {
    let mut found: Vec<_> = judged(status)
        .filter_map(|it| {
            let not_after = it.certificate_not_after?.parse().ok()?;
            Some(Certificate { secret: it.name, not_after: Some(not_after) })
        })
        .collect();
    if let Some(secret) = wanted.filter(|secret| !found.iter().any(|it| it.secret == *secret)) {
        found.push(Certificate { secret: secret.to_owned(), not_after: None });
    }
    found
}

/// What is wrong with the Secrets, or may soon be.
#[must_use]
pub fn warnings(status: &Value) -> Vec<String> {
    let said = |it: Judged| {
        let Judged { name, certificate_not_after: _, invalid, warnings } = it;
        invalid.into_iter().chain(warnings).map(move |text| format!("Secret {name}: {text}"))
    };
    judged(status).flat_map(said).collect()
}

fn judged(status: &Value) -> impl Iterator<Item = Judged> {
    let secrets = status.get("secrets").and_then(Value::as_array).into_iter().flatten();
    secrets.filter_map(|it| Judged::deserialize(it).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn certificate(secret: &str, not_after: Option<&str>) -> Certificate {
        let not_after = not_after.map(|time| time.parse().unwrap());
        Certificate { secret: secret.to_owned(), not_after }
    }

    #[test]
    fn the_end_and_the_judgement_are_read_where_the_operator_says_them() {
        let status = json!({"secrets": [
            {"name": "users", "uid": "u", "resourceVersion": "1", "warnings": ["the last line has no newline"]},
            {"name": "tls", "certificateNotAfter": "2027-01-31T12:00:00Z", "invalid": "tls.key does not match"},
            {"name": 1},
        ]});
        assert_eq!(of(&status, Some("tls")), [certificate("tls", Some("2027-01-31T12:00:00Z"))]);
        assert_eq!(
            warnings(&status),
            ["Secret users: the last line has no newline", "Secret tls: tls.key does not match"]
        );
    }

    #[test]
    fn an_operator_that_says_nothing_of_it_leaves_the_end_unknown() {
        let status = json!({"secrets": [{"name": "tls", "uid": "u", "resourceVersion": "1"}]});
        assert_eq!(of(&status, Some("tls")), [certificate("tls", None)]);
        assert_eq!(of(&json!("fine"), None), []);
        assert_eq!(warnings(&status), Vec::<String>::new());
    }
}
