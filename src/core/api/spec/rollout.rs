//! `spec.rollout`: how pods replace each other. Pure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::findings::{Findings, Number};

/// `minReadySeconds`: Kubernetes takes only less than the progress deadline, which is 600 s by its default.
pub(super) const MIN_READY_SECONDS: Number = Number { min: 0, max: 599, default: 0 };

/// How pods replace each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutSpec {
    /// Seconds that a new pod has to be ready before the next one is replaced, 0 to 599. Meanwhile clients fill it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        range(min = MIN_READY_SECONDS.min, max = MIN_READY_SECONDS.max),
        extend("default" = MIN_READY_SECONDS.default)
    )]
    pub min_ready_seconds: Option<i32>,
}

/// How pods replace each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    /// Seconds that a new pod has to be ready before the next one is replaced; 0: none.
    pub min_ready_seconds: i32,
}

/// The settings of rollouts.
pub(super) fn validate(findings: &mut Findings, raw: Option<&RolloutSpec>) -> Rollout {
    let RolloutSpec { min_ready_seconds } = raw.cloned().unwrap_or_default();
    let path = "spec.rollout.minReadySeconds";
    Rollout { min_ready_seconds: findings.number(path, min_ready_seconds, MIN_READY_SECONDS) }
}
