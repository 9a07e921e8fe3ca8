//! `spec.highAvailability`, and with it the numbers of `spec.autoscaling`.

use memcached_operator::api::rules::{PERCENT_PATTERN, SPREAD_DIFFERS};
use serde_json::{Value, json};

use super::{Case, case, unchecked};

const BUDGET: &str = "spec.highAvailability.podDisruptionBudget";
const MIN: &str = "spec.highAvailability.podDisruptionBudget.minAvailable";
const MAX: &str = "spec.highAvailability.podDisruptionBudget.maxUnavailable";

pub(super) fn cases() -> Vec<Case> {
    let mut cases = budgets();
    cases.extend(limits());
    cases.extend(ends_of_pods());
    cases.extend(spread());
    let preset = |word: &str| json!({"highAvailability": {"antiAffinityPreset": word}});
    cases.push(unchecked(
        preset("hard"),
        preset("Hard"),
        "spec.highAvailability.antiAffinityPreset",
        "Unsupported value: \"Hard\": supported values: \"soft\", \"hard\"",
    ));
    cases
}

fn refused(message: &str) -> String {
    format!("Invalid value: \"object\": {message}")
}

/// Exactly one limit, and never one that lets no pod go.
fn budgets() -> Vec<Case> {
    let budget = |budget: Value| json!({"replicas": 3, "highAvailability": {"podDisruptionBudget": budget}});
    let all_stay = refused("minAvailable must be less than 100%, or no node could ever be drained");
    let none_goes = refused("maxUnavailable must be more than zero, or no node could ever be drained");
    vec![
        case(
            budget(json!({"enabled": false, "minAvailable": 1, "maxUnavailable": 1})),
            budget(json!({"enabled": true, "minAvailable": 1, "maxUnavailable": 1})),
            BUDGET,
            refused("minAvailable and maxUnavailable are mutually exclusive, specify only one"),
        ),
        case(
            budget(json!({"enabled": false})),
            budget(json!({"enabled": true})),
            BUDGET,
            "Required value: one of minAvailable or maxUnavailable must be set when PDB is enabled",
        ),
        case(
            budget(json!({"enabled": false, "minAvailable": "100%"})),
            budget(json!({"enabled": true, "minAvailable": "100%"})),
            MIN,
            all_stay,
        ),
        case(
            budget(json!({"enabled": true, "maxUnavailable": 1})),
            budget(json!({"enabled": true, "maxUnavailable": 0})),
            MAX,
            none_goes.clone(),
        ),
        case(
            budget(json!({"enabled": true, "maxUnavailable": "1%"})),
            budget(json!({"enabled": true, "maxUnavailable": "00%"})),
            MAX,
            none_goes,
        ),
        case(
            budget(json!({"enabled": true, "maxUnavailable": "100%"})),
            budget(json!({"enabled": true, "maxUnavailable": "101%"})),
            MAX,
            format!("Invalid value: \"101%\": {MAX} in body should match '{PERCENT_PATTERN}'"),
        ),
        case(
            budget(json!({"minAvailable": 0})),
            budget(json!({"minAvailable": -1})),
            MIN,
            format!("Invalid value: -1: {MIN} in body should be greater than or equal to 0"),
        ),
    ]
}

/// At least one of the fewest pods may go; where that is one pod, one of the most.
fn limits() -> Vec<Case> {
    let with = |replicas: i32, limit: Value| {
        json!({
            "replicas": replicas,
            "highAvailability": {"podDisruptionBudget": {"enabled": true, "minAvailable": limit}},
        })
    };
    let scaled = |(min, max): (i32, i32), limit: Value| {
        let mut spec = with(1, limit);
        spec["autoscaling"] = json!({"enabled": true, "minReplicas": min, "maxReplicas": max});
        spec["resources"] = json!({"requests": {"cpu": 1}});
        spec
    };
    let of = |min: &str, of: &str| refused(&format!("minAvailable ({min}) must be less than {of}"));
    vec![
        case(with(3, json!(2)), with(3, json!(3)), MIN, of("3", "replicas (3)")),
        case(with(1, json!(5)), with(2, json!(5)), MIN, of("5", "replicas (2)")),
        case(with(3, json!("66%")), with(3, json!("67%")), MIN, of("67%", "replicas (3) when rounded up")),
        case(with(2, json!("50%")), with(2, json!("51%")), MIN, of("51%", "replicas (2) when rounded up")),
        case(with(0, json!("99%")), with(64, json!("99%")), MIN, of("99%", "replicas (64) when rounded up")),
        case(scaled((3, 5), json!(2)), scaled((3, 5), json!(3)), MIN, of("3", "minReplicas (3)")),
        case(scaled((1, 5), json!(4)), scaled((1, 5), json!(5)), MIN, of("5", "maxReplicas (5)")),
        case(
            scaled((1, 1), json!("99%")),
            scaled((1, 2), json!("99%")),
            MIN,
            of("99%", "maxReplicas (2) when rounded up"),
        ),
    ]
}

