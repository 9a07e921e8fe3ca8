//! What the metrics show of one resource. Pure data; a pass that has nothing left to send makes it from the status that
//! it computed, so that the metrics are right even if that status cannot be written.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use crate::api::MemcachedStatus;
use crate::api::reason::{Reason, Type};

/// The conditions that say whether a resource is as its spec wants it and, if not, why. The other conditions repeat the
/// numbers of pods.
pub const TYPES: [Type; 4] = [Type::Ready, Type::Reconciling, Type::Stalled, Type::Paused];

/// One resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceMetrics {
    /// Image of memcached and number of pods wanted, of a valid spec.
    pub wanted: Option<(String, i32)>,
    /// Number of pods wanted although the spec is invalid; `None` where it is valid, and without a workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted_all_the_same: Option<i32>,
    /// Pods that are ready, those of a former workload too.
    pub ready: i32,
    /// Revision of the live pod template; `None` where it is not known, as without a workload.
    pub template_revision: Option<u32>,
    /// When the certificate that memcached shows ends, or an authority of its clients does; `None` where no certificate was
    /// read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_not_after: Option<Timestamp>,
    /// The reasons of the warnings in the status.
    pub warnings: Vec<String>,
    /// The conditions of the resource, of the types in [`TYPES`].
    pub conditions: Vec<ConditionSample>,
}

/// The metrics of a resource that were reported last. They are only compared with those of now, so a hash stands for them. It has
/// no random key, so that each process finds the same: a snapshot holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Reported(u64);

impl From<&InstanceMetrics> for Reported {
    fn from(metrics: &InstanceMetrics) -> Self {
        // A type of ours without maps can always be written.
        Self(XxHash3_64::oneshot(&serde_json::to_vec(metrics).unwrap_or_default()))
    }
}

/// One condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionSample {
    /// The type of the condition.
    pub of: Type,
    /// Whether its status is `True`.
    pub holds: bool,
    /// The reason of the condition.
    pub reason: Reason,
}

impl InstanceMetrics {
    /// The metrics for a status, and for the image and number of pods of a valid spec. The status counts no pod of a former
    /// workload, but they serve: `former_ready` of them are ready.
    #[must_use]
    pub fn from_status(
        status: &MemcachedStatus,
        wanted: Option<(String, i32)>,
        former_ready: Option<i32>,
    ) -> Self {
        let sample = |of: Type| {
            let condition = status.conditions.iter().find(|it| it.type_ == of.as_str())?;
            let reason = Reason::ALL.iter().copied().find(|it| it.as_str() == condition.reason)?;
            Some(ConditionSample { of, holds: condition.status == "True", reason })
        };
        Self {
            wanted,
            wanted_all_the_same: None,
            ready: status.ready_replicas.saturating_add(former_ready.unwrap_or_default()),
            template_revision: status.template_revision,
            warnings: status.warnings.iter().map(|it| it.reason.clone()).collect(),
            certificate_not_after: status
                .secrets
                .iter()
                .filter_map(|it| Some(it.certificate_not_after.as_ref()?.0))
                .min(),
            conditions: TYPES.into_iter().filter_map(sample).collect(),
        }
    }

    /// Number of pods wanted; `None` under an invalid spec without a workload.
    #[must_use]
    pub fn pods_wanted(&self) -> Option<i32> {
        self.wanted.as_ref().map(|(_, pods)| *pods).or(self.wanted_all_the_same)
    }
}
