//! Seventh stage: what to say about a resource. Makes the inputs of the status from what the stages before found, and
//! has [`crate::kernel::status`] compute it. Pure; called by the pass.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::action::{Action, Planned, unserved};
use super::backoff_hold::repairs_exhausted;
use super::budget::BudgetedPlan;
use super::mounted_secrets::MountedSecrets;
use super::rotation;
use super::secret_content;
use super::stuck_pods;
use super::template_progress::template_progress;
use super::view::View;
use super::warnings;
use crate::api::spec::{REPLICAS, Rotation};
use crate::api::status::OtherFieldManager;
use crate::api::{MemcachedStatus, Validated};
use crate::kernel::failure::Category;
use crate::kernel::field_managers::OtherManager;
use crate::kernel::live::Live;
use crate::kernel::object::ChildKind;
use crate::kernel::rollout_budget::TurnState;
use crate::kernel::status;
use crate::kernel::status::inputs::{BlockingProblem, StatusInputs};
use crate::kernel::status::rollout_progress::{RolloutProgress, TemplateProgress};
use crate::kernel::status::unfinished;
use crate::kernel::warmth::Wait;

/// The status of a resource, computed by a pass.
pub struct ComputedStatus {
    /// Its status.
    pub status: MemcachedStatus,
    /// The turn that is remembered, as the status has it on record.
    pub turn_state: TurnState,
    /// When the status changes without an event.
    pub changes_at: Option<Timestamp>,
    /// Why a pod that has to go could not be deleted.
    pub pod_failure: Option<Category>,
}

/// The status of a resource whose spec is valid.
#[must_use]
pub fn of_valid(
    view: &View<'_>,
    spec: &Validated,
    mounted_secrets: &MountedSecrets,
    BudgetedPlan { plan, turn_state }: &BudgetedPlan<'_>,
) -> ComputedStatus {
    let planned = plan.children.as_slice();
    let mut inputs = observed(view, view.replicas_expected(spec), template_progress(view, plan));
    inputs.turn_state = *turn_state;
    inputs.awaits_answer = planned.iter().any(|it| it.action.sends());
    inputs.servers = match view.has_address() {
        true => view.servers(spec).list(inputs.key, spec, view.listening(spec)),
        false => Vec::new(),
    };
    let pending = planned.iter().filter(|it| !it.action.is_in_place());
    inputs.pending = pending.map(|it| it.kind.name()).collect();
    inputs.unserved = unserved_as_told(view, planned).map(ChildKind::name).collect();
    inputs.paused = spec.paused.then(|| {
        let waits = |it: &&Planned| matches!(it.action, Action::Paused | Action::Wait);
        planned.iter().filter(waits).map(|it| it.kind.name()).collect()
    });
    // What is about to be put back is no news: the Event of that names who changed it.
    if planned.iter().any(|it| it.kind == plan.desired.workload() && it.action.writes()) {
        let before = &view.resource.seen.status;
        inputs.other_managers = before.other_field_managers.to_vec();
        inputs.weakened = before.weakened_by_others.to_vec();
    }
    inputs.missing_secrets.clone_from(&mounted_secrets.missing);
    let carries_template = inputs.rollout.as_ref().is_some_and(|rollout| rollout.carries_template);
    inputs.rotation = rotation::record(view, spec, mounted_secrets, carries_template);
    inputs.warmth_wait = view.warmth_wait(spec);
    let warmth_ends = inputs.awaited_warmth().and_then(Wait::ends);
    // What agents refused was in a Secret that may not be there any more.
    let of_rotation = inputs.rotation.as_ref().filter(|_| inputs.missing_secrets.is_empty());
    let of_rotation = of_rotation.and_then(BlockingProblem::from_rotation);
    let of_pass = worst_problem(view, mounted_secrets, planned);
    let of_pods = stuck_pods::all(view, mounted_secrets, plan).next().and(view.resource.pod_backoff.as_ref());
    let of_pods = of_pods.map(|backoff| &backoff.failure);
    let pod_failure = of_pods.map(|failure| failure.category);
    let of_pods = of_pods.map(BlockingProblem::from_failure);
    inputs.blocking_problem =
        of_pass.into_iter().chain(of_rotation).chain(of_pods).min_by_key(BlockingProblem::rank);
    // Until the workload carries the new hash, the status keeps the versions that the live hash stands for; and those of before
    // until the first pod is to have the new ones.
    let told = match spec.security.rotation {
        Rotation::Restart => view.our_workload().is_none_or(|live| !view.is_yet_to_begin(spec, live)),
        Rotation::InPlace => view.workload_says(mounted_secrets.hash.as_deref()),
    };
    if carries_template && told {
        inputs.secrets.clone_from(&mounted_secrets.versions);
    }
    inputs.secrets = secret_content::recorded(&inputs.secrets, &mounted_secrets.invalid);
    inputs.warnings = warnings::of_status(view.now, spec, mounted_secrets, &inputs.secrets);
    inputs.warnings.extend(warnings::of_autoscaler(view));
    inputs.warnings.extend(inputs.rotation.as_ref().and_then(warnings::of_rotation));
    inputs.warnings.sort();
    let previous = &view.resource.seen.status;
    let changes = [
        status::next_change(&inputs, previous),
        warnings::next_change(view.now, mounted_secrets.versions.iter().chain(&inputs.secrets)),
        warnings::autoscaler_next_change(view),
        warmth_ends,
        view.next_unmade_at(),
    ];
    let changes_at = changes.into_iter().flatten().min();
    let (status, turn_state) = with_turn(&inputs, previous);
    ComputedStatus { status, turn_state, changes_at, pod_failure }
}

