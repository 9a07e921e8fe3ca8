//! `spec.rollout`.

use serde_json::{Value, json};

use super::case::{Case, breaks_rule, breaks_schema, taken};
use crate::api::spec::rollout::{NEEDS_FIGURES, NEEDS_STATEFUL_SET};

pub(super) fn cases() -> Vec<Case> {
    let with = |seconds: i32| json!({"rollout": {"minReadySeconds": seconds}});
    let path = "spec.rollout.minReadySeconds";
    let mut cases = vec![
        taken(with(0)),
        taken(with(599)),
        breaks_schema(with(-1), path, "should be greater than or equal to 0"),
        breaks_schema(with(600), path, "should be less than or equal to 599"),
    ];
    cases.extend(warmth());
    cases
}

/// A StatefulSet whose pods have an exporter, and this as `warmth`.
fn warm(warmth: &Value) -> Value {
    json!({"workload": "StatefulSet", "monitoring": {"enabled": true}, "rollout": {"warmth": warmth}})
}

fn warmth() -> Vec<Case> {
    let in_place = json!({
        "workload": "StatefulSet",
        "rollout": {"warmth": {"percent": 1}},
        "security": {"rotation": "InPlace", "tls": {"enabled": true, "certificateSecretRef": {"name": "t"}}},
    });
    let without = |field: &str| {
        let mut spec = warm(&json!({}));
        spec.as_object_mut().and_then(|spec| spec.remove(field));
        spec
    };
    let percent = "spec.rollout.warmth.percent";
    let timeout = "spec.rollout.warmth.timeoutSeconds";
    vec![
        taken(warm(&json!({}))),
        taken(warm(&json!({"percent": 100, "timeoutSeconds": 3600}))),
        taken(in_place),
        breaks_schema(warm(&json!({"percent": -1})), percent, "should be greater than or equal to 1"),
        breaks_schema(warm(&json!({"percent": 101})), percent, "should be less than or equal to 100"),
        breaks_schema(warm(&json!({"timeoutSeconds": -1})), timeout, "should be greater than or equal to 1"),
        breaks_schema(
            warm(&json!({"timeoutSeconds": 3601})),
            timeout,
            "should be less than or equal to 3600",
        ),
        breaks_rule(without("workload"), "spec.rollout.warmth", NEEDS_STATEFUL_SET),
        breaks_rule(without("monitoring"), "spec.rollout.warmth", NEEDS_FIGURES),
        breaks_rule(
            json!({"workload": "StatefulSet", "security": {"rotation": "InPlace"}, "rollout": {"warmth": {}}}),
            "spec.rollout.warmth",
            NEEDS_FIGURES,
        ),
    ]
}
