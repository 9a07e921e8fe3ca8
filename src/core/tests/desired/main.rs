//! The children against files: the specification's examples, and what each template revision renders for ever.

#![expect(clippy::disallowed_methods, reason = "it reads golden files")]
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends where its files are not as they should be"
)]

mod children;
mod default_images;
#[path = "../fixture/mod.rs"]
mod fixture;
mod pods;
mod rendered_hashes;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fixture::Fixture;
use memcached_operator_core::kernel::desired::args::args;
use memcached_operator_core::kernel::desired::{LiveTemplate, Revision, children, pod};
use memcached_operator_core::kernel::go_operator::pod_template::PreservedMetadata;
use memcached_operator_core::kernel::hash;
use memcached_operator_core::kernel::object::ChildKind;
use rstest::rstest;
use serde::Deserialize as _;
use serde_json::{Value, json};

/// What each file of `golden/revision-1` hashes to, whole.
///
/// A file pins what the released revision 1 makes of one resource. When one of them fails, the code is wrong: with
/// it, an upgrade of the operator would roll every cache like that one. A better template is a new revision, with
/// a folder of its own. A new file needs its `given`; the failing test then prints what to append.
const REVISION_1: [(&str, &str); 44] = [
    ("anti-affinity-beside-the-users", "e8849efa6eeacce68225813e9b1acef3da8a44f441a6de60c02b2b00cca81fe3"),
    ("anti-affinity-hard", "4caee9a9bea8f9b41d8898347a8e80e06532c546ad89c4663ab6f7b9515f28ac"),
    ("anti-affinity-of-the-user", "e354f8f791b9b46d0330ead4a2a31491cfe6bd48b08b38f04695a4e1e8539d03"),
    ("anti-affinity-soft", "c4584e73dbd86da548590e03c34f28e9cb3ecfd5c69cf7b9812e83f7cb111992"),
    ("contexts", "d7088ade795220643634a9b4b19ff69def3afdb96842613ef44bf33e6f1bebca"),
    ("contexts-empty", "7e9ff802743f27fe035aa2edc3021a69a7ab6597c71627d93d6dd250b62bc065"),
    ("custom", "075544084a25229c1621320f5c11ba8fb61e2fc7f6679b1e575284b9ae679e1f"),
    ("exporter", "9b8f8ef03a31068095eba3e5214b29bb2421cd7b34ddfd6e587ded251f2543a5"),
    ("exporter-client-certificates", "168c785a33e594115a2d203d5952eee5add7721db886f0324ec33a1a6d65ac38"),
    ("exporter-client-certificates-sasl", "6e4776ae7a839b02082105a997d55b5a9cdf07e86dbcf67f5068d2834eb080f0"),
    ("exporter-image-of-others-sasl", "648fd1ec7a5f4951f2362ba88020332fc004822b16f28d4da365181feca8a670"),
    ("exporter-image-of-ours", "5057edb3277dc8dc4dec961fb9463b3d4d8b169b11a93cd30dd48a05618400e4"),
    (
        "exporter-image-of-the-webhook-sasl",
        "fdab794eb7b005a3c40ea394c4351eaf5d9922fe96a01f7c119708df19c75a1f",
    ),
    ("exporter-resources", "86e11abc73ec87e01613679f2bcc4b9db2dc339a22f89915ede9ef44ef5031dd"),
    ("exporter-sasl", "4fdd834421ec25ac6777a0b8907e061ddf2aab9a247189c8e49dc0e4d24b5582"),
    ("exporter-switched-off", "4696b2fae86776ebe43c013086ea2768d68adf960281e53d95ff3387a251b528"),
    ("exporter-tls-allowed", "f8f1a535aa86f1027cb329f4e55da85c1f8ceadbdcff3dc9d4290945bd7522de"),
    ("exporter-tls-allowed-sasl", "833b0e74bfe37eaa4cce840869b5dae16d76237048e1b34ba4417a106891dda2"),
    ("exporter-tls-disabled", "4d8736fedbf5ec3936016df027a9dc5a86e1ee9955f0ce7d0b7266ad2c57f78b"),
    ("exporter-tls-disabled-sasl", "58edc64673ef03d712d8d05a79e8d9098c59f13d41e3f220fc4ff422192e0bfa"),
    ("exporter-tls-localhost", "84524c4bbc58c59421305b7a947184b30456c377d3902205dcee8a5f4544c012"),
    ("exporter-tls-localhost-sasl", "30a5533a59388cc7aba683f084bd33dddc09ad9a875654a3ce10e0e1752872a3"),
    ("extra-args", "617fa48fdd51465ad6dad2a6f7b8d1b7abdffe540cc9f704726556032d2cc794"),
    ("graceful-shutdown", "421163dc797327867d592f809834b0418c8e1d0cd69538e6853ebdfbb4b1d778"),
    ("image-by-digest", "b63faa27ce39ecb7a15bc1ba557f919df0252c97ce13eced0a90f6ba3194d462"),
    ("largest", "e2a3a5a50cc957c0099455701159a46cc0eaa9bdcef9f6527ea8af84ec8c705b"),
    ("minimal", "a5232d28bf28acc58126018174e5e20c711d97584b6d31ae9b741708eee51d4e"),
    ("pod-settings", "7b2e60d416773e825816f93366236bc4f2082b3429a3d19a9c4534e9238e26eb"),
    ("resources-as-written", "7addb0385febeb1d18062faac6aa5ed5845cc09b57da0aa825fb46de259ad6fd"),
    ("resources-empty", "8b4a7b1b425409951e9b289ec872d4f708160ee7bf3f686d96ea550bc1a971aa"),
    ("resources-requests-only", "8600e92def01d8a973e14e641a1f0aff05fb6b9839c2ac02041bb1304c686b66"),
    ("restart-trigger", "9bec956af8827b8712a8e5a9120aae549af341042ae7252cc9943dcf02800cf7"),
    ("sasl", "de8e3045f6c81c117ea6d5430bd55b9cda5b9c05740fb348ad85d9d4e6e2df6c"),
    ("sasl-secret-missing", "7d4cd395adfed53d9b0404eb4b69984cb4ad5d8d3577a99fedb099325340d3df"),
    ("sasl-switched-off", "af0dafed216b106fe3deaccd9d782d479e0fb5cf8f65bb507c5374684ae3cbae"),
    ("smallest", "9118a3cbc2d4a83b7b015e24d2c0f1c92f3ce8d061488f3788e8d1a698d00f70"),
    ("spread", "82159355da0fc88148c8dbfa3130c430adb89e20b97e835f2081f8efc7c65725"),
    ("tls-allowed", "86d242e0e97936aa46054d991d0ea8c9c6cf300965cbc38ebbc2500209ce2b11"),
    ("tls-allowed-client-certificates", "76939af3481c6e0684b8e93e1df5ac3251ff7c84f126ea88472c654e73650f44"),
    ("tls-disabled", "cc99b9209df5fb3e2b49fe67e2a187ed41133997f0fc25a8487ac9aa14be41c5"),
    ("tls-disabled-client-certificates", "4729166378b77ff7b6a7c4877c45df77c44be5ebb708f49b4d6dbd16934651de"),
    ("tls-localhost", "907ff4b16f6f63aa8210c7835fdd37b71ce668530a01557f31415fae63d6f217"),
    ("tls-localhost-client-certificates", "f5e2ba348b8e03c82bf2cf661749469eb10fa818bb090ce5188006e252c7c67e"),
    ("very-verbose", "922036a50d0a3c87082719ae3fc665d0ae2cde772bf98584d2c293781d23377c"),
];

