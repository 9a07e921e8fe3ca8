//! The images of pods whose resource names none: who decides on them, when, and what is written down.

use memcached_operator_core::api::spec::Rotation;
use memcached_operator_core::kernel::desired::default_images::BUILT_IN;
use memcached_operator_core::kernel::desired::{DefaultImages, Intent, LiveTemplate, children};
use memcached_operator_core::kernel::object::ChildKind;
use rstest::rstest;
use serde_json::{Value, json};

use crate::fixture::Fixture;

const RECORD: &str = "/metadata/annotations/memcached.c5c3.io~1default-images";

fn mirrored(registry: &str) -> DefaultImages {
    DefaultImages {
        memcached: format!("{registry}/library/memcached:1.6").into(),
        exporter: format!("{registry}/prom/memcached-exporter:v0.15.4").into(),
        operator: format!("{registry}/c5c3/memcached-operator-rs:0.1.0").into(),
    }
}

fn monitored() -> Fixture {
    Fixture::new("cache", &json!({"monitoring": {"enabled": true}}))
}

fn with_password() -> Fixture {
    let sasl = json!({"enabled": true, "credentialsSecretRef": {"name": "credentials"}});
    Fixture::new("cache", &json!({"monitoring": {"enabled": true}, "security": {"sasl": sasl}}))
}

fn named() -> Fixture {
    Fixture::new("cache", &json!({"workload": "StatefulSet", "monitoring": {"enabled": true}}))
}

fn deployment(fixture: &Fixture, images: &DefaultImages, live: Option<&Value>) -> Value {
    workload(ChildKind::Deployment, fixture, images, live)
}

fn workload(kind: ChildKind, fixture: &Fixture, images: &DefaultImages, live: Option<&Value>) -> Value {
    let intent = Intent { images, ..fixture.intent() };
    let live = live.and_then(|live| LiveTemplate::from_workload(live, None));
    children(&intent, live.as_ref()).body(kind).expect("the workload").clone()
}

fn images(deployment: &Value) -> [&str; 2] {
    [0, 1].map(|at| {
        let image = deployment.pointer(&format!("/spec/template/spec/containers/{at}/image"));
        image.and_then(Value::as_str).unwrap_or_default()
    })
}

#[test]
fn new_pods_run_the_images_of_the_settings_and_the_deployment_says_so() {
    let made = deployment(&monitored(), &mirrored("a.example"), None);
    assert_eq!(
        images(&made),
        ["a.example/library/memcached:1.6", "a.example/prom/memcached-exporter:v0.15.4"]
    );
    let record = made.pointer(RECORD).and_then(Value::as_str).expect("a record");
    assert_eq!(DefaultImages::from_annotation(record), Some(mirrored("a.example")));
    let made = deployment(&with_password(), &mirrored("a.example"), None);
    assert_eq!(images(&made)[1], "a.example/c5c3/memcached-operator-rs:0.1.0");
}

#[test]
fn without_settings_nothing_is_recorded() {
    let made = deployment(&monitored(), &BUILT_IN, None);
    assert_eq!((images(&made)[0], made.pointer(RECORD)), ("memcached:1.6", None));
}

#[rstest]
#[case::of_before_the_settings(BUILT_IN.clone(), mirrored("a.example"))]
#[case::of_another_registry(mirrored("a.example"), mirrored("b.example"))]
#[case::of_settings_that_are_gone(mirrored("a.example"), BUILT_IN.clone())]
fn other_settings_change_nothing_of_what_runs_and_the_next_edit_takes_them(
    #[case] before: DefaultImages,
    #[case] after: DefaultImages,
) {
    for (fixture, kind) in [
        (monitored(), ChildKind::Deployment),
        (with_password(), ChildKind::Deployment),
        (named(), ChildKind::StatefulSet),
    ] {
        let live = workload(kind, &fixture, &before, None);
        assert_eq!(workload(kind, &fixture, &after, Some(&live)), live);
        let mut edited = fixture;
        edited.spec.memcached.threads = 7;
        let rolled = workload(kind, &edited, &after, Some(&live));
        assert_eq!(rolled, workload(kind, &edited, &after, None));
        assert_ne!(images(&rolled), images(&live));
    }
}

