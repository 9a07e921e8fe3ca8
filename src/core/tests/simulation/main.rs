//! The kernel against a model API server under virtual time: random histories of edits, lost replies, refused
//! requests, restarts, deletions and meddling, and what has to hold after each of them.
//!
//! A failing case shrinks to a short list of [`history::Op`]s, which is all that is needed to run it again.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test ends where the model is not as it should be"
)]

mod altered;
mod default_images;
mod disasters;
mod fleet;
mod follower;
mod held_pods;
mod history;
mod in_place;
mod judged_secrets;
mod kube_events;
mod model;
mod orphans;
mod partitions;
mod races;
mod requests;
mod rollouts_without_edit;
mod rotations;
mod secrets;
mod server_list;
mod sight;
mod simulation;
mod spellings;
mod taking_secrets;
mod turns;
mod unserved;
mod warmth;
mod words;
mod workloads;

use history::{Op, op};
use model::NAMED_AND_SCALED;
use proptest::prelude::*;
use simulation::Simulation;

/// Whether the operator that sends a request is there when the answer comes, hears it, and knows the resource still.
const fn is_told_all(op: &Op) -> bool {
    let may_go = matches!(op, Op::Delete | Op::Orphan);
    let may_miss =
        matches!(op, Op::LoseReply(_) | Op::Restart | Op::ChangeLeader | Op::Lead(_) | Op::Befall(_));
    // The model's record of ownership counts a list as a whole: it does not show what goes within one when an exporter or
    // requests of a StatefulSet are no longer asked for.
    let may_shed = matches!(op, Op::Edit(NAMED_AND_SCALED..));
    !may_go && !may_miss && !may_shed
}

/// Whether the API server does then what the operator asks for.
const fn answers(op: &Op) -> bool {
    matches!(op, Op::Execute(_) | Op::Delay(_))
}

proptest! {
    // 256 histories each; `make search` tries 20,000.
    #![proptest_config(ProptestConfig { max_shrink_iters: 5_000, ..ProptestConfig::default() })]

    #[test]
    fn after_any_history_the_children_are_as_desired_and_the_status_tells_the_truth(
        history in proptest::collection::vec(op(), 0..60),
    ) {
        let mut simulation = Simulation::new();
        simulation.model.create_resource();
        for op in &history {
            simulation.apply(op);
        }
        simulation.settle();
        simulation.model.check_converged();
        simulation.model.check_carries_its_secret();
    }

    #[test]
    fn nothing_depends_on_what_a_snapshot_leaves_out(history in proptest::collection::vec(op(), 0..30)) {
        let mut simulation = Simulation::new();
        simulation.with_twin = true;
        simulation.model.create_resource();
        for op in &history {
            simulation.apply(op);
        }
        simulation.settle();
    }

    #[test]
    fn pods_roll_only_as_often_as_somebody_gave_a_cause(
        history in proptest::collection::vec(op(), 0..60),
    ) {
        let mut simulation = Simulation::new();
        simulation.model.create_resource();
        for op in &history {
            simulation.apply(op);
        }
        simulation.settle();
        let (rollouts, causes) = (simulation.model.rollouts, simulation.model.causes);
        prop_assert!(rollouts <= causes, "{rollouts} rollouts for {causes} causes");
        let (counted, happened) = (simulation.counted, rollouts + simulation.model.undone);
        prop_assert!(counted <= happened, "{counted} rollouts are counted, and {happened} happened");
        let told = &simulation.told;
        prop_assert_eq!(told.len(), counted, "rollouts are told of, and counted: {:?}", told);
    }

    /// The metrics count those of the operator, and an Event tells of each; somebody else's change of a template is none until it
    /// is put back.
    #[test]
    fn where_every_answer_arrives_each_rollout_is_counted(history in proptest::collection::vec(op(), 0..60)) {
        let mut simulation = Simulation::new();
        simulation.model.create_resource();
        let mut by_others = 0;
        for op in history.iter().filter(|op| is_told_all(op)) {
            let before = simulation.model.rollouts;
            simulation.apply(op);
            by_others += if answers(op) { 0 } else { simulation.model.rollouts - before };
        }
        simulation.settle();
        let happened = simulation.model.rollouts - by_others;
        prop_assert_eq!(simulation.counted, happened, "rollouts are counted, and happened");
        let told = &simulation.told;
        prop_assert_eq!(told.len(), simulation.counted, "rollouts are told of, and counted: {:?}", told);
    }

    #[test]
    fn a_settled_world_costs_nothing_and_neither_does_a_restart(
        history in proptest::collection::vec(op(), 0..40),
    ) {
        let mut simulation = Simulation::new();
        simulation.model.create_resource();
        for op in &history {
            simulation.apply(op);
        }
        simulation.settle();
        prop_assert_eq!(simulation.settle(), 0, "requests of a settled operator");
        let before = simulation.model.version();
        simulation.restart();
        let sent = simulation.settle();
        prop_assert_eq!(simulation.model.version(), before, "a restart wrote something");
        let (reads, repeated) = (simulation.model.missing_reads(), simulation.model.repeated_requests());
        prop_assert!(sent <= reads + repeated, "{sent} requests after a restart");
    }
}