/// The kinds that are not served, as far as that is known of now. What this operator heard at its start, or while another one led,
/// may be over since: then the API server is asked again, and until it answers the status goes on to say what it says.
fn unserved_as_told(view: &View<'_>, planned: &[Planned]) -> impl Iterator<Item = ChildKind> {
    let seen = &view.resource.seen;
    let is_known = |kind: &ChildKind| {
        view.world.is_unavailable_now(*kind, &seen.key.namespace)
            || seen.status.unserved_kinds.iter().any(|told| told == kind.name())
    };
    unserved(planned).filter(is_known)
}

/// The pods that the StatefulSet has not made for long. Since when it has not, an operator that starts does not know: what is told of
/// just the pods that are missing is told on.
fn unmade_as_told(view: &View<'_>, wanted: i32) -> Vec<i32> {
    let seen = &view.resource.seen;
    let missing = view.unmade_pods(wanted, Timestamp::MAX);
    let told = unfinished::of_unmade_pods(&seen.key.name, &missing);
    let is_told = |told: String| seen.status.conditions.iter().any(|it| it.message.contains(&told));
    if told.is_some_and(is_told) { missing } else { view.unmade_pods(wanted, view.now) }
}

/// The status of a resource whose spec cannot be built from, and the turn that is remembered.
#[must_use]
pub fn of_invalid(view: &View<'_>, broken: &str, turn_state: TurnState) -> (MemcachedStatus, TurnState) {
    let held_back = TemplateProgress { carries_template: false, held_back: true };
    let mut inputs = observed(view, replicas_of_invalid(view), held_back);
    let before = &view.resource.seen.status;
    // What depends on the spec stays as it was said last.
    inputs.servers.clone_from(&before.server_list);
    inputs.rotation = before.secret_rotation.as_deref().cloned();
    inputs.warnings = before.warnings.to_vec();
    inputs.blocking_problem = Some(BlockingProblem::InvalidSpec(broken.to_owned()));
    inputs.turn_state = turn_state;
    with_turn(&inputs, before)
}

/// The status, and the turn that is remembered with it.
fn with_turn(inputs: &StatusInputs<'_>, previous: &MemcachedStatus) -> (MemcachedStatus, TurnState) {
    let status = status::status(inputs, previous);
    let turn_state = inputs.turn_state_by(&status);
    (status, turn_state)
}

