//! `spec.replicas`, and how many pods there can be. Pure; called by [`super::high_availability`].

use super::autoscaling::{AutoscalingSpec, SCALED_REPLICAS};
use super::findings::Number;

/// `spec.replicas`.
pub(super) const REPLICAS: Number = Number { min: 0, max: 64, default: 1 };

/// The number of pods that a disruption budget is held against, as values or as expressions in CEL.
///
/// The fewest pods there can be count. But no budget is made for a single pod; where autoscaling may add pods to it, the
/// budget counts once there are more, and so the most pods count.
#[derive(Clone, Copy)]
pub(super) struct Pods<Field, Count> {
    /// The field that holds the number.
    pub(super) field: Field,
    pub(super) count: Count,
}

impl Pods<&'static str, i32> {
    pub(super) fn new(replicas: Option<i32>, autoscaling: Option<&AutoscalingSpec>) -> Self {
        match autoscaling.filter(|scaling| scaling.enabled == Some(true)) {
            None => Self { field: "replicas", count: replicas.unwrap_or(REPLICAS.default) },
            Some(scaling) => match scaling.min_replicas {
                Some(fewest) if fewest > 1 => Self { field: "minReplicas", count: fewest },
                _ => Self { field: "maxReplicas", count: scaling.max_replicas.unwrap_or(1) },
            },
        }
    }
}

impl Pods<String, String> {
    /// The numbers of pods in CEL, for a rule of `spec`.
    pub(super) fn for_cel() -> Self {
        let scaled = "self.?autoscaling.?enabled.orValue(false)";
        let fewest = format!("self.?autoscaling.?minReplicas.orValue({})", SCALED_REPLICAS.default);
        let most = "self.?autoscaling.?maxReplicas.orValue(1)";
        let replicas = format!("self.?replicas.orValue({})", REPLICAS.default);
        Self {
            field: format!("({scaled} ? ({fewest} > 1 ? 'minReplicas' : 'maxReplicas') : 'replicas')"),
            count: format!("({scaled} ? ({fewest} > 1 ? {fewest} : {most}) : {replicas})"),
        }
    }
}
