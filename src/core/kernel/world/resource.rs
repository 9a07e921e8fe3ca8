//! One resource, and what is known of its children. Pure data; part of [`super::World`].

use std::sync::LazyLock;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::children::Children;
use super::secret::SecretHash;
use crate::api::spec::{MAX_NAMED_PODS, Workload};
use crate::api::status::NEVER_OBSERVED;
use crate::api::{MemcachedSpec, MemcachedStatus};
use crate::kernel::asked_agents::AskedAgents;
use crate::kernel::backoff::Backoff;
use crate::kernel::child_state::ChildState;
use crate::kernel::event::SeenResource;
use crate::kernel::instance_metrics::Reported;
use crate::kernel::lists::Moment;
use crate::kernel::live::Live;
use crate::kernel::object::ChildKind;
use crate::kernel::pod_figures::AskedFigures;
use crate::kernel::shortcuts::rendered_hashes::RenderedHashes;
use crate::kernel::status::{self, patch};
use crate::kernel::unwatched::Recheck;

/// The generation that the API server gives to a new object.
const FIRST_GENERATION: i64 = 1;

/// A status that the API server did not store as it was sent, because an older definition drops fields that it does not know:
/// to write it again would change nothing, for ever.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnstorableStatus {
    /// What was sent.
    pub sent: MemcachedStatus,
    /// What was stored.
    pub stored: MemcachedStatus,
}

impl UnstorableStatus {
    /// What was sent, and what the answer shows; `None` where it was stored as it was sent.
    #[must_use]
    pub fn from_answer(sent: MemcachedStatus, stored: &MemcachedStatus) -> Option<Self> {
        (sent != *stored).then(|| Self { sent, stored: stored.clone() })
    }
}

/// One resource, and what is known of its children.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Resource {
    /// The resource as it was seen last, with the status that we know to be there.
    pub seen: SeenResource,
    /// What is known of its children, of those that were seen or written.
    pub(super) children: Children,
    /// The spec before the edits that have yet to reach the workload. The Kubernetes Event about the rollout names
    /// the fields that differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_before_edit: Option<Box<MemcachedSpec>>,
    /// The generation of the resource from which the workload was written last while this operator leads; 0 before that.
    #[serde(default)]
    pub workload_generation: i64,
    /// The generation of the resource from which requests were made last; 0 before that.
    #[serde(default)]
    pub requested_generation: i64,
    /// The spec of that generation, kept if an edit comes after those requests were made: the workload has this spec once a write
    /// that is under way is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_spec: Option<Box<MemcachedSpec>>,
    /// Hashes of its desired children.
    #[serde(skip)]
    pub rendered_hashes: Option<Box<RenderedHashes>>,
    /// The Secret hash that was computed last while this operator leads. [`crate::kernel::pass::mounted_secrets`] says
    /// when it counts.
    pub secret_hash: Option<Box<SecretHash>>,
    /// The Secret hash that the pods carry, if the Secrets behind it were read in this run. The Kubernetes Event about the next
    /// rollout names the keys that differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried_secrets: Option<Box<SecretHash>>,
    /// What the agents of its pods said; `None` where nobody asked them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<Box<AskedAgents>>,
    /// What the memcacheds of its pods count; `None` where no rollout waits for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<Box<AskedFigures>>,
    /// When a write of its status was answered last.
    #[serde(default)]
    pub answered: Moment,
    /// Why the last status write, or the last pass, failed.
    pub backoff: Option<Box<Backoff>>,
    /// The last status that the API server did not store as it was sent.
    pub unstorable: Option<Box<UnstorableStatus>>,
    /// Why a pod that does not run could not be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_backoff: Option<Box<Backoff>>,
    /// What the metrics show.
    pub reported: Option<Reported>,
    /// Whether an earlier run, or the leader before, may have left work unfinished. Decided at a start and when this operator
    /// begins to lead; false after the first pass that succeeds. Meanwhile a pass also reads children that the spec does not
    /// ask for.
    #[serde(default)]
    pub may_be_unfinished: bool,
    /// Whether an edit of `workload` may have left the former workload, which stays until the pods that take its place are ready.
    /// If somebody removes our label from it meanwhile, no list shows it.
    #[serde(default)]
    pub former_may_stand: bool,
}

impl Resource {
    /// A resource that was seen for the first time.
    pub(super) fn new(seen: SeenResource) -> Self {
        let mut fresh = Self {
            may_be_unfinished: false,
            former_may_stand: false,
            seen,
            children: Children::default(),
            spec_before_edit: None,
            workload_generation: 0,
            requested_generation: 0,
            requested_spec: None,
            rendered_hashes: None,
            secret_hash: None,
            carried_secrets: None,
            agents: None,
            figures: None,
            answered: Moment::default(),
            backoff: None,
            unstorable: None,
            pod_backoff: None,
            reported: None,
        };
        fresh.recall();
        fresh
    }