/// What each file of `golden/revision-0` hashes to: what the Go operator's 0.4.0 makes of them, `preserved` being what it computed itself.
const REVISION_0: [(&str, &str); 5] = [
    ("everything", "9c5c8994d128b4631cd658b478c3b066b12cada1730ed9760da8ed4b563e16b1"),
    ("exporter-as-its-webhook-wrote-it", "3635f08b1f9ffaedf943e924846d5a3d4e38a03e9508610e162934f739805b37"),
    ("hard-anti-affinity", "d434d2198ae13b2688b3a8e2293b2cb2c4243ccc4d3e67089b7745161ae049a1"),
    ("minimal", "68d35b4a4a56ffed3e5ff58c90a6b5f15d8800742f125d84897632b3de0bfa8f"),
    ("tls-without-client-certificates", "4c1a348c4195b2d3ed49f259b7060ea6cfb3d986597a2c51b3f736b550a973e6"),
];

/// What each file of `golden/revision-2` hashes to: pods that take changed Secrets in place.
const REVISION_2: [(&str, &str); 7] = [
    ("contexts", "06938895ad8deb2f21a69416e998bc78c25ff48f264c8b0b6ad87325eeb19910"),
    ("everything", "c065e6d1e9258404b7613d5a8c87c6b8a43267a1c735fa9a887703e1eb141252"),
    ("exporter-image-of-others", "15bcaa47a84459edb09552f7fbce5f43448befce5e72ee54b4f63e58a3df88f1"),
    ("exporter-image-of-ours", "25b8faf10ed8718ed06451fbabb25ec71a9a49292fe697cddff96012d03ff5d8"),
    ("sasl", "c34ffbaef052b5b1ca14776cde4dc73cc151d58561fb7941c72bc5bbe633bb72"),
    ("tls", "fdee835a8e185307bf3b0a5dc048e3a91810978274787654597a7245df1d01bb"),
    ("tls-allowed", "a006202dbfcd4cc0d8d07ccdda735c77869ee36455815cd30d3c9340e39d9b31"),
];

