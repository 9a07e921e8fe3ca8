//! Sixth stage: whether pods roll now that nobody edited. Pure; called by the pass; who has a slot is in
//! [`crate::kernel::rollout_budget`].

use super::action::{Action, Planned};
use super::desired::DesiredChildren;
use super::mounted_secrets::MountedSecrets;
use super::plan;
use super::progress::{is_complete, is_rolled_out};
use super::view::View;
use crate::api::Validated;
use crate::api::status::BudgetedRollout;
use crate::kernel::effect::RolloutCause;
use crate::kernel::failure::Category;
use crate::kernel::object::ChildKind;
use crate::kernel::rollout_budget::{PermitState, RolloutPermit};

/// The desired children and the plan after the budget was applied.
pub struct BudgetedPlan<'a> {
    /// Its children.
    pub desired: DesiredChildren<'a>,
    /// The action for each child.
    pub planned: Vec<Planned>,
    /// The permit of the resource.
    pub permit_state: PermitState,
}

/// The permit of a resource in a pass that writes no child.
#[must_use]
pub fn permit_without_writes(view: &View<'_>) -> PermitState {
    view.world.rollout_budget.permit_state(&view.resource.seen.key, None, view.pods_are_back())
}

/// Decides whether pods may roll now without an edit of the user. Without a permit the Deployment waits; with a permit
/// for adoption the newest template becomes the desired one.
#[must_use]
pub fn apply<'a>(
    view: &View<'a>,
    spec: &'a Validated,
    (mounted_secrets, desired, mut planned): (&'a MountedSecrets, DesiredChildren<'a>, Vec<Planned>),
) -> BudgetedPlan<'a> {
    let (rollout_budget, key) = (&view.world.rollout_budget, &view.resource.seen.key);
    let render = || {
        let desired = view.newest_desired_children(spec, mounted_secrets);
        (plan::plan(view, &desired, mounted_secrets), desired)
    };
    let adopts = rollout_budget.adopts() && desired.is_outdated() && !spec.paused;
    let begun = rollout_budget.permit(key).is_some_and(|permit| permit.cause == BudgetedRollout::Adoption);
    let newest = (adopts && begun).then(render);
    let now = newest.as_ref().map_or(&planned, |(planned, _)| planned);
    // If no pod serves, there is no cached data to lose, and no permit is needed.
    let rolls = now.iter().find_map(|it| it.action.cause()?.budgeted()).filter(|_| view.serves());
    let settled =
        || is_complete(view, spec, (&desired, &planned)) && planned.iter().all(|it| it.action.is_in_place());
    let reason = rolls.or_else(|| (adopts && !begun && settled()).then_some(BudgetedRollout::Adoption));
    let permit_state = rollout_budget.permit_state(key, reason, view.pods_are_back() && !backs_off(now));
    let idle = |planned: &[Planned]| view.pods_are_back() && backs_off(planned);
    match permit_state {
        PermitState::Granted(RolloutPermit { cause: BudgetedRollout::Adoption, .. }) if adopts => {
            let (planned, desired) = newest.unwrap_or_else(render);
            BudgetedPlan { permit_state: permit_state.idle(idle(&planned)), planned, desired }
        }
        PermitState::Waiting(_) => {
            let rolls = |it: &&mut Planned| it.action.cause().and_then(RolloutCause::budgeted).is_some();
            if let Some(deployment) = planned.iter_mut().find(rolls) {
                deployment.action = plan::or_look(view, deployment.kind, Action::AwaitPermit);
            }
            BudgetedPlan { desired, planned, permit_state }
        }
        PermitState::NotNeeded | PermitState::Granted(_) => {
            BudgetedPlan { permit_state: permit_state.idle(idle(&planned)), desired, planned }
        }
    }
}

/// Whether the API server refused the Deployment and the backoff has not ended yet.
fn backs_off(planned: &[Planned]) -> bool {
    planned.iter().any(|it| it.kind == ChildKind::Deployment && matches!(it.action, Action::BackOff(_)))
}

impl View<'_> {
    /// Whether no rollout is under way: all pods run the live template and are available, or there is no Deployment.
    /// `false` while it is unknown whether the last write was stored.
    fn pods_are_back(&self) -> bool {
        let slot = self.resource.slot(ChildKind::Deployment);
        let unanswered = slot.backoff.as_ref().is_some_and(|it| {
            it.failure.category == Category::Transient && it.retry_at.is_some_and(|at| self.now < at)
        });
        !slot.look && !unanswered && self.our_deployment().is_none_or(is_rolled_out)
    }
}
