//! Everything that the status depends on. Pure data; made by the status stage of a pass, read by the rest of
//! [`super::status`].

use jiff::Timestamp;

use super::patch;
use super::rollout_progress::RolloutProgress;
use crate::api::MemcachedStatus;
use crate::api::reason::Reason;
use crate::api::secret_rotation::SecretRotation;
use crate::api::status::{AlteredFields, OtherFieldManager, SecretVersion, Warning};
use crate::kernel::desired::Revision;
use crate::kernel::failure::{Category, Failure};
use crate::kernel::object::{ChildKind, Key};
use crate::kernel::rollout_budget::TurnState;
use crate::kernel::rotation_record::{self, RotationProblemReason};
use crate::kernel::warmth::Wait;

/// Everything that the status depends on, as this pass saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusInputs<'a> {
    /// The resource.
    pub key: &'a Key,
    /// `metadata.generation` of the resource.
    pub generation: i64,
    /// Pods wanted.
    pub replicas_expected: i32,
    /// The kind that runs the pods.
    pub workload: ChildKind,
    /// The workload whose pods an autoscaler of the resource sees, as one of ours does: [`Intent::counted`].
    ///
    /// [`Intent::counted`]: crate::kernel::desired::Intent::counted
    pub counted: ChildKind,
    /// The rollout of the workload, if we control one.
    pub rollout: Option<RolloutProgress>,
    /// Ready pods of the workload of before a change of its kind; `None` once that is gone.
    pub former_ready: Option<i32>,
    /// Addresses of the cache for clients; empty until our Service exists.
    pub servers: Vec<String>,
    /// The kinds of children that are not as desired: a write is pending, waits or failed.
    pub pending: Vec<&'static str>,
    /// The kinds of children whose changes wait because the resource is paused; `None` when it is not.
    pub paused: Option<Vec<&'static str>>,
    /// Kinds that the spec asks for and the API server does not serve.
    pub unserved: Vec<&'static str>,
    /// Secrets that are missing, or lack their key.
    pub missing_secrets: Vec<MissingSecret>,
    /// The worst problem that blocks the operator; `None` if there is none.
    pub blocking_problem: Option<BlockingProblem>,
    /// Why a pod does not run, the first by its name, see [`crate::kernel::pod_problem`].
    pub pod_problem: Option<String>,
    /// The numbers of pods that a StatefulSet has not made for two minutes, in order.
    pub unmade_pods: Vec<i32>,
    /// The Secrets whose hash the live template carries, and versions that no pod is started with.
    pub secrets: Vec<SecretVersion>,
    /// How far pods are with Secrets that they take in place.
    pub rotation: Option<SecretRotation>,
    /// The wait for the pod of a StatefulSet that was replaced last, also when it is over or interrupted.
    pub warmth_wait: Option<Wait>,
    /// What a person should know although the pods run.
    pub warnings: Vec<Warning>,
    /// Fields of children that the cluster stores otherwise than they were applied.
    pub altered: Vec<AlteredFields>,
    /// Other managers of fields of the pod template.
    pub other_managers: Vec<OtherFieldManager>,
    /// What their fields weaken.
    pub weakened: Vec<String>,
    /// The turn of the resource in the rollout budget.
    pub turn_state: TurnState,
    /// Whether a child is read or written: only the answer shows whether the rollout stalls.
    pub awaits_answer: bool,
    /// Revision of the live template; `None` without a workload of ours.
    pub template_revision: Option<Revision>,
    /// The time of the pass.
    pub now: Timestamp,
}

impl StatusInputs<'_> {
    /// The turn that is remembered and stands on record, given the conditions of the status that was computed.
    #[must_use]
    pub fn turn_state_by(&self, status: &MemcachedStatus) -> TurnState {
        match self.awaits_answer {
            true => self.turn_state,
            false => self.turn_state.stalled(patch::says_harm(status)),
        }
    }

    /// The new pod whose warmth the next one waits for.
    #[must_use]
    pub fn awaited_warmth(&self) -> Option<&Wait> {
        self.warmth_wait.as_ref().filter(|wait| wait.is_awaited(self.now))
    }

    /// How far a rotation is, in words; `None` while none is under way.
    #[must_use]
    pub fn rotating(&self) -> Option<String> {
        rotation_record::progress(self.rotation.as_ref()?, self.replicas_expected)
    }

    /// Pods that are ready; 0 without a workload.
    #[must_use]
    pub fn ready(&self) -> i32 {
        self.rollout.as_ref().map_or(0, |rollout| rollout.seen.ready)
    }
}