fn golden(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(folder)
}

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn files(folder: &str) -> BTreeMap<String, PathBuf> {
    let entries = fs::read_dir(golden(folder)).expect("the folder of golden files");
    let paths = entries.map(|entry| entry.expect("an entry of the folder").path());
    paths.map(|path| (path.file_stem().expect("a name").to_string_lossy().into_owned(), path)).collect()
}

fn fixture(file: &Value) -> Fixture {
    let text = |field: &str| file["given"][field].as_str().map(str::to_owned);
    Fixture {
        secret_hash: text("secretHash"),
        restart_trigger: text("restartTrigger"),
        ..Fixture::new(&text("name").expect("a name"), &file["given"]["spec"])
    }
}

fn then(fixture: &Fixture, revision: Revision, preserved: &PreservedMetadata) -> Value {
    let template =
        pod::template(&fixture.intent(), revision, preserved).expect("a revision that this build knows");
    json!({"hash": fixture.intent().hash(), "template": template})
}

/// Removes what the children have beyond the specification, and requires it to be exactly that.
fn without_additions(mut deployment: Value, fixture: &Fixture) -> Value {
    let mut take = |parent: &str, field: &str, expected: Value| {
        let parent = deployment.pointer_mut(parent).and_then(Value::as_object_mut).expect(parent);
        assert_eq!(parent.remove(field), Some(expected), "{field}");
    };
    let hash = fixture.intent().hash();
    take(
        "/metadata",
        "annotations",
        json!({"memcached.c5c3.io/template-revision": "1", "memcached.c5c3.io/template-hash": hash}),
    );
    take("/metadata/ownerReferences/0", "uid", json!(fixture.uid));
    take("/spec/template/spec", "automountServiceAccountToken", json!(false));
    take("/spec/template/spec", "enableServiceLinks", json!(false));
    take(
        "/spec/template/spec",
        "securityContext",
        json!({"runAsNonRoot": true, "runAsUser": 11211, "seccompProfile": {"type": "RuntimeDefault"}}),
    );
    take(
        "/spec/template/spec/containers/0",
        "securityContext",
        json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}),
    );
    if fixture.spec.security.sasl_secret.is_some() {
        let used_keys_only = json!([{"key": "password-file", "path": "password-file"}]);
        take("/spec/template/spec/volumes/0/secret", "items", used_keys_only);
    }
    deployment
}

#[rstest]
#[case::minimal("minimal")]
#[case::custom("custom")]
#[case::sasl("sasl")]
fn each_example_of_the_specification_gives_its_deployment(#[case] example: &str) {
    let file = read(&golden("specification").join(format!("{example}.yaml")));
    let fixture = Fixture::new("my-cache", &file["resource"]["spec"]);
    let rendered = fixture.child(ChildKind::Deployment);
    assert_eq!(without_additions(rendered, &fixture), file["deployment"]);
}

