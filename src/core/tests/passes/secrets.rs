//! What is read of Secrets, and the Kubernetes Events that warn of what stands in one.

use std::collections::BTreeMap;

use jiff::Timestamp;
use memcached_operator_core::kernel::event::SecretContent;
use memcached_operator_core::kernel::object::{ResourceVersion, Uid};
use memcached_operator_core::kernel::pending_request::PlannedRequest;
use memcached_operator_core::kernel::secret_finding::SecretFinding;
use memcached_operator_core::kernel::world::World;
use memcached_operator_core::kernel::world::secret::Presence;
use serde_json::json;

use crate::support::{run, sent, world};

#[test]
fn what_two_resources_read_of_one_secret_is_kept_together() {
    let read = |key: &str, finding: SecretFinding| SecretContent {
        uid: Uid("uid".to_owned()),
        resource_version: ResourceVersion("7".to_owned()),
        requested: vec![key.to_owned()],
        digests: [(key.to_owned(), format!("digest of {key}"))].into(),
        findings: [finding].into(),
        not_after: [(key.to_owned(), Timestamp::UNIX_EPOCH)].into(),
    };
    let findings = [SecretFinding::CertificateNotJudged, SecretFinding::PasswordFileNotEnded];
    let mut both = read("password-file", findings[1]);
    both.unite(read("tls.crt", findings[0]));
    let keys = ["password-file", "tls.crt"];
    assert_eq!(both.requested, keys);
    assert_eq!(both.digests.keys().collect::<Vec<_>>(), keys);
    assert_eq!(both.findings, findings.into());
    assert_eq!(both.not_after.keys().collect::<Vec<_>>(), keys);
}

/// Reasons of the Events that go with what a pass writes.
fn said(world: &World) -> Vec<String> {
    let kube_events = |request: PlannedRequest| match request {
        PlannedRequest::WriteChild(write) => write.kube_events,
        _ => Vec::new(),
    };
    run(world).requests.into_iter().flat_map(kube_events).map(|kube_event| kube_event.reason).collect()
}

#[test]
fn who_makes_pods_is_warned_of_a_password_file_without_an_end_and_of_a_tight_limit() {
    let spec = json!({
        "resources": {"limits": {"memory": "100Mi"}},
        "security": {"sasl": {"enabled": true, "credentialsSecretRef": {"name": "users"}}},
    });
    let mut world = world(&spec, Vec::new());
    let (uid, resource_version) = (Uid("s".to_owned()), ResourceVersion("7".to_owned()));
    let secret = world.secrets.values_mut().next().unwrap();
    secret.presence = Presence::Present(uid.clone(), resource_version.clone());
    secret.content = Some(SecretContent {
        uid,
        resource_version,
        requested: vec!["password-file".to_owned()],
        digests: [("password-file".to_owned(), "digest".to_owned())].into(),
        findings: [SecretFinding::PasswordFileNotEnded].into(),
        not_after: BTreeMap::new(),
    });
    assert_eq!(said(&world), ["MemoryLimitTight", "PasswordFileNotEnded"]);
    assert_eq!(sent(&world), ["create Service", "create Deployment"]);
}