#[test]
fn a_cache_that_takes_a_changed_secret_in_place_keeps_its_images() {
    let sasl = json!({"enabled": true, "credentialsSecretRef": {"name": "credentials"}});
    let spec = json!({"security": {"sasl": sasl, "rotation": "InPlace"}});
    let with = |hash: &str| Fixture { secret_hash: Some(hash.to_owned()), ..Fixture::new("cache", &spec) };
    let live = deployment(&with("before"), &mirrored("a.example"), None);
    let after = deployment(&with("after"), &mirrored("b.example"), Some(&live));
    assert_eq!(
        (
            &after["spec"],
            after.pointer(RECORD),
            &after["metadata"]["annotations"]["memcached.c5c3.io/secret-hash"]
        ),
        (&live["spec"], live.pointer(RECORD), &json!("after"))
    );
    let mut restarts = with("after");
    restarts.spec.security.rotation = Rotation::Restart;
    let after = deployment(&restarts, &mirrored("b.example"), Some(&live));
    assert_eq!(after, deployment(&restarts, &mirrored("b.example"), None), "that is an edit");
}

#[test]
fn a_cache_that_is_scaled_keeps_its_images() {
    let live = deployment(&monitored(), &mirrored("a.example"), None);
    let mut scaled = monitored();
    scaled.spec.replicas = 5;
    let after = deployment(&scaled, &mirrored("b.example"), Some(&live));
    assert_eq!(
        (&after["spec"]["template"], after.pointer(RECORD)),
        (&live["spec"]["template"], live.pointer(RECORD))
    );
    assert_eq!(after["spec"]["replicas"], 5);
}

#[test]
fn an_image_that_the_user_names_is_the_users() {
    let spec = json!({"image": "own.example/memcached:2", "monitoring": {"enabled": true, "exporterImage": "own.example/exporter:3"}});
    let made = deployment(&Fixture::new("cache", &spec), &mirrored("a.example"), None);
    assert_eq!(images(&made), ["own.example/memcached:2", "own.example/exporter:3"]);
}

#[rstest]
#[case::mirrored("a.example/c5c3/memcached-operator-rs:0.1.0", true)]
#[case::of_another_version("a.example/c5c3/memcached-operator-rs:0.2.0", true)]
#[case::by_digest(
    "a.example/c5c3/memcached-operator-rs@sha256:0000000000000000000000000000000000000000000000000000000000000000",
    true
)]
#[case::where_it_comes_from("ghcr.io/c5c3/memcached-operator-rs:0.1.0", true)]
#[case::of_a_registry_that_no_setting_names("b.example/c5c3/memcached-operator-rs:0.1.0", false)]
#[case::somebody_elses("a.example/prom/memcached-exporter:v0.15.4", false)]
fn a_mirrored_image_of_our_own_gets_our_flags(#[case] image: &str, #[case] ours: bool) {
    let spec = json!({"monitoring": {"enabled": true, "exporterImage": image}});
    let made = deployment(&Fixture::new("cache", &spec), &mirrored("a.example"), None);
    let command = made.pointer("/spec/template/spec/containers/1/args/0").and_then(Value::as_str);
    assert_eq!(command, ours.then_some("exporter"));
}

/// What is known as our own decides on the flags of the exporter: a new setting must not change those of running pods.
#[test]
fn an_image_that_becomes_known_as_our_own_gets_our_flags_with_the_next_edit() {
    let spec = json!({"monitoring": {"enabled": true, "exporterImage": "a.example/c5c3/memcached-operator-rs:0.1.0"}});
    let fixture = Fixture::new("cache", &spec);
    let live = deployment(&fixture, &BUILT_IN, None);
    assert_eq!(deployment(&fixture, &mirrored("a.example"), Some(&live)), live);
}

#[test]
fn a_record_that_is_damaged_or_somebody_elses_is_none() {
    let mut live = deployment(&monitored(), &mirrored("a.example"), None);
    let owned = json!({"f:metadata": {"f:annotations": {
        "f:memcached.c5c3.io/template-hash": {}, "f:memcached.c5c3.io/template-revision": {},
    }}});
    assert_eq!(LiveTemplate::from_workload(&live, Some(&owned)), None);
    *live.pointer_mut(RECORD).expect("a record") = json!("nothing");
    assert_eq!(LiveTemplate::from_workload(&live, None), None);
}
