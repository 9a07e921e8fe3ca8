//! One pass over one resource: validate, mounted Secrets, desired, plan, rollout budget, status, requests to send.
//! Pure.
//!
//! A pass is level-triggered: it sees the world as it is and never depends on which event woke it. Children
//! are written first, the status last, with the results of those writes; a pass that finds nothing to do sends
//! nothing. Called by [`super::reconciler::Reconciler`], which folds the outcome back into the world.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::backoff::Attempt;
use super::desired::{Intent, LiveTemplate};
use super::diff::{Differences, Path};
use super::effect::{KubeEvent, Request, RolloutCause};
use super::event::Unavailable;
use super::failure::Category;
use super::go_operator;
use super::instance_metrics::InstanceMetrics;
use super::kube_events;
use super::live::Live;
use super::mounted_secrets::{self, MountedSecrets, SecretHash};
use super::object::ChildKind;
use super::orphan::Orphan;
use super::pending_request::Replacement;
use super::plan::{self, Action, Planned};
use super::rendered_hashes::{DesiredChildren, RenderedHashes};
use super::rollout_budget::{self, BudgetedPlan, PermitState};
use super::status::{self, patch};
use super::status_inputs::{self, ComputedStatus};
use super::warnings;
use super::world::{Resource, World};
use crate::api::spec::{Violation, validate};
use crate::api::status::AlteredFields;
use crate::api::{MemcachedSpec, MemcachedStatus, Validated};

/// What a pass sees.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Everything known.
    pub world: &'a World,
    /// The resource of this pass.
    pub resource: &'a Resource,
    /// Now.
    pub now: Timestamp,
}

/// What a pass decided.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pass {
    /// Requests to send now, independent of each other; the next pass runs when all have been answered.
    pub sends: Vec<Send>,
    /// Results of comparisons, so that the compared objects can be dropped.
    pub compared_children: Vec<ComparedChild>,
    /// Hashes of the desired children, if they are new.
    pub rendered_hashes: Option<RenderedHashes>,
    /// A Secret hash, if the pass computed one.
    pub secret_hash: Option<SecretHash>,
    /// Its permit of the rollout budget; `None`: unchanged.
    pub permit_state: Option<PermitState>,
    /// Set if nothing is left to send.
    pub settled: Option<Settled>,
}

/// A request to send, and what to remember until its reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Send {
    /// A read of a Secret or of a child.
    Read(Request),
    /// A write of a child.
    Write {
        /// What to send.
        request: Request,
        /// Which child.
        kind: ChildKind,
        /// What identifies the attempt.
        attempt: Attempt,
        /// Whether the write creates, changes or deletes the child.
        change: WriteKind,
        /// The rollout that the write starts, if any.
        replaces: Option<Replacement>,
        /// Kubernetes Events to publish once the write succeeded.
        kube_events: Vec<KubeEvent>,
    },
    /// A write of the status.
    Status {
        /// What to send.
        request: Request,
        /// The status as it will be.
        status: Box<MemcachedStatus>,
        /// What identifies the attempt.
        attempt: Attempt,
        /// Kubernetes Events to publish once this status is stored. They are computed here and not with the reply: by
        /// then the watch may already show the new status.
        kube_events: Vec<KubeEvent>,
    },
}

impl Send {
    /// The child that it reads or writes.
    #[must_use]
    pub const fn child(&self) -> Option<ChildKind> {
        match self {
            Self::Write { kind, .. } | Self::Read(Request::ReadChild { kind, .. }) => Some(*kind),
            Self::Read(_) | Self::Status { .. } => None,
        }
    }
}

/// What a write does to a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteKind {
    /// The child does not exist yet.
    Create,
    /// The child is changed.
    Update,
    /// The child is deleted.
    Delete,
}

/// A child that was compared.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedChild {
    /// Which child.
    pub kind: ChildKind,
    /// Hash of what it was compared with.
    pub desired: String,
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
    /// Children that are as desired.
    pub unchanged: Vec<ChildKind>,
    /// Kinds that the spec asks for and the API server does not serve.
    pub unserved: Vec<ChildKind>,
    /// What the metrics show of the resource.
    pub instance_metrics: InstanceMetrics,
}

