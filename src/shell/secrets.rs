//! Reduces a Secret to digests and findings, at once. Pure; `effects` calls it with the bytes of an answer.
//!
//! Only this code of the operator sees the content of a Secret, and none of it may leave: no value, and no error of a
//! reader, which quotes what it cannot read. What is found in a value leaves as one of a few words ([`SecretFinding`]), and
//! of a certificate its end.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::ByteString;
use kube::core::ObjectMeta;
use serde::Deserialize;

use crate::kernel::event::SecretContent;
use crate::kernel::go_operator::{self, WHOLE_SECRET};
use crate::kernel::hash;
use crate::kernel::object::{ResourceVersion, Uid};
use crate::kernel::secret_finding::SecretFinding;
use crate::kernel::secret_keys::{CA, CERTIFICATE, PASSWORD_FILE, PRIVATE_KEY};
use crate::secrets::certificates::{self, Certificates};
use crate::secrets::password_file;

#[derive(Deserialize)]
struct SecretBody {
    metadata: ObjectMeta,
    #[serde(default)]
    data: Option<BTreeMap<String, ByteString>>,
}

/// The digests and the findings of the values of those `keys` that exist. `None` when `body` is no Secret.
#[must_use]
pub fn digest(body: &[u8], keys: &[String]) -> Option<SecretContent> {
    let SecretBody { metadata, data } = serde_json::from_slice(body).ok()?;
    let data = data.unwrap_or_default();
    let name = metadata.name.unwrap_or_default();
    let digest_of = |key: &String| match key.as_str() {
        WHOLE_SECRET => {
            let values = data.iter().map(|(key, value)| (key.as_str(), value.0.as_slice()));
            Some(go_operator::of_secret(&name, values))
        }
        key => data.get(key).map(|value| hash::of_bytes(&value.0)),
    };
    let (mut findings, mut not_after) = (BTreeSet::new(), BTreeMap::new());
    for (key, value) in keys.iter().filter_map(|key| Some((key, data.get(key)?))) {
        let chain = || data.get(CERTIFICATE).map(|chain| chain.0.as_slice());
        let (found, end) = judge(key, &value.0, chain());
        findings.extend(found);
        not_after.extend(end.map(|end| (key.clone(), end)));
    }
    Some(SecretContent {
        uid: Uid::from(metadata.uid?),
        resource_version: ResourceVersion::from(metadata.resource_version?),
        requested: keys.to_vec(),
        digests: keys.iter().filter_map(|key| Some((key.clone(), digest_of(key)?))).collect(),
        findings,
        not_after,
    })
}

/// What there is to say about the value of a key, and when a certificate in it ends. `chain` is the certificate that a
/// private key has to belong to.
fn judge(key: &str, value: &[u8], chain: Option<&[u8]>) -> (BTreeSet<SecretFinding>, Option<Timestamp>) {
    let of_certificates = |Certificates { finding, not_after }| (finding.into_iter().collect(), not_after);
    match key {
        PASSWORD_FILE => (password_file::judge(value), None),
        CERTIFICATE => of_certificates(certificates::judge_chain(value)),
        CA => of_certificates(certificates::judge_authorities(value)),
        PRIVATE_KEY => (certificates::judge_key(value, chain).into_iter().collect(), None),
        _ => (BTreeSet::new(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(body: &serde_json::Value, keys: &[&str]) -> Option<SecretContent> {
        digest(body.to_string().as_bytes(), &keys.iter().map(|&key| key.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn only_the_requested_keys_are_digested_and_a_missing_one_is_left_out() {
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "users", "uid": "u-1", "resourceVersion": "7"},
            "data": {"password-file": "YWJj", "other": "eHl6"},
        });
        assert_eq!(
            read(&secret, &["password-file", "tls.key"]),
            Some(SecretContent {
                uid: Uid::from("u-1"),
                resource_version: ResourceVersion::from("7"),
                requested: vec!["password-file".into(), "tls.key".into()],
                digests: BTreeMap::from([(
                    "password-file".into(),
                    // Of "abc", as FIPS 180-2 gives it.
                    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".into(),
                )]),
                findings: BTreeSet::from([
                    SecretFinding::PasswordFileMalformed,
                    SecretFinding::PasswordFileNotEnded,
                ]),
                not_after: BTreeMap::new(),
            })
        );
    }

    #[test]
    fn a_whole_secret_is_digested_as_the_go_operator_does_it() {
        let secret = json!({
            "metadata": {"name": "users", "uid": "u-1", "resourceVersion": "7"},
            "data": {"password-file": "YWJj", "other": "eHl6"},
        });
        let fed = b"users\0other\0xyzusers\0password-file\0abc";
        assert_eq!(
            read(&secret, &[WHOLE_SECRET]).map(|content| content.digests),
            Some(BTreeMap::from([(WHOLE_SECRET.into(), hash::of_bytes(fed))]))
        );
    }

    #[test]
    fn a_secret_without_data_has_no_digests() {
        let secret = json!({"metadata": {"uid": "u-1", "resourceVersion": "7"}});
        assert_eq!(read(&secret, &["password-file"]).map(|content| content.digests), Some(BTreeMap::new()));
    }

    #[test]
    fn what_is_no_secret_gives_nothing() {
        assert_eq!(
            read(&json!({"metadata": {"uid": "u", "resourceVersion": "1"}, "data": "c2VjcmV0"}), &[]),
            None
        );
        assert_eq!(read(&json!({"metadata": {}}), &[]), None);
        assert_eq!(digest(b"<html>", &[]), None);
    }
}
