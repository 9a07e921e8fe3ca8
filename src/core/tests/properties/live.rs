//! The comparison against children as a real API server returned them: with its defaults, its spelling of
//! quantities, its record of who owns what, and additions of others (a label, an annotation, a restart, a sidecar,
//! ports, a variable, a limit, a second owner).

use memcached_operator_core::kernel::desired::{LiveTemplate, Revision};
use memcached_operator_core::kernel::diff::{drift, let_go, no_longer_desired, owned_part};
use memcached_operator_core::kernel::go_operator::pod_template::PreservedMetadata;
use memcached_operator_core::kernel::object::ChildKind;
use rstest::rstest;
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::merge::owned;

/// What was applied when the files were recorded.
fn applied() -> Fixture {
    let spec = json!({
        "replicas": 2,
        "resources": {"requests": {"cpu": "0.5", "memory": "128Mi"}, "limits": {"cpu": 1, "memory": "1024Mi"}},
        "memcached": {"verbosity": 1, "extraArgs": ["-o", "modern"]},
        "security": {"sasl": {"enabled": true, "credentialsSecretRef": {"name": "credentials"}}},
    });
    let hash = "5d1be7e9dda1ee8896be5b7e34a85ee16452a7b357a62bb0db2f6f4ae16ce3e1";
    Fixture {
        secret_hash: Some(hash.to_owned()),
        restart_trigger: Some("again".to_owned()),
        ..Fixture::new("my-cache", &spec)
    }
}

fn live(kind: ChildKind) -> Value {
    let text = match kind {
        ChildKind::Deployment => Some(include_str!("../golden/live/deployment.yaml")),
        ChildKind::Service => Some(include_str!("../golden/live/service.yaml")),
        _ => None,
    };
    serde_saphyr::from_str(text.expect("a kind that was recorded")).expect("YAML")
}

fn recorded(live: &Value) -> &Value {
    let entries = live["metadata"]["managedFields"].as_array().expect("managedFields");
    let ours = entries.iter().find(|entry| entry["manager"] == "memcached-operator");
    &ours.expect("our entry")["fieldsV1"]
}

#[rstest]
#[case(ChildKind::Deployment)]
#[case(ChildKind::Service)]
fn a_child_that_others_added_to_is_as_desired(#[case] kind: ChildKind) {
    let (desired, live) = (applied().child(kind), live(kind));
    assert_eq!(drift(kind, &desired, &live), Vec::<String>::new());
    assert_eq!(no_longer_desired(&desired, recorded(&live)), Vec::<String>::new());
}

#[rstest]
#[case(ChildKind::Deployment)]
#[case(ChildKind::Service)]
fn the_laws_know_ownership_as_the_api_server_records_it(#[case] kind: ChildKind) {
    assert_eq!(&owned(&applied().child(kind)), recorded(&live(kind)));
}

#[test]
fn what_we_own_of_a_live_template_is_what_we_applied_in_the_spelling_of_the_api_server() {
    let live = live(ChildKind::Deployment);
    let ours = owned_part(&live["spec"]["template"], &recorded(&live)["f:spec"]["f:template"]);
    let mut expected = applied().child(ChildKind::Deployment)["spec"]["template"].take();
    expected["spec"]["containers"][0]["resources"] = json!({
        "limits": {"cpu": "1", "memory": "1Gi"},
        "requests": {"cpu": "500m", "memory": "128Mi"},
    });
    assert_eq!(ours, Some(expected));
}

#[test]
fn the_live_template_is_known_by_its_annotations() {
    let hash = applied().intent().hash();
    let said = LiveTemplate {
        revision: Revision(1),
        hash,
        preserved: PreservedMetadata::default(),
        secret_hash: None,
        of_unknown_revision: None,
        images: None,
    };
    assert_eq!(LiveTemplate::from_workload(&live(ChildKind::Deployment), None), Some(said));
}

#[test]
fn an_edit_is_told_field_by_field() {
    let live = live(ChildKind::Deployment);
    let mut edited = applied();
    edited.spec.replicas = 3;
    edited.spec.resources = None;
    edited.spec.security.sasl_secret = None;
    edited.secret_hash = None;
    let desired = edited.child(ChildKind::Deployment);
    assert_eq!(
        drift(ChildKind::Deployment, &desired, &live),
        [
            "metadata.annotations[memcached.c5c3.io/template-hash]",
            "spec.replicas",
            "spec.template.spec.containers[name=memcached].args",
        ]
    );
    assert_eq!(
        no_longer_desired(&desired, recorded(&live)),
        [
            "spec.template.metadata.annotations[memcached.c5c3.io/secret-hash]",
            "spec.template.spec.containers[name=memcached].resources.limits.cpu",
            "spec.template.spec.containers[name=memcached].resources.limits.memory",
            "spec.template.spec.containers[name=memcached].resources.requests.cpu",
            "spec.template.spec.containers[name=memcached].resources.requests.memory",
            "spec.template.spec.containers[name=memcached].volumeMounts[mountPath=/etc/memcached/sasl].mountPath",
            "spec.template.spec.containers[name=memcached].volumeMounts[mountPath=/etc/memcached/sasl].name",
            "spec.template.spec.containers[name=memcached].volumeMounts[mountPath=/etc/memcached/sasl].readOnly",
            "spec.template.spec.volumes[name=sasl-credentials].name",
            "spec.template.spec.volumes[name=sasl-credentials].secret.items",
            "spec.template.spec.volumes[name=sasl-credentials].secret.secretName",
        ]
    );
}

