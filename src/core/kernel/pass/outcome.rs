//! What a pass decided. Pure data; made by the pass, executed and remembered by the reconciler.

use jiff::Timestamp;

use crate::kernel::diff::Differences;
use crate::kernel::effect::PodQuestion;
use crate::kernel::failure::Category;
use crate::kernel::hash::BodyHash;
use crate::kernel::instance_metrics::InstanceMetrics;
use crate::kernel::object::ChildKind;
use crate::kernel::request::{Request, SecretRead};
use crate::kernel::rollout_budget::TurnState;
use crate::kernel::shortcuts::rendered_hashes::RenderedHashes;
use crate::kernel::world::secret::SecretHash;

/// What a pass decided.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pass {
    /// Requests to send now, independent of each other; the next pass runs when all have been answered.
    pub requests: Vec<Request>,
    /// What saves work later.
    pub findings: PassFindings,
    /// A Secret hash, if the pass computed one.
    pub secret_hash: Option<SecretHash>,
    /// Its turn of the rollout budget; `None`: unchanged.
    pub turn_state: Option<TurnState>,
    /// Kinds that the spec asks for and the API server does not serve; `None` where the pass did not come so far.
    pub unserved: Option<Vec<ChildKind>>,
    /// Set if nothing is left to send.
    pub settled: Option<Settled>,
    /// What to ask the pods, where nothing is left to send. Nothing waits for the answers.
    pub questions: Vec<PodQuestion>,
}

impl Pass {
    /// One that reads these Secrets and does nothing else.
    #[must_use]
    pub fn from_reads(secrets: Vec<SecretRead>) -> Self {
        Self { requests: secrets.into_iter().map(Request::ReadSecret).collect(), ..Self::default() }
    }
}

/// What a pass found out on its way, see [`crate::kernel::shortcuts`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PassFindings {
    /// Results of comparisons, so that the compared objects can be dropped.
    pub compared_children: Vec<ComparedChild>,
    /// Hashes of the desired children, if they are new.
    pub rendered_hashes: Option<RenderedHashes>,
}

/// A child that was compared.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedChild {
    /// Which child.
    pub kind: ChildKind,
    /// Hash of what it was compared with.
    pub desired: BodyHash,
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
    /// Whether a child or a Secret fails, and not only the status or the deletion of a pod.
    pub children_fail: bool,
    /// Children that are as desired.
    pub unchanged: Vec<ChildKind>,
    /// What the metrics show of the resource.
    pub instance_metrics: InstanceMetrics,
}

impl Settled {
    /// The same, with the next pass at the first of these times at the latest.
    #[must_use]
    pub fn no_longer_than(self, times: impl Iterator<Item = Timestamp>) -> Self {
        Self { wake_at: self.wake_at.into_iter().chain(times).min(), ..self }
    }
}
