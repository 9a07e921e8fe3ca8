//! From the plan to the inputs of the status, and to what a pass leaves when nothing is left to send. Pure; called by
//! the pass.

use jiff::Timestamp;

use super::desired::{Revision, meta};
use super::event::Unavailable;
use super::failure::Category;
use super::instance_metrics::InstanceMetrics;
use super::live::Live;
use super::mounted_secrets::{self, MountedSecrets};
use super::object::ChildKind;
use super::pass::{Pass, Settled, View};
use super::plan::{self, Action, Planned};
use super::rendered_hashes::DesiredChildren;
use super::rollout_budget::PermitState;
use super::status::rollout_progress::RolloutProgress;
use super::status::{self, BlockingProblem, StatusInputs};
use crate::api::spec::Autoscaling;
use crate::api::{MemcachedStatus, Validated};

/// The status of a resource, computed by a pass.
pub struct ComputedStatus {
    /// Its status.
    pub status: MemcachedStatus,
    /// When the status changes without an event.
    pub changes_at: Option<Timestamp>,
}

/// The status of a resource whose spec is valid.
#[must_use]
pub fn status(
    view: &View<'_>,
    spec: &Validated,
    (mounted_secrets, desired, planned): (&MountedSecrets, &DesiredChildren<'_>, &[Planned]),
    permit_state: PermitState,
) -> ComputedStatus {
    let mut inputs = observed(view, replicas_expected(view, spec), progress(desired, planned));
    inputs.permit_state = permit_state;
    inputs.servers = view
        .has(ChildKind::Service)
        .then(|| meta::server(inputs.key, spec, listening(view)))
        .into_iter()
        .collect();
    let pending = planned.iter().filter(|it| !it.action.is_in_place());
    inputs.pending = pending.map(|it| it.kind.name()).collect();
    inputs.unserved = unserved(planned).map(ChildKind::name).collect();
    inputs.paused = spec.paused.then(|| {
        let waits = |it: &&Planned| matches!(it.action, Action::Paused | Action::Hold);
        planned.iter().filter(waits).map(|it| it.kind.name()).collect()
    });
    inputs.missing_secrets.clone_from(&mounted_secrets.missing);
    inputs.blocking_problem = worst_problem(view, mounted_secrets, planned);
    // Until the template carries the new hash, the status keeps the versions that the live hash stands for.
    if inputs.deployment.as_ref().is_some_and(|rollout| rollout.carries_template) {
        inputs.secrets.clone_from(&mounted_secrets.versions);
    }
    let previous = &view.resource.seen.status;
    ComputedStatus {
        status: status::status(&inputs, previous),
        changes_at: status::next_change(&inputs, previous),
    }
}

/// The pass over a resource with an invalid spec: no child is touched.
#[must_use]
pub fn invalid(view: &View<'_>, broken: &str, permit_state: PermitState) -> Pass {
    let held = TemplateProgress { carries_template: false, held_back: true };
    let mut inputs = observed(view, replicas_of_invalid(view), held);
    inputs.blocking_problem = Some(BlockingProblem::InvalidSpec(broken.to_owned()));
    inputs.permit_state = permit_state;
    let status = status::status(&inputs, &view.resource.seen.status);
    let permit_state = Some(permit_state.stalled(true));
    if view.status_differs(&status) {
        return Pass { sends: vec![view.write_status(status, None)], permit_state, ..Pass::default() };
    }
    let settled = Settled {
        wake_at: retries_of_children(view).chain(retry_of_status(view)).filter(|at| *at > view.now).min(),
        failure: Some(Category::Invalid),
        unchanged: Vec::new(),
        unserved: Vec::new(),
        instance_metrics: InstanceMetrics::of(&status, None),
    };
    Pass { settled: Some(settled), permit_state, ..Pass::default() }
}

/// The revision of the running pods; 0 if no annotation names one.
fn listening(view: &View<'_>) -> Option<Revision> {
    let live = view.our_deployment()?;
    Some(live.template.as_ref().map_or(Revision::GO_OPERATOR, |template| template.revision))
}

/// Pods expected: under an autoscaler the number that the autoscaler set, within its bounds. Zero switches the
/// autoscaler off.
fn replicas_expected(view: &View<'_>, spec: &Validated) -> i32 {
    let Some(Autoscaling { min_replicas, max_replicas, .. }) = &spec.autoscaling else {
        return spec.replicas;
    };
    let asked = view.our_deployment().and_then(|live| live.replicas);
    match asked.and_then(|asked| i32::try_from(asked).ok()) {
        Some(0) => 0,
        asked => asked.unwrap_or(*min_replicas).min(*max_replicas).max(*min_replicas),
    }
}

/// Pods expected under an invalid spec: the number in the spec, if it can be read; under an autoscaler, or without a
/// number, the number in the Deployment.
fn replicas_of_invalid(view: &View<'_>) -> i32 {
    let spec = view.resource.seen.spec.as_ref().ok();
    let autoscaling = spec.and_then(|spec| spec.autoscaling.as_ref()).filter(|it| it.enabled == Some(true));
    let asked = view.our_deployment().map(asked);
    let said = match autoscaling {
        Some(autoscaling) => asked.or(autoscaling.min_replicas),
        None => spec.map_or(asked, |spec| spec.replicas),
    };
    said.unwrap_or(1).max(0)
}

fn unserved(planned: &[Planned]) -> impl Iterator<Item = ChildKind> {
    let not_served = |it: &&Planned| it.action == Action::Unavailable(Unavailable::NotServed);
    planned.iter().filter(not_served).map(|it| it.kind)
}

/// The observed part of the inputs, before anything is said about the plan.
fn observed<'a>(view: &View<'a>, replicas_expected: i32, progress: TemplateProgress) -> StatusInputs<'a> {
    let seen = &view.resource.seen;
    let deployment = view.our_deployment();
    StatusInputs {
        key: &seen.key,
        generation: seen.generation,
        replicas_expected,
        deployment: deployment.map(|live| rollout(live, progress)),
        servers: seen.status.server_list.clone(),
        pending: Vec::new(),
        paused: None,
        unserved: Vec::new(),
        missing_secrets: Vec::new(),
        blocking_problem: None,
        pod_problem: view.world.pod_problem(&seen.key).map(str::to_owned),
        secrets: seen.status.secrets.clone(),
        altered: ChildKind::ALL
            .into_iter()
            .map(|kind| view.resource.slot(kind))
            .filter(|slot| slot.live.is_some())
            .filter_map(|slot| slot.altered.as_deref().cloned())
            .collect(),
        permit_state: PermitState::NotNeeded,
        template_revision: deployment
            .and_then(|live| live.template.as_ref())
            .map(|template| template.revision),
        now: view.now,
    }
}

