//! StatefulSets that replace their pods: in which order, what is waited for, and what is said of it.

use memcached_operator_core::kernel::effect::Effect;
use memcached_operator_core::kernel::failure::Category;
use memcached_operator_core::kernel::object::{ChildKind, Watched};
use memcached_operator_core::kernel::request::Request;
use rstest::rstest;

use super::{edited, one_step, pass, readiness, run, with_a_secret};
use crate::model::{NAMED, NAMED_AND_SCALED, NAMED_WITH_SECRET, NEVER_SERVES};
use crate::simulation::Simulation;

#[test]
fn named_pods_are_replaced_one_by_one() {
    let mut simulation = edited(NAMED, NAMED + 1);
    run(&mut simulation);
    simulation.model.check_converged();
    let applies = simulation.requested.iter().filter(|it| *it == "apply StatefulSet").count();
    assert_eq!(applies, 4, "one for each pod, and one at the end");
}

#[test]
fn a_rollout_of_named_pods_that_somebody_stops_by_hand_goes_on() {
    let mut simulation = edited(NAMED, NAMED + 1);
    while simulation.model.pods_of_the_new_template() != 2 {
        one_step(&mut simulation);
    }
    simulation.model.stop_rollout();
    run(&mut simulation);
    simulation.model.check_converged();
}

/// A node is drained in the midst of a rollout. The pod on it counts as ready until it ends.
#[test]
fn the_next_named_pod_waits_while_another_is_being_deleted() {
    let mut simulation = edited(NAMED, NAMED + 1);
    while simulation.model.pods_of_the_new_template() != 1 {
        one_step(&mut simulation);
    }
    while simulation.model.ready_pods(ChildKind::StatefulSet) != 3 {
        simulation.model.work();
    }
    simulation.model.lose_pod(0);
    while let Some(event) = simulation.model.next_event_of(Watched::Pod) {
        simulation.step(event);
    }
    simulation.requested.clear();
    simulation.hear();
    while !simulation.requests.is_empty() {
        simulation.answer(0, true, None);
        simulation.hear();
    }
    assert!(!simulation.requested.iter().any(|it| it == "apply StatefulSet"), "{:?}", simulation.requested);
    run(&mut simulation);
    simulation.model.check_converged();
}

#[test]
fn a_pod_that_serves_after_all_is_not_deleted_by_a_request_of_before() {
    for another_leads in [false, true] {
        let mut simulation = edited(NAMED, NEVER_SERVES);
        // With the gate MaxUnavailableStatefulSet only the operator deletes such a pod.
        simulation.model.upgrade();
        run(&mut simulation);
        simulation.model.edit(NAMED + 1);
        simulation.hear();
        while !simulation.requests.iter().any(is_deletion_of_pod) {
            one_step(&mut simulation);
            simulation.hear();
        }
        simulation.model.push_image();
        if another_leads {
            simulation.restart();
            simulation.hear();
            assert_eq!(simulation.left_behind.len(), 1);
            simulation.execute_late(0);
        }
        run(&mut simulation);
        simulation.settle();
        simulation.model.check_converged();
    }
}

#[test]
fn deletions_of_pods_that_are_refused_for_good_are_sent_again_after_five_minutes() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.model.upgrade();
    simulation.model.edit(NAMED_WITH_SECRET);
    simulation.settle();
    simulation.model.edit(NAMED);
    simulation.hear();
    while !simulation.requests.iter().any(is_deletion_of_pod) {
        one_step(&mut simulation);
        simulation.hear();
    }
    simulation.requested.clear();
    for _ in 0..simulation.requests.len() {
        simulation.answer(0, false, Some(Category::Invalid));
    }
    pass(&mut simulation, 290);
    assert_eq!(simulation.requested.iter().filter(|it| *it == "delete Pod").count(), 0);
    assert_eq!(simulation.failure, Some(Category::Invalid), "the metrics count it");
    pass(&mut simulation, 20);
    run(&mut simulation);
    simulation.model.check_converged();
    assert_eq!(simulation.failure, None);
}

fn is_deletion_of_pod(effect: &Effect) -> bool {
    matches!(effect, Effect::Send { request, .. } if matches!(**request, Request::DeletePod(_)))
}

#[rstest]
#[case::in_a_deployment(3, ChildKind::Deployment, 1)]
#[case::with_names(NAMED_WITH_SECRET, ChildKind::StatefulSet, 3)]
fn no_pod_that_serves_goes_for_an_edit_while_a_secret_is_missing(
    #[case] variant: u8,
    #[case] kind: ChildKind,
    #[case] pods: i32,
) {
    let mut simulation = with_a_secret(variant);
    simulation.model.set_secret(None);
    simulation.settle();
    simulation.model.change_spec(|spec| spec.image = Some("memcached:1.6.40".to_owned()));
    simulation.model.trigger(1);
    simulation.settle();
    assert_eq!(simulation.model.rollouts, 0);
    assert_eq!(readiness(&simulation, kind), (pods, "SecretNotFound".to_owned()));
    simulation.restart();
    simulation.settle();
    assert_eq!(simulation.model.rollouts, 0);
    simulation.model.set_secret(Some(0));
    simulation.settle();
    simulation.model.check_converged();
    assert_eq!(simulation.model.rollouts, 1, "the edit and the trigger, at once");
    assert_eq!(readiness(&simulation, kind), (pods, "MemcachedReady".to_owned()));
}

