//! What is read of Secrets, and the Kubernetes Events that warn of what stands in one.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use memcached_operator_core::api::status::SecretVersion;
use memcached_operator_core::kernel::backoff::{Attempt, Backoff};
use memcached_operator_core::kernel::event::SecretContent;
use memcached_operator_core::kernel::failure::{Category, Failure};
use memcached_operator_core::kernel::known_versions::Presence;
use memcached_operator_core::kernel::live::template_content_hash;
use memcached_operator_core::kernel::object::{ChildKind, ResourceVersion, Uid};
use memcached_operator_core::kernel::request::{ChildWrite, Request, StatusWrite};
use memcached_operator_core::kernel::secret_finding::SecretFinding;
use memcached_operator_core::kernel::world::World;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{complete, condition, deployment, deployment_with_secrets, run, sent, service, world};

#[test]
fn what_two_resources_read_of_one_secret_is_kept_together() {
    let read = |key: &str, finding: SecretFinding| SecretContent {
        uid: Uid::from("uid"),
        resource_version: ResourceVersion::from("7"),
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
    let kube_events = |request: Request| match request {
        Request::WriteChild(write) => write.kube_events,
        _ => Vec::new(),
    };
    run(world).requests.into_iter().flat_map(kube_events).map(|kube_event| kube_event.reason).collect()
}

fn tls(client_certificates: bool) -> Value {
    json!({"security": {"tls": {
        "enabled": true, "certificateSecretRef": {"name": "tls"}, "enableClientCert": client_certificates,
    }}})
}

#[test]
fn whoever_takes_the_annotations_of_a_deployment_away_moves_no_server() {
    let mut world = with_client_certificates(&[], &["tls.crt", "tls.key"]);
    let mut meddled = complete(deployment(&tls(true)), 1);
    meddled.content.edit(|it| it["metadata"]["annotations"] = json!(null));
    meddled.resource_version = ResourceVersion::from("8");
    world.see_child(meddled, Timestamp::UNIX_EPOCH).unwrap();
    world.resources.values_mut().next().unwrap().seen.status.template_revision = Some(1);
    assert_eq!(sent(&world), ["apply Deployment"]);
}

/// Findings in a Secret whose version the pods carry, and which of its keys they mount.
fn with_client_certificates(findings: &[SecretFinding], keys: &[&str]) -> World {
    let children = vec![service(&tls(false)), complete(deployment(&tls(false)), 1)];
    let mut world = world(&tls(true), children);
    let (uid, resource_version) = (Uid::from("s"), ResourceVersion::from("7"));
    let secret = world.secrets.values_mut().next().unwrap();
    secret.presence = Presence::Present(uid.clone(), resource_version.clone());
    let all = ["tls.crt", "tls.key", "ca.crt"];
    secret.content = Some(SecretContent {
        uid,
        resource_version,
        requested: all.map(str::to_owned).to_vec(),
        digests: all.map(|key| (key.to_owned(), format!("digest of {key}"))).into(),
        findings: findings.iter().copied().collect(),
        not_after: BTreeMap::new(),
    });
    let resource = world.resources.values_mut().next().unwrap();
    resource.seen.generation = 2;
    resource.seen.status.observed_generation = 1;
    resource.seen.status.secrets = vec![SecretVersion {
        name: "tls".to_owned(),
        uid: "s".to_owned(),
        resource_version: "7".to_owned(),
        keys: keys.iter().map(ToString::to_string).collect(),
        ..SecretVersion::default()
    }]
    .into();
    world
}

#[rstest]
#[case::the_new_key(SecretFinding::AuthorityMissing, &["tls.crt", "tls.key"], true)]
#[case::a_key_that_runs(SecretFinding::PrivateKeyMismatch, &["tls.crt", "tls.key"], false)]
#[case::before_keys_were_recorded(SecretFinding::PrivateKeyMismatch, &[], false)]
fn of_a_secret_that_runs_only_the_keys_that_an_edit_mounts_anew_can_be_invalid(
    #[case] finding: SecretFinding,
    #[case] keys: &[&str],
    #[case] is_held: bool,
) {
    let world = with_client_certificates(&[finding], keys);
    let said = condition(&world, "Stalled");
    assert_eq!(said.as_deref() == Some("True SecretInvalid"), is_held);
    assert_eq!(sent(&world).contains(&"apply Deployment".to_owned()), !is_held, "{:?}", sent(&world));
}

#[test]
fn who_makes_pods_is_warned_of_a_password_file_without_an_end_and_of_a_tight_limit() {
    let spec = json!({
        "resources": {"limits": {"memory": "100Mi"}},
        "security": {"sasl": {"enabled": true, "credentialsSecretRef": {"name": "users"}}},
    });
    let mut world = world(&spec, Vec::new());
    let (uid, resource_version) = (Uid::from("s"), ResourceVersion::from("7"));
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

/// A cache whose password Secret cannot be read in its newest version. Its pods were started with Secrets of the one hash, and its
/// template carries the other.
fn with_an_unreadable_secret(carried: &str, started_with: &str) -> World {
    let sasl = json!({"enabled": true, "credentialsSecretRef": {"name": "users"}});
    let spec = json!({"security": {"sasl": sasl}});
    let mut deployment = complete(deployment_with_secrets(&spec, started_with), 1);
    deployment.content.edit(|it| {
        let annotations = &mut it["spec"]["template"]["metadata"]["annotations"];
        annotations["memcached.c5c3.io/secret-hash"] = json!(carried);
    });
    let mut world = world(&spec, vec![service(&spec), deployment]);
    let secret = world.secrets.values_mut().next().unwrap();
    secret.presence = Presence::Present(Uid::from("s"), ResourceVersion::from("8"));
    let failure = Failure { category: Category::Transient, message: "connection refused".to_owned() };
    let (sent, uid) = (Attempt::default(), Uid::from("uid"));
    secret.backoff = Some(Backoff::from_failure(None, failure, sent, &uid, Timestamp::UNIX_EPOCH));
    let status = &mut world.resources.values_mut().next().unwrap().seen.status;
    let reached = json!({"observedGeneration": 1, "reconciledGeneration": 1, "templateGeneration": 1});
    *status = serde_json::from_value(reached).unwrap();
    status.secrets = vec![SecretVersion {
        name: "users".to_owned(),
        uid: "s".to_owned(),
        resource_version: "7".to_owned(),
        keys: vec!["password-file".to_owned()],
        ..SecretVersion::default()
    }]
    .into();
    world
}

/// The record of ownership says that the hash is ours, as it does where somebody writes under this operator's name.
#[rstest]
#[case::of_the_pods("started with")]
#[case::of_nobody("forged")]
fn a_hash_that_seems_to_be_ours_replaces_no_pod_while_its_secret_cannot_be_read(#[case] carried: &str) {
    let world = with_an_unreadable_secret(carried, "started with");
    let live = world.resources.values().next().unwrap().live(ChildKind::Deployment).unwrap();
    assert_eq!(live.secret_hash.as_deref(), Some(carried), "it is taken for ours");
    let before = live.template_content_hash;
    for request in run(&world).requests {
        if let Request::WriteChild(ChildWrite { kind: ChildKind::Deployment, write, .. }) = request {
            let applied = write.applied().unwrap();
            assert_eq!(write.replaces().and_then(|it| it.cause), None);
            assert_eq!(template_content_hash(applied), before, "{applied:#}");
        }
    }
}

/// The Secret has the next certificate, and the pods get it when the pause ends.
#[test]
fn the_end_of_the_certificate_that_pods_have_is_in_the_status_while_the_next_one_waits_for_a_pause() {
    let mut spec = tls(false);
    spec["paused"] = json!(true);
    let deployment = complete(deployment_with_secrets(&spec, "started with"), 1);
    let mut world = world(&spec, vec![service(&spec), deployment]);
    let (uid, resource_version) = (Uid::from("s"), ResourceVersion::from("8"));
    let secret = world.secrets.values_mut().next().unwrap();
    secret.presence = Presence::Present(uid.clone(), resource_version.clone());
    let keys = ["tls.crt", "tls.key"].map(str::to_owned);
    secret.content = Some(SecretContent {
        uid,
        resource_version,
        requested: keys.to_vec(),
        digests: keys.clone().map(|key| (key, "digest".to_owned())).into(),
        findings: BTreeSet::new(),
        not_after: BTreeMap::new(),
    });
    let status = &mut world.resources.values_mut().next().unwrap().seen.status;
    let reached = json!({"observedGeneration": 1, "reconciledGeneration": 1, "templateGeneration": 1});
    *status = serde_json::from_value(reached).unwrap();
    status.secrets = vec![SecretVersion {
        name: "tls".to_owned(),
        uid: "s".to_owned(),
        resource_version: "7".to_owned(),
        keys: keys.to_vec(),
        certificate_not_after: Some(Time(Timestamp::UNIX_EPOCH)),
        ..SecretVersion::default()
    }]
    .into();
    let status = run(&world).requests.into_iter().find_map(|request| match request {
        Request::WriteStatus(StatusWrite { status, .. }) => Some(status),
        _ => None,
    });
    let warnings = status.unwrap().warnings;
    assert_eq!(warnings.iter().map(|it| it.reason.as_str()).collect::<Vec<_>>(), ["CertificateExpired"]);
}
