//! What a pass may see: the world, one resource of it and the time, with the questions that several stages ask: whose the
//! children are, which pods do not run, whether the status is known. Pure; made by the reconciler, read by every stage.

use std::borrow::Cow;

use jiff::Timestamp;

use crate::api::spec::Workload;
use crate::api::status::NEVER_OBSERVED;
use crate::api::warming::Warming;
use crate::api::{MemcachedStatus, Validated};
use crate::kernel::backoff::{Attempt, Backoff};
use crate::kernel::desired::{DefaultImages, Intent, LiveTemplate, OperatorPods, Revision};
use crate::kernel::event::SeenPod;
use crate::kernel::failure::Category;
use crate::kernel::live::Live;
use crate::kernel::object::{ChildKind, Key};
use crate::kernel::orphan::Orphan;
use crate::kernel::pod_readiness::is_given_up_after;
use crate::kernel::stateful_set_rollout::{self, UnreadyPod};
use crate::kernel::status;
use crate::kernel::warmth::{NewPod, Wait};
use crate::kernel::world::World;
use crate::kernel::world::resource::{Resource, UnstorableStatus};

/// What a pass sees.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Everything known.
    pub world: &'a World,
    /// The resource of this pass.
    pub resource: &'a Resource,
    /// Now.
    pub now: Timestamp,
    /// The images of new pod templates where a spec names none.
    pub images: &'a DefaultImages,
    /// Who may ask the agents; `None` where the operator is no pod.
    pub operator_pods: Option<&'a OperatorPods>,
}