/// Pods expected under an invalid spec: the number in the spec, if it can be read; under an autoscaler, or without a
/// number, the number in the workload. Where neither says one, the default.
fn replicas_of_invalid(view: &View<'_>) -> i32 {
    let spec = view.resource.seen.spec.as_ref().ok();
    let autoscaling = spec.and_then(|spec| spec.autoscaling.as_ref()).filter(|it| it.enabled == Some(true));
    let asked = view.our_workload().map(Live::asked);
    let said = match autoscaling {
        Some(autoscaling) => asked.or(autoscaling.min_replicas),
        None => spec.map_or(asked, |spec| spec.replicas),
    };
    said.unwrap_or(REPLICAS.default).max(REPLICAS.min)
}

/// The observed part of the inputs, before anything is said about the plan.
fn observed<'a>(view: &View<'a>, replicas_expected: i32, progress: TemplateProgress) -> StatusInputs<'a> {
    let seen = &view.resource.seen;
    let workload = view.our_workload();
    StatusInputs {
        key: &seen.key,
        workload: view.resource.workload(),
        counted: view.counted_workload(),
        former_ready: view.former_ready(),
        generation: seen.generation,
        replicas_expected,
        rollout: workload.map(|live| RolloutProgress::new(live, progress)),
        servers: Vec::new(),
        pending: Vec::new(),
        paused: None,
        unserved: Vec::new(),
        missing_secrets: Vec::new(),
        blocking_problem: None,
        pod_problem: view.world.pods.failing(&seen.key).map(|pod| pod.problem.to_owned()),
        unmade_pods: unmade_as_told(view, replicas_expected),
        secrets: seen.status.secrets.to_vec(),
        rotation: None,
        warmth_wait: None,
        warnings: Vec::new(),
        altered: ChildKind::ALL
            .into_iter()
            .map(|kind| view.resource.child(kind))
            .filter(|child| child.live.is_some())
            .filter_map(|child| child.altered.as_deref().cloned())
            .collect(),
        other_managers: workload.map(|live| other_managers(view, &live.managers)).unwrap_or_default(),
        weakened: workload.map(|live| live.weakened.to_vec()).unwrap_or_default(),
        turn_state: TurnState::NotNeeded,
        awaits_answer: false,
        template_revision: view.template_revision(),
        now: view.now,
    }
}

/// The managers of fields of the pod template, as the status names them. An entry's time moves with each write of that
/// manager, to whatever field. So it counts only together with a change of the template: else the status would be written
/// again with each of them.
fn other_managers(view: &View<'_>, managers: &[OtherManager]) -> Vec<OtherFieldManager> {
    let template_changed = view.resource.child(view.resource.workload()).template_changed;
    let before = &view.resource.seen.status.other_field_managers;
    let named = |OtherManager { name, time, fields }: OtherManager| {
        let same = |before: &&OtherFieldManager| before.manager == name && before.fields == fields;
        let before = before.iter().find(same).filter(|_| !template_changed);
        let time = before.map_or(time.map(Time), |before| before.time.clone());
        OtherFieldManager { manager: name, time, fields }
    };
    managers.iter().filter_map(OtherManager::of_template).map(named).collect()
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
    let invalid: Vec<&str> = mounted_secrets.invalid.iter().map(|it| it.message.as_str()).collect();
    let invalid = (!invalid.is_empty()).then(|| BlockingProblem::SecretInvalid(invalid.join("; ")));
    // Reported even while the child is as desired: otherwise Ready would flip with every repair.
    let exhausted = |it: &Planned| {
        repairs_exhausted(view, it.kind, it.hash()).and_then(|action| action.blocking_problem())
    };
    let of_children = planned.iter().filter_map(|it| it.action.blocking_problem().or_else(|| exhausted(it)));
    of_children.chain(unreadable).chain(invalid).min_by_key(BlockingProblem::rank)
}