/// How far the pod template has been written.
#[derive(Clone, Copy)]
struct TemplateProgress {
    /// [`RolloutProgress::carries_template`].
    carries_template: bool,
    /// [`RolloutProgress::held_back`].
    held_back: bool,
}

fn progress(desired: &DesiredChildren<'_>, planned: &[Planned]) -> TemplateProgress {
    let deployment = planned.iter().find(|it| it.kind == ChildKind::Deployment);
    let held_back = deployment.is_some_and(|it| !it.action.is_in_place() && !it.action.sends());
    TemplateProgress { carries_template: template_in_place(desired, planned), held_back }
}

fn rollout(
    live: &Live,
    TemplateProgress { carries_template, held_back }: TemplateProgress,
) -> RolloutProgress {
    let seen = live.rollout.clone().unwrap_or_default();
    let observed = seen.observed_generation >= live.generation;
    RolloutProgress { observed, seen, asked: asked(live), carries_template, held_back }
}

/// Pods that a Deployment asks for.
fn asked(live: &Live) -> i32 {
    live.replicas.and_then(|replicas| i32::try_from(replicas).ok()).unwrap_or(1)
}

/// Whether all pods run the desired template and are available.
#[must_use]
pub fn is_complete(
    view: &View<'_>,
    spec: &Validated,
    (desired, planned): (&DesiredChildren<'_>, &[Planned]),
) -> bool {
    let progress = progress(desired, planned);
    let complete = |live: &Live| rollout(live, progress).complete(replicas_expected(view, spec));
    view.our_deployment().is_some_and(complete)
}

/// Whether all pods of a Deployment run its template, and are available.
#[must_use]
pub fn is_rolled_out(live: &Live) -> bool {
    let its_own = TemplateProgress { carries_template: true, held_back: false };
    rollout(live, its_own).complete(asked(live))
}

/// What a pass leaves when nothing is left to send.
#[must_use]
pub fn settled(
    view: &View<'_>,
    spec: &Validated,
    (mounted_secrets, planned): (&MountedSecrets, &[Planned]),
    ComputedStatus { status, changes_at }: ComputedStatus,
) -> Settled {
    let fights = planned
        .iter()
        .filter_map(|it| view.resource.slot(it.kind).repairs.exhausted_until(&it.hash, view.now));
    let secrets = mounted_secrets::mounted(spec).into_iter().filter_map(|secret| {
        view.world.secrets.get(&view.key_of(&secret.name)).and_then(|secret| secret.backoff.as_ref())
    });
    let retries = retries_of_children(view).chain(secrets.filter_map(|backoff| backoff.retry_at));
    let rechecks = planned
        .iter()
        .filter_map(|it| view.resource.slot(it.kind).recheck.as_ref().map(|recheck| recheck.at));
    let times = retries.chain(rechecks).chain(retry_of_status(view)).chain(fights).chain(changes_at);
    Settled {
        wake_at: times.filter(|at| *at > view.now).min(),
        failure: failure(mounted_secrets, planned),
        unchanged: planned.iter().filter(|it| it.action == Action::Keep).map(|it| it.kind).collect(),
        unserved: unserved(planned).collect(),
        instance_metrics: InstanceMetrics::of(
            &status,
            Some((spec.image.clone(), replicas_expected(view, spec))),
        ),
    }
}

/// The category of the failure, for the metrics.
fn failure(mounted_secrets: &MountedSecrets, planned: &[Planned]) -> Option<Category> {
    let of_child = planned.iter().find_map(|it| match &it.action {
        Action::BackOff(failure) | Action::Unavailable(Unavailable::Refused(failure)) => {
            Some(failure.category)
        }
        Action::Foreign(_) => Some(Category::Conflict),
        _ => None,
    });
    of_child.or(mounted_secrets.unreadable.as_ref().map(|failure| failure.category))
}

fn retries_of_children(view: &View<'_>) -> impl Iterator<Item = Timestamp> {
    ChildKind::ALL.into_iter().filter_map(|kind| view.resource.slot(kind).backoff.as_ref()?.retry_at)
}

fn retry_of_status(view: &View<'_>) -> Option<Timestamp> {
    view.resource.backoff.as_ref().and_then(|backoff| backoff.retry_at)
}

/// The worst problem that keeps a resource from its desired state.
fn worst_problem(
    view: &View<'_>,
    mounted_secrets: &MountedSecrets,
    planned: &[Planned],
) -> Option<BlockingProblem> {
    let unreadable = mounted_secrets
        .unreadable
        .as_ref()
        .map(|failure| BlockingProblem::SecretUnreadable(failure.message.clone()));
    // Reported even while the child is as desired: otherwise Ready would flip with every repair.
    let fight = |it: &Planned| {
        plan::fought_over(view, it.kind, &it.hash).and_then(|action| action.blocking_problem())
    };
    let of_children = planned.iter().filter_map(|it| it.action.blocking_problem().or_else(|| fight(it)));
    of_children.chain(unreadable).min_by_key(plan::rank)
}

/// Whether the live pod template is the desired one.
fn template_in_place(desired: &DesiredChildren<'_>, planned: &[Planned]) -> bool {
    let deployment = planned.iter().find(|it| it.kind == ChildKind::Deployment);
    let drifted =
        deployment.and_then(|it| it.differences.as_ref()).is_some_and(|it| it.of_template().next().is_some());
    !drifted && desired.keeps_template()
}