#[rstest]
#[case::image(
    "/spec/template/spec/containers/1/image",
    "spec.template.spec.containers[name=memcached].image"
)]
#[case::memory(
    "/spec/template/spec/containers/1/resources/limits/memory",
    "spec.template.spec.containers[name=memcached].resources.limits.memory"
)]
#[case::one_argument(
    "/spec/template/spec/containers/1/args/3",
    "spec.template.spec.containers[name=memcached].args"
)]
#[case::port_number(
    "/spec/template/spec/containers/1/ports/0/containerPort",
    "spec.template.spec.containers[name=memcached].ports[containerPort=11211,protocol=TCP]"
)]
#[case::mounted_key(
    "/spec/template/spec/volumes/0/secret/items/0/key",
    "spec.template.spec.volumes[name=sasl-credentials].secret.items"
)]
#[case::label("/metadata/labels/app.kubernetes.io~1name", "metadata.labels[app.kubernetes.io/name]")]
#[case::owner(
    "/metadata/ownerReferences/0/uid",
    "metadata.ownerReferences[uid=6b2cf0b4-7f3f-4c6c-8f0e-2f6f4b8e9a01]"
)]
#[case::whole_template("/spec/template", "spec.template")]
fn a_changed_field_is_named_as_people_write_it(#[case] pointer: &str, #[case] path: &str) {
    let mut live = live(ChildKind::Deployment);
    *live.pointer_mut(pointer).expect("the field") = json!("changed");
    let desired = applied().child(ChildKind::Deployment);
    assert_eq!(drift(ChildKind::Deployment, &desired, &live), [path]);
}

#[rstest]
#[case::deployment(ChildKind::Deployment, "/spec/selector/matchLabels", "spec.selector.matchLabels")]
#[case::service(ChildKind::Service, "/spec/selector", "spec.selector")]
fn a_key_that_somebody_adds_to_a_selector_is_drift(
    #[case] kind: ChildKind,
    #[case] pointer: &str,
    #[case] path: &str,
) {
    let mut live = live(kind);
    live.pointer_mut(pointer).expect("the selector")["extra"] = json!("label");
    assert_eq!(drift(kind, &applied().child(kind), &live), [path]);
}

#[test]
fn an_entry_of_a_form_that_we_do_not_know_is_passed_over() {
    let owned = json!({
        "f:spec": {"x:novelty": {"f:a": {}}, "k:not json": {}, "i:minus one": {}, "f:gone": {}, "plain": {}},
    });
    let desired = applied().child(ChildKind::Service);
    assert_eq!(no_longer_desired(&desired, &owned), ["spec.gone"]);
    assert_eq!(owned_part(&json!({"spec": {"gone": 1, "a": 2}}), &owned), Some(json!({"spec": {"gone": 1}})));
}

#[rstest]
#[case::element_of_a_set(json!({"finalizers": ["b"]}), json!({"f:finalizers": {"v:\"a\"": {}, "v:\"b\"": {}}}), &["finalizers[a]"])]
#[case::item_by_its_place(json!({"list": [1]}), json!({"f:list": {"i:0": {}, "i:1": {}}}), &["list[1]"])]
#[case::an_item_of_which_nothing_else_is_owned(json!({"ports": []}), json!({"f:ports": {"k:{\"port\":1}": {".": {}}}}), &["ports[port=1]"])]
#[case::nothing_owned(json!({}), json!({}), &[])]
fn every_form_of_ownership_is_read(#[case] desired: Value, #[case] owned: Value, #[case] gone: &[&str]) {
    assert_eq!(no_longer_desired(&desired, &owned), gone);
}

#[test]
fn what_goes_is_told_with_what_of_ours_is_there_and_an_item_as_a_whole() {
    let live = json!({
        "kept": 1, "limits": {"cpu": "1"},
        "volumes": [{"name": "a", "secret": {"defaultMode": 420, "secretName": "s"}}, {"name": "b"}],
    });
    let owned = json!({
        "f:gone already": {}, "f:kept": {}, "f:limits": {"f:cpu": {}},
        "f:volumes": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:secret": {"f:secretName": {}}}},
    });
    let wanted = [
        ("limits.cpu".to_owned(), json!("1")),
        ("volumes[name=a]".to_owned(), json!({"name": "a", "secret": {"secretName": "s"}})),
    ];
    assert_eq!(let_go(&json!({"kept": 2}), &live, &owned), wanted);
    let desired = json!({"kept": 2, "limits": {}, "volumes": [{"name": "b"}]});
    assert_eq!(let_go(&desired, &live, &owned), wanted);
}

#[test]
fn an_item_that_others_took_over_in_part_keeps_its_keys() {
    let live = json!({"ports": [{"port": 3, "name": "foreign"}, {"port": 2, "name": "ours"}, {"port": 1, "name": "taken"}]});
    let owned = json!({"f:ports": {"k:{\"port\":1}": {".": {}}, "k:{\"port\":2}": {"f:name": {}}}});
    assert_eq!(owned_part(&live, &owned), Some(json!({"ports": [{"port": 2, "name": "ours"}, {"port": 1}]})));
}

#[test]
fn of_a_map_in_which_nothing_is_ours_there_is_no_part() {
    let live = json!({"labels": {"foreign": "x"}, "replicas": 1});
    assert_eq!(owned_part(&live, &json!({"f:labels": {".": {}}, "f:gone": {}})), None);
}
