//! What is stored and older than a rule: what the operator makes of it, and what it says.

use rstest::rstest;
use serde_json::{Value, json};

use super::valid;
use crate::api::spec::{DisruptionLimit, Validated};
use crate::api::warnings;

/// What is said of a stored spec.
fn said(raw: &Value) -> Vec<String> {
    valid(raw).tolerated.iter().map(ToString::to_string).collect()
}

fn budget(limit: Value) -> Value {
    let mut budget = limit;
    budget["enabled"] = json!(true);
    json!({"replicas": 2, "highAvailability": {"podDisruptionBudget": budget}})
}

fn monitor(fields: &Value) -> Value {
    json!({"monitoring": {"enabled": true, "serviceMonitor": fields}})
}

#[rstest]
#[case(json!({"minAvailable": "100%"}), "minAvailable: minAvailable must be less than 100%, or no node could ever be drained")]
#[case(json!({"minAvailable": "75%"}), "minAvailable: minAvailable (75%) must be less than replicas (2) when rounded up")]
#[case(json!({"minAvailable": 2}), "minAvailable: minAvailable (2) must be less than replicas (2)")]
#[case(json!({"maxUnavailable": 0}), "maxUnavailable: maxUnavailable must be more than zero, or no node could ever be drained")]
fn a_budget_that_blocks_every_drain_stays_as_it_is_and_is_told(#[case] limit: Value, #[case] rule: &str) {
    let raw = budget(limit.clone());
    let meaning = "the PodDisruptionBudget has it as it is, and the drain of a node waits for ever";
    assert_eq!(said(&raw), [format!("spec.highAvailability.podDisruptionBudget.{rule}; {meaning}")]);
    let kept = valid(&raw).high_availability.disruption.map(|limit| match limit {
        DisruptionLimit::MinAvailable(stay) => json!({"minAvailable": stay}),
        DisruptionLimit::MaxUnavailable(go) => json!({"maxUnavailable": go}),
    });
    assert_eq!(kept, Some(limit));
}

#[rstest]
#[case(json!({"interval": "30"}), "30s", "10s", &["interval: interval must be a duration as Prometheus writes it, \
    longer than zero: 30s, 1m30s, 500ms; the default is used in its place"])]
#[case(json!({"interval": "5s", "scrapeTimeout": "10"}), "5s", "5s", &["scrapeTimeout: scrapeTimeout must be a duration \
    as Prometheus writes it, longer than zero: 30s, 1m30s, 500ms; the default is used in its place"])]
#[case(json!({"interval": "20s", "scrapeTimeout": "25s"}), "20s", "20s", &["scrapeTimeout: scrapeTimeout (25s) must not \
    exceed interval (20s); the interval is used in its place"])]
#[case::the_default_of_old_webhooks(json!({"interval": "5s", "scrapeTimeout": "10s"}), "5s", "5s", &[])]
fn times_that_prometheus_would_not_take_are_replaced(
    #[case] raw: Value,
    #[case] interval: &str,
    #[case] timeout: &str,
    #[case] told: &[&str],
) {
    let raw = monitor(&raw);
    let told = told.iter().map(|it| format!("spec.monitoring.serviceMonitor.{it}")).collect::<Vec<_>>();
    assert_eq!(said(&raw), told);
    let monitor = valid(&raw).monitoring.unwrap().service_monitor.unwrap();
    assert_eq!((monitor.interval.as_str(), monitor.scrape_timeout.as_str()), (interval, timeout));
}

#[test]
fn labels_and_annotations_that_no_object_can_carry_are_left_out_and_the_others_stay() {
    let labels = monitor(&json!({"additionalLabels": {"team": "shop", "a b": "", "long": "-"}}));
    let kept = valid(&labels).monitoring.unwrap().service_monitor.unwrap().additional_labels;
    assert_eq!(json!(kept), json!({"team": "shop"}));
    assert_eq!(said(&labels).len(), 2);

    let annotations = json!({"service": {"annotations": {
        "example.org/a": "b", "a b": "", "memcached.c5c3.io/secret-hash": "1",
    }}});
    assert_eq!(json!(valid(&annotations).service_annotations), json!({"example.org/a": "b"}));
    assert_eq!(
        said(&annotations)[1],
        "spec.service.annotations: annotations under memcached.c5c3.io/ are the operator's own; it is left out"
    );
}

#[test]
fn an_argument_with_a_newline_is_passed_as_it_is() {
    let raw = json!({"memcached": {"extraArgs": ["-o", "a\nb"]}});
    assert_eq!(valid(&raw).memcached.extra_args, ["-o", "a\nb"]);
    assert_eq!(said(&raw).len(), 1);
}

#[test]
fn what_is_switched_off_is_not_looked_at() {
    let raw = json!({
        "highAvailability": {"podDisruptionBudget": {"minAvailable": "half"}},
        "monitoring": {"enabled": false, "exporterImage": "Not/An:Image:", "serviceMonitor": {"interval": "30"}},
        "security": {
            "sasl": {"enabled": false, "credentialsSecretRef": {"name": "TODO"}},
            "tls": {"certificateSecretRef": {"name": "TODO"}},
        },
    });
    let spec = valid(&raw);
    assert_eq!(spec.tolerated, Vec::new());
    assert_eq!((spec.monitoring, spec.security), (None, Validated::default().security));
}

#[test]
fn one_warning_tells_all_of_it() {
    let spec = valid(&budget(json!({"maxUnavailable": 0})));
    let warnings = warnings::of_spec(&spec);
    let said: Vec<_> =
        warnings.iter().map(|it| (it.warning.reason.as_str(), it.warning.message.as_str())).collect();
    assert_eq!(
        said,
        [(
            "InvalidField",
            "The API server would refuse this today; correct it: \
             spec.highAvailability.podDisruptionBudget.maxUnavailable: maxUnavailable must be more than zero, or no node \
             could ever be drained; the PodDisruptionBudget has it as it is, and the drain of a node waits for ever"
        )]
    );
}
