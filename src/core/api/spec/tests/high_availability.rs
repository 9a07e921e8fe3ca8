//! Where pods run, and how they go.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rstest::rstest;
use serde_json::{Value, json};

use super::{valid, violations};
use crate::api::spec::{AntiAffinity, DisruptionLimit, GracefulShutdown, HighAvailability};

#[test]
fn the_section_arrives_unchanged() {
    let spread = json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]);
    let raw = json!({"replicas": 3, "highAvailability": {
        "antiAffinityPreset": "hard",
        "topologySpreadConstraints": spread,
        "podDisruptionBudget": {"enabled": true, "minAvailable": "50%"},
        "gracefulShutdown": {"enabled": true, "preStopDelaySeconds": 5, "terminationGracePeriodSeconds": 60},
    }});
    let expected = HighAvailability {
        anti_affinity: Some(AntiAffinity::Hard),
        spread: serde_json::from_value(spread).unwrap(),
        disruption: Some(DisruptionLimit::MinAvailable(IntOrString::String("50%".to_owned()))),
        graceful_shutdown: Some(GracefulShutdown {
            pre_stop_delay_seconds: 5,
            termination_grace_period_seconds: 60,
        }),
    };
    assert_eq!(valid(&raw).high_availability, expected);
}

#[rstest]
#[case(json!({}))]
#[case(json!({"antiAffinityPreset": "", "podDisruptionBudget": {}, "gracefulShutdown": {}}))]
#[case(json!({
    "podDisruptionBudget": {"minAvailable": "100%", "maxUnavailable": 0},
    "gracefulShutdown": {"preStopDelaySeconds": 300, "terminationGracePeriodSeconds": 1},
}))]
fn a_section_that_says_nothing_asks_for_soft_anti_affinity(#[case] section: Value) {
    let expected =
        HighAvailability { anti_affinity: Some(AntiAffinity::Soft), ..HighAvailability::default() };
    assert_eq!(valid(&json!({"highAvailability": section})).high_availability, expected);
}

/// Where the API server refuses the value itself.
#[rstest]
#[case(json!({"podDisruptionBudget": {"enabled": true, "minAvailable": ""}}), Some(
    "spec.highAvailability.podDisruptionBudget: one of minAvailable or maxUnavailable must be set when PDB is enabled"
))]
#[case(
    json!({"gracefulShutdown": {
        "enabled": true, "preStopDelaySeconds": 0, "terminationGracePeriodSeconds": 0,
    }}),
    None
)]
fn what_is_zero_or_empty_counts_as_missing(#[case] section: Value, #[case] refusal: Option<&str>) {
    assert_eq!(violations(&json!({"highAvailability": section})), Vec::from_iter(refusal));
}
