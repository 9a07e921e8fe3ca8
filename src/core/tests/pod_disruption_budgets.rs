//! The disruption budget of a spec: what a drain may take, and that it may always take something.

#![expect(clippy::expect_used, reason = "a test ends where its fixture is not as it should be")]

mod fixture;

use fixture::Fixture;
use memcached_operator_core::kernel::object::ChildKind;
use rstest::rstest;
use serde_json::{Value, json};

fn spec(limit: &Value, rest: &Value) -> Value {
    let mut spec = rest.clone();
    let mut budget = limit.clone();
    budget["enabled"] = json!(true);
    spec["highAvailability"] = json!({"podDisruptionBudget": budget});
    spec
}

fn scaled(min: i32, max: i32) -> Value {
    json!({
        "autoscaling": {"enabled": true, "minReplicas": min, "maxReplicas": max},
        "resources": {"requests": {"cpu": "1"}},
    })
}

/// The limit that is rendered; null without a budget.
fn limit(limit: &Value, rest: &Value) -> Value {
    let fixture = Fixture::new("cache", &spec(limit, rest));
    let children = fixture.children();
    let Some(budget) = children.body(ChildKind::PodDisruptionBudget) else { return Value::Null };
    let mut limits = budget["spec"].clone();
    if let Some(fields) = limits.as_object_mut() {
        fields.retain(|name, _| name.ends_with("vailable"));
    }
    limits
}

#[rstest]
#[case::as_written(json!({"minAvailable": 2}), json!({"replicas": 3}), json!({"minAvailable": 2}))]
#[case::a_share(json!({"maxUnavailable": "10%"}), json!({"replicas": 3}), json!({"maxUnavailable": "10%"}))]
#[case::never_more_than_one_pod(json!({"minAvailable": 1}), json!({"replicas": 1}), Value::Null)]
#[case::scaled_from_two(json!({"minAvailable": 1}), scaled(2, 4), json!({"minAvailable": 1}))]
#[case::scaled_from_one(json!({"minAvailable": 1}), scaled(1, 4), json!({"maxUnavailable": 1}))]
#[case::a_share_scaled_from_one(json!({"minAvailable": "50%"}), scaled(1, 4), json!({"maxUnavailable": 1}))]
#[case::none_has_to_stay(json!({"minAvailable": "0%"}), scaled(1, 4), json!({"minAvailable": "0%"}))]
#[case::scaled_from_one_by_share(json!({"maxUnavailable": "50%"}), scaled(1, 4), json!({"maxUnavailable": "50%"}))]
fn a_drain_may_take_what_the_user_said_and_always_something(
    #[case] said: Value,
    #[case] rest: Value,
    #[case] wanted: Value,
) {
    assert_eq!(limit(&said, &rest), wanted);
}
