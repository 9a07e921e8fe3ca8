//! Children that outlive their resource (`kubectl delete --cascade=orphan`), and the next resource of that name.

use crate::disasters::Disaster;
use crate::history::Op;
use crate::simulation::Simulation;

#[test]
fn what_a_resource_left_behind_is_taken_back_and_nothing_rolls() {
    for variant in 0..7 {
        let mut simulation = Simulation::new();
        simulation.model.create_resource();
        simulation.model.set_secret(Some(0));
        simulation.model.edit(variant);
        simulation.settle();
        let (before, rollouts) = (simulation.model.uids(), simulation.model.rollouts);
        simulation.model.orphan();
        simulation.settle();
        simulation.model.create_resource();
        simulation.model.edit(variant);
        simulation.settle();
        simulation.model.check_converged();
        assert_eq!((simulation.model.uids(), simulation.model.rollouts), (before, rollouts), "{variant}");
    }
}

#[test]
fn what_was_left_behind_and_is_not_asked_for_any_more_goes() {
    // With a policy, and with an autoscaler; the end of the resource is heard of first, or last.
    for (variant, first) in [(5, 0), (5, 1), (6, 0), (6, 1)] {
        let mut simulation = Simulation::new();
        simulation.model.create_resource();
        simulation.model.edit(variant);
        simulation.settle();
        simulation.model.orphan();
        while let Some(event) = simulation.model.next_event(first) {
            simulation.step(event);
        }
        simulation.model.create_resource();
        simulation.settle();
        simulation.model.check_converged();
    }
}

#[test]
fn what_stands_in_the_way_of_an_apply_is_removed_also_where_it_was_compared_for_an_earlier_resource() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    let history = [
        Op::Deliver(0),
        Op::Execute(6),
        Op::Orphan,
        Op::TamperPort,
        Op::Recreate,
        Op::Execute(0),
        Op::Befall(Disaster::TakeRole),
    ];
    history.iter().for_each(|op| simulation.apply(op));
    simulation.hear();
    simulation.answer(0, true, None);
    simulation.apply(&Op::CollectGarbage);
    simulation.hear();
    simulation.settle();
    simulation.model.check_converged();
}

#[test]
fn a_resource_on_its_way_out_takes_nothing_back() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.settle();
    let before = simulation.model.uids();
    simulation.model.orphan();
    // Its children are heard of first.
    while let Some(event) = simulation.model.next_event(1) {
        simulation.step(event);
        if simulation.requests.len() == 1 {
            simulation.answer(0, true, None);
        }
    }
    simulation.settle();
    assert_eq!(simulation.model.uids(), before, "it would have been deleted with its owner");
}

#[test]
fn what_somebody_changed_before_a_cache_was_taken_back_replaces_its_pods_no_second_time() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.settle();
    simulation.model.patch_image_and_network();
    simulation.settle();
    simulation.model.trigger(0);
    simulation.settle();
    simulation.model.orphan();
    simulation.settle();
    let (said, counted) = (simulation.said.len(), simulation.counted);
    simulation.model.create_resource();
    simulation.settle();
    let told = simulation.said[said..].iter().filter(|it| it.contains("Rollout") || it.contains("Replaced"));
    assert_eq!(told.collect::<Vec<_>>(), ["RolloutStarted"]);
    assert_eq!(simulation.counted, counted + 1);
}
