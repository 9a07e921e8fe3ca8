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

const AS_WRITTEN: &str = "the PodDisruptionBudget has it as it is, and the drain of a node waits for ever";
const ONE_GOES: &str = "the PodDisruptionBudget lets one pod at a time go in its place";
const NO_BUDGET: &str = "a cache of at most one pod gets no PodDisruptionBudget";

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

/// It was stored before there was a rule against it.
#[rstest]
#[case::as_written(json!({"minAvailable": "100%"}), json!({"replicas": 2}), json!({"minAvailable": "100%"}), AS_WRITTEN)]
#[case::scaled_from_two(json!({"minAvailable": 2}), scaled(2, 5), json!({"minAvailable": 2}), AS_WRITTEN)]
#[case::scaled_from_one(json!({"minAvailable": "100%"}), scaled(1, 5), json!({"maxUnavailable": 1}), ONE_GOES)]
#[case::scaled_from_the_default(json!({"minAvailable": 5}), scaled(0, 5), json!({"maxUnavailable": 1}), ONE_GOES)]
#[case::scaled_from_one_and_none_goes(json!({"maxUnavailable": 0}), scaled(1, 5), json!({"maxUnavailable": 0}), AS_WRITTEN)]
#[case::one_pod(json!({"minAvailable": "100%"}), json!({"replicas": 1}), Value::Null, NO_BUDGET)]
#[case::one_pod_and_none_goes(json!({"maxUnavailable": 0}), json!({"replicas": 0}), Value::Null, NO_BUDGET)]
fn of_a_limit_that_lets_no_pod_go_it_is_told_what_is_made_of_it(
    #[case] said: Value,
    #[case] rest: Value,
    #[case] wanted: Value,
    #[case] meaning: &str,
) {
    assert_eq!(limit(&said, &rest), wanted);
    let tolerated = Fixture::new("cache", &spec(&said, &rest)).spec.tolerated;
    assert_eq!(tolerated.iter().map(|it| it.meaning).collect::<Vec<_>>(), [meaning]);
}
