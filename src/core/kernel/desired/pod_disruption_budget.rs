//! The PodDisruptionBudget: how many pods a drain may evict. Pure; called by [`super::children`].

use std::collections::BTreeMap;

use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::intent::Intent;
use super::meta;
use crate::api::spec::DisruptionLimit;
use crate::kernel::object::ChildKind;

/// Renders the PodDisruptionBudget; `None` if the spec does not ask for one, and if there is never more than one pod:
/// protecting a single pod would block every drain of its node.
#[must_use]
pub fn pod_disruption_budget(intent: &Intent<'_>) -> Option<Value> {
    let limit = intent.spec.high_availability.disruption.clone()?;
    if intent.spec.max_replicas() <= 1 {
        return None;
    }
    let (min_available, max_unavailable) = match limit {
        DisruptionLimit::MinAvailable(stay) if stays_at_one_pod(intent, &stay) => {
            (None, Some(IntOrString::Int(1)))
        }
        DisruptionLimit::MinAvailable(stay) => (Some(stay), None),
        DisruptionLimit::MaxUnavailable(go) => (None, Some(go)),
    };
    Some(json!(PodDisruptionBudget {
        metadata: meta::object_meta(ChildKind::PodDisruptionBudget, intent, BTreeMap::new()),
        spec: Some(PodDisruptionBudgetSpec {
            min_available,
            max_unavailable,
            selector: Some(meta::selector_of_pods(&intent.key.name, intent.counted)),
            // A pod that is not ready serves nobody, so it must not block a drain.
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
        }),
        status: None,
    }))
}

/// Whether an autoscaler may scale down to so few pods that the budget would block every drain: then one pod at a time
/// may be evicted, the least that a drain needs.
fn stays_at_one_pod(intent: &Intent<'_>, stay: &IntOrString) -> bool {
    let fewest = intent.spec.autoscaling.as_ref().map(|autoscaling| autoscaling.min_replicas);
    let none = match stay {
        IntOrString::Int(count) => *count == 0,
        IntOrString::String(share) => matches!(share.as_str(), "0%" | "00%"),
    };
    fewest.is_some_and(|fewest| fewest <= 1) && !none
}
