//! `spec.replicas`, and how many pods there can be. Pure; the latter is called by [`super::high_availability`].

use super::autoscaling::{AutoscalingSpec, SCALED_REPLICAS};
use super::findings::{Findings, Number};

/// `spec.replicas`.
pub const REPLICAS: Number = Number { min: 0, max: 64, default: 1 };
/// What a missing `maxReplicas` counts as: a spec without it is refused for that, and not for its disruption budget too.
const UNSET_MAX_REPLICAS: i32 = SCALED_REPLICAS.min;

/// The field whose number counts where an autoscaler may go down to one pod.
const MOST: &str = "maxReplicas";

/// The description of the field.
pub(super) fn description() -> String {
    let Number { min, max, default: _ } = REPLICAS;
    format!("Number of memcached pods, {min} to {max}.")
}

/// The number of pods that the user asks for.
pub(super) fn validate(findings: &mut Findings, raw: Option<i32>) -> i32 {
    findings.number("spec.replicas", raw, REPLICAS)
}

/// The number of pods that a disruption budget is held against, as values or as expressions in CEL.
///
/// The fewest pods there can be count. But no budget is made for a single pod; where autoscaling may add pods to it, the
/// budget counts once there are more, and so the most pods count.
#[derive(Clone, Copy)]
pub(super) struct PodCount<Field, Count> {
    /// The field that holds the number.
    pub(super) field: Field,
    pub(super) count: Count,
}

impl PodCount<&'static str, i32> {
    pub(super) fn new(replicas: Option<i32>, autoscaling: Option<&AutoscalingSpec>) -> Self {
        match autoscaling.filter(|scaling| scaling.enabled == Some(true)) {
            None => Self { field: "replicas", count: replicas.unwrap_or(REPLICAS.default) },
            Some(scaling) => match scaling.min_replicas {
                Some(fewest) if fewest > 1 => Self { field: "minReplicas", count: fewest },
                _ => Self { field: MOST, count: scaling.max_replicas.unwrap_or(UNSET_MAX_REPLICAS) },
            },
        }
    }
}

impl PodCount<&str, i32> {
    /// Whether an autoscaler may go down to one pod.
    pub(super) fn may_be_one(&self) -> bool {
        self.field == MOST
    }
}

impl PodCount<String, String> {
    /// The numbers of pods in CEL, for a rule of `spec`.
    pub(super) fn for_cel() -> Self {
        let scaled = "self.?autoscaling.?enabled.orValue(false)";
        let fewest = format!("self.?autoscaling.?minReplicas.orValue({})", SCALED_REPLICAS.default);
        let most = format!("self.?autoscaling.?maxReplicas.orValue({UNSET_MAX_REPLICAS})");
        let replicas = format!("self.?replicas.orValue({})", REPLICAS.default);
        Self {
            field: format!("({scaled} ? ({fewest} > 1 ? 'minReplicas' : 'maxReplicas') : 'replicas')"),
            count: format!("({scaled} ? ({fewest} > 1 ? {fewest} : {most}) : {replicas})"),
        }
    }
}
