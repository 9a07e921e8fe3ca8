//! `spec.highAvailability`.

use serde_json::{Value, json};

use super::case::{Case, breaks_limit, breaks_rule, breaks_schema, lacks, taken};

const BUDGET: &str = "spec.highAvailability.podDisruptionBudget";
const MIN: &str = "spec.highAvailability.podDisruptionBudget.minAvailable";
const MAX: &str = "spec.highAvailability.podDisruptionBudget.maxUnavailable";

pub(super) fn cases() -> Vec<Case> {
    let mut cases = presets();
    cases.extend(spread());
    cases.extend(budgets());
    cases.extend(limits());
    cases.extend(limits_under_autoscaling());
    cases.extend(seconds());
    cases.extend(ends_of_pods());
    cases
}

fn presets() -> Vec<Case> {
    let with = |word: &str| json!({"highAvailability": {"antiAffinityPreset": word}});
    let path = "spec.highAvailability.antiAffinityPreset";
    let words = "Unsupported value: \"Hard\": supported values: \"soft\", \"hard\"";
    vec![taken(with("hard")), breaks_limit(with("Hard"), path, words)]
}

fn spread() -> Vec<Case> {
    let path = "spec.highAvailability.topologySpreadConstraints";
    let with = |items: Value| json!({"highAvailability": {"topologySpreadConstraints": items}});
    let item = |key: &str, otherwise: &str| json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": otherwise});
    let (hard, soft) = ("DoNotSchedule", "ScheduleAnyway");
    let mut other_skew = item("zone", hard);
    other_skew["maxSkew"] = json!(2);
    let many = |count: i32| with((0..count).map(|at| item(&at.to_string(), hard)).collect());
    let words =
        "topologySpreadConstraints must not have two items with the same topologyKey and whenUnsatisfiable";
    vec![
        taken(with(json!([item("zone", hard), item("zone", soft), item("node", hard)]))),
        breaks_rule(with(json!([item("zone", hard), item("node", hard), other_skew])), path, words),
        taken(many(64)),
        breaks_limit(many(65), path, "Too many: 65: must have at most 64 items"),
        taken(with(json!([item(&"a".repeat(317), &"a".repeat(63))]))),
        breaks_limit(
            with(json!([item("zone", hard), item(&"a".repeat(318), hard)])),
            &format!("{path}[1].topologyKey"),
            "Too long: may not be more than 317 bytes",
        ),
        breaks_limit(
            with(json!([item("zone", &"a".repeat(64))])),
            &format!("{path}[0].whenUnsatisfiable"),
            "Too long: may not be more than 63 bytes",
        ),
    ]
}

/// Exactly one limit, and never one that lets no pod go.
fn budgets() -> Vec<Case> {
    let off = |budget: Value| json!({"replicas": 4, "highAvailability": {"podDisruptionBudget": budget}});
    let on = |mut budget: Value| {
        budget["enabled"] = json!(true);
        off(budget)
    };
    let both = "minAvailable and maxUnavailable are mutually exclusive, specify only one";
    let neither = "one of minAvailable or maxUnavailable must be set when PDB is enabled";
    let all_stay = "minAvailable must be less than 100%, or no node could ever be drained";
    let none_goes = "maxUnavailable must be more than zero, or no node could ever be drained";
    let no_share = "should match '^([0-9]{1,2}|100)%$'";
    vec![
        taken(off(json!({"minAvailable": 1, "maxUnavailable": 1}))),
        breaks_rule(on(json!({"minAvailable": 1, "maxUnavailable": 1})), BUDGET, both),
        taken(off(json!({"enabled": false}))),
        lacks(on(json!({})), BUDGET, neither),
        taken(off(json!({"minAvailable": "100%"}))),
        breaks_rule(on(json!({"minAvailable": "100%"})), MIN, all_stay).validate_takes(),
        taken(on(json!({"maxUnavailable": 1}))),
        breaks_rule(on(json!({"maxUnavailable": 0})), MAX, none_goes).validate_takes(),
        taken(on(json!({"maxUnavailable": "1%"}))),
        breaks_rule(on(json!({"maxUnavailable": "0%"})), MAX, none_goes).validate_takes(),
        breaks_rule(on(json!({"maxUnavailable": "00%"})), MAX, none_goes).validate_takes(),
        taken(on(json!({"maxUnavailable": "100%"}))),
        breaks_schema(on(json!({"maxUnavailable": "101%"})), MAX, no_share),
        breaks_schema(on(json!({"minAvailable": "1"})), MIN, no_share),
        taken(off(json!({"minAvailable": 0}))),
        breaks_schema(on(json!({"minAvailable": -1})), MIN, "should be greater than or equal to 0"),
    ]
}

