//! One look at one resource, stage by stage: validate, mounted Secrets, desired, compare, plan, budget, status, effects.
//! Pure.
//!
//! A pass is level-triggered: it sees the world as it is ([`view`]) and never depends on which event woke it. Children
//! are written first, the status last, with the results of those writes; a pass that finds nothing to do sends
//! nothing. Called by [`super::reconciler::Reconciler`], which folds the outcome back into the world.

pub mod action;
pub mod budget;
pub mod compare;
pub mod desired;
pub mod effects;
pub mod mounted_secrets;
pub mod outcome;
pub mod owner;
pub mod plan;
pub mod progress;
pub mod rollout_cause;
pub mod settled;
pub mod status;
pub mod validate;
pub mod view;
pub mod warnings;

pub use budget::permit_without_writes;
pub use compare::compare;
pub use outcome::ComparedChild;
pub use outcome::Pass;
pub use outcome::Send;
pub use outcome::Settled;
pub use view::View;

use super::go_operator;
use super::rollout_budget::PermitState;
use super::status::patch;
use budget::BudgetedPlan;
use status::ComputedStatus;

/// Runs one pass.
#[must_use]
pub fn run(view: &View<'_>) -> Pass {
    if view.resource.seen.deleting {
        return Pass { permit_state: Some(PermitState::NotNeeded), ..Pass::default() };
    }
    // validate: after this nothing reads the raw spec
    let spec = match validate::validated(view) {
        Ok(spec) => spec,
        Err(broken) => return invalid(view, &broken),
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
    // compare and plan: what to do about each child
    let planned = plan::plan(view, &desired, &mounted_secrets);
    // rollout budget: whether pods may roll now without an edit of the user
    let BudgetedPlan { desired, planned, permit_state } =
        budget::apply(view, &spec, (&mounted_secrets, desired, planned));
    // status: computed from the plan
    let ComputedStatus { status, changes_at } =
        status::of_valid(view, &spec, (&mounted_secrets, &desired, &planned), permit_state);
    // effects
    let mut pass = Pass {
        compared_children: compare::compared_children(view, &planned),
        secret_hash: mounted_secrets.found(),
        permit_state: Some(permit_state),
        ..Pass::default()
    };
    let warnings = || warnings::of_pods(&spec, &mounted_secrets);
    let sends = planned.iter().filter_map(|it| effects::send(view, &desired, (it, &warnings)));
    let (reads, writes): (Vec<_>, Vec<_>) = sends.partition(|it| matches!(it, Send::Read(_)));
    if reads.is_empty() && writes.is_empty() {
        // Otherwise only the answers tell.
        pass.permit_state = Some(permit_state.stalled(patch::says_stalled(&status)));
    }
    let waits_for_status = !writes.is_empty() && view.may_prove_status();
    if !reads.is_empty() {
        // The writes and the status depend on what the reads find.
        pass.sends = reads;
    } else if !writes.is_empty() && view.may_send_children(&planned, permit_state) {
        pass.sends = writes;
    } else if view.status_differs(&status) || waits_for_status {
        let warnings = go_operator::warning(&view.resource.seen.status, &status, &spec);
        pass.sends.push(view.write_status(status, warnings));
    } else {
        pass.settled = Some(settled::of_valid(
            view,
            &spec,
            (&mounted_secrets, &planned),
            ComputedStatus { status, changes_at },
        ));
    }
    pass.rendered_hashes = desired.news();
    pass
}

/// The pass over a resource whose spec cannot be built from: no child is touched.
fn invalid(view: &View<'_>, broken: &str) -> Pass {
    let permit_state = budget::permit_without_writes(view);
    let status = status::of_invalid(view, broken, permit_state);
    let mut pass = Pass { permit_state: Some(permit_state.stalled(true)), ..Pass::default() };
    if view.status_differs(&status) {
        pass.sends.push(view.write_status(status, None));
    } else {
        pass.settled = Some(settled::of_invalid(view, &status));
    }
    pass
}
