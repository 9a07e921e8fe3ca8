//! Each finding, and the page that shows them.

use rstest::rstest;
use serde_json::json;

use super::*;
use crate::cli::output::Output;
use crate::cli::plan::forecast::When;
use crate::cli::preflight::print;
use crate::kernel::object::Key;

/// A cluster to which nothing is to be done.
fn ready() -> Found {
    Found {
        version: serde_json::from_value(json!({
            "major": "1", "minor": "34", "gitVersion": "v1.34.0", "gitCommit": "", "gitTreeState": "", "buildDate": "",
            "goVersion": "", "compiler": "", "platform": "",
        }))
        .unwrap(),
        definition: ObjectMeta::default(),
        webhooks: Vec::new(),
        deployments: Vec::new(),
        resources: Vec::new(),
        plans: Vec::new(),
    }
}

fn deployment(image: &str, replicas: i32) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"namespace": "memcached-operator-system", "name": "memcached-operator-controller-manager"},
        "spec": {
            "replicas": replicas, "selector": {},
            "template": {"spec": {"containers": [{"name": "manager", "image": image}]}},
        },
    }))
    .unwrap()
}

fn webhooks(group: &str) -> Webhooks {
    Webhooks {
        kind: "ValidatingWebhookConfiguration",
        name: "memcached".to_owned(),
        rules: vec![RuleWithOperations {
            api_groups: Some(vec![group.to_owned()]),
            ..RuleWithOperations::default()
        }],
    }
}

fn definition(annotations: &Value) -> ObjectMeta {
    serde_json::from_value(json!({"annotations": annotations})).unwrap()
}

fn resource(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "memcached.c5c3.io/v1beta1", "kind": "Memcached",
        "metadata": {"namespace": "shop", "name": name, "uid": "1", "generation": 3},
        "spec": spec,
        "status": {"readyReplicas": 1, "serverList": ["cache.shop:11211"]},
    })
}

fn plan() -> ResourcePlan {
    ResourcePlan::new(Key { namespace: "shop".to_owned(), name: "carts".to_owned() }, When::Now)
}

fn blocking() -> Value {
    json!({"replicas": 2, "highAvailability": {"podDisruptionBudget": {"enabled": true, "maxUnavailable": 0}}})
}

fn said(found: &Found) -> Vec<(Level, String)> {
    judge(found).into_iter().map(|it| (it.level, format!("{}: {}", it.object, it.message))).collect()
}

#[test]
fn the_page_shows_what_preflight_prints() {
    let owned = json!({"meta.helm.sh/release-name": "caches", "meta.helm.sh/release-namespace": "ops"});
    let found = Found {
        definition: definition(&owned),
        webhooks: vec![webhooks(GROUP), webhooks("apps")],
        deployments: vec![deployment("ghcr.io/c5c3/memcached-operator:0.4.0", 1)],
        resources: vec![
            resource("carts", &json!({"image": "Shop/Memcached:1.6"})),
            resource("sessions", &blocking()),
        ],
        ..ready()
    };
    let printed = print::text(&judge(&found), found.resources.len(), Output::Text).unwrap();
    let page = include_str!("../../../../docs/changing-over.md");
    assert!(page.contains(&format!("<!-- preflight -->\n```text\n{printed}```\n")), "{printed}");
}

#[test]
fn where_nothing_is_to_be_done_nothing_is_said() {
    let found = Found { resources: vec![resource("cache", &json!({"replicas": 2}))], ..ready() };
    assert_eq!(said(&found), []);
    let text = print::text(&[], 1, Output::Text).unwrap();
    assert_eq!(text, "Memcacheds looked at: 1. The change is safe: no pod would be replaced.\n");
}

