//! `spec.rollout`: how pods replace each other. Pure.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::findings::{Findings, Number};
use super::security::IN_PLACE;
use super::workload::{STATEFUL_SET, Workload};

/// `minReadySeconds`: Kubernetes takes only less than the progress deadline, which is 600 s by its default.
pub(super) const MIN_READY_SECONDS: Number = Number { min: 0, max: 599, default: 0 };
/// `warmth.percent`.
pub(super) const PERCENT: Number = Number { min: 1, max: 100, default: 80 };
/// `warmth.timeoutSeconds`: a longer wait is a rollout that nobody sees the end of.
pub(super) const TIMEOUT_SECONDS: Number = Number { min: 1, max: 3600, default: 300 };

/// The message where there is no order of pods that could wait.
pub(super) const NEEDS_STATEFUL_SET: &str =
    "warmth needs workload: StatefulSet, whose pods the operator replaces one by one";
/// The message where nobody knows how warm a pod is.
pub(super) const NEEDS_FIGURES: &str = "warmth needs the exporter (monitoring.enabled) or the agent (security.rotation: InPlace with TLS or SASL), which tell \
     how warm a pod is";

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
    /// How warm a new pod of a StatefulSet has to be before the next one is replaced. Needs the exporter or the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmth: Option<WarmthSpec>,
}

/// How warm a new pod has to be before the next one is replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WarmthSpec {
    /// The share, in percent, that the new pod has to reach: of the items that pods of the older template hold on average, or
    /// of their hit ratio. What pods that were replaced before it lack is taken off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = PERCENT.min, max = PERCENT.max), extend("default" = PERCENT.default))]
    pub percent: Option<i32>,
    /// Seconds after which the next pod is replaced in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        range(min = TIMEOUT_SECONDS.min, max = TIMEOUT_SECONDS.max),
        extend("default" = TIMEOUT_SECONDS.default)
    )]
    pub timeout_seconds: Option<i32>,
}

/// How pods replace each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    /// Seconds that a new pod has to be ready before the next one is replaced; 0: none.
    pub min_ready_seconds: i32,
    /// How warm a new pod has to be before that; `None`: as it is.
    pub warmth: Option<Warmth>,
}

/// How warm a new pod has to be before the next one is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warmth {
    /// Its share of what pods of the older template have, 1 to 100.
    pub percent: i32,
    /// Seconds after which the next one is replaced in any case.
    pub timeout_seconds: i32,
}

/// What decides whether a pod's warmth can be known.
pub(super) struct WarmthPrerequisites {
    pub(super) workload: Workload,
    /// Whether a container beside memcached tells its figures.
    pub(super) tell_figures: bool,
}

/// CEL for `spec`: who replaces the pods, and who tells how warm they are.
pub(super) fn warmth_rules() -> [ValidationRule; 2] {
    let rule = |holds: String, message: &str| ValidationRule {
        rule: format!("!self.?rollout.?warmth.hasValue() || {holds}"),
        field_path: Some(".rollout.warmth".to_owned()),
        message: Some(message.to_owned()),
        ..ValidationRule::default()
    };
    [
        rule(format!("self.?workload.orValue('') == '{STATEFUL_SET}'"), NEEDS_STATEFUL_SET),
        rule(
            format!(
                "self.?monitoring.?enabled.orValue(false) || self.?security.?rotation.orValue('') == '{IN_PLACE}' && \
                 (self.?security.?tls.?enabled.orValue(false) || self.?security.?sasl.?enabled.orValue(false))"
            ),
            NEEDS_FIGURES,
        ),
    ]
}

/// The settings of rollouts.
pub(super) fn validate(
    findings: &mut Findings,
    raw: Option<&RolloutSpec>,
    prerequisites: &WarmthPrerequisites,
) -> Rollout {
    let RolloutSpec { min_ready_seconds, warmth } = raw.cloned().unwrap_or_default();
    let min_ready_seconds =
        findings.number("spec.rollout.minReadySeconds", min_ready_seconds, MIN_READY_SECONDS);
    let warmth = warmth.map(|WarmthSpec { percent, timeout_seconds }| {
        let path = "spec.rollout.warmth";
        let is_stateful = prerequisites.workload == Workload::StatefulSet;
        findings.check(is_stateful, path, || NEEDS_STATEFUL_SET.to_owned());
        findings.check(prerequisites.tell_figures, path, || NEEDS_FIGURES.to_owned());
        Warmth {
            percent: findings.number("spec.rollout.warmth.percent", percent, PERCENT),
            timeout_seconds: findings.number(
                "spec.rollout.warmth.timeoutSeconds",
                timeout_seconds,
                TIMEOUT_SECONDS,
            ),
        }
    });
    Rollout { min_ready_seconds, warmth }
}
