//! What a pass may see: the world, one resource of it and the time, with the questions that several stages ask. Pure;
//! made by the reconciler, read by every stage.

use std::borrow::Cow;

use jiff::Timestamp;

use crate::api::spec::{Autoscaling, Workload};
use crate::api::status::NEVER_OBSERVED;
use crate::api::{MemcachedStatus, Validated};
use crate::kernel::backoff::{Attempt, Backoff};
use crate::kernel::desired::{DefaultImages, Intent, LiveTemplate, OperatorPods, Revision, Servers};
use crate::kernel::event::{SeenPod, Unavailable};
use crate::kernel::failure::Category;
use crate::kernel::live::Live;
use crate::kernel::object::{ChildKind, Key};
use crate::kernel::orphan::Orphan;
use crate::kernel::partition::{self, FailingPod, Partition};
use crate::kernel::status;
use crate::kernel::world::World;
use crate::kernel::world::resource::Resource;

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
        let former = ChildKind::WORKLOADS.into_iter().find(|kind| *kind != self.resource.workload())?;
        self.ours(former)
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
        live.orphan.filter(|orphan| orphan.is_older_than(&self.resource.seen))
    }

    /// Whether this resource controls a child, or is to control it again.
    fn is_ours(&self, live: &Live) -> bool {
        self.orphan(live).is_some()
            || live.controller.as_ref().is_some_and(|owner| owner.uid == self.resource.seen.uid)
    }

    /// Whether our autoscaler exists or may exist. An autoscaler owns `spec.replicas` once it has scaled; if
    /// autoscalers cannot be listed, it may still exist.
    fn may_be_autoscaled(&self, workload: &Live) -> bool {
        let unavailable =
            self.world.unavailable(ChildKind::HorizontalPodAutoscaler, &self.resource.seen.key.namespace);
        let unknown = matches!(unavailable, Some(Unavailable::Refused(_)));
        self.has(ChildKind::HorizontalPodAutoscaler) || (unknown && !workload.owns_replicas)
    }

    /// `spec.replicas` of the workload; `None` while an autoscaler decides about it, because it would undo our
    /// number. A new autoscaler finds the present number, but never zero, because it would not scale from zero. A workload
    /// that takes the place of another begins with as many pods as that has.
    #[must_use]
    pub fn replicas_to_apply(&self, spec: &Validated) -> Option<i32> {
        let live = self.our_workload();
        let zero_by_us = |live: &Live| live.owns_replicas && live.replicas == Some(0);
        match (&spec.autoscaling, live) {
            (Some(autoscaling), None) => {
                let before = self.former_workload().map_or(autoscaling.min_replicas, Live::asked);
                Some(before.min(autoscaling.max_replicas).max(autoscaling.min_replicas))
            }
            (Some(autoscaling), Some(live)) if zero_by_us(live) => Some(autoscaling.min_replicas),
            (Some(_), Some(_)) => None,
            (None, Some(live)) if self.may_be_autoscaled(live) => None,
            (None, _) => Some(spec.replicas),
        }
    }

    /// Pods expected: under an autoscaler the number that the autoscaler set, within its bounds. Zero switches the
    /// autoscaler off.
    #[must_use]
    pub fn replicas_expected(&self, spec: &Validated) -> i32 {
        let Some(Autoscaling { min_replicas, max_replicas, .. }) = &spec.autoscaling else {
            return spec.replicas;
        };
        let asked = self.our_workload().and_then(|live| live.replicas);
        match asked.and_then(|asked| i32::try_from(asked).ok()) {
            Some(0) => 0,
            asked => asked.unwrap_or(*min_replicas).min(*max_replicas).max(*min_replicas),
        }
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
        live.template.as_ref().map(Cow::Borrowed).or_else(recognised)
    }

    /// The rules of the template that the pods have, as far as is known: by the annotations of our workload or, where
    /// somebody took them away, as the status has it from before. `None` without a workload, and for a Deployment that the
    /// Go operator left.
    #[must_use]
    pub fn template_revision(&self) -> Option<Revision> {
        let live = self.our_workload().or_else(|| self.former_workload())?;
        let said = live.template.as_ref().map(|template| template.revision);
        said.or(self.resource.seen.status.template_revision.map(Revision))
    }

    /// The rules by which the pods listen; `None` without a workload.
    #[must_use]
    pub fn listening(&self) -> Option<Revision> {
        self.our_workload().or_else(|| self.former_workload())?;
        Some(self.template_revision().unwrap_or(Revision::GO_OPERATOR))
    }

    /// Under which names clients find the cache. A pod's own name leads to nothing while another kind runs the pods.
    #[must_use]
    pub fn servers(&self, spec: &Validated) -> Servers {
        match (spec.workload, self.former_workload()) {
            (Workload::StatefulSet, None) => Servers::Pods(self.replicas_expected(spec)),
            (Workload::StatefulSet, Some(_)) | (Workload::Deployment, _) => Servers::Service,
        }
    }

    /// Which pods of a StatefulSet may be replaced.
    #[must_use]
    pub fn partition(&self, spec: &Validated) -> Partition {
        let live = self.our_workload().filter(|_| spec.workload == Workload::StatefulSet);
        live.map_or(Partition::OF_NONE, |live| {
            let failing: Vec<_> = self.failing_pods().map(|(pod, _)| pod).collect();
            partition::of_live(live, self.replicas_expected(spec), &failing)
        })
    }

    /// Pods of the StatefulSet that do not run.
    pub fn failing_pods(&self) -> impl Iterator<Item = (FailingPod, &'a SeenPod)> + use<'a> {
        let (world, key) = (self.world, &self.resource.seen.key);
        world.failing_pods(key).filter_map(|seen| {
            let number = seen.key.name.strip_prefix(&key.name)?.strip_prefix('-')?.parse().ok()?;
            Some((FailingPod { number, revision: Some(seen.revision.clone()?) }, seen))
        })
    }

    /// What the children are rendered from.
    #[must_use]
    pub fn intent<'b>(&self, spec: &'b Validated, secret_hash: Option<&'b str>) -> Intent<'b>
    where
        'a: 'b,
    {
        Intent {
            key: &self.resource.seen.key,
            uid: &self.resource.seen.uid,
            spec,
            replicas: self.replicas_to_apply(spec),
            partition: self.partition(spec),
            servers: self.servers(spec),
            secret_hash,
            restart_trigger: self.resource.seen.restart_trigger.as_deref(),
            images: self.images,
            listening: self.listening(),
            operator_pods: self.operator_pods,
        }
    }

    /// Whether a new generation announces the change of the template as an edit of the user: a generation newer than
    /// the last one whose template was in place.
    #[must_use]
    pub fn is_announced(&self) -> bool {
        let seen = &self.resource.seen;
        status::template_generation(&seen.status, seen.generation).is_none_or(|last| seen.generation > last)
    }

    /// What is tried with a write of the status.
    #[must_use]
    pub fn attempt_at_status(&self) -> Attempt {
        let against = self.resource.seen.resource_version.0.clone();
        Attempt { against, ..Attempt::default() }
    }

    /// Whether the stored status is the one that we know. After a write without an answer, or one that lost a race, it
    /// is not known until the watch shows the status or a later write is answered.
    #[must_use]
    pub fn knows_status(&self) -> bool {
        let in_doubt = |it: &Backoff| {
            matches!(it.failure.category, Category::Transient | Category::Conflict)
                && it.sent == self.attempt_at_status()
        };
        !self.resource.backoff.as_ref().is_some_and(in_doubt)
    }

    /// Whether the status is to be written to find out which one is stored.
    #[must_use]
    pub fn may_prove_status(&self) -> bool {
        !self.knows_status() && !self.holds_status()
    }

    /// Whether the status has to be written: not if the API server would store the present one again, and not during
    /// the backoff.
    #[must_use]
    pub fn status_differs(&self, wanted: &MemcachedStatus) -> bool {
        let stored = &self.resource.seen.status;
        let unstorable =
            self.resource.unstorable.as_deref().is_some_and(|(sent, got)| sent == wanted && got == stored);
        wanted != stored && !unstorable && !self.holds_status()
    }

    /// Whether the backoff of the status has yet to end.
    fn holds_status(&self) -> bool {
        self.resource.backoff.as_ref().is_some_and(|it| it.holds(&self.attempt_at_status(), self.now))
    }
}