/// Runs one pass.
#[must_use]
pub fn run(view: &View<'_>) -> Pass {
    if view.resource.seen.deleting {
        return Pass { permit_state: Some(PermitState::NotNeeded), ..Pass::default() };
    }
    // validate: after this nothing reads the raw spec
    let spec = match validated(view) {
        Ok(spec) => spec,
        Err(broken) => {
            return status_inputs::invalid(view, &broken, rollout_budget::permit_without_writes(view));
        }
    };
    // mounted Secrets: which ones, and what is known of them
    let mounted_secrets = mounted_secrets::resolve(view, &spec);
    if !mounted_secrets.reads.is_empty() {
        // The permit stays as it is: a read always ends.
        return Pass::reading(mounted_secrets.reads);
    }
    // desired: every child, rendered only if that is needed
    let desired = view.desired_children(&spec, &mounted_secrets);
    if !mounted_secrets.proofs.is_empty() && !desired.keeps_template() {
        return Pass::reading(mounted_secrets.proofs);
    }
    // plan: what to do about each child
    let planned = plan::plan(view, &desired, &mounted_secrets);
    // rollout budget: whether pods may roll now without an edit of the user
    let BudgetedPlan { desired, planned, permit_state } =
        rollout_budget::apply(view, &spec, (&mounted_secrets, desired, planned));
    // status: computed from the plan
    let ComputedStatus { status, changes_at } =
        status_inputs::status(view, &spec, (&mounted_secrets, &desired, &planned), permit_state);
    // effects
    let mut pass = Pass {
        compared_children: compared_children(view, &planned),
        secret_hash: mounted_secrets.found(),
        permit_state: Some(permit_state),
        ..Pass::default()
    };
    let warnings = || warnings::of_pods(&spec, &mounted_secrets);
    let sends = planned.iter().filter_map(|it| send(view, &desired, (it, &warnings)));
    let (reads, writes): (Vec<_>, Vec<_>) = sends.partition(|it| matches!(it, Send::Read(_)));
    if reads.is_empty() && writes.is_empty() {
        // Otherwise only the answers tell.
        pass.permit_state = Some(permit_state.stalled(patch::says_stalled(&status)));
    }
    if !reads.is_empty() {
        // The writes and the status depend on what the reads find.
        pass.sends = reads;
    } else if !writes.is_empty() && view.may_send_children(&planned, permit_state) {
        pass.sends = writes;
    } else if view.status_differs(&status) {
        let warnings = go_operator::warning(&view.resource.seen.status, &status, &spec);
        pass.sends.push(view.write_status(status, warnings));
    } else {
        pass.settled = Some(status_inputs::settled(
            view,
            &spec,
            (&mounted_secrets, &planned),
            ComputedStatus { status, changes_at },
        ));
    }
    pass.rendered_hashes = desired.news();
    pass
}

/// Compares those children that no pass has compared yet with the most likely desired ones, and does nothing else. It
/// serves resources that wait in the queue: the results of comparisons are kept instead of whole objects. If the guess
/// is wrong (a Secret has changed), the next pass applies without knowing the differences.
#[must_use]
pub fn compare(view: &View<'_>) -> Pass {
    let Ok(spec) = validated(view) else { return Pass::default() };
    let mounted_secrets = mounted_secrets::likely(view, &spec);
    let desired = view.desired_children(&spec, &mounted_secrets);
    let planned = plan::plan(view, &desired, &mounted_secrets);
    Pass {
        compared_children: compared_children(view, &planned),
        rendered_hashes: desired.news(),
        ..Pass::default()
    }
}

fn validated(view: &View<'_>) -> Result<Validated, String> {
    let seen = &view.resource.seen;
    let spec: &MemcachedSpec = seen.spec.as_ref().map_err(|error| format!("spec cannot be read: {error}"))?;
    validate(&seen.key.name, spec).map_err(|violations: Vec<Violation>| {
        violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    })
}

fn compared_children(view: &View<'_>, planned: &[Planned]) -> Vec<ComparedChild> {
    let open = planned.iter().filter(|it| view.resource.slot(it.kind).is_open());
    let judgement = |it: &Planned| {
        Some(ComparedChild { kind: it.kind, desired: it.hash.clone(), differences: it.compared.clone()? })
    };
    open.filter_map(judgement).collect()
}

