//! Sixth stage: whether a rollout that no user asked for may start now. Pure; called by the pass. Who has a turn is in
//! [`crate::kernel::rollout_budget`].

use super::action::{Action, Planned};
use super::backoff_hold::or_read;
use super::desired::{self, DesiredChildren};
use super::mounted_secrets::MountedSecrets;
use super::plan::{Plan, Replacement};
use super::template_progress::is_complete;
use super::view::View;
use crate::api::Validated;
use crate::api::status::BudgetedRollout;
use crate::kernel::event::Unavailable;
use crate::kernel::failure::Failure;
use crate::kernel::object::ChildKind;
use crate::kernel::rollout_budget::{RolloutTurn, TurnState};
use crate::kernel::rollout_cause::RolloutCause;
use crate::kernel::stateful_set_rollout;
use crate::kernel::status::rollout_progress::is_rolled_out;

/// Whether a resource changes to the newest templates though its intent is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AdoptionState {
    /// No: it has them, or the settings or its spec forbid it, or something else is to be done first.
    No,
    /// Nothing keeps it from that but its turn.
    Waits,
    /// Its turn begins with this pass.
    Begins,
    /// An earlier pass began it.
    GoesOn,
}

impl AdoptionState {
    /// Whether a plan with the newest revision is needed.
    const fn has_turn(self) -> bool {
        matches!(self, Self::Begins | Self::GoesOn)
    }
}

/// A plan after the budget was applied.
pub struct BudgetedPlan<'a> {
    /// What is to be done.
    pub plan: Plan<'a>,
    /// The turn of the resource.
    pub turn_state: TurnState,
}

/// The turn of a resource in a pass that writes no child.
#[must_use]
pub fn turn_without_writes(view: &View<'_>) -> TurnState {
    let done = view.pods_are_back() || view.named_pods_stay();
    view.world.rollout_budget.turn_state(&view.resource.seen.key, None, done)
}

/// Whether the resource adopts the newest templates. `present`: its plan with the revision of the live template.
fn adoption(
    view: &View<'_>,
    spec: &Validated,
    mounted_secrets: &MountedSecrets,
    present: &Plan<'_>,
) -> AdoptionState {
    let (rollout_budget, key) = (&view.world.rollout_budget, &view.resource.seen.key);
    if !mounted_secrets.let_pods_start() {
        return AdoptionState::No;
    }
    if !rollout_budget.adopts() || !present.desired.is_outdated() || spec.paused {
        return AdoptionState::No;
    }
    if rollout_budget.turn(key).is_some_and(|turn| turn.cause == BudgetedRollout::Adoption) {
        return AdoptionState::GoesOn;
    }
    if !is_complete(view, spec, present) || !present.children.iter().all(|it| it.action.is_in_place()) {
        return AdoptionState::No;
    }
    match rollout_budget.turn_state(key, Some(BudgetedRollout::Adoption), view.pods_are_back()) {
        TurnState::Granted(_) => AdoptionState::Begins,
        TurnState::Waiting(_) | TurnState::NotNeeded | TurnState::Suspended(..) => AdoptionState::Waits,
    }
}

/// Decides whether pods may roll now without an edit of the user, and returns the plan for that:
/// - With a turn for adoption: the plan with the newest revision.
/// - Without a turn, where only Secrets changed: the plan with the Secrets that the pods have. The pods wait.
/// - Otherwise `present`, without what would replace pods while the resource has no turn.
///
/// The first two are made here, by calling `plan`, and only where they are needed.
#[must_use]
pub fn apply<'a>(
    view: &View<'a>,
    spec: &'a Validated,
    mounted_secrets: &'a MountedSecrets,
    present: Plan<'a>,
    plan: impl Fn(DesiredChildren<'a>) -> Plan<'a>,
) -> BudgetedPlan<'a> {
    let adoption = adoption(view, spec, mounted_secrets, &present);
    let newest = || plan(desired::newest_children(view, spec, mounted_secrets));
    let budgeted = by_turn(view, mounted_secrets, adoption, present, adoption.has_turn().then(newest));
    let turn_state = budgeted.turn_state;
    let waits_for_secret = matches!(
        turn_state,
        TurnState::Waiting(BudgetedRollout::Secret)
            | TurnState::Suspended(RolloutTurn { cause: BudgetedRollout::Secret, .. }, _)
    );
    if !waits_for_secret {
        return budgeted;
    }
    match desired::children_meanwhile(view, spec, mounted_secrets).map(plan) {
        Some(meanwhile) => {
            BudgetedPlan { plan: waiting(view, mounted_secrets, meanwhile, turn_state), turn_state }
        }
        None => budgeted,
    }
}

