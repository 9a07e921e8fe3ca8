//! `spec.autoscaling`.

use serde_json::{Value, json};

use super::case::{Case, breaks_rule, breaks_schema, lacks, taken};
use crate::api::spec::resources::QUANTITY_PATTERN;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = bounds();
    cases.extend(named_pods());
    cases.extend(cpu_requests());
    cases.extend(quantities());
    cases
}

/// They leave a number of pods.
fn bounds() -> Vec<Case> {
    let with =
        |autoscaling: Value| json!({"autoscaling": autoscaling, "resources": {"requests": {"cpu": 1}}});
    let between = |min: i32, max: i32| with(json!({"enabled": true, "minReplicas": min, "maxReplicas": max}));
    let (min, max) = ("spec.autoscaling.minReplicas", "spec.autoscaling.maxReplicas");
    let at_least_one = "should be greater than or equal to 1";
    vec![
        taken(with(json!({"enabled": true, "maxReplicas": 1}))),
        lacks(with(json!({"enabled": true})), max, "maxReplicas is required when autoscaling is enabled"),
        taken(between(3, 3)),
        breaks_rule(between(4, 3), min, "minReplicas (4) must not exceed maxReplicas (3)"),
        breaks_schema(between(-1, 3), min, at_least_one),
        taken(with(json!({"minReplicas": 1}))),
        breaks_schema(with(json!({"minReplicas": 0})), min, at_least_one).validate_takes(),
        taken(with(json!({"maxReplicas": 1}))),
        breaks_schema(with(json!({"maxReplicas": 0})), max, at_least_one).validate_takes(),
    ]
}

/// Clients are told the name of each pod of a StatefulSet.
fn named_pods() -> Vec<Case> {
    let up_to = |most: i32, enabled: bool, workload: &str| {
        let autoscaling = json!({"enabled": enabled, "minReplicas": most, "maxReplicas": most});
        json!({"workload": workload, "autoscaling": autoscaling, "resources": {"requests": {"cpu": 1}}})
    };
    let refused = |spec: Value| {
        let words =
            "maxReplicas must be at most 1000 when workload is StatefulSet, whose pods are listed by name";
        breaks_rule(spec, "spec.autoscaling.maxReplicas", words)
    };
    vec![
        taken(up_to(1_000, true, "StatefulSet")),
        refused(up_to(1_001, true, "StatefulSet")),
        refused(up_to(i32::MAX, true, "StatefulSet")),
        taken(up_to(1_001, false, "StatefulSet")),
        taken(up_to(1_001, true, "Deployment")),
    ]
}

fn of_pods(name: &str, target: &Value) -> Value {
    json!({"type": "Resource", "resource": {"name": name, "target": target}})
}

fn of_container(container: &str, target: &Value) -> Value {
    let source = json!({"container": container, "name": "cpu", "target": target});
    json!({"type": "ContainerResource", "containerResource": source})
}

/// A share of memcached's CPU request needs that request.
fn cpu_requests() -> Vec<Case> {
    let with = |metrics: Value, resources: Value| {
        let autoscaling = json!({"enabled": true, "maxReplicas": 2, "metrics": metrics});
        json!({"autoscaling": autoscaling, "resources": resources})
    };
    let without = |metrics: Value, resources: Value| {
        let words = "resources.requests.cpu is required when using CPU utilization metrics";
        lacks(with(metrics, resources), "spec.resources.requests[cpu]", words)
    };
    let share = json!({"type": "Utilization", "averageUtilization": 50});
    let amount = json!({"type": "AverageValue", "averageValue": 1});
    let (cpu, memory) = (of_pods("cpu", &share), of_pods("memory", &share));
    let none = json!({});
    vec![
        without(json!(null), none.clone()),
        without(json!(null), json!({"limits": {"memory": "1Gi"}})),
        without(json!([]), json!(null)),
        taken(with(json!(null), json!({"limits": {"cpu": 1}}))),
        taken(with(json!([]), json!({"requests": {"cpu": "1m"}}))),
        without(json!([cpu]), none.clone()),
        without(json!([memory, cpu]), json!({"requests": {"memory": 1}})),
        taken(with(json!([memory]), none.clone())),
        taken(with(json!([of_pods("cpu", &amount)]), none.clone())),
        without(json!([of_container("memcached", &share)]), none.clone()),
        taken(with(json!([of_container("exporter", &share)]), none.clone())),
        taken(with(json!([{"type": "Resource"}]), none)),
    ]
}

/// They are checked also where autoscaling is off.
fn quantities() -> Vec<Case> {
    let no_quantity = format!("should match '{QUANTITY_PATTERN}'");
    let pods = |amount: Value| {
        let target = json!({"type": "AverageValue", "averageValue": amount});
        json!({"autoscaling": {"metrics": [of_pods("cpu", &target)]}})
    };
    let external = |amount: Value| {
        let source = json!({"metric": {"name": "x"}, "target": {"type": "Value", "value": amount}});
        json!({"autoscaling": {"metrics": [{"type": "External", "external": source}]}})
    };
    let tolerance = |amount: Value| json!({"autoscaling": {"behavior": {"scaleUp": {"tolerance": amount}}}});
    let of_pods = "spec.autoscaling.metrics[0].resource.target.averageValue";
    let of_external = "spec.autoscaling.metrics[0].external.target.value";
    let of_tolerance = "spec.autoscaling.behavior.scaleUp.tolerance";
    vec![
        taken(pods(json!("500m"))),
        taken(pods(json!(2))),
        taken(pods(json!(0))),
        breaks_schema(pods(json!("half")), of_pods, no_quantity.clone()),
        breaks_schema(pods(json!(-1)), of_pods, "should be greater than or equal to 0")
            .validate_says(&no_quantity),
        breaks_schema(external(json!("2MB")), of_external, no_quantity.clone()),
        taken(tolerance(json!("10m"))),
        breaks_schema(tolerance(json!("little")), of_tolerance, no_quantity),
    ]
}