/// A Secret that does not exist or lacks a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissingSecret {
    /// Name of the Secret.
    pub name: String,
    /// The key that it lacks; `None` when the Secret itself is missing.
    pub key: Option<String>,
}

/// A problem that blocks the operator. In order of precedence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockingProblem {
    /// The spec breaks rules, or does not deserialise: every violation.
    InvalidSpec(String),
    /// An object that is not ours sits where a child belongs: which one, and whose it is.
    NameConflict(String),
    /// A child would have to change a field that cannot change.
    ImmutableField(String),
    /// A Secret holds what memcached would refuse: which one, and what.
    SecretInvalid(String),
    /// A Secret could not be read: why.
    SecretUnreadable(String),
    /// A child was refused.
    Denied {
        /// What refuses it.
        denial: Denial,
        /// What was refused, and what to do.
        message: String,
    },
    /// Nobody knows whether pods use new content of a Secret, as their agents do not answer: which pod, and why.
    AgentUnreachable(String),
    /// Pods do not take new content of a Secret: which pod, and what it waits for.
    RotationStalled(String),
    /// Children of an earlier resource of this name are still being collected.
    WaitingForGarbageCollection(String),
    /// A request failed in a way that passes by itself.
    RetryingAfterError(String),
}

/// What refuses a child. Each is a reason of Ready by the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// A missing right.
    Forbidden,
    /// A quota.
    QuotaExceeded,
    /// A policy or a webhook.
    AdmissionDenied,
}

impl From<Denial> for Reason {
    fn from(denial: Denial) -> Self {
        match denial {
            Denial::Forbidden => Self::Forbidden,
            Denial::QuotaExceeded => Self::QuotaExceeded,
            Denial::AdmissionDenied => Self::AdmissionDenied,
        }
    }
}

impl BlockingProblem {
    /// The blocking problem that the status reports for a failed request.
    #[must_use]
    pub fn from_failure(failure: &Failure) -> Self {
        let Failure { category, message } = failure.clone();
        match category {
            Category::Invalid => Self::InvalidSpec(message),
            Category::ImmutableField => Self::ImmutableField(message),
            Category::Forbidden => Self::Denied { denial: Denial::Forbidden, message },
            Category::QuotaExceeded => Self::Denied { denial: Denial::QuotaExceeded, message },
            Category::AdmissionDenied => Self::Denied { denial: Denial::AdmissionDenied, message },
            Category::Conflict
            | Category::Transient
            | Category::Internal
            | Category::NamespaceTerminating => Self::RetryingAfterError(message),
        }
    }

    /// The blocking problem of a rotation; `None` where there is none, or one that only a later release knows.
    #[must_use]
    pub fn from_rotation(record: &SecretRotation) -> Option<Self> {
        let problem = record.problem.as_ref()?;
        let message = problem.message.clone();
        Some(match RotationProblemReason::from_problem(problem)? {
            RotationProblemReason::SecretInvalid => Self::SecretInvalid(message),
            RotationProblemReason::AgentUnreachable => Self::AgentUnreachable(message),
            RotationProblemReason::NoProgress => Self::RotationStalled(message),
        })
    }

    /// The severity of a problem, worst first: the status reports the worst.
    #[must_use]
    pub const fn rank(&self) -> u8 {
        match self {
            Self::InvalidSpec(_) => 0,
            Self::NameConflict(_) => 1,
            Self::ImmutableField(_) => 2,
            Self::SecretInvalid(_) => 3,
            Self::SecretUnreadable(_) => 4,
            Self::Denied { .. } => 5,
            Self::AgentUnreachable(_) => 6,
            Self::RotationStalled(_) => 7,
            Self::WaitingForGarbageCollection(_) => 8,
            Self::RetryingAfterError(_) => 9,
        }
    }
}