/// One of the plans, as far as the turn of the resource allows it.
fn by_turn<'a>(
    view: &View<'a>,
    mounted_secrets: &MountedSecrets,
    adoption: AdoptionState,
    present: Plan<'a>,
    newest: Option<Plan<'a>>,
) -> BudgetedPlan<'a> {
    let now = newest.as_ref().filter(|_| adoption == AdoptionState::GoesOn).unwrap_or(&present);
    let reason = match adoption {
        AdoptionState::No | AdoptionState::GoesOn => {
            // If no pod serves, there is no cached data to lose, and no turn is needed.
            let rolls = now.children.iter().find_map(|it| it.action.cause()?.budgeted());
            rolls.filter(|_| view.serves())
        }
        AdoptionState::Waits | AdoptionState::Begins => Some(BudgetedRollout::Adoption),
    };
    let turn_state = turn_of(view, &present, now, reason);
    let idle = |plan: &Plan<'_>| {
        let named_pods_stay = view.named_pods_stay();
        let is_held_back = named_pods_stay && plan.replacement == Replacement::HeldBack;
        let is_refused = (named_pods_stay || view.pods_are_back()) && backs_off(plan);
        let is_unrecorded = view.pods_are_back() && view.may_not_record_turn();
        // A StatefulSet that may not be listed loses no further pod.
        is_held_back || is_refused || is_unrecorded || is_out_of_sight(plan)
    };
    // The resource still has its turn, but others got turns while it was out of sight. If its pods do not roll yet, they must not
    // begin before the answer is known.
    let has_free_turn = view.world.rollout_budget.has_free_turn(&view.resource.seen.key);
    let unanswered = view.unanswered().filter(|_| reason.is_some() && !has_free_turn);
    let waits_for_answer = |mut plan: Plan<'a>| {
        let workload = plan.desired.workload();
        let planned = plan.children.iter_mut().find(|it| it.kind == workload && it.action.cause().is_some());
        if let (Some(planned), Some(failure)) = (planned, unanswered) {
            planned.action = Action::BackOff(failure.clone());
        }
        plan
    };
    match (turn_state, newest) {
        (TurnState::Granted(RolloutTurn { cause: BudgetedRollout::Adoption, .. }), Some(newest)) => {
            let plan = waits_for_answer(newest);
            BudgetedPlan { turn_state: turn_state.idle(idle(&plan)), plan }
        }
        (TurnState::Waiting(_) | TurnState::Suspended(..), _) => {
            BudgetedPlan { plan: waiting(view, mounted_secrets, present, turn_state), turn_state }
        }
        (TurnState::Granted(_), _) => {
            let plan = waits_for_answer(present);
            BudgetedPlan { turn_state: turn_state.idle(idle(&plan)), plan }
        }
        (TurnState::NotNeeded, _) => BudgetedPlan { turn_state, plan: present },
    }
}

