//! The PodDisruptionBudget: what a drain may take. Pure; called by [`super::children`].

use std::collections::BTreeMap;

use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::{Intent, deployment, meta};
use crate::api::spec::DisruptionLimit;

/// Renders the PodDisruptionBudget; `None` where nobody asks for one, and where there is never more than one pod:
/// protecting that one would keep its node from ever being drained.
#[must_use]
pub fn pod_disruption_budget(intent: &Intent<'_>) -> Option<Value> {
    let limit = intent.spec.high_availability.disruption.clone()?;
    if deployment::max_replicas(intent.spec) <= 1 {
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
        metadata: meta::object_meta(intent, BTreeMap::new()),
        spec: Some(PodDisruptionBudgetSpec {
            min_available,
            max_unavailable,
            selector: Some(meta::label_selector(&intent.key.name)),
            // A pod that is not ready serves nobody: it shall not hold up a drain.
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
        }),
        status: None,
    }))
}

/// Whether an autoscaler may go down to a single pod, which this many would keep on its node for ever: then pods go one
/// by one, which is as few as a drain can do with.
fn stays_at_one_pod(intent: &Intent<'_>, stay: &IntOrString) -> bool {
    let fewest = intent.spec.autoscaling.as_ref().map(|autoscaling| autoscaling.min_replicas);
    let none = match stay {
        IntOrString::Int(count) => *count == 0,
        IntOrString::String(share) => matches!(share.as_str(), "0%" | "00%"),
    };
    fewest.is_some_and(|fewest| fewest <= 1) && !none
}
