//! The children beside the Deployment, and a StatefulSet in its place, whole, against the files in `golden/children`.

use memcached_operator_core::kernel::desired::network_policy::network_policy;
use memcached_operator_core::kernel::desired::{Intent, OperatorPods, children};
use memcached_operator_core::kernel::object::ChildKind;
use rstest::rstest;
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::{files, fixture, read};

/// By kind.
fn rendered(fixture: &Fixture) -> Value {
    let mut bodies = children(&fixture.intent(), None).bodies;
    bodies.remove(&ChildKind::Deployment);
    Value::Object(bodies.into_iter().map(|(kind, body)| (kind.name().to_owned(), body)).collect())
}

#[test]
fn the_children_beside_the_deployment_are_those_of_each_file() {
    for (case, path) in files("children") {
        let file = read(&path);
        let rendered = rendered(&fixture(&file));
        let Some(expected) = file.get("then") else {
            let missing = serde_saphyr::to_string(&json!({"then": rendered})).expect("YAML");
            panic!("{case} expects nothing yet; append to {}:\n{missing}", path.display());
        };
        assert_eq!(rendered, *expected, "{case}");
    }
}

/// The rules of a NetworkPolicy of a cache with TLS, open to nobody in particular.
fn rules(rotation: &str, monitored: bool, operator_pods: Option<&OperatorPods>) -> Value {
    let spec = json!({
        "monitoring": {"enabled": monitored},
        "security": {
            "rotation": rotation,
            "tls": {"enabled": true, "certificateSecretRef": {"name": "my-certificate"}},
            "networkPolicy": {"enabled": true},
        },
    });
    let fixture = Fixture::new("my-cache", &spec);
    let policy = network_policy(&Intent { operator_pods, ..fixture.intent() }).expect("a NetworkPolicy");
    policy["spec"]["ingress"].clone()
}

#[rstest]
#[case::with_an_exporter(true)]
#[case::without(false)]
fn the_operators_pods_reach_the_agents_of_pods_that_rotate_in_place_and_no_others(#[case] monitored: bool) {
    let labels = [("app.kubernetes.io/name".to_owned(), "memcached-operator".to_owned())].into();
    let pods = OperatorPods { namespace: "ops".to_owned(), labels };
    let mut expected = rules("Restart", monitored, None);
    assert_eq!(rules("Restart", monitored, Some(&pods)), expected);
    assert_eq!(rules("InPlace", monitored, None), expected, "an operator that is no pod");
    expected.as_array_mut().expect("rules").push(json!({
        "ports": [{"port": 9150, "protocol": "TCP"}],
        "from": [{
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ops"}},
            "podSelector": {"matchLabels": {"app.kubernetes.io/name": "memcached-operator"}},
        }],
    }));
    assert_eq!(rules("InPlace", monitored, Some(&pods)), expected);
}

#[test]
fn the_operators_pods_reach_the_exporters_of_pods_that_have_to_be_warm() {
    let labels = [("app.kubernetes.io/name".to_owned(), "memcached-operator".to_owned())].into();
    let pods = OperatorPods { namespace: "ops".to_owned(), labels };
    let rules = |rollout: Value| {
        let spec = json!({
            "workload": "StatefulSet",
            "monitoring": {"enabled": true},
            "security": {"networkPolicy": {"enabled": true}},
            "rollout": rollout,
        });
        let fixture = Fixture::new("my-cache", &spec);
        let policy = network_policy(&Intent { operator_pods: Some(&pods), ..fixture.intent() });
        policy.expect("a NetworkPolicy")["spec"]["ingress"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(rules(json!({"warmth": {}})), rules(json!({})) + 1);
}