#[test]
fn a_rollout_of_named_pods_stands_still_while_a_secret_is_missing_and_that_is_no_failure() {
    let mut simulation = with_a_secret(NAMED_WITH_SECRET);
    simulation.model.trigger(1);
    while simulation.model.pods_of_the_new_template() != 1 {
        one_step(&mut simulation);
    }
    simulation.model.set_secret(None);
    simulation.settle();
    let short = readiness(&simulation, ChildKind::StatefulSet);
    assert_eq!(short, (2, "SecretNotFound".to_owned()), "the pod that was going waits for the Secret");
    simulation.model.set_secret(Some(0));
    while simulation.model.ready_pods(ChildKind::StatefulSet) != 3 {
        simulation.model.work();
    }
    simulation.model.set_secret(None);
    while let Some(event) = simulation.model.next_event_of(Watched::Secret) {
        simulation.step(event);
    }
    simulation.settle();
    pass(&mut simulation, 700);
    assert_eq!(simulation.model.pods_of_the_new_template(), 1, "the others serve");
    assert_eq!(readiness(&simulation, ChildKind::StatefulSet), (3, "SecretNotFound".to_owned()));
    simulation.model.set_secret(Some(0));
    run(&mut simulation);
    simulation.model.check_converged();
    let failed = simulation.said.iter().any(|reason| reason == "ProgressDeadlineExceeded");
    assert!(!failed, "{:?}", simulation.said);
}

/// A StatefulSet counts no deadline by itself: what an operator knows after a restart is the status.
#[test]
fn named_pods_that_never_serve_are_stalled_after_600_seconds_whoever_counts() {
    let mut simulation = edited(NAMED, NEVER_SERVES);
    run(&mut simulation);
    let since = |simulation: &Simulation| simulation.model.resource().status.progressing_since.clone();
    let stalled = |simulation: &Simulation| {
        let conditions = &simulation.model.resource().status.conditions;
        let stalled = conditions.iter().find(|it| it.type_ == "Stalled");
        stalled.map(|it| (it.reason.to_string(), it.message.clone()))
    };
    let begun = since(&simulation);
    assert!(begun.is_some());
    pass(&mut simulation, 590);
    simulation.restart();
    run(&mut simulation);
    assert_eq!((stalled(&simulation), since(&simulation)), (None, begun.clone()));
    pass(&mut simulation, 15);
    let words =
        "StatefulSet cache has made no progress for 10 minutes: container memcached cannot pull its image";
    let over = Some(("ProgressDeadlineExceeded".to_owned(), words.to_owned()));
    assert_eq!((stalled(&simulation), since(&simulation)), (over, begun));
    simulation.settle();
    simulation.model.check_converged();
    assert_eq!((stalled(&simulation), since(&simulation)), (None, None));
}

/// The autoscaler decides on the number of pods until it is gone: the apply of the edit leaves it.
#[test]
fn an_edit_that_ends_the_autoscaling_replaces_one_pod_at_a_time() {
    let mut simulation = edited(NAMED_AND_SCALED, NAMED_AND_SCALED);
    simulation.model.tamper_replicas(4);
    run(&mut simulation);
    simulation.model.edit(NAMED);
    run(&mut simulation);
    simulation.model.check_converged();
}

#[test]
fn fewer_pods_and_another_template_at_once_replace_the_last_pod_that_stays() {
    let mut simulation = edited(NAMED + 1, NAMED + 3);
    run(&mut simulation);
    simulation.model.check_converged();
    let applies = simulation.requested.iter().filter(|it| *it == "apply StatefulSet").count();
    assert_eq!(applies, 3, "one for each of two pods, and one at the end");
}

/// The model says where a pod goes out of turn, or with keys in it.
#[test]
fn a_pod_that_misses_a_probe_in_a_rollout_changes_nothing_in_its_order() {
    for at in 0..3 {
        let mut simulation = edited(NAMED, NAMED + 1);
        while simulation.model.pods_of_the_new_template() != 1 {
            one_step(&mut simulation);
        }
        simulation.model.stumble(at);
        let mut steps = 0;
        while one_step(&mut simulation) {
            if steps % 5 == 0 {
                simulation.model.stumble(at);
            }
            steps += 1;
            assert!(steps < 1_000, "the rollout does not end");
        }
        simulation.settle();
        simulation.model.check_converged();
        let deleted = simulation.said.iter().any(|reason| reason == "StuckPodDeleted");
        assert!(!deleted, "{:?}", simulation.said);
    }
}

#[rstest]
#[case::with_the_gate_of_unavailable_pods(true)]
#[case::without_it(false)]
fn named_pods_that_never_found_their_secret_get_the_template_that_needs_none(#[case] gate: bool) {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    if gate {
        simulation.model.upgrade();
    }
    simulation.model.edit(NAMED_WITH_SECRET);
    run(&mut simulation);
    assert_eq!(readiness(&simulation, ChildKind::StatefulSet).0, 0);
    // No time passes: a pod without keys is not given the two minutes of others.
    simulation.model.edit(NAMED);
    run(&mut simulation);
    simulation.model.check_converged();
}

/// A pod below the partition comes back with a template whose Secret was deleted: nobody else tells that it never starts.
#[rstest]
#[case::with_the_gate_of_unavailable_pods(true)]
#[case::without_it(false)]
fn a_rollout_gets_past_a_pod_that_waits_for_a_secret_of_the_template_before(#[case] gate: bool) {
    let mut simulation = with_a_secret(NAMED_WITH_SECRET);
    if gate {
        simulation.model.upgrade();
    }
    simulation.model.edit(NAMED);
    while simulation.model.pods_of_the_new_template() != 1 {
        one_step(&mut simulation);
    }
    simulation.model.set_secret(None);
    simulation.model.lose_pod(0);
    pass(&mut simulation, 110);
    assert_eq!(simulation.model.pods_of_the_new_template(), 1, "a pod is given up after two minutes");
    pass(&mut simulation, 15);
    run(&mut simulation);
    simulation.model.check_converged();
}
