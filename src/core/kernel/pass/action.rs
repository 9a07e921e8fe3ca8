//! What to do about each child, as the stage [`super::plan`] decides it. Pure data; the stages after it read it.

use json_patch::PatchOperation;

use super::compare::Compared;
use crate::kernel::diff::Differences;
use crate::kernel::event::Unavailable;
use crate::kernel::failure::Failure;
use crate::kernel::hash::BodyHash;
use crate::kernel::object::{ChildKind, ResourceVersion, Uid};
use crate::kernel::rollout_cause::RolloutCause;
use crate::kernel::status::inputs::BlockingProblem;

/// What to do about one child.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The child is as it should be: do nothing.
    Keep,
    /// There is no such child: create it.
    Create {
        /// Why the pods of another workload that serve are replaced though nobody asked for it; `None` otherwise.
        cause: Option<RolloutCause>,
    },
    /// The child differs: apply.
    Apply {
        /// The incarnation to apply to.
        uid: Uid,
        /// The version that was looked at. A late apply fails if anybody wrote since. This also guards `spec.replicas`:
        /// an apply that leaves it out sets it to 1 if we still own the field, which a lost reply may hide from us.
        resource_version: ResourceVersion,
        /// Why pods roll, if they do.
        cause: Option<RolloutCause>,
    },
    /// The child differs, and an apply alone would not do: first take away what is in the way of the apply, or correct what
    /// the API server says we own.
    Patch {
        /// The version to patch.
        resource_version: ResourceVersion,
        /// What to do to it.
        edits: Vec<PatchOperation>,
        /// Why pods roll, if they do.
        cause: Option<RolloutCause>,
    },
    /// Read the child first: no watch shows the child and nobody has read it, see [`crate::kernel::unwatched`], or a conflict
    /// showed that our knowledge is old.
    Read,
    /// Nobody asks for the child any more: delete exactly what was seen.
    Delete {
        /// The incarnation that was looked at.
        uid: Uid,
        /// The version that was looked at.
        resource_version: ResourceVersion,
    },
    /// An object that is not ours has this name, and stays untouched. The text says whose it is.
    Foreign(String),
    /// A child of an earlier resource of this name, or one of ours that is being deleted: wait until it is gone.
    Collecting(String),
    /// The last write of the same content failed, and its time has not come again.
    BackOff(Failure),
    /// The child has to wait for something else: it is not known yet what it should be, the policy that guards it is not in
    /// place, or, for a former workload, the new pods do not serve yet.
    Wait,
    /// The child would be changed, were the resource not paused.
    Paused,
    /// The pods of the child would roll, and too many others do.
    AwaitTurn,
    /// The children of this kind are not known.
    Unavailable(Unavailable),
}

/// One decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// About which child.
    pub kind: ChildKind,
    /// How it compares with what it should be; `None` if it is not wanted.
    pub compared: Option<Compared>,
    /// What to do.
    pub action: Action,
}

impl Action {
    /// Whether the action sends a request now.
    #[must_use]
    pub const fn sends(&self) -> bool {
        self.writes() || matches!(self, Self::Read)
    }

    /// Whether the action changes the child.
    #[must_use]
    pub const fn writes(&self) -> bool {
        matches!(self, Self::Create { .. } | Self::Apply { .. } | Self::Patch { .. } | Self::Delete { .. })
    }

    /// Whether the child is as desired, or as far as possible: a kind that the API server does not serve is a state of
    /// the cluster, not a failure.
    #[must_use]
    pub const fn is_in_place(&self) -> bool {
        matches!(self, Self::Keep | Self::Unavailable(Unavailable::NotServed))
    }

    /// Why the action starts a rollout, if it does.
    #[must_use]
    pub const fn cause(&self) -> Option<RolloutCause> {
        match self {
            Self::Create { cause } | Self::Apply { cause, .. } | Self::Patch { cause, .. } => *cause,
            Self::Keep
            | Self::Read
            | Self::Delete { .. }
            | Self::Foreign(_)
            | Self::Collecting(_)
            | Self::BackOff(_)
            | Self::Wait
            | Self::Paused
            | Self::AwaitTurn
            | Self::Unavailable(_) => None,
        }
    }

    /// The blocking problem that the status reports for it.
    #[must_use]
    pub fn blocking_problem(&self) -> Option<BlockingProblem> {
        match self {
            Self::Keep
            | Self::Create { .. }
            | Self::Apply { .. }
            | Self::Patch { .. }
            | Self::Delete { .. }
            | Self::Read
            | Self::Wait
            | Self::Paused
            | Self::AwaitTurn
            | Self::Unavailable(Unavailable::NotServed) => None,
            Self::Foreign(whose) => Some(BlockingProblem::NameConflict(format!(
                "{whose}: delete or rename it, or give this Memcached another name"
            ))),
            Self::Collecting(what) => Some(BlockingProblem::WaitingForGarbageCollection(what.clone())),
            Self::BackOff(failure) | Self::Unavailable(Unavailable::Refused(failure)) => {
                Some(BlockingProblem::from_failure(failure))
            }
        }
    }
}

impl Planned {
    /// Hash of the desired body; `None` when none is wanted.
    #[must_use]
    pub fn hash(&self) -> Option<BodyHash> {
        self.compared.as_ref().map(|compared| compared.hash)
    }

    /// In what the live child differs, without what the API server made of our own apply; `None` if that is not known.
    #[must_use]
    pub fn differences(&self) -> Option<&Differences> {
        self.compared.as_ref()?.differences.as_ref()
    }
}

/// Kinds that are wanted and that the API server does not serve.
pub fn unserved(planned: &[Planned]) -> impl Iterator<Item = ChildKind> {
    let not_served = |it: &&Planned| it.action == Action::Unavailable(Unavailable::NotServed);
    planned.iter().filter(not_served).map(|it| it.kind)
}
