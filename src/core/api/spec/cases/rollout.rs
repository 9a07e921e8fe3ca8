//! `spec.rollout`.

use serde_json::json;

use super::case::{Case, breaks_schema, taken};

pub(super) fn cases() -> Vec<Case> {
    let with = |seconds: i32| json!({"rollout": {"minReadySeconds": seconds}});
    let path = "spec.rollout.minReadySeconds";
    vec![
        taken(with(0)),
        taken(with(599)),
        breaks_schema(with(-1), path, "should be greater than or equal to 0"),
        breaks_schema(with(600), path, "should be less than or equal to 599"),
    ]
}
