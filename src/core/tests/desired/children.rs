//! The children beside the Deployment, whole, against the files in `golden/children`.

use memcached_operator_core::kernel::desired::horizontal_pod_autoscaler::horizontal_pod_autoscaler;
use memcached_operator_core::kernel::desired::network_policy::network_policy;
use memcached_operator_core::kernel::desired::pod_disruption_budget::pod_disruption_budget;
use memcached_operator_core::kernel::desired::service::service;
use memcached_operator_core::kernel::desired::service_monitor::service_monitor;
use serde_json::{Map, Value, json};

use crate::fixture::Fixture;
use crate::{files, fixture, read};

/// By kind.
fn rendered(fixture: &Fixture) -> Value {
    let intent = fixture.intent();
    let children = [
        network_policy(&intent),
        Some(service(&intent)),
        pod_disruption_budget(&intent),
        horizontal_pod_autoscaler(&intent),
        service_monitor(&intent),
    ];
    let by_kind = |body: Value| (body["kind"].as_str().expect("a kind").to_owned(), body);
    Value::Object(children.into_iter().flatten().map(by_kind).collect::<Map<_, _>>())
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