/// The API server merges them by two keys: two items of the same keys are refused with the Deployment.
fn spread() -> Vec<Case> {
    let path = "spec.highAvailability.topologySpreadConstraints";
    let with = |items: Value| json!({"highAvailability": {"topologySpreadConstraints": items}});
    let item = |key: &str, otherwise: &str| json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": otherwise});
    let (hard, soft) = ("DoNotSchedule", "ScheduleAnyway");
    let many = |count: i32| with((0..count).map(|at| item(&at.to_string(), hard)).collect());
    vec![
        case(
            with(json!([item("zone", hard), item("zone", soft), item("node", hard)])),
            with(json!([item("zone", hard), item("node", hard), item("zone", hard)])),
            path,
            format!("Invalid value: \"array\": {SPREAD_DIFFERS}"),
        ),
        unchecked(many(64), many(65), path, "Too many: 65: must have at most 64 items"),
        unchecked(
            with(json!([item(&"a".repeat(317), hard)])),
            with(json!([item(&"a".repeat(318), hard)])),
            "spec.highAvailability.topologySpreadConstraints[0].topologyKey",
            "Too long: may not be more than 317 bytes",
        ),
        unchecked(
            with(json!([item("zone", &"a".repeat(63))])),
            with(json!([item("zone", &"a".repeat(64))])),
            "spec.highAvailability.topologySpreadConstraints[0].whenUnsatisfiable",
            "Too long: may not be more than 63 bytes",
        ),
    ]
}

fn ends_of_pods() -> Vec<Case> {
    let (delay, grace) = ("preStopDelaySeconds", "terminationGracePeriodSeconds");
    let with = |graceful: Value| json!({"highAvailability": {"gracefulShutdown": graceful}});
    let on = |graceful: Value| {
        let mut spec = with(graceful);
        spec["highAvailability"]["gracefulShutdown"]["enabled"] = json!(true);
        spec
    };
    let range = |name: &str, value: i32, edge: &str| {
        format!(
            "Invalid value: {value}: spec.highAvailability.gracefulShutdown.{name} in body should be {edge}"
        )
    };
    let short = |seconds: i32| refused(&format!("{grace} ({seconds}) must exceed {delay} ({seconds})"));
    let delay_path = "spec.highAvailability.gracefulShutdown.preStopDelaySeconds";
    let grace_path = "spec.highAvailability.gracefulShutdown.terminationGracePeriodSeconds";
    vec![
        case(
            with(json!({delay: 1})),
            with(json!({delay: 0})),
            delay_path,
            range(delay, 0, "greater than or equal to 1"),
        ),
        case(
            with(json!({delay: 300})),
            with(json!({delay: 301})),
            delay_path,
            range(delay, 301, "less than or equal to 300"),
        ),
        case(
            with(json!({grace: 1})),
            with(json!({grace: 0})),
            grace_path,
            range(grace, 0, "greater than or equal to 1"),
        ),
        case(
            with(json!({grace: 600})),
            with(json!({grace: 601})),
            grace_path,
            range(grace, 601, "less than or equal to 600"),
        ),
        case(on(json!({delay: 30, grace: 31})), on(json!({delay: 30, grace: 30})), grace_path, short(30)),
        case(on(json!({delay: 29})), on(json!({delay: 30})), grace_path, short(30)),
        case(on(json!({grace: 11})), on(json!({grace: 10})), grace_path, short(10)),
    ]
}