fn send(
    view: &View<'_>,
    desired: &DesiredChildren<'_>,
    (planned, warnings): (&Planned, &dyn Fn() -> Vec<KubeEvent>),
) -> Option<Send> {
    let (kind, key) = (planned.kind, view.resource.seen.key.clone());
    let body = || desired.body(kind).clone();
    let write = |change, request, cause: Option<RolloutCause>| {
        let makes_pods = cause.is_some() || (kind == ChildKind::Deployment && change == WriteKind::Create);
        let kube_events = if makes_pods { warnings() } else { Vec::new() };
        let attempt = view.attempt_at(kind, &planned.hash);
        let live = view.resource.live(kind).filter(|_| kind == ChildKind::Deployment);
        let replaces = live.map(|live| Replacement {
            cause,
            fields: cause.and_then(|_| changed_fields(view, desired, planned)),
            template: live.template_print,
        });
        Some(Send::Write { request, kind, attempt, change, replaces, kube_events })
    };
    match &planned.action {
        Action::Create => write(WriteKind::Create, Request::Create { kind, key, body: body() }, None),
        Action::Apply { uid, resource_version, cause } => {
            let (uid, resource_version) = (uid.clone(), resource_version.clone());
            write(
                WriteKind::Update,
                Request::Apply { kind, key, uid, resource_version, body: body() },
                *cause,
            )
        }
        Action::Patch { resource_version, edits, cause } => {
            let (resource_version, edits) = (resource_version.clone(), edits.clone());
            write(WriteKind::Update, Request::Patch { kind, key, resource_version, edits }, *cause)
        }
        Action::Delete { uid, resource_version } => {
            let (uid, resource_version) = (uid.clone(), resource_version.clone());
            write(WriteKind::Delete, Request::Delete { kind, key, uid, resource_version }, None)
        }
        Action::Look => Some(Send::Read(Request::ReadChild { kind, key })),
        Action::Keep
        | Action::Foreign(_)
        | Action::Collecting(_)
        | Action::BackOff(_)
        | Action::Hold
        | Action::Paused
        | Action::AwaitPermit
        | Action::Unavailable(_) => None,
    }
}

/// Fields of the template that an apply would change; `None` if the Deployment was dropped after its comparison and the
/// source of its template is unknown.
fn changed_fields(view: &View<'_>, desired: &DesiredChildren<'_>, planned: &Planned) -> Option<Vec<Path>> {
    if let Some(differences) = &planned.differences {
        return Some(differences.of_template().cloned().collect());
    }
    let edited = view.resource.edited.as_deref();
    let before = edited.and_then(|spec| validate(&view.resource.seen.key.name, spec).ok());
    let live = view.our_deployment()?;
    desired.changed_fields(before.as_ref(), (live.secret_hash.as_deref(), live.restart_trigger.as_deref()))
}

impl Pass {
    fn reading(requests: Vec<Request>) -> Self {
        Self { sends: requests.into_iter().map(Send::Read).collect(), ..Self::default() }
    }
}

