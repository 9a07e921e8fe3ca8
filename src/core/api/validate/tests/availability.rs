//! Where pods run, and how they go.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rstest::rstest;
use serde_json::{Value, json};

use super::{valid, violations};
use crate::api::validated::{AntiAffinity, Availability, DisruptionLimit, GracefulShutdown};

const BUDGET: &str = "spec.highAvailability.podDisruptionBudget";

#[test]
fn the_section_arrives_unchanged() {
    let spread = json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]);
    let raw = json!({"replicas": 3, "highAvailability": {
        "antiAffinityPreset": "hard",
        "topologySpreadConstraints": spread,
        "podDisruptionBudget": {"enabled": true, "minAvailable": "50%"},
        "gracefulShutdown": {"enabled": true, "preStopDelaySeconds": 5, "terminationGracePeriodSeconds": 60},
    }});
    let expected = Availability {
        anti_affinity: Some(AntiAffinity::Hard),
        spread: serde_json::from_value(spread).unwrap(),
        disruption: Some(DisruptionLimit::MinAvailable(IntOrString::String("50%".to_owned()))),
        graceful_shutdown: Some(GracefulShutdown {
            pre_stop_delay_seconds: 5,
            termination_grace_period_seconds: 60,
        }),
    };
    assert_eq!(valid(&raw).availability, expected);
}

#[rstest]
#[case(json!({}))]
#[case(json!({"antiAffinityPreset": "", "podDisruptionBudget": {}, "gracefulShutdown": {}}))]
#[case(json!({
    "podDisruptionBudget": {"minAvailable": "100%", "maxUnavailable": 0},
    "gracefulShutdown": {"preStopDelaySeconds": 300, "terminationGracePeriodSeconds": 1},
}))]
fn a_section_that_says_nothing_asks_for_soft_anti_affinity(#[case] section: Value) {
    let expected = Availability { anti_affinity: Some(AntiAffinity::Soft), ..Availability::default() };
    assert_eq!(valid(&json!({"highAvailability": section})).availability, expected);
}

#[test]
fn two_constraints_that_the_api_server_takes_for_one_are_refused() {
    let path = "spec.highAvailability.topologySpreadConstraints";
    let item = |key: &str, otherwise: &str| json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": otherwise});
    let found = |items: Value| violations(&json!({"highAvailability": {"topologySpreadConstraints": items}}));
    let (hard, soft) = ("DoNotSchedule", "ScheduleAnyway");
    assert_eq!(found(json!([item("zone", hard), item("zone", soft), item("node", hard)])), [""; 0]);
    let mut other_skew = item("zone", hard);
    other_skew["maxSkew"] = json!(2);
    assert_eq!(
        found(json!([item("zone", hard), item("node", hard), other_skew])),
        [format!(
            "{path}: topologySpreadConstraints must not have two items with the same topologyKey and whenUnsatisfiable"
        )]
    );
    let (key, word) = ("a".repeat(318), "a".repeat(64));
    assert_eq!(found(json!([item(&key[1..], &word[1..])])), [""; 0]);
    assert_eq!(
        found(json!([item("zone", hard), item(&key, &word)])),
        [
            format!("{path}[1].topologyKey: Too long: may not be more than 317 bytes"),
            format!("{path}[1].whenUnsatisfiable: Too long: may not be more than 63 bytes"),
        ]
    );
    let many = |count: i32| (0..count).map(|at| item(&at.to_string(), hard)).collect();
    assert_eq!(found(many(64)), [""; 0]);
    assert_eq!(found(many(65)), [format!("{path}: Too many: 65: must have at most 64 items")]);
}

#[test]
fn an_unknown_preset_is_refused() {
    let path = "spec.highAvailability.antiAffinityPreset";
    assert_eq!(
        violations(&json!({"highAvailability": {"antiAffinityPreset": "Soft"}})),
        [format!("{path}: Unsupported value: \"Soft\": supported values: \"soft\", \"hard\"")]
    );
}

#[rstest]
#[case(json!({}), "", "one of minAvailable or maxUnavailable must be set when PDB is enabled")]
#[case(json!({"minAvailable": ""}), "", "one of minAvailable or maxUnavailable must be set when PDB is enabled")]
#[case(
    json!({"minAvailable": 1, "maxUnavailable": 1}),
    "",
    "minAvailable and maxUnavailable are mutually exclusive, specify only one"
)]
#[case(
    json!({"minAvailable": "100%"}),
    ".minAvailable",
    "minAvailable must be less than 100%, or no node could ever be drained"
)]
#[case(
    json!({"maxUnavailable": 0}),
    ".maxUnavailable",
    "maxUnavailable must be more than zero, or no node could ever be drained"
)]
#[case(
    json!({"maxUnavailable": "0%"}),
    ".maxUnavailable",
    "maxUnavailable must be more than zero, or no node could ever be drained"
)]
#[case(json!({"minAvailable": -1}), ".minAvailable", "should be greater than or equal to 0")]
#[case(json!({"maxUnavailable": "101%"}), ".maxUnavailable", "should match '^([0-9]{1,2}|100)%$'")]
#[case(json!({"minAvailable": "1"}), ".minAvailable", "should match '^([0-9]{1,2}|100)%$'")]
fn a_budget_has_exactly_one_limit_and_lets_pods_go(
    #[case] mut budget: Value,
    #[case] field: &str,
    #[case] message: &str,
) {
    budget["enabled"] = json!(true);
    let raw = json!({"replicas": 4, "highAvailability": {"podDisruptionBudget": budget}});
    assert_eq!(violations(&raw), [format!("{BUDGET}{field}: {message}")]);
}

