//! What the metrics count. Pure data; the reconciler makes it, and the shell's metrics take it.

use serde::{Deserialize, Serialize};
use strum::VariantArray;

use super::failure::Category;
use super::instance_metrics::InstanceMetrics;
use super::object::{ChildKind, Key};
use super::rollout_cause::RolloutCause;

/// What came of Secrets that pods take in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, VariantArray)]
pub enum RotationResult {
    /// All pods use the new content.
    Taken,
    /// All pods took the new content as far as they could before a restart.
    RestartNeeded,
    /// Some agent refuses the new content.
    Refused,
    /// Some agent does not answer.
    Unreachable,
    /// Some pod does not take the new content.
    Stalled,
}

impl RotationResult {
    /// Value of the metric label `result`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::RestartNeeded => "restart_needed",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Stalled => "stalled",
        }
    }
}

/// What happened to a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, VariantArray)]
pub enum ChildResult {
    /// The child was created.
    Created,
    /// The child was changed.
    Updated,
    /// A pass looked and found nothing to do.
    Unchanged,
    /// The child was deleted, because nobody asks for it any more.
    Deleted,
}

/// Something that the metrics count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Observation {
    /// A resource settled: nothing is left to send.
    Reconciled {
        /// Which one.
        resource: Key,
        /// Milliseconds since it was taken from the queue.
        millis: i64,
        /// `None` when all is in place, else what is wrong.
        failure: Option<Category>,
    },
    /// A child was written, or found as it should be.
    Child {
        /// Its kind.
        kind: ChildKind,
        /// What happened.
        result: ChildResult,
    },
    /// Pods begin to roll.
    RolloutStarted {
        /// Whose pods.
        resource: Key,
        /// Why.
        cause: RolloutCause,
    },
    /// Pods took new content of Secrets in place, or somebody has to look.
    SecretRotation(RotationResult),
    /// The metrics of a resource changed.
    Instance {
        /// Which one.
        resource: Key,
        /// What they are now.
        instance_metrics: InstanceMetrics,
    },
    /// A resource is gone; so are its series.
    InstanceGone(Key),
    /// Resources waiting for a pass.
    QueueDepth(usize),
    /// How many resources have a turn of the rollout budget, and how many wait.
    RolloutCounts(RolloutCounts),
}

/// How many resources have a turn, and how many wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutCounts {
    /// Resources with a turn that is not idle.
    pub rolling: usize,
    /// Resources that wait for a turn.
    pub waiting: usize,
    /// Whether an adoption stalled or was refused, so that no other begins.
    pub adoption_halted: bool,
}
