//! One look at one resource, stage by stage: validate, mounted Secrets, desired, compare, plan, budget, status, changes,
//! effects; and last, where these send nothing, what to ask the pods and when to look again. Pure.
//!
//! Some stages run more than once in a pass. A turn depends on the first plan, and the turn may call for another plan:
//! - [`plan`] calls `compare` for each plan that it makes.
//! - [`run`] hands `plan` to [`budget`] as a closure. `budget` plans again in two cases: with the newest templates, where the
//!   resource has its turn to adopt them; and with the Secrets that the pods have, while a rollout for changed Secrets waits for
//!   its turn.
//! - [`Plan::keeping_pods`] plans again with a partition that lets no further pod go. `plan` calls it while no pod may be
//!   replaced, `budget` while a turn is suspended.
//!
//! A pass is level-triggered: it sees the world as it is ([`view`]) and never depends on which event woke it. Children
//! are written first, the status last, with the results of those writes; a pass that finds nothing to do sends
//! nothing. Called by [`super::reconciler::Reconciler`], which folds the outcome back into the world.

pub mod action;
pub mod ask_figures;
pub mod asking;
pub mod backoff_hold;
pub mod budget;
pub mod cause_of_apply;
pub mod changed_secrets;
pub mod changes;
pub mod compare;
pub mod desired;
pub mod effects;
pub mod intent_of_view;
pub mod listening;
pub mod mounted_secrets;
pub mod outcome;
pub mod owner;
pub mod plan;
pub mod replicas;
pub mod rotation;
pub mod secret_content;
pub mod settled;
pub mod status;
pub mod stuck_pods;
pub mod template_progress;
pub mod validate;
pub mod view;
pub mod warnings;

pub use budget::turn_without_writes;
pub use outcome::ComparedChild;
pub use outcome::Pass;
pub use outcome::PassFindings;
pub use outcome::Settled;
pub use view::View;

use super::rollout_budget::TurnState;
use action::{Planned, unserved};
use asking::Asking;
use budget::BudgetedPlan;
use plan::Plan;

/// Runs one pass.
#[must_use]
pub fn run(view: &View<'_>) -> Pass {
    if view.resource.seen.deleting {
        let turn_state = Some(TurnState::NotNeeded);
        return Pass { turn_state, unserved: Some(Vec::new()), ..Pass::default() };
    }
    // validate: after this nothing reads the raw spec
    let spec = match validate::validated(view) {
        Ok(spec) => spec,
        Err(broken) => return invalid(view, &broken),
    };
    // mounted Secrets: which ones, and what is known of them
    let mounted_secrets = mounted_secrets::resolve(view, &spec);
    if !mounted_secrets.reads.is_empty() {
        // The turn stays as it is: a read always ends.
        return Pass::from_reads(mounted_secrets.reads);
    }
    // desired: every child, rendered only if that is needed
    let desired = desired::children(view, &spec, &mounted_secrets);
    if !mounted_secrets.proofs.is_empty() && !desired.keeps_template() {
        return Pass::from_reads(mounted_secrets.proofs);
    }
    // compare: in what each child differs; plan: what to do about it
    let plan = |desired| plan::plan(view, &mounted_secrets, desired);
    let present = plan(desired);
    // budget: whether pods may roll now without an edit of the user. It plans again where they may roll to the newest templates,
    // and where they have to wait with the Secrets that they have.
    let budgeted = budget::apply(view, &spec, &mounted_secrets, present, plan);
    // status: computed from the plan
    let computed = status::of_valid(view, &spec, &mounted_secrets, &budgeted);
    // changes: what each write changes, for people; where that is not known, the workload is read first
    let to_send = changes::of_plan(view, &budgeted.plan);
    // effects: what is to be sent
    let requests = effects::requests(view, &mounted_secrets, &budgeted, to_send, &computed.status);
    let BudgetedPlan { plan: Plan { desired, children, replacement: _ }, turn_state: _ } = budgeted;
    // questions, and settled: if nothing is to be sent, what to ask the pods, and when to look again
    let asking = match requests.is_empty() {
        true => vec![rotation::asking(view, &spec, &mounted_secrets), ask_figures::asking(view, &spec)],
        false => Vec::new(),
    };
    let settled = requests.is_empty().then(|| {
        let settled = settled::of_valid(view, &spec, &mounted_secrets, &children, &computed);
        settled.no_longer_than(asking.iter().filter_map(Asking::at))
    });
    let kept = |it: Planned| it.compared?.into_kept(view, it.kind);
    Pass {
        requests,
        turn_state: Some(computed.turn_state),
        secret_hash: mounted_secrets.found(),
        unserved: Some(unserved(&children).collect()),
        settled,
        questions: asking.into_iter().filter_map(Asking::question).collect(),
        findings: PassFindings {
            compared_children: children.into_iter().filter_map(kept).collect(),
            rendered_hashes: desired.news(),
        },
    }
}

/// The pass over a resource whose spec cannot be built from: no child is touched.
fn invalid(view: &View<'_>, broken: &str) -> Pass {
    let (status, turn_state) = status::of_invalid(view, broken, budget::turn_without_writes(view));
    let mut pass = Pass { turn_state: Some(turn_state), unserved: Some(Vec::new()), ..Pass::default() };
    if view.status_differs(&status) {
        pass.requests.push(view.write_status(&status, None));
    } else {
        pass.settled = Some(settled::of_invalid(view, &status));
    }
    pass
}