/// The turn of a resource whose plan is `now`. `reason`: why it needs a turn; `None` if it needs none.
fn turn_of(
    view: &View<'_>,
    present: &Plan<'_>,
    now: &Plan<'_>,
    reason: Option<BudgetedRollout>,
) -> TurnState {
    let (rollout_budget, key) = (&view.world.rollout_budget, &view.resource.seen.key);
    if now.children.iter().any(|it| it.action.cause().is_some_and(RolloutCause::is_edit)) {
        return rollout_budget.turn_state_of_edited(key);
    }
    let all_back = view.pods_are_back() || (present.desired.is_paused() && view.named_pods_stay());
    let done = all_back && !backs_off(now) && !is_out_of_sight(now);
    let turn_state = rollout_budget.turn_state(key, reason, done);
    // The turn may have been idle, or from another operator. Resources that got a turn meanwhile go first.
    let goes_on = present.lets_pods_go(view) || (reason.is_some() && view.named_pods_stay());
    match goes_on && !rollout_budget.has_free_turn(key) {
        true => turn_state.suspended(reason),
        false => turn_state,
    }
}

/// The plan without what would replace pods: the workload waits for its turn. So does a workload that already matches the plan
/// with the Secrets that its pods have. While a turn is suspended, no further pod is replaced, whatever template it would get.
/// A rollout that an edit began goes on where no turn is on record.
fn waiting<'a>(
    view: &View<'a>,
    mounted_secrets: &MountedSecrets,
    plan: Plan<'a>,
    turn_state: TurnState,
) -> Plan<'a> {
    let mut plan = match turn_state {
        TurnState::Suspended(..) => plan.keeping_pods(view, mounted_secrets),
        _ => plan,
    };
    let until_turn = plan.desired.is_until_turn().then(|| plan.desired.workload());
    let waits = |it: &&mut Planned| {
        let is_kept = until_turn == Some(it.kind) && it.action == Action::Keep;
        is_kept || it.action.cause().and_then(RolloutCause::budgeted).is_some()
    };
    if let Some(workload) = plan.children.iter_mut().find(waits) {
        workload.action = or_read(view, workload.kind, Action::AwaitTurn);
    }
    plan
}

/// Whether the API server refused the workload and the backoff has not ended yet.
fn backs_off(plan: &Plan<'_>) -> bool {
    workload_action(plan).is_some_and(|action| matches!(action, Action::BackOff(_)))
}

/// Whether workloads of this kind may not be listed.
fn is_out_of_sight(plan: &Plan<'_>) -> bool {
    workload_action(plan).is_some_and(|action| matches!(action, Action::Unavailable(Unavailable::Refused(_))))
}

fn workload_action<'a>(plan: &'a Plan<'_>) -> Option<&'a Action> {
    let workload = plan.desired.workload();
    plan.children.iter().find(|it| it.kind == workload).map(|it| &it.action)
}

impl View<'_> {
    /// Whether a rollout of the StatefulSet is between two pods: Kubernetes replaces no further pod until somebody writes.
    /// `false` while it is unknown whether the last write was stored: then the next pod may be on its way.
    fn named_pods_stay(&self) -> bool {
        let child = self.resource.child(ChildKind::StatefulSet);
        let is_ours = self.resource.workload() == ChildKind::StatefulSet && !child.must_read;
        let is_known = is_ours && self.unanswered().is_none();
        is_known && self.our_workload().is_some_and(stateful_set_rollout::is_between_two_pods)
    }

    /// Whether no rollout is under way: all pods run the live template and are available, or there are none.
    /// `false` while it is unknown whether the last write was stored.
    fn pods_are_back(&self) -> bool {
        let child = self.resource.child(self.resource.workload());
        let is_open = child.must_read || self.unanswered().is_some();
        !is_open && self.our_workload().is_none_or(is_rolled_out)
    }

    /// Whether no turn is on record, and none can be recorded now, because the status may not be written yet. Without a record no
    /// pod is replaced. `false` while it is unknown which status is stored.
    fn may_not_record_turn(&self) -> bool {
        self.status_backs_off() && self.knows_status() && !self.records_turn()
    }

    /// The failure that leaves unknown whether the last write of the workload was stored. `None` once it may be sent again.
    fn unanswered(&self) -> Option<&Failure> {
        let backoff = self.resource.child(self.resource.workload()).backoff.as_deref()?;
        let waits = backoff.retry_at.is_some_and(|at| self.now < at);
        (waits && backoff.failure.category.may_be_stored()).then_some(&backoff.failure)
    }
}