#[rstest]
#[case("ghcr.io/c5c3/memcached-operator:0.4.0", 1, true)]
#[case::a_mirror("registry.example:5000/mirror/memcached-operator@sha256:00", 1, true)]
#[case::stopped("ghcr.io/c5c3/memcached-operator:0.4.0", 0, false)]
#[case::this_operator("ghcr.io/c5c3/memcached-operator-rs:0.1.0", 1, false)]
#[case::a_cache("memcached:1.6", 1, false)]
fn the_go_operator_is_known_by_its_image(#[case] image: &str, #[case] replicas: i32, #[case] known: bool) {
    let found = Found { deployments: vec![deployment(image, replicas)], ..ready() };
    assert_eq!(said(&found).len(), usize::from(known));
}

#[rstest]
#[case::an_operator(&["run", "--max-in-flight=32"])]
#[case::an_agent(&["agent", "--memcached-address=127.0.0.1:11211"])]
#[case::an_exporter(&["exporter", "--memcached-address=127.0.0.1:11211"])]
fn nobody_is_told_to_stop_what_runs_an_image_of_this_operator_by_the_same_name(#[case] args: &[&str]) {
    let mut ours = deployment("registry.example/memcached-operator:0.1.0", 1);
    let containers = &mut ours.spec.as_mut().unwrap().template.spec.as_mut().unwrap().containers;
    containers[0].args = Some(args.iter().map(|&it| it.to_owned()).collect());
    assert_eq!(said(&Found { deployments: vec![ours], ..ready() }), []);
}

#[test]
fn a_definition_that_helm_keeps_is_nothing_to_speak_of() {
    let kept = json!({"meta.helm.sh/release-name": "caches", "helm.sh/resource-policy": "keep"});
    assert_eq!(said(&Found { definition: definition(&kept), ..ready() }), []);
}

#[test]
fn an_old_kubernetes_blocks() {
    let mut found = ready();
    found.version.minor = "33+".to_owned();
    found.version.git_version = "v1.33.4-eks-1".to_owned();
    let words = "Kubernetes: is v1.33.4-eks-1; this operator needs 1.34 or newer";
    assert_eq!(said(&found), [(Level::Block, words.to_owned())]);
}

#[test]
fn a_cache_whose_pods_would_be_replaced_blocks_and_so_does_one_with_a_problem() {
    let rolls = ResourcePlan { rolls: Some("secret"), ..plan() };
    let problem = ResourcePlan { problem: Some("NameConflict: Service carts".to_owned()), ..plan() };
    // Said by the resource itself.
    let invalid = ResourcePlan { problem: Some("InvalidSpec: spec.image".to_owned()), ..plan() };
    let found = Found { plans: vec![rolls, problem, invalid], ..ready() };
    let words = [
        "Memcached shop/carts: its pods would be replaced, cause secret; the cache would be empty",
        "Memcached shop/carts: NameConflict: Service carts",
    ];
    assert_eq!(said(&found), words.map(|it| (Level::Block, it.to_owned())));
}

/// A row of `tests/valid_there.yaml`, which `tests/commands/valid_there.rs` holds against `validate` and the page.
#[derive(serde::Deserialize)]
struct Row {
    page: String,
    level: String,
    name: Option<String>,
    spec: Value,
}

#[test]
fn each_value_that_is_valid_there_and_not_here_is_found() {
    let rows: Vec<Row> = serde_saphyr::from_str(include_str!("../../../../tests/valid_there.yaml")).unwrap();
    for Row { page, level, name, spec } in rows {
        let resource = resource(name.as_deref().unwrap_or("cache"), &spec);
        let levels: Vec<_> = judge(&Found { resources: vec![resource], ..ready() })
            .into_iter()
            .map(|it| json!(it.level))
            .collect();
        assert_eq!(levels, [json!(level)], "{page}");
    }
}

#[test]
fn the_timeout_that_its_webhook_wrote_is_nothing_to_speak_of() {
    let monitor = json!({"interval": "5s", "scrapeTimeout": "10s"});
    let spec = json!({"monitoring": {"enabled": true, "serviceMonitor": monitor}});
    assert_eq!(said(&Found { resources: vec![resource("cache", &spec)], ..ready() }), []);
}
