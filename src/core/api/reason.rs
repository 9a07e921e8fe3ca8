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

/// What a reason is said of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Something that a person has to look at: where Ready is false for it, a Warning is published.
    Problem,
    /// A stage of ordinary work.
    Stage,
    /// A condition that is no metric.
    OfNoMetric,
}

impl Reason {
    /// Every reason.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// The condition's `reason`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// What the reason is said of.
    #[must_use]
    pub const fn meaning(self) -> Meaning {
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
            | Self::ProgressDeadlineExceeded => Meaning::Problem,
            Self::Progressing
            | Self::MemcachedReady
            | Self::MemcachedNotReady
            | Self::NewGeneration
            | Self::RetryingAfterError
            | Self::WaitingForGarbageCollection
            | Self::Paused => Meaning::Stage,
            Self::Available
            | Self::Unavailable
            | Self::ProgressingComplete
            | Self::RolloutHeldBack
            | Self::Degraded
            | Self::NotDegraded => Meaning::OfNoMetric,
        }
    }
}
