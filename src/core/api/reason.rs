//! The types and reasons of conditions, which Events, metrics and the status share. Pure data.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

/// What the status of a condition can be.
pub const STATUSES: [&str; 3] = ["True", "False", "Unknown"];

/// The types of condition that this operator writes; all others belong to somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray)]
pub enum Type {
    /// At least one pod serves, or none is wanted.
    Available,
    /// Pods are being replaced or their number changes.
    Progressing,
    /// Fewer pods serve than are wanted, or an input is missing.
    Degraded,
    /// The spec is rolled out and every pod serves.
    Ready,
    /// The operator, or the cluster on its behalf, is at work. Present only while true.
    Reconciling,
    /// A person has to change something, or nothing moved until a deadline. Present only while true.
    Stalled,
    /// The user wants no child to be changed. Present only while true.
    Paused,
}

impl Type {
    /// Every type, in the order in which conditions are written.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// The condition's `type`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Every reason that a condition of ours, or a Kubernetes Event about a condition, can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray)]
#[expect(missing_docs, reason = "each is the word that `as_str` gives; the tables that use them say when")]
pub enum Reason {
    Available,
    Unavailable,
    Progressing,
    ProgressingComplete,
    RolloutHeldBack,
    Degraded,
    NotDegraded,
    SecretNotFound,
    MemcachedReady,
    MemcachedNotReady,
    InvalidSpec,
    NameConflict,
    ImmutableField,
    SecretInvalid,
    SecretUnreadable,
    AgentUnreachable,
    Forbidden,
    QuotaExceeded,
    AdmissionDenied,
    ReplicaFailure,
    ProgressDeadlineExceeded,
    NewGeneration,
    RetryingAfterError,
    WaitingForGarbageCollection,
    Paused,
}

impl Reason {
    /// Every reason.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// The condition's `reason`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether somebody has to look when Ready is false for this reason: then a Warning is published. The others are stages of
    /// ordinary work.
    #[must_use]
    pub const fn is_bad(self) -> bool {
        match self {
            Self::InvalidSpec
            | Self::NameConflict
            | Self::ImmutableField
            | Self::SecretNotFound
            | Self::SecretInvalid
            | Self::SecretUnreadable
            | Self::AgentUnreachable
            | Self::Forbidden
            | Self::QuotaExceeded
            | Self::AdmissionDenied
            | Self::ReplicaFailure
            | Self::ProgressDeadlineExceeded => true,
            Self::Available
            | Self::Unavailable
            | Self::Progressing
            | Self::ProgressingComplete
            | Self::RolloutHeldBack
            | Self::Degraded
            | Self::NotDegraded
            | Self::MemcachedReady
            | Self::MemcachedNotReady
            | Self::NewGeneration
            | Self::RetryingAfterError
            | Self::WaitingForGarbageCollection
            | Self::Paused => false,
        }
    }

    /// Whether only conditions that are no metric have this reason.
    #[must_use]
    pub const fn is_of_no_metric(self) -> bool {
        match self {
            Self::Available
            | Self::Unavailable
            | Self::ProgressingComplete
            | Self::RolloutHeldBack
            | Self::Degraded
            | Self::NotDegraded => true,
            Self::Progressing
            | Self::SecretNotFound
            | Self::MemcachedReady
            | Self::MemcachedNotReady
            | Self::InvalidSpec
            | Self::NameConflict
            | Self::ImmutableField
            | Self::SecretInvalid
            | Self::SecretUnreadable
            | Self::AgentUnreachable
            | Self::Forbidden
            | Self::QuotaExceeded
            | Self::AdmissionDenied
            | Self::ReplicaFailure
            | Self::ProgressDeadlineExceeded
            | Self::NewGeneration
            | Self::RetryingAfterError
            | Self::WaitingForGarbageCollection
            | Self::Paused => false,
        }
    }
}