impl<'a> View<'a> {
    /// What runs the pods that are asked for, a Deployment or a StatefulSet, when it is this resource's own.
    #[must_use]
    pub fn our_workload(&self) -> Option<&'a Live> {
        self.ours(self.resource.workload())
    }

    /// What ran the pods before the user asked for another kind, while it is there.
    #[must_use]
    pub fn former_workload(&self) -> Option<&'a Live> {
        self.ours(self.former_kind())
    }

    /// How many pods of the former workload are ready; `None` once it is gone.
    #[must_use]
    pub fn former_ready(&self) -> Option<i32> {
        self.former_workload().map(|live| live.rollout.as_ref().map_or(0, |it| it.ready))
    }

    /// What runs the pods that serve: the former workload for as long as it stands, because the pods of the next one come up
    /// beside it.
    #[must_use]
    pub fn serving_workload(&self) -> Option<&'a Live> {
        self.former_workload().or_else(|| self.our_workload())
    }

    /// The kind of workload that the spec does not ask for. A workload of this kind may still run pods from before an edit.
    #[must_use]
    pub fn former_kind(&self) -> ChildKind {
        match self.resource.workload() {
            ChildKind::Deployment => ChildKind::StatefulSet,
            _ => ChildKind::Deployment,
        }
    }

    /// Whether another workload is to be made although no edit asked for it. The new workload may have to wait for its turn.
    /// Until then all that depends on the workload stays as it is.
    #[must_use]
    pub fn keeps_former(&self) -> bool {
        self.our_workload().is_none() && self.former_workload().is_some() && !self.is_announced()
    }

    fn ours(&self, kind: ChildKind) -> Option<&'a Live> {
        self.resource.live(kind).filter(|live| self.is_ours(live))
    }

    /// Whether this resource has a status. A new resource gets its children without a read before.
    #[must_use]
    pub fn was_handled_before(&self) -> bool {
        self.resource.seen.status.observed_generation != NEVER_OBSERVED
    }

    /// Whether any pod serves.
    #[must_use]
    pub fn serves(&self) -> bool {
        let workloads = self.our_workload().into_iter().chain(self.former_workload());
        { workloads }.any(|live| live.rollout.as_ref().is_some_and(|rollout| rollout.ready > 0))
    }

    /// Whether a child of this resource exists, also while it is being deleted.
    #[must_use]
    pub fn has(&self, kind: ChildKind) -> bool {
        self.resource.live(kind).is_some_and(|live| self.is_ours(live))
    }

    /// The orphan of an earlier resource of this name, if the live child is one.
    #[must_use]
    pub fn orphan(&self, live: &Live) -> Option<Orphan> {
        live.orphan.as_deref().copied().filter(|orphan| orphan.is_older_than(&self.resource.seen))
    }

    /// Whether this resource controls a child, or is to control it again.
    fn is_ours(&self, live: &Live) -> bool {
        self.orphan(live).is_some()
            || live.controller.as_ref().is_some_and(|owner| *owner.uid() == self.resource.seen.uid)
    }

    /// The key of an object in the resource's namespace.
    #[must_use]
    pub fn key_of(&self, name: &str) -> Key {
        Key { namespace: self.resource.seen.key.namespace.clone(), name: name.to_owned() }
    }

    /// The source of the live template by the annotations of our workload. Without annotations the template is
    /// recognised by its content, unless a Secret has changed since the pods were started.
    #[must_use]
    pub fn live_template(&self, intent: &Intent<'_>, changed_unseen: bool) -> Option<Cow<'a, LiveTemplate>> {
        let live = self.our_workload()?;
        let unrecorded = live.unrecorded.as_ref().filter(|_| !changed_unseen);
        let recognised = || unrecorded.and_then(|unrecorded| unrecorded.recognised(intent)).map(Cow::Owned);
        live.template.as_deref().map(Cow::Borrowed).or_else(recognised)
    }

    /// The revision of the template of the pods that serve, as far as is known: from the annotations of their workload or, if
    /// somebody removed these, from the status. `None` without a workload, and for a Deployment that the Go operator left.
    #[must_use]
    pub fn template_revision(&self) -> Option<Revision> {
        let live = self.serving_workload()?;
        let said = live.template.as_ref().map(|template| template.revision);
        said.or(self.resource.seen.status.template_revision.map(Revision))
    }

    /// The wait until the pod of the StatefulSet that was replaced last is warm. The wait stays here after it is over, until
    /// the next pod is replaced: otherwise it would begin again and again while something else keeps the next pod. It also stays
    /// while some pod does not serve.
    #[must_use]
    pub fn warmth_wait(&self, spec: &Validated) -> Option<Wait> {
        let warmth = spec.rollout.warmth.filter(|_| !spec.paused)?;
        let live = self.our_workload().filter(|_| spec.workload == Workload::StatefulSet)?;
        let Resource { seen, figures, .. } = self.resource;
        let before = seen.status.warming.as_deref();
        let revisions = live.rollout.as_deref().and_then(|rollout| rollout.revisions.as_deref());
        let new = |number: i32| NewPod {
            pod: format!("{}-{number}", seen.key.name),
            revision: revisions.map(|it| it.update.clone()),
        };
        if let Some(number) = stateful_set_rollout::replaced_last(live) {
            let measured =
                |warming: &Warming| figures.as_ref().map(|it| it.shares(warming)).unwrap_or_default();
            return Some(Wait::new(warmth, new(number), before, self.now, measured));
        }
        let unready: Vec<_> = self.unready_pods().map(|(pod, _)| pod).collect();
        let number = stateful_set_rollout::interrupted_at(live, &unready)?;
        let before = before.filter(|it| new(number).is_of(it))?;
        Some(Wait::from_interrupted(warmth, before.clone()))
    }

    /// Pods of the StatefulSet that do not serve.
    pub fn unready_pods(&self) -> impl Iterator<Item = (UnreadyPod<'a>, &'a SeenPod)> + use<'a> {
        let (world, key, now) = (self.world, &self.resource.seen.key, self.now);
        world.pods.unready_of(key).filter_map(move |(seen, noted)| {
            let pod = UnreadyPod {
                number: seen.key.number_of_pod(key)?,
                revision: Some(seen.revision.as_deref()?),
                may_hold_keys: seen.readiness.may_hold_keys(),
                is_given_up: seen.readiness.is_given_up_at(noted).is_some_and(|at| at <= now),
            };
            Some((pod, seen))
        })
    }

    /// Pods of the StatefulSet that have been missing for so long that they count as refused: by a quota or an admission policy.
    pub fn refused_pods(&self) -> impl Iterator<Item = UnreadyPod<'a>> + use<'a> {
        let counts_fewer = |live: &Live| live.rollout.as_ref().is_some_and(|it| it.replicas < live.asked());
        let (lacks_any, now) = (self.our_workload().is_some_and(counts_fewer), self.now);
        let refused = self.missing_pods().filter(move |(_, at)| lacks_any && *at <= now);
        refused.map(|(number, _)| UnreadyPod {
            number,
            revision: None,
            may_hold_keys: false,
            is_given_up: true,
        })
    }

    /// The numbers of missing pods that count as refused at that time, in order, of so many as are wanted. None where the
    /// StatefulSet lacks fewer: then it knows better.
    #[must_use]
    pub fn unmade_pods(&self, wanted: i32, at: Timestamp) -> Vec<i32> {
        let Some(set) = self.our_stateful_set() else { return Vec::new() };
        let lacking = set.asked() - set.rollout.as_ref().map_or(0, |it| it.replicas);
        let refused = self.missing_pods().filter(|(_, given_up_at)| *given_up_at <= at);
        let mut unmade: Vec<i32> = refused.map(|(number, _)| number).collect();
        if i32::try_from(unmade.len()).is_ok_and(|refused| lacking < refused) {
            return Vec::new();
        }
        unmade.retain(|number| *number < wanted);
        unmade.sort_unstable();
        unmade
    }

    /// When the next missing pod counts as refused.
    #[must_use]
    pub fn next_unmade_at(&self) -> Option<Timestamp> {
        let missing = self.our_stateful_set().map(|_| self.missing_pods());
        missing.into_iter().flatten().map(|(_, at)| at).filter(|at| self.now < *at).min()
    }

    /// The StatefulSet that makes the pods that are asked for. One that is being deleted makes none.
    fn our_stateful_set(&self) -> Option<&'a Live> {
        let is_asked_for = self.resource.workload() == ChildKind::StatefulSet;
        self.our_workload().filter(|live| is_asked_for && !live.deleting)
    }

    /// Pods that the StatefulSet asks for and that are missing, each with the time from which on it is given up.
    fn missing_pods(&self) -> impl Iterator<Item = (i32, Timestamp)> + use<'a> {
        let asked = self.resource.asked_pods();
        let missing = self.world.pods.missing_of(&self.resource.seen.key);
        let missing = missing.filter(move |(number, _)| *number < asked);
        missing.filter_map(|(number, since)| Some((number, is_given_up_after(since)?)))
    }

    /// When pods of the StatefulSet are no longer waited for.
    pub fn pods_are_given_up_at(&self) -> impl Iterator<Item = Timestamp> + use<'a> {
        let unready = self.world.pods.unready_of(&self.resource.seen.key);
        let unready = unready.filter_map(|(seen, noted)| seen.readiness.is_given_up_at(noted));
        unready.chain(self.missing_pods().map(|(_, at)| at))
    }

    /// The numbers of pods of the StatefulSet that are away or about to be, as when their node is drained. The status of the
    /// StatefulSet may not show that yet: it counts a pod as ready until the pod ends, and changes a moment later. A pod that has
    /// been missing for so long that it is given up does not count.
    pub fn pods_away(&self) -> impl Iterator<Item = i32> + use<'a> {
        let (world, key, now) = (self.world, &self.resource.seen.key, self.now);
        let asked = self.our_workload().map_or(0, Live::asked);
        let unready = self.unready_pods().map(|(pod, _)| pod.number).filter(move |number| *number < asked);
        let missing = self.missing_pods().filter(move |(_, at)| now < *at).map(|(number, _)| number);
        world.pods.terminating_of(key).chain(unready).chain(missing)
    }

    /// Whether any pod of the StatefulSet is away, or about to be.
    #[must_use]
    pub fn lacks_pods(&self) -> bool {
        self.pods_away().next().is_some()
    }

    /// Whether a new generation announces the change of the template as an edit of the user: a generation newer than
    /// the last one whose template was in place.
    #[must_use]
    pub fn is_announced(&self) -> bool {
        let seen = &self.resource.seen;
        status::template_generation(&seen.status, seen.generation).is_none_or(|last| seen.generation > last)
    }

    /// Identifies a write of the status: the same one is not tried again during its backoff.
    #[must_use]
    pub fn attempt_at_status(&self) -> Attempt {
        let against = self.resource.seen.resource_version.to_string();
        Attempt { against, ..Attempt::default() }
    }

    /// Whether the stored status is the one that we know. After a write without an answer, or one that lost a race, it
    /// is not known until the watch shows the status or a later write is answered.
    #[must_use]
    pub fn knows_status(&self) -> bool {
        let in_doubt =
            |it: &Backoff| it.failure.category.leaves_doubt() && it.sent == self.attempt_at_status();
        !self.resource.backoff.as_deref().is_some_and(in_doubt)
    }

    /// Whether the status is to be written to find out which one is stored.
    #[must_use]
    pub fn may_prove_status(&self) -> bool {
        !self.knows_status() && !self.status_backs_off()
    }

    /// Whether the status has to be written: not if the API server would store the present one again, and not during
    /// the backoff.
    #[must_use]
    pub fn status_differs(&self, wanted: &MemcachedStatus) -> bool {
        self.lacks_status(wanted) && !self.status_backs_off()
    }

    /// Why the last write of the status failed, while it still has to be written.
    #[must_use]
    pub fn status_failure(&self, wanted: &MemcachedStatus) -> Option<Category> {
        let backoff = self.resource.backoff.as_ref().filter(|_| self.status_backs_off())?;
        self.lacks_status(wanted).then_some(backoff.failure.category)
    }

    fn lacks_status(&self, wanted: &MemcachedStatus) -> bool {
        let stored = &self.resource.seen.status;
        let unstorable =
            self.resource.unstorable.as_deref().is_some_and(|it| it.sent == *wanted && it.stored == *stored);
        wanted != stored && !unstorable
    }

    /// Whether the last write of the status failed and its backoff has not ended yet.
    #[must_use]
    pub fn status_backs_off(&self) -> bool {
        self.resource.backoff.as_ref().is_some_and(|it| it.holds(&self.attempt_at_status(), self.now))
    }

    /// Whether the stored status records the turn, or cannot, because an older CRD drops the field.
    #[must_use]
    pub fn records_turn(&self) -> bool {
        let says = |status: &MemcachedStatus| status.budgeted_rollout.is_some();
        let dropped = |it: &UnstorableStatus| says(&it.sent) && !says(&it.stored);
        says(&self.resource.seen.status) || self.resource.unstorable.as_deref().is_some_and(dropped)
    }
}
