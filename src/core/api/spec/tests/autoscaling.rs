//! What a HorizontalPodAutoscaler gets.

use rstest::rstest;
use serde_json::{Value, json};

use super::{valid, violations};
use crate::api::spec::Autoscaling;

/// Autoscaling with these fields, and a CPU request.
fn scaled(mut fields: Value) -> Value {
    fields["enabled"] = json!(true);
    json!({"autoscaling": fields, "resources": {"requests": {"cpu": "500m"}}})
}

fn share_of_pods(name: &str) -> Value {
    json!({"type": "Resource", "resource": {
        "name": name, "target": {"type": "Utilization", "averageUtilization": 80},
    }})
}

fn share_of_memcached(name: &str) -> Value {
    json!({"type": "ContainerResource", "containerResource": {
        "container": "memcached", "name": name, "target": {"type": "Utilization", "averageUtilization": 80},
    }})
}

#[test]
fn the_section_arrives_unchanged() {
    let metrics = json!([{"type": "Pods", "pods": {
        "metric": {"name": "evictions", "selector": {}}, "target": {"type": "AverageValue", "averageValue": "100"},
    }}]);
    let behavior = json!({"scaleUp": {"stabilizationWindowSeconds": 0}});
    let raw = json!({"enabled": true, "minReplicas": 2, "maxReplicas": 5, "metrics": metrics, "behavior": behavior});
    let expected = Autoscaling {
        min_replicas: 2,
        max_replicas: 5,
        metrics: serde_json::from_value(metrics).unwrap(),
        behavior: serde_json::from_value(behavior).unwrap(),
    };
    assert_eq!(valid(&json!({"autoscaling": raw})).autoscaling, Some(expected));
}

#[rstest]
#[case(json!({"maxReplicas": 3}))]
#[case(json!({"maxReplicas": 3, "minReplicas": 0, "metrics": [], "behavior": {}}))]
fn an_autoscaler_without_wishes_keeps_the_cpu_at_80_percent(#[case] raw: Value) {
    let expected = Autoscaling {
        min_replicas: 1,
        max_replicas: 3,
        metrics: vec![serde_json::from_value(share_of_pods("cpu")).unwrap()],
        behavior: serde_json::from_value(json!({"scaleDown": {"stabilizationWindowSeconds": 300}})).unwrap(),
    };
    assert_eq!(valid(&scaled(raw)).autoscaling, Some(expected));
}

#[test]
fn replicas_stay_what_to_return_to() {
    let mut raw = scaled(json!({"minReplicas": 2, "maxReplicas": 5}));
    raw["replicas"] = json!(7);
    assert_eq!(valid(&raw).replicas, 7);
}

/// A HorizontalPodAutoscaler cannot tell the share of a pod's request while one of its containers has none.
#[rstest]
#[case::default(json!(null), json!(null), share_of_memcached("cpu"))]
#[case::cpu(json!([share_of_pods("cpu")]), json!({"requests": {"memory": "8Mi"}}), share_of_memcached("cpu"))]
#[case::memory(json!([share_of_pods("memory")]), json!({"requests": {"cpu": "1m"}}), share_of_memcached("memory"))]
#[case::requested(json!(null), json!({"requests": {"cpu": "1m"}}), share_of_pods("cpu"))]
#[case::limited(json!(null), json!({"limits": {"cpu": "1m"}}), share_of_pods("cpu"))]
fn beside_an_exporter_without_a_request_memcacheds_own_share_counts(
    #[case] metrics: Value,
    #[case] exporter: Value,
    #[case] expected: Value,
) {
    let mut raw = scaled(json!({"maxReplicas": 3, "metrics": metrics}));
    raw["monitoring"] = json!({"enabled": true, "exporterResources": exporter});
    let metrics = serde_json::to_value(valid(&raw).autoscaling.unwrap().metrics).unwrap();
    assert_eq!(metrics, json!([expected]));
    raw["monitoring"]["enabled"] = json!(false);
    let alone = serde_json::to_value(valid(&raw).autoscaling.unwrap().metrics).unwrap();
    assert_eq!(alone[0]["type"], json!("Resource"));
}

#[test]
fn beside_an_agent_memcacheds_own_share_counts_but_where_the_exporters_request_is_the_agents() {
    let mut raw = scaled(json!({"maxReplicas": 3}));
    let tls = json!({"enabled": true, "certificateSecretRef": {"name": "a"}});
    raw["security"] = json!({"rotation": "InPlace", "tls": tls});
    let metrics = |raw: &Value| serde_json::to_value(valid(raw).autoscaling.unwrap().metrics).unwrap();
    assert_eq!(metrics(&raw), json!([share_of_memcached("cpu")]));
    raw["monitoring"] = json!({"enabled": true, "exporterResources": {"requests": {"cpu": "1m"}}});
    assert_eq!(metrics(&raw), json!([share_of_pods("cpu")]));
}

#[test]
fn an_amount_of_the_whole_pod_stays_one_beside_an_exporter() {
    let amount = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "1"}}});
    let mut raw = scaled(json!({"maxReplicas": 3, "metrics": [amount]}));
    raw["monitoring"] = json!({"enabled": true});
    assert_eq!(serde_json::to_value(valid(&raw).autoscaling.unwrap().metrics).unwrap(), json!([amount]));
}

/// Where the API server refuses the zero itself.
#[test]
fn zero_pods_at_most_count_as_missing() {
    let message = "spec.autoscaling.maxReplicas: maxReplicas is required when autoscaling is enabled";
    assert_eq!(violations(&scaled(json!({"maxReplicas": 0}))), [message]);
}
