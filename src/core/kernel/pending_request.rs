//! A request that is under way, and what its reply will be understood by. Pure data; part of the kernel.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::backoff::Attempt;
use super::diff::Path;
use super::effect::{KubeEvent, RolloutCause};
use super::live::Sight;
use super::object::{ChildKind, Key, Uid};
use super::pass::WriteKind;
use super::world::Presence;
use crate::api::MemcachedStatus;

/// A request without a reply yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingRequest {
    /// On whose behalf.
    pub resource: Key,
    /// Which incarnation: a reply to an earlier one is not taken for the present one's.
    pub uid: Uid,
    /// What was sent.
    pub sent: Sent,
}

/// Pods that a write may replace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replacement {
    /// Why; `None` where it is not to replace any: what a webhook puts into the template, or no longer, does so all the same.
    pub cause: Option<RolloutCause>,
    /// Fields of the template that it changes; `None` where that is not known.
    pub fields: Option<Vec<Path>>,
    /// [`super::live::template_print`] of the Deployment that was looked at: where the answer has the same, no pod is
    /// replaced, whatever else it changed.
    pub template: Option<u64>,
}

impl Replacement {
    /// Why pods were replaced. Without a plan it was somebody else's doing.
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
        /// What was known of it then.
        known: Presence,
    },
    /// A read of what sits at a child's place, and what was known of that then.
    ReadChild(ChildKind, Sight),
    /// A write of a child.
    Write {
        /// Which child.
        kind: ChildKind,
        /// What is tried with it.
        attempt: Attempt,
        /// The pods that it replaces, if it does.
        replaces: Option<Replacement>,
        /// What is to be said when it is done.
        kube_events: Vec<KubeEvent>,
        /// What it does to the child.
        change: WriteKind,
        /// What was applied, if it was an apply: what the answer holds otherwise is the API server's doing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<Value>,
    },
    /// A status.
    Status {
        /// As it will be.
        status: Box<MemcachedStatus>,
        /// What is tried with it.
        attempt: Attempt,
        /// What it says that the one before did not, for when it stands.
        kube_events: Vec<KubeEvent>,
    },
}
