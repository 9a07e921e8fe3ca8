//! A request that was sent and not answered yet, and what is needed to understand its reply. Pure data; kept by the
//! reconciler.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::backoff::Attempt;
use super::diff::Path;
use super::effect::{KubeEvent, RolloutCause};
use super::object::{ChildKind, Key, Uid};
use super::slot::Sight;
use super::world::secret::Presence;
use crate::api::MemcachedStatus;

/// A request without a reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingRequest {
    /// The resource for which the request was sent.
    pub resource: Key,
    /// Its incarnation: a reply for an earlier incarnation is not applied to the present one.
    pub uid: Uid,
    /// What was sent.
    pub sent: Sent,
}

/// A rollout that a write may start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replacement {
    /// Why; `None` if the write should start none. A webhook that changes the template starts one all the same.
    pub cause: Option<RolloutCause>,
    /// Fields of the template that the write changes; `None` if they are not known.
    pub fields: Option<Vec<Path>>,
    /// [`super::live::template_print`] of the Deployment before the write: if the answer has the same, no pod is
    /// replaced.
    pub template: Option<u64>,
}

impl Replacement {
    /// Why pods were replaced. Without a planned cause somebody else changed the template.
    #[must_use]
    pub fn cause(&self) -> RolloutCause {
        self.cause.unwrap_or(RolloutCause::Drift)
    }
}

/// What was sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Sent {
    /// A read of a Secret.
    ReadSecret {
        /// Which.
        key: Key,
        /// The keys asked for.
        keys: Vec<String>,
        /// What was known of the Secret when the request left.
        known: Presence,
    },
    /// A read of a child, and what was known of the child when the request left.
    ReadChild(ChildKind, Sight),
    /// A write of a child.
    Write {
        /// Which child.
        kind: ChildKind,
        /// What identifies the attempt.
        attempt: Attempt,
        /// The rollout that the write starts, if any.
        replaces: Option<Replacement>,
        /// Kubernetes Events to publish once the write succeeded.
        kube_events: Vec<KubeEvent>,
        /// Whether the write creates, changes or deletes the child.
        change: WriteKind,
        /// The body of an apply: fields that differ in the answer were changed by the API server.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<Value>,
    },
    /// A status.
    Status {
        /// The status as it will be stored.
        status: Box<MemcachedStatus>,
        /// What identifies the attempt.
        attempt: Attempt,
        /// Kubernetes Events to publish once this status is stored.
        kube_events: Vec<KubeEvent>,
    },
}

/// What a write does to a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteKind {
    /// The child does not exist yet.
    Create,
    /// The child is changed.
    Update,
    /// The child is deleted.
    Delete,
}
