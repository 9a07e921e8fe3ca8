//! `spec.replicas`.

use serde_json::json;

use super::case::{Case, breaks_schema, taken};

pub(super) fn cases() -> Vec<Case> {
    let path = "spec.replicas";
    let with = |count: i32| json!({"replicas": count});
    vec![
        taken(with(0)),
        taken(with(64)),
        breaks_schema(with(-1), path, "should be greater than or equal to 0"),
        breaks_schema(with(65), path, "should be less than or equal to 64"),
    ]
}