/// At least one of the pods may go, where there are two.
fn limits() -> Vec<Case> {
    let with = |replicas: i32, limit: Value| {
        json!({
            "replicas": replicas,
            "highAvailability": {"podDisruptionBudget": {"enabled": true, "minAvailable": limit}},
        })
    };
    let too_many = |replicas: i32, limit: Value, words: &str| {
        breaks_rule(with(replicas, limit), MIN, format!("minAvailable {words}")).validate_takes()
    };
    vec![
        taken(with(2, json!(0))),
        taken(with(3, json!(2))),
        too_many(3, json!(3), "(3) must be less than replicas (3)"),
        too_many(2, json!(5), "(5) must be less than replicas (2)"),
        taken(with(1, json!(5))),
        taken(with(0, json!(1))),
        taken(with(3, json!("66%"))),
        too_many(3, json!("67%"), "(67%) must be less than replicas (3) when rounded up"),
        taken(with(2, json!("50%"))),
        too_many(2, json!("51%"), "(51%) must be less than replicas (2) when rounded up"),
        taken(with(50, json!("98%"))),
        too_many(50, json!("99%"), "(99%) must be less than replicas (50) when rounded up"),
        taken(with(0, json!("99%"))),
        too_many(64, json!("99%"), "(99%) must be less than replicas (64) when rounded up"),
    ]
}

/// The fewest pods count, or the most where the fewest are one.
fn limits_under_autoscaling() -> Vec<Case> {
    let with = |bounds: [i32; 2], limit: Value| {
        let [min, max] = bounds;
        json!({
            "replicas": 1,
            "resources": {"requests": {"cpu": 1}},
            "autoscaling": {"enabled": true, "minReplicas": min, "maxReplicas": max},
            "highAvailability": {"podDisruptionBudget": {"enabled": true, "minAvailable": limit}},
        })
    };
    let too_many = |bounds: [i32; 2], limit: Value, words: &str| {
        breaks_rule(with(bounds, limit), MIN, format!("minAvailable {words}")).validate_takes()
    };
    vec![
        taken(with([3, 9], json!(2))),
        too_many([3, 9], json!(3), "(3) must be less than minReplicas (3)"),
        taken(with([1, 9], json!(8))),
        too_many([1, 9], json!(9), "(9) must be less than maxReplicas (9)"),
        taken(with([1, 1], json!(9))),
        taken(with([1, 1], json!("99%"))),
        too_many([1, 2], json!("99%"), "(99%) must be less than maxReplicas (2) when rounded up"),
    ]
}

/// Both ends of the ranges.
fn seconds() -> Vec<Case> {
    let fields = [("preStopDelaySeconds", 300), ("terminationGracePeriodSeconds", 600)];
    let cases = fields.map(|(field, max)| {
        let with = |seconds: i32| json!({"highAvailability": {"gracefulShutdown": {field: seconds}}});
        let path = format!("spec.highAvailability.gracefulShutdown.{field}");
        let too_few =
            |seconds: i32| breaks_schema(with(seconds), &path, "should be greater than or equal to 1");
        [
            taken(with(1)),
            taken(with(max)),
            too_few(0).validate_takes(),
            too_few(-1),
            breaks_schema(with(max + 1), &path, format!("should be less than or equal to {max}")),
        ]
    });
    cases.concat()
}

/// A pod is not killed before it is told to end.
fn ends_of_pods() -> Vec<Case> {
    let with = |mut graceful: Value| {
        graceful["enabled"] = json!(true);
        json!({"highAvailability": {"gracefulShutdown": graceful}})
    };
    let (delay, grace) = ("preStopDelaySeconds", "terminationGracePeriodSeconds");
    let path = "spec.highAvailability.gracefulShutdown.terminationGracePeriodSeconds";
    let too_short = |graceful: Value, words: &str| {
        breaks_rule(with(graceful), path, format!("terminationGracePeriodSeconds {words}"))
    };
    vec![
        taken(with(json!({}))),
        taken(with(json!({delay: 30, grace: 31}))),
        too_short(json!({delay: 30, grace: 30}), "(30) must exceed preStopDelaySeconds (30)"),
        taken(with(json!({delay: 29}))),
        too_short(json!({delay: 30}), "(30) must exceed preStopDelaySeconds (30)"),
        too_short(json!({delay: 40}), "(30) must exceed preStopDelaySeconds (40)"),
        taken(with(json!({grace: 11}))),
        too_short(json!({grace: 10}), "(10) must exceed preStopDelaySeconds (10)"),
    ]
}
