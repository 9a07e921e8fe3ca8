//! `spec.monitoring.serviceMonitor`.

use serde_json::{Value, json};

use super::case::{Case, breaks_limit, breaks_rule, taken};
use super::labels;

const INTERVAL: &str = "spec.monitoring.serviceMonitor.interval";
const TIMEOUT: &str = "spec.monitoring.serviceMonitor.scrapeTimeout";

pub(super) fn cases() -> Vec<Case> {
    let mut cases = durations();
    cases.extend(timeouts());
    cases.extend(labels::of_labels("monitoring.serviceMonitor.additionalLabels"));
    // The section is not switched on; what comes of it where it is: `tests`.
    cases.into_iter().map(Case::validate_takes).collect()
}

fn monitor(fields: &Value) -> Value {
    json!({"monitoring": {"serviceMonitor": fields}})
}

fn words(field: &str) -> String {
    format!("{field} must be a duration as Prometheus writes it, longer than zero: 30s, 1m30s, 500ms")
}

fn durations() -> Vec<Case> {
    let every = |interval: &str| monitor(&json!({"interval": interval}));
    let durations = ["5s", "1m1s", "1ms", "0s1ms", "1y2w3d4h5m6s7ms", "106751d", "000000001m"];
    let others = [
        "30",
        "s",
        "1s1m",
        "1m1m",
        "1.5s",
        "-1s",
        " 1s",
        "1s\n",
        "1S",
        "0",
        "0s",
        "0ms",
        "0y0ms",
        "106752d", // more nanoseconds than 64 bits hold
        "999y999999999w",
        "1000y",
    ];
    let mut cases: Vec<_> = durations.iter().map(|it| taken(every(it))).collect();
    cases.extend(others.iter().map(|it| breaks_rule(every(it), INTERVAL, words("interval"))));
    cases.extend([
        breaks_rule(every(""), INTERVAL, words("interval")),
        breaks_limit(every(&"1".repeat(129)), INTERVAL, "Too long: may not be more than 128 bytes"),
    ]);
    cases
}

/// A scrape ends before the next begins.
fn timeouts() -> Vec<Case> {
    let within = |timeout: &str| monitor(&json!({"scrapeTimeout": timeout}));
    let of =
        |timeout: &str, interval: &str| monitor(&json!({"scrapeTimeout": timeout, "interval": interval}));
    let outlasts = |spec: Value, words: &str| breaks_rule(spec, TIMEOUT, format!("scrapeTimeout {words}"));
    vec![
        taken(within("1s")),
        breaks_rule(within("1s1m"), TIMEOUT, words("scrapeTimeout")),
        breaks_rule(within(""), TIMEOUT, words("scrapeTimeout")),
        taken(within("30s")),
        outlasts(within("30s1ms"), "(30s1ms) must not exceed interval (30s)"),
        taken(of("60s", "1m")),
        outlasts(of("61s", "1m"), "(61s) must not exceed interval (1m)"),
        taken(of("7d", "1w")),
        taken(of("5s", "5s")),
        // The default of old webhooks, beside an interval that the user wrote.
        taken(of("10s", "5s")),
        outlasts(of("11s", "5s"), "(11s) must not exceed interval (5s)"),
        outlasts(of("10000ms", "5s"), "(10000ms) must not exceed interval (5s)"),
    ]
}
