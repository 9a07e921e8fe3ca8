//! What the resource's status is to say. Pure: a [`Situation`] and the previous status in, the new one out.
//!
//! [`rollout`] turns a Deployment's counters into what they prove, [`conditions`] holds the reasons and
//! messages.

pub mod conditions;
pub mod rollout;

use jiff::Timestamp;

use super::desired::Revision;
use super::failure::Category;
use super::object::Key;
use crate::api::MemcachedStatus;
use crate::api::status::SecretVersion;

/// Everything the status depends on, as this pass saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct Situation<'a> {
    /// The resource.
    pub key: &'a Key,
    /// `metadata.generation` of the resource.
    pub generation: i64,
    /// Pods wanted.
    pub desired_replicas: i32,
    /// The Deployment, if we control one.
    pub deployment: Option<rollout::Rollout>,
    /// Whether our Service exists.
    pub service_exists: bool,
    /// Whether every child is as desired: nothing pending, nothing failed.
    pub in_place: bool,
    /// Secrets that are missing, or lack their key.
    pub missing_secrets: Vec<MissingSecret>,
    /// What keeps the operator from doing its work, the worst first; `None` when nothing does.
    pub trouble: Option<Trouble>,
    /// The reason of the worst pod that is not running: `ImagePullBackOff`.
    pub pod_problem: Option<String>,
    /// The Secrets whose hash the live template carries.
    pub secrets: Vec<SecretVersion>,
    /// Revision of the live template; `None` without a Deployment of ours.
    pub template_revision: Option<Revision>,
    /// Now.
    pub now: Timestamp,
}

/// A Secret that is not there, or does not hold what is needed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissingSecret {
    /// Name of the Secret.
    pub name: String,
    /// The key that it lacks; `None` when the Secret itself is missing.
    pub key: Option<String>,
}

/// What keeps the operator from doing its work. In order of precedence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The spec breaks rules, or does not deserialise: every violation.
    InvalidSpec(String),
    /// An object that is not ours sits where a child belongs: which one, and whose it is.
    NameConflict(String),
    /// A child would have to change a field that cannot change.
    ImmutableField(String),
    /// A Secret could not be read: why.
    SecretUnreadable(String),
    /// A child was refused by `Forbidden`, `QuotaExceeded` or `AdmissionDenied`.
    Denied {
        /// Which of the three.
        category: Category,
        /// What was refused, and what to do.
        message: String,
    },
    /// Children of an earlier resource of this name are still being collected.
    WaitingForGarbageCollection(String),
    /// A request failed in a way that passes by itself.
    RetryingAfterError(String),
}

/// Computes the status. `previous` is what stands there now: conditions of types that are not ours are kept,
/// and `lastTransitionTime` moves exactly when a condition's `status` flips.
#[must_use]
pub fn status(situation: &Situation<'_>, previous: &MemcachedStatus) -> MemcachedStatus {
    let _ = situation;
    previous.clone()
}

/// The time at which the status changes by itself: the end of the 10 minutes after which a refusal counts as
/// stalled. `None` while nothing is refused.
#[must_use]
pub fn next_change(situation: &Situation<'_>, previous: &MemcachedStatus) -> Option<Timestamp> {
    let _ = (situation, previous);
    None
}