#[test]
fn secret_hash_and_restart_trigger_are_annotations_of_the_pods() {
    let mut fixture = Fixture::new("my-cache", &json!({}));
    fixture.secret_hash = Some("5d1b".to_owned());
    fixture.restart_trigger = Some("again".to_owned());
    let rendered = fixture.child(ChildKind::Deployment);
    assert_eq!(
        rendered["spec"]["template"]["metadata"]["annotations"],
        json!({"memcached.c5c3.io/secret-hash": "5d1b", "memcached.c5c3.io/restart-trigger": "again"})
    );
}

#[test]
fn the_service_is_headless_and_selects_the_pods() {
    let labels = json!({
        "app.kubernetes.io/name": "memcached",
        "app.kubernetes.io/instance": "my-cache",
        "app.kubernetes.io/managed-by": "memcached-operator",
    });
    let fixture = Fixture::new("my-cache", &json!({}));
    let expected = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "my-cache",
            "namespace": "default",
            "labels": labels,
            "ownerReferences": [{
                "apiVersion": "memcached.c5c3.io/v1alpha1",
                "kind": "Memcached",
                "name": "my-cache",
                "uid": fixture.uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "selector": labels,
            "ports": [{"name": "memcached", "port": 11211, "targetPort": "memcached", "protocol": "TCP"}],
        },
    });
    assert_eq!(fixture.child(ChildKind::Service), expected);
}

#[test]
fn arguments_keep_order_and_defaults_in_all_combinations() {
    let settings = [
        ("-m", "maxMemoryMB", json!(128), "128", "64"),
        ("-c", "maxConnections", json!(2048), "2048", "1024"),
        ("-t", "threads", json!(8), "8", "4"),
        ("-I", "maxItemSize", json!("2m"), "2m", "1m"),
    ];
    let verbosities: [(Value, &[&str]); 4] =
        [(Value::Null, &[]), (json!(0), &[]), (json!(1), &["-v"]), (json!(2), &["-vv"])];
    let sasl = json!({"sasl": {"enabled": true, "credentialsSecretRef": {"name": "credentials"}}});
    let securities: [(Value, &[&str]); 2] =
        [(Value::Null, &[]), (sasl, &["-Y", "/etc/memcached/sasl/password-file"])];
    let extras: [(Value, &[&str]); 3] =
        [(Value::Null, &[]), (json!([]), &[]), (json!(["-o", "modern", "-v"]), &["-o", "modern", "-v"])];

    for chosen in 0..1 << settings.len() {
        for (verbosity, verbosity_args) in &verbosities {
            for (security, security_args) in &securities {
                for (extra, extra_args) in &extras {
                    let mut config = json!({"verbosity": verbosity, "extraArgs": extra});
                    let mut expected = Vec::new();
                    for (index, (flag, field, value, set, default)) in settings.iter().enumerate() {
                        let is_set = chosen & (1 << index) != 0;
                        config[field] = if is_set { value.clone() } else { Value::Null };
                        expected.extend([*flag, if is_set { set } else { default }]);
                    }
                    expected.extend([*verbosity_args, security_args, extra_args].into_iter().flatten());
                    let spec = json!({"memcached": config, "security": security});
                    assert_eq!(args(&Fixture::new("my-cache", &spec).spec), expected, "{spec}");
                }
            }
        }
    }
}

#[test]
fn a_missing_memcached_section_means_the_default_arguments() {
    let fixture = Fixture::new("my-cache", &json!({}));
    assert_eq!(args(&fixture.spec), ["-m", "64", "-c", "1024", "-t", "4", "-I", "1m"]);
}

#[rstest]
#[case::of_the_go_operator("revision-0", Revision(0))]
#[case::the_first_of_ours("revision-1", Revision(1))]
#[case::in_place("revision-2", Revision::IN_PLACE)]
fn a_revision_renders_each_golden_file_as_on_the_day_of_its_release(
    #[case] folder: &str,
    #[case] revision: Revision,
) {
    for (case, path) in files(folder) {
        let file = read(&path);
        let preserved = PreservedMetadata::deserialize(&file["given"]["carried"]).unwrap_or_default();
        let rendered = then(&fixture(&file), revision, &preserved);
        let Some(pinned) = file.get("then") else {
            let missing = serde_saphyr::to_string(&json!({"then": rendered})).expect("YAML");
            panic!("{case} pins nothing yet; append to {}:\n{missing}", path.display());
        };
        assert_eq!(rendered, *pinned, "{case}");
    }
}

