//! A request that is under way, and what its reply will be understood by. Pure data; part of the kernel.

use serde::{Deserialize, Serialize};

use super::diff::Path;
use super::effect::{Notice, RolloutCause};
use super::live::Sight;
use super::object::{ChildKind, Key, Uid};
use super::pass::Change;
use super::setback::Attempt;
use super::world::Presence;
use crate::api::MemcachedStatus;

/// A request without a reply yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flight {
    /// On whose behalf.
    pub resource: Key,
    /// Which incarnation: a reply to an earlier one is not taken for the present one's.
    pub uid: Uid,
    /// What was sent.
    pub sent: Sent,
}

/// Pods that a write is to replace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replacement {
    /// Why.
    pub cause: RolloutCause,
    /// Fields of the template that it changes; `None` where that is not known.
    pub fields: Option<Vec<Path>>,
    /// Generation of the Deployment that was looked at: where the answer has no newer one, the API server stored nothing
    /// else than was there, and no pod is replaced.
    pub generation: i64,
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
        notices: Vec<Notice>,
        /// What it does to the child.
        change: Change,
    },
    /// A status.
    Status {
        /// As it will be.
        status: Box<MemcachedStatus>,
        /// What is tried with it.
        attempt: Attempt,
        /// What it says that the one before did not, for when it stands.
        notices: Vec<Notice>,
    },
}
