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
mod history;
mod in_place;
mod judged_secrets;
mod kube_events;
mod model;
mod orphans;
mod races;
mod requests;
mod rollouts_without_edit;
mod rotations;
mod secrets;
mod sight;
mod simulation;
mod taking_secrets;
mod turns;
mod warmth;
mod words;
mod workloads;

use history::op;
use proptest::prelude::*;
use simulation::Simulation;

proptest! {
    // 256 histories each; PROPTEST_CASES=20000 for a long night.
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
