//! The PodDisruptionBudget: what a drain may take. Pure; called by [`super::children`].

use std::collections::BTreeMap;

use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use serde_json::{Value, json};

use super::{Intent, deployment, meta};
use crate::api::validated::DisruptionLimit;

/// Renders the PodDisruptionBudget; `None` where nobody asks for one, and where there is never more than one pod:
/// protecting that one would keep its node from ever being drained.
#[must_use]
pub fn pod_disruption_budget(intent: &Intent<'_>) -> Option<Value> {
    let limit = intent.spec.availability.disruption.clone()?;
    if deployment::most_pods(intent.spec) <= 1 {
        return None;
    }
    let (min_available, max_unavailable) = match limit {
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