impl<'a> View<'a> {
    /// The Deployment, when it is this resource's own.
    #[must_use]
    pub fn our_deployment(&self) -> Option<&'a Live> {
        self.resource.live(ChildKind::Deployment).filter(|live| self.is_ours(live))
    }

    /// Whether this API server has answered an apply of the child with this hash, as far as is known.
    #[must_use]
    pub fn has_answered(&self, known: &AlteredFields, hash: &str) -> bool {
        let (then, now) = (&known.server_version, self.world.server_version.as_deref().unwrap_or_default());
        known.applied_hash == hash && (then.is_empty() || now.is_empty() || then == now)
    }

    /// Whether any pod serves.
    #[must_use]
    pub fn serves(&self) -> bool {
        self.our_deployment().and_then(|live| live.rollout.as_ref()).is_some_and(|rollout| rollout.ready > 0)
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
    fn may_be_autoscaled(&self, deployment: &Live) -> bool {
        let unavailable =
            self.world.unavailable(ChildKind::HorizontalPodAutoscaler, &self.resource.seen.key.namespace);
        let unknown = matches!(unavailable, Some(Unavailable::Refused(_)));
        self.has(ChildKind::HorizontalPodAutoscaler) || (unknown && !deployment.owns_replicas)
    }

    /// `spec.replicas` of the Deployment; `None` while an autoscaler decides about it, because it would undo our
    /// number. A new autoscaler finds the present number, but never zero, because it would not scale from zero.
    #[must_use]
    pub fn replicas_to_apply(&self, spec: &Validated) -> Option<i32> {
        let live = self.our_deployment();
        let zero_by_us = |live: &Live| live.owns_replicas && live.replicas == Some(0);
        match (&spec.autoscaling, live) {
            (Some(autoscaling), None) => Some(autoscaling.min_replicas),
            (Some(autoscaling), Some(live)) if zero_by_us(live) => Some(autoscaling.min_replicas),
            (Some(_), Some(_)) => None,
            (None, Some(live)) if self.may_be_autoscaled(live) => None,
            (None, _) => Some(spec.replicas),
        }
    }

    /// The source of the live template by the annotations of our Deployment. Without annotations the template is
    /// recognised by its content, unless a Secret has changed since the pods were started.
    pub(super) fn live_template(
        &self,
        intent: &Intent<'_>,
        mounted_secrets: &MountedSecrets,
    ) -> Option<Cow<'a, LiveTemplate>> {
        let live = self.our_deployment()?;
        let unrecorded = live.unrecorded.as_ref().filter(|_| !mounted_secrets.changed_unseen);
        let recognised = || unrecorded.and_then(|unrecorded| unrecorded.recognised(intent)).map(Cow::Owned);
        live.template.as_ref().map(Cow::Borrowed).or_else(recognised)
    }

    fn desired_children<'b>(
        &self,
        spec: &'b Validated,
        mounted_secrets: &'b MountedSecrets,
    ) -> DesiredChildren<'b>
    where
        'a: 'b,
    {
        let intent = self.intent(spec, mounted_secrets);
        let live = self.live_template(&intent, mounted_secrets);
        DesiredChildren::new(intent, live, self.resource.rendered_hashes.as_ref())
    }

    /// The desired children with the pod template of the newest revision, even if nothing else changed.
    #[must_use]
    pub fn newest_desired_children<'b>(
        &self,
        spec: &'b Validated,
        mounted_secrets: &'b MountedSecrets,
    ) -> DesiredChildren<'b>
    where
        'a: 'b,
    {
        let intent = self.intent(spec, mounted_secrets);
        let live = self.live_template(&intent, mounted_secrets);
        DesiredChildren::at_newest(intent, live)
    }

    /// What the children are rendered from.
    pub(super) fn intent<'b>(&self, spec: &'b Validated, mounted_secrets: &'b MountedSecrets) -> Intent<'b>
    where
        'a: 'b,
    {
        Intent {
            key: &self.resource.seen.key,
            uid: &self.resource.seen.uid,
            spec,
            replicas: self.replicas_to_apply(spec),
            secret_hash: mounted_secrets.hash.as_deref(),
            restart_trigger: self.resource.seen.restart_trigger.as_deref(),
        }
    }

    /// Whether a new generation announces the change of the template as an edit of the user: a generation newer than
    /// the last one whose template was in place.
    #[must_use]
    pub fn is_announced(&self) -> bool {
        let seen = &self.resource.seen;
        status::template_generation(&seen.status, seen.generation).is_none_or(|last| seen.generation > last)
    }

    /// Whether children may be written before the status. Before a template change that no new generation announces
    /// (Secret, restart trigger, drift), Ready has to become false first: otherwise a tool reads Current while pods
    /// roll.
    fn may_send_children(&self, planned: &[Planned], permit_state: PermitState) -> bool {
        let cause = planned.iter().find_map(|it| it.action.cause());
        let seen = &self.resource.seen;
        let announced =
            seen.generation != seen.status.observed_generation || !patch::says_ready(&seen.status);
        let recorded = !matches!(permit_state, PermitState::Granted(_)) || self.records_permit();
        cause.is_none_or(|cause| announced && (cause.budgeted().is_none() || recorded))
    }

    /// Whether the stored status records the permit, or cannot, because an older CRD drops the field.
    fn records_permit(&self) -> bool {
        let says = |status: &MemcachedStatus| status.budgeted_rollout.is_some();
        let dropped = |(sent, got): &(MemcachedStatus, MemcachedStatus)| says(sent) && !says(got);
        says(&self.resource.seen.status) || self.resource.unstorable.as_deref().is_some_and(dropped)
    }

    /// The request that writes a status, with warnings beside the Events of the status itself.
    #[must_use]
    pub fn write_status(&self, status: MemcachedStatus, warnings: Option<KubeEvent>) -> Send {
        let seen = &self.resource.seen;
        let request = Request::PatchStatus {
            resource_version: seen.resource_version.clone(),
            status: patch::patch(&seen.status, &status),
        };
        Send::Status {
            request,
            kube_events: kube_events::of_status(&seen.status, &status).into_iter().chain(warnings).collect(),
            attempt: self.attempt_at_status(),
            status: Box::new(status),
        }
    }

    /// The attempt to write the desired child with this hash.
    #[must_use]
    pub fn attempt_at(&self, kind: ChildKind, hash: &str) -> Attempt {
        let live = self.resource.slot(kind).live.as_ref();
        let edition = live.map(Live::edition).unwrap_or_default();
        Attempt {
            body: hash.to_owned(),
            against: format!("{} {edition}", self.resource.seen.generation),
            version: live.map(|live| live.resource_version.clone()),
        }
    }

    fn attempt_at_status(&self) -> Attempt {
        let against = self.resource.seen.resource_version.0.clone();
        Attempt { against, ..Attempt::default() }
    }

    /// Whether the status has to be written: not if the API server would store the present one again, and not during
    /// the backoff.
    #[must_use]
    pub fn status_differs(&self, wanted: &MemcachedStatus) -> bool {
        let stored = &self.resource.seen.status;
        let unstorable =
            self.resource.unstorable.as_deref().is_some_and(|(sent, got)| sent == wanted && got == stored);
        wanted != stored
            && !unstorable
            && !self.resource.backoff.as_ref().is_some_and(|it| it.holds(&self.attempt_at_status(), self.now))
    }
}
