//! `spec.workload`.

use serde_json::json;

use super::case::{Case, breaks_limit, taken};

pub(super) fn cases() -> Vec<Case> {
    let of = |workload: &str| json!({"workload": workload});
    let words = |workload: &str| {
        format!("Unsupported value: \"{workload}\": supported values: \"Deployment\", \"StatefulSet\"")
    };
    let refused = |workload: &str| breaks_limit(of(workload), "spec.workload", words(workload));
    vec![taken(of("Deployment")), taken(of("StatefulSet")), refused("DaemonSet"), refused("statefulset")]
}