#[rstest]
#[case(json!(0), 2, None)]
#[case(json!(2), 3, None)]
#[case(json!(3), 3, Some("minAvailable (3) must be less than replicas (3)"))]
#[case(json!(5), 1, None)]
#[case(json!(1), 0, None)]
#[case(json!("66%"), 3, None)]
#[case(json!("67%"), 3, Some("minAvailable (67%) must be less than replicas (3) when rounded up"))]
#[case(json!("98%"), 50, None)]
#[case(json!("99%"), 50, Some("minAvailable (99%) must be less than replicas (50) when rounded up"))]
fn one_of_the_replicas_may_go_where_there_are_two(
    #[case] limit: Value,
    #[case] replicas: i32,
    #[case] refusal: Option<&str>,
) {
    let budget = json!({"enabled": true, "minAvailable": limit});
    let found =
        violations(&json!({"replicas": replicas, "highAvailability": {"podDisruptionBudget": budget}}));
    let expected: Vec<_> = refusal.iter().map(|it| format!("{BUDGET}.minAvailable: {it}")).collect();
    assert_eq!(found, expected);
}

#[rstest]
#[case(3, 9, 2, None)]
#[case(3, 9, 3, Some("minReplicas (3)"))]
#[case(1, 9, 8, None)]
#[case(1, 9, 9, Some("maxReplicas (9)"))]
#[case(1, 1, 9, None)]
fn under_autoscaling_the_fewest_pods_count_or_the_most_where_that_is_one(
    #[case] min: i32,
    #[case] max: i32,
    #[case] limit: i32,
    #[case] least: Option<&str>,
) {
    let found = violations(&json!({
        "replicas": 1,
        "resources": {"requests": {"cpu": 1}},
        "autoscaling": {"enabled": true, "minReplicas": min, "maxReplicas": max},
        "highAvailability": {"podDisruptionBudget": {"enabled": true, "minAvailable": limit}},
    }));
    let message = |of: &&str| format!("{BUDGET}.minAvailable: minAvailable ({limit}) must be less than {of}");
    assert_eq!(found, least.iter().map(message).collect::<Vec<_>>());
}

#[rstest]
#[case(json!({"preStopDelaySeconds": 30, "terminationGracePeriodSeconds": 31}), None)]
#[case(json!({"preStopDelaySeconds": 30, "terminationGracePeriodSeconds": 30}), Some((30, 30)))]
#[case(json!({}), None)]
#[case(json!({"preStopDelaySeconds": 0, "terminationGracePeriodSeconds": 0}), None)]
#[case(json!({"preStopDelaySeconds": 40}), Some((30, 40)))]
#[case(json!({"terminationGracePeriodSeconds": 10}), Some((10, 10)))]
fn a_pod_is_not_killed_before_it_is_told_to_end(#[case] mut raw: Value, #[case] refusal: Option<(i32, i32)>) {
    raw["enabled"] = json!(true);
    let path = "spec.highAvailability.gracefulShutdown.terminationGracePeriodSeconds";
    let message = |(grace, delay): &(i32, i32)| {
        format!("{path}: terminationGracePeriodSeconds ({grace}) must exceed preStopDelaySeconds ({delay})")
    };
    assert_eq!(
        violations(&json!({"highAvailability": {"gracefulShutdown": raw}})),
        refusal.iter().map(message).collect::<Vec<_>>()
    );
}

#[rstest]
#[case("preStopDelaySeconds", 300)]
#[case("terminationGracePeriodSeconds", 600)]
fn seconds_are_held_to_their_range(#[case] field: &str, #[case] max: i32) {
    let found =
        |seconds: i32| violations(&json!({"highAvailability": {"gracefulShutdown": {field: seconds}}}));
    let path = format!("spec.highAvailability.gracefulShutdown.{field}");
    assert_eq!(found(1), [""; 0]);
    assert_eq!(found(max), [""; 0]);
    assert_eq!(found(-1), [format!("{path}: should be greater than or equal to 1")]);
    assert_eq!(found(max + 1), [format!("{path}: should be less than or equal to {max}")]);
}
