//! What was found in a Secret, as the status has it: the version that pods carry, and the version that no pod is started
//! with. Pure; called by [`super::mounted_secrets`] and by the status stage.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::api::status::SecretVersion;
use crate::kernel::event::SecretContent;
use crate::kernel::secret_finding::SecretFinding;
use crate::kernel::secret_keys::CA;
use crate::kernel::text::truncated;

/// The most bytes that are said about one invalid Secret: a name of 253 bytes and every finding fit.
const MAX_MESSAGE: usize = 1_000;

/// A Secret that holds what memcached would refuse, in a version that no pod was started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSecret {
    /// Its name.
    pub name: String,
    /// Its version; no other object ever gets the same.
    pub resource_version: String,
    /// What is wrong with it, and what to do.
    pub message: String,
}

/// The version of a Secret, with what was found in the values of these keys.
#[must_use]
pub fn version(name: &str, keys: &[&'static str], content: &SecretContent) -> SecretVersion {
    let ends = keys.iter().filter_map(|key| content.not_after.get(*key));
    SecretVersion {
        name: name.to_owned(),
        uid: content.uid.to_string(),
        resource_version: content.resource_version.to_string(),
        keys: keys.iter().map(ToString::to_string).collect(),
        certificate_not_after: ends.min().map(|end| Time(whole_seconds(*end))),
        warnings: findings(keys, content).map(|it| it.as_str().to_owned()).collect(),
        ..SecretVersion::default()
    }
}

/// What memcached would refuse in the values of these keys; `None` if it takes them.
#[must_use]
pub fn invalid(name: &str, keys: &[&'static str], content: &SecretContent) -> Option<InvalidSecret> {
    let mut wrong: Vec<String> = Vec::new();
    for finding in findings(keys, content).filter(|it| it.is_invalid()) {
        wrong.push(format!("{}: {}", finding.key(), finding.words()));
    }
    (!wrong.is_empty()).then(|| InvalidSecret {
        name: name.to_owned(),
        resource_version: content.resource_version.to_string(),
        message: truncated(
            format!("Secret {name}, {}; no rollout starts with it: correct the Secret", wrong.join("; ")),
            MAX_MESSAGE,
        ),
    })
}

/// What the status is to remember: the versions that the pods carry, each with a newer one that no pod is started with.
#[must_use]
pub fn recorded(hashed: &[SecretVersion], invalid: &[InvalidSecret]) -> Vec<SecretVersion> {
    let carried = hashed.iter().filter(|it| it.is_hashed()).map(carried);
    let mut by_name: BTreeMap<String, SecretVersion> = carried.map(|it| (it.name.clone(), it)).collect();
    for InvalidSecret { name, resource_version, message } in invalid {
        let unknown = || SecretVersion { name: name.clone(), ..SecretVersion::default() };
        let version = by_name.entry(name.clone()).or_insert_with(unknown);
        version.invalid = Some(message.clone());
        version.invalid_resource_version = Some(resource_version.clone());
    }
    by_name.into_values().collect()
}

/// A version that pods carry, without what is known of a newer one.
#[must_use]
pub fn carried(version: &SecretVersion) -> SecretVersion {
    SecretVersion { invalid: None, invalid_resource_version: None, ..version.clone() }
}

fn findings(keys: &[&'static str], content: &SecretContent) -> impl Iterator<Item = SecretFinding> {
    // Where memcached asks nobody for a certificate, its own is for servers.
    let asks_clients = keys.contains(&CA);
    let matters =
        move |finding: SecretFinding| finding != SecretFinding::CertificateNotForClients || asks_clients;
    content.findings.iter().copied().filter(move |it| keys.contains(&it.key()) && matters(*it))
}

/// Times in the API have whole seconds.
fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::object::{ResourceVersion, Uid};
    use crate::kernel::secret_keys::CERTIFICATE;

    /// Another cache may mount other keys of the same Secret.
    #[test]
    fn what_was_found_in_a_key_that_is_not_mounted_is_neither_a_warning_nor_an_end() {
        let content = SecretContent {
            uid: Uid::from("1"),
            resource_version: ResourceVersion::from("1"),
            requested: Vec::new(),
            digests: BTreeMap::new(),
            findings: [
                SecretFinding::PasswordFileNotEnded,
                SecretFinding::CertificateNotJudged,
                SecretFinding::CertificateNotForClients,
            ]
            .into(),
            not_after: [(CA.to_owned(), Timestamp::UNIX_EPOCH)].into(),
        };
        let SecretVersion { warnings, certificate_not_after, .. } =
            version("mixed", &[CERTIFICATE], &content);
        assert_eq!(warnings, [SecretFinding::CertificateNotJudged.as_str()]);
        assert_eq!(certificate_not_after, None);
        let with_client_certificates = version("mixed", &[CA, CERTIFICATE], &content).warnings;
        assert_eq!(with_client_certificates, ["CertificateNotJudged", "CertificateNotForClients"]);
    }
}