#[rstest]
#[case::of_the_go_operator("revision-0", &REVISION_0)]
#[case::the_first_of_ours("revision-1", &REVISION_1)]
#[case::in_place("revision-2", &REVISION_2)]
fn nobody_changes_adds_or_removes_a_golden_file_of_a_revision_without_saying_so_here(
    #[case] folder: &str,
    #[case] pinned: &[(&str, &str)],
) {
    let found: Vec<_> =
        files(folder).into_iter().map(|(case, path)| (case, hash::of_json(&read(&path)))).collect();
    let pinned: Vec<_> = pinned.iter().map(|(case, hash)| ((*case).to_owned(), (*hash).to_owned())).collect();
    assert_eq!(found, pinned, "see REVISION_1 for what to do");
}

#[rstest]
#[case::of_pods_that_restart(json!({}), Revision::NEWEST)]
#[case::of_pods_that_rotate_in_place(in_place(), Revision::IN_PLACE)]
fn the_newest_revision_is_what_a_new_deployment_gets(#[case] spec: Value, #[case] newest: Revision) {
    let fixture = Fixture::new("my-cache", &spec);
    assert_eq!(
        pod::template(&fixture.intent(), newest, &PreservedMetadata::default()),
        Some(pod::newest_template(&fixture.intent()))
    );
    assert_eq!(fixture.children().revision, newest);
}

/// Pods that take changed Secrets in place.
fn in_place() -> Value {
    let tls = json!({"enabled": true, "certificateSecretRef": {"name": "my-certificate"}});
    json!({"security": {"rotation": "InPlace", "tls": tls}})
}

/// The older operator does not know the field, nor does the definition that it brings.
#[test]
fn an_operator_that_does_not_know_the_field_finds_its_own_hash_and_leaves_the_pods() {
    let hash = Some("5d1b".to_owned());
    let knows = Fixture { secret_hash: hash.clone(), ..Fixture::new("my-cache", &in_place()) };
    let mut spec = in_place();
    spec["security"].as_object_mut().expect("a section").remove("rotation");
    let knows_not = Fixture { secret_hash: hash, ..Fixture::new("my-cache", &spec) };
    assert_eq!(knows.intent().hash(), knows_not.intent().hash());
    // To it the revision is one of the future.
    let mut live = knows.child(ChildKind::Deployment);
    live["metadata"]["annotations"]["memcached.c5c3.io/template-revision"] = json!("7");
    let read = LiveTemplate::from_workload(&live, None).expect("both annotations");
    let kept = children(&knows_not.intent(), Some(&read));
    assert_eq!(kept.bodies[&ChildKind::Deployment]["spec"]["template"], live["spec"]["template"]);
}

/// As an operator of a later release would leave a cache that rotates in place.
#[test]
fn a_downgrade_keeps_pods_of_the_future_that_rotate_in_place_also_when_their_secret_changes() {
    let with =
        |hash: &str| Fixture { secret_hash: Some(hash.to_owned()), ..Fixture::new("my-cache", &in_place()) };
    let mut live = with("5d1b").child(ChildKind::Deployment);
    live["metadata"]["annotations"]["memcached.c5c3.io/template-revision"] = json!("7");
    live["spec"]["template"]["spec"]["containers"][1]["image"] = json!("agent:9");
    for hash in ["5d1b", "e7f8"] {
        let read = LiveTemplate::from_workload(&live, None).expect("both annotations");
        let kept = children(&with(hash).intent(), Some(&read)).bodies[&ChildKind::Deployment].clone();
        assert_eq!(kept["spec"]["template"], live["spec"]["template"], "{hash}");
        assert_eq!(kept["metadata"]["annotations"]["memcached.c5c3.io/secret-hash"], hash);
        assert_eq!(kept["metadata"]["annotations"]["memcached.c5c3.io/template-revision"], "7");
        live = kept;
    }
}

