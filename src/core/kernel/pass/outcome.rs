//! What a pass decided. Pure data; made by the pass, carried out and remembered by the reconciler.

use jiff::Timestamp;

use crate::api::MemcachedStatus;
use crate::kernel::backoff::Attempt;
use crate::kernel::diff::Differences;
use crate::kernel::effect::{KubeEvent, Request};
use crate::kernel::failure::Category;
use crate::kernel::instance_metrics::InstanceMetrics;
use crate::kernel::object::ChildKind;
use crate::kernel::pending_request::{Replacement, WriteKind};
use crate::kernel::rollout_budget::PermitState;
use crate::kernel::shortcuts::rendered_hashes::RenderedHashes;
use crate::kernel::world::secret::SecretHash;

/// What a pass decided.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pass {
    /// Requests to send now, independent of each other; the next pass runs when all have been answered.
    pub sends: Vec<Send>,
    /// Results of comparisons, so that the compared objects can be dropped.
    pub compared_children: Vec<ComparedChild>,
    /// Hashes of the desired children, if they are new.
    pub rendered_hashes: Option<RenderedHashes>,
    /// A Secret hash, if the pass computed one.
    pub secret_hash: Option<SecretHash>,
    /// Its permit of the rollout budget; `None`: unchanged.
    pub permit_state: Option<PermitState>,
    /// Set if nothing is left to send.
    pub settled: Option<Settled>,
}

impl Pass {
    /// One that sends nothing but these reads.
    #[must_use]
    pub fn reading(requests: Vec<Request>) -> Self {
        Self { sends: requests.into_iter().map(Send::Read).collect(), ..Self::default() }
    }
}

/// A request to send, and what to remember until its reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Send {
    /// A read of a Secret or of a child.
    Read(Request),
    /// A write of a child.
    Write {
        /// What to send.
        request: Request,
        /// Which child.
        kind: ChildKind,
        /// What identifies the attempt.
        attempt: Attempt,
        /// Whether the write creates, changes or deletes the child.
        change: WriteKind,
        /// The rollout that the write starts, if any.
        replaces: Option<Replacement>,
        /// Kubernetes Events to publish once the write succeeded.
        kube_events: Vec<KubeEvent>,
    },
    /// A write of the status.
    Status {
        /// What to send.
        request: Request,
        /// The status as it will be.
        status: Box<MemcachedStatus>,
        /// What identifies the attempt.
        attempt: Attempt,
        /// Kubernetes Events to publish once this status is stored. They are computed here and not with the reply: by
        /// then the watch may already show the new status.
        kube_events: Vec<KubeEvent>,
    },
}

impl Send {
    /// The child that it reads or writes.
    #[must_use]
    pub const fn child(&self) -> Option<ChildKind> {
        match self {
            Self::Write { kind, .. } | Self::Read(Request::ReadChild { kind, .. }) => Some(*kind),
            Self::Read(_) | Self::Status { .. } => None,
        }
    }
}

/// A child that was compared.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedChild {
    /// Which child.
    pub kind: ChildKind,
    /// Hash of what it was compared with.
    pub desired: String,
    /// What was found.
    pub differences: Differences,
}

/// A settled resource: nothing to send until something changes or a time comes.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// When to run the next pass without an event.
    pub wake_at: Option<Timestamp>,
    /// The failure that keeps the resource from its desired state.
    pub failure: Option<Category>,
    /// Children that are as desired.
    pub unchanged: Vec<ChildKind>,
    /// Kinds that the spec asks for and the API server does not serve.
    pub unserved: Vec<ChildKind>,
    /// What the metrics show of the resource.
    pub instance_metrics: InstanceMetrics,
}
