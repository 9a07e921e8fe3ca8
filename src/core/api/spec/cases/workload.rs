//! `spec.workload`, and names that are too long for one of its kinds.

use serde_json::{Value, json};

use super::case::{Case, breaks_limit, breaks_rule, taken};

const PATH: &str = "spec.workload";

pub(super) fn cases() -> Vec<Case> {
    let mut cases = kinds();
    cases.extend(names());
    cases
}

fn of(workload: &str) -> Value {
    json!({"workload": workload})
}

fn kinds() -> Vec<Case> {
    let words = |workload: &str| {
        format!("Unsupported value: \"{workload}\": supported values: \"Deployment\", \"StatefulSet\"")
    };
    let refused = |workload: &str| breaks_limit(of(workload), PATH, words(workload));
    vec![taken(of("Deployment")), taken(of("StatefulSet")), refused("DaemonSet"), refused("statefulset")]
}

/// Only pods of a StatefulSet carry the name in a label, with a hash behind it.
fn names() -> Vec<Case> {
    let words =
        "name must have at most 52 characters when workload is StatefulSet, whose pods carry it in a label";
    let [fits, long] = [52, 53].map(|length| "a".repeat(length));
    vec![
        taken(of("StatefulSet")).named(&fits),
        breaks_rule(of("StatefulSet"), PATH, words).named(&long),
        taken(of("Deployment")).named(&long),
        taken(json!({})).named(&long),
    ]
}