/// A live Deployment that an operator with revision 7 rendered for `fixture`, as the API server holds it: with defaults
/// and with an annotation of somebody else.
fn from_the_future(fixture: &Fixture) -> (Value, Value) {
    let content = json!({
        "metadata": {"annotations": {
            "memcached.c5c3.io/template-revision": "7",
            "memcached.c5c3.io/template-hash": fixture.intent().hash(),
        }},
        "spec": {"replicas": 1, "template": {
            "metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}, "labels": {"a": "b"}},
            "spec": {
                "restartPolicy": "Always",
                "containers": [
                    {"name": "sidecar", "image": "of-somebody-else"},
                    {"name": "memcached", "image": "memcached:9", "novelty": {"x": 1}, "imagePullPolicy": "Always"},
                ],
            },
        }},
    });
    let owned = json!({
        "f:metadata": {"f:annotations": {
            "f:memcached.c5c3.io/template-hash": {}, "f:memcached.c5c3.io/template-revision": {},
        }},
        "f:spec": {"f:replicas": {}, "f:template": {
            "f:metadata": {"f:labels": {"f:a": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"memcached\"}": {
                ".": {}, "f:name": {}, "f:image": {}, "f:novelty": {"f:x": {}},
            }}},
        }},
    });
    (content, owned)
}

#[test]
fn a_downgrade_keeps_the_template_of_the_newer_operator_while_the_intent_is_unchanged() {
    let mut fixture = Fixture::new("my-cache", &json!({}));
    let (content, owned) = from_the_future(&fixture);
    let live = LiveTemplate::from_workload(&content, Some(&owned)).expect("both annotations");
    fixture.spec.replicas = 5; // reaches no pod

    let desired = children(&fixture.intent(), Some(&live));
    assert_eq!((desired.revision, desired.template_hash), (Revision(7), fixture.intent().hash()));
    let mut expected = fixture.child(ChildKind::Deployment);
    expected["metadata"]["annotations"]["memcached.c5c3.io/template-revision"] = json!("7");
    expected["spec"]["template"] = json!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "memcached", "image": "memcached:9", "novelty": {"x": 1}}]},
    });
    assert_eq!(desired.bodies[&ChildKind::Deployment], expected);
}

#[test]
fn without_a_record_of_ownership_a_downgrade_keeps_the_whole_template() {
    let fixture = Fixture::new("my-cache", &json!({}));
    let (content, _) = from_the_future(&fixture);
    let live = LiveTemplate::from_workload(&content, None).expect("both annotations");
    let rendered = children(&fixture.intent(), Some(&live)).bodies[&ChildKind::Deployment].clone();
    assert_eq!(rendered["spec"]["template"], content["spec"]["template"]);
}

#[test]
fn a_changed_intent_is_rendered_at_the_newest_revision_whatever_is_live() {
    let mut fixture = Fixture::new("my-cache", &json!({}));
    let (content, owned) = from_the_future(&fixture);
    let live = LiveTemplate::from_workload(&content, Some(&owned)).expect("both annotations");
    fixture.spec.memcached.threads = 8;
    assert_eq!(children(&fixture.intent(), Some(&live)), fixture.children());
}

#[rstest]
#[case::no_annotations(json!({}))]
#[case::no_hash(json!({"memcached.c5c3.io/template-revision": "1"}))]
#[case::no_revision(json!({"memcached.c5c3.io/template-hash": "abc"}))]
#[case::no_number(json!({"memcached.c5c3.io/template-revision": "one", "memcached.c5c3.io/template-hash": "abc"}))]
#[case::negative(json!({"memcached.c5c3.io/template-revision": "-1", "memcached.c5c3.io/template-hash": "abc"}))]
#[case::no_text(json!({"memcached.c5c3.io/template-revision": 1, "memcached.c5c3.io/template-hash": "abc"}))]
fn damaged_annotations_say_nothing(#[case] annotations: Value) {
    assert_eq!(LiveTemplate::from_workload(&json!({"metadata": {"annotations": annotations}}), None), None);
    assert_eq!(LiveTemplate::from_workload(&json!({}), None), None);
}

#[rstest]
#[case::the_revision("template-revision")]
#[case::the_hash("template-hash")]
fn an_annotation_that_somebody_else_wrote_says_nothing(#[case] taken: &str) {
    let (content, mut owned) = from_the_future(&Fixture::new("my-cache", &json!({})));
    let ours = owned["f:metadata"]["f:annotations"].as_object_mut().expect("a map");
    ours.remove(&format!("f:memcached.c5c3.io/{taken}")).expect("it was ours");
    assert_eq!(LiveTemplate::from_workload(&content, Some(&owned)), None);
}