    /// Restores what the status says about earlier applies, of this operator or of another one. What this one remembers
    /// of its own is older where another one led meanwhile. What the other one began may be unfinished.
    pub fn recall(&mut self) {
        let (status, generation) = (&self.seen.status, self.seen.generation);
        let unfinished = match status.observed_generation {
            // A resource that was never edited asks for the same children as at its start.
            NEVER_OBSERVED => generation > FIRST_GENERATION,
            observed => observed != generation,
        };
        self.may_be_unfinished |= unfinished || patch::says_hindered(status);
        // `Ready` becomes true only after the former workload is gone.
        self.former_may_stand |= generation > FIRST_GENERATION && !patch::says_ready(status);
        self.children.values_mut().for_each(ChildState::recall);
        for altered in self.seen.status.altered_fields.clone() {
            if let Some(kind) = ChildKind::ALL.into_iter().find(|kind| kind.name() == altered.kind) {
                self.child_mut(kind).altered = Some(Box::new(altered));
            }
        }
    }

    /// Called when the user edited the spec or the restart trigger. Keeps the spec that the workload has. That is the spec just
    /// before this edit, if an answer or the status says that it reached the workload. Otherwise one that is kept already stays.
    pub(super) fn note_edit(&mut self, before: SeenResource) {
        let template = status::template_generation(&before.status, before.generation);
        let reached = self.workload_generation == before.generation || template == Some(before.generation);
        let Ok(spec) = before.spec else { return };
        if self.requested_generation == before.generation {
            self.requested_spec = Some(Box::new(spec.clone()));
        }
        if reached || self.spec_before_edit.is_none() {
            self.spec_before_edit = Some(Box::new(spec));
        }
    }

    /// Called when requests are made from the spec as it is now.
    pub fn note_requests(&mut self) {
        self.requested_generation = self.seen.generation;
        self.requested_spec = None;
    }

    /// Called when a write of the workload that was made from this generation is answered. Where an edit came meanwhile, the
    /// workload has the spec from before it.
    pub fn note_workload_written(&mut self, generation: i64) {
        self.workload_generation = generation;
        if let Some(written) = self.requested_spec.take() {
            self.spec_before_edit = Some(written);
        }
    }

    /// Called when the status has changed. What pods answered about one rotation or wait says nothing about the next.
    pub(super) fn forget_answers_of_before(&mut self, before: &MemcachedStatus) {
        let wanted = |status: &MemcachedStatus| status.secret_rotation.as_ref()?.wanted_hash.clone();
        self.agents.take_if(|_| wanted(before) != wanted(&self.seen.status));
        self.figures.take_if(|_| self.seen.status.warming.is_none());
    }

    /// A pass computed this Secret hash.
    pub fn note_secret_hash(&mut self, found: SecretHash) {
        let carried = self.live(self.workload()).and_then(|live| live.secret_hash.as_ref());
        if carried == Some(&found.hash) {
            self.carried_secrets = Some(Box::new(found.clone()));
        }
        self.secret_hash = Some(Box::new(found));
    }

    /// The kind that runs the pods, as the spec asks for it; where the spec cannot be read, the kind that is there.
    #[must_use]
    pub fn workload(&self) -> ChildKind {
        match &self.seen.spec {
            Ok(spec) => Workload::from_raw(spec.workload.as_deref()).into(),
            Err(_) if self.live(ChildKind::Deployment).is_some() => ChildKind::Deployment,
            Err(_) if self.live(ChildKind::StatefulSet).is_some() => ChildKind::StatefulSet,
            Err(_) => ChildKind::Deployment,
        }
    }

    /// What is known of a child.
    #[must_use]
    pub fn child(&self, kind: ChildKind) -> &ChildState {
        /// A child of which nothing is known.
        static EMPTY: LazyLock<ChildState> = LazyLock::new(ChildState::default);
        self.children.get(kind).unwrap_or(&EMPTY)
    }

    /// The live object of a child.
    #[must_use]
    pub fn live(&self, kind: ChildKind) -> Option<&Live> {
        self.child(kind).live.as_ref()
    }

    /// How many pods its StatefulSet asks for, [`MAX_NAMED_PODS`] at most: anybody may set the number to millions.
    #[must_use]
    pub fn asked_pods(&self) -> i32 {
        self.live(ChildKind::StatefulSet).map_or(0, Live::asked).min(MAX_NAMED_PODS)
    }

    /// Whether a child still has to be compared.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.children.values().any(ChildState::is_open)
    }

    /// Gives back the memory of those children that could not be compared and whose trees were looked at.
    pub fn let_trees_go(&mut self) {
        let lives = self.children.values_mut().filter_map(|child| child.live.as_mut());
        lives.for_each(|live| live.comparison.let_trees_go());
    }

    /// Called when a child was read, or could not be read: if no watch shows the child, it is read again later.
    pub fn recheck_later(&mut self, kind: ChildKind, now: Timestamp) {
        let Self { seen, children, .. } = self;
        if let Some(child) = children.get_mut(kind).filter(|child| child.is_out_of_sight()) {
            let after = Recheck::new(child.recheck.as_deref(), seen.generation, &seen.uid, now);
            child.recheck = Some(Box::new(after));
        }
    }

    /// Forgets what was refused for good, because the API server has another version now. Returns whether there was anything.
    pub(super) fn forget_refusals(&mut self) -> bool {
        let is_for_good = |refused: &mut Box<Backoff>| refused.retry_at.is_none();
        let of_children = self.children.values_mut().map(|child| &mut child.backoff);
        let refusals = [&mut self.backoff].into_iter().chain(of_children);
        refusals.filter_map(|it| it.take_if(is_for_good)).count() > 0
    }

    /// What is known of a child, to be changed.
    pub fn child_mut(&mut self, kind: ChildKind) -> &mut ChildState {
        self.children.get_or_default(kind)
    }
}
