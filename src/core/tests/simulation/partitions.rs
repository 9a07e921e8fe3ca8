//! Where the partition of a StatefulSet begins, and when all pods are held again: histories in which the numbers of one moment
//! say too little. The model checks each partition that is written.

use memcached_operator_core::kernel::desired::partition::KEEPS_ALL;
use memcached_operator_core::kernel::object::ChildKind;

use crate::history::Op;
use crate::model::{Cluster, NAMED, NAMED_WITH_SECRET, TWO_NAMED};
use crate::simulation::Simulation;
use crate::workloads::answer_all;

fn change_and_settle(simulation: &mut Simulation, op: &Op) {
    simulation.apply(op);
    answer_all(simulation);
}

/// A template, another one at partition 0 because no pod holds keys, and the first one again before that is over: the
/// StatefulSet's revisions say that all pods have it, and none does.
#[test]
fn an_edit_after_a_template_that_came_back_takes_no_step_back() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    let run_set = Op::RunStatefulSet;
    for op in [
        Op::Edit(11),
        run_set.clone(),
        Op::Secret(Some(0)),
        Op::Edit(9),
        run_set.clone(),
        run_set.clone(),
        Op::Edit(8),
        run_set,
        Op::Edit(12),
    ] {
        change_and_settle(&mut simulation, &op);
    }
    simulation.settle();
    simulation.model.check_converged();
}

/// The last pod of the other template is being deleted: nobody has seen all pods with the template that came back.
#[test]
fn an_edit_while_the_last_pod_of_a_template_that_went_is_being_deleted_takes_no_step_back() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    let run_set = || Op::RunStatefulSet;
    let to_the_other =
        [Op::Edit(8), run_set(), Op::Edit(9), run_set(), run_set(), run_set(), run_set(), run_set()];
    for op in to_the_other.into_iter().chain([Op::Edit(8), run_set()]) {
        change_and_settle(&mut simulation, &op);
    }
    assert_eq!(simulation.model.partition(), 0);
    change_and_settle(&mut simulation, &Op::Edit(9));
    assert_eq!(simulation.model.partition(), 0);
    simulation.settle();
    simulation.model.check_converged();
}

/// A rollout of three named pods, paused when the last of them may go: all have the new template, and the partition stays 0.
fn paused_at_partition_zero(variant: u8) -> Simulation {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.model.set_secret(Some(0));
    simulation.model.edit(variant);
    simulation.settle();
    simulation.model.trigger(0);
    while simulation.model.partition() != 0 {
        change_and_settle(&mut simulation, &Op::RunStatefulSet);
    }
    simulation.model.pause(true);
    simulation.settle();
    assert_eq!(simulation.model.partition(), 0);
    simulation
}

/// The status counts a pod that is being deleted as one of another template, until it is back. No other one goes before that.
#[test]
fn an_edit_while_a_pod_is_away_after_a_rollout_begins_with_the_last_pod() {
    for steps in 1..4 {
        let mut simulation = paused_at_partition_zero(NAMED);
        simulation.model.lose_pod(0);
        answer_all(&mut simulation);
        for _ in 1..steps {
            change_and_settle(&mut simulation, &Op::RunStatefulSet);
        }
        simulation.model.change_spec(|spec| {
            spec.paused = None;
            spec.memcached.get_or_insert_default().threads = Some(3);
        });
        answer_all(&mut simulation);
        assert_eq!(simulation.model.partition(), 3, "after {steps} steps");
        simulation.settle();
        simulation.model.check_converged();
    }
}

/// Nobody holds the pods of a paused resource at partition 0: Kubernetes gives them the template of somebody else.
#[test]
fn a_template_of_somebody_else_that_all_named_pods_have_is_put_back_one_pod_at_a_time() {
    let mut simulation = paused_at_partition_zero(NAMED);
    simulation.model.tamper_template();
    simulation.settle();
    let told = simulation.told.len();
    simulation.model.pause(false);
    answer_all(&mut simulation);
    assert_eq!(simulation.model.partition(), 2);
    simulation.settle();
    simulation.model.check_converged();
    assert_eq!(simulation.model.pods_of_the_new_template(), 3);
    let drift = "Replacing pods, cause drift: somebody else changed the pod template, and it is put back \
                 (spec.template.spec.containers[name=memcached].image)";
    assert_eq!(simulation.told[told..], [drift]);
}

/// A pod that would be made now waits for the Secret.
#[test]
fn a_template_of_somebody_else_that_all_named_pods_have_stays_while_their_secret_is_missing() {
    let mut simulation = paused_at_partition_zero(NAMED_WITH_SECRET);
    simulation.model.tamper_template();
    simulation.settle();
    simulation.model.set_secret(None);
    simulation.settle();
    simulation.model.pause(false);
    simulation.settle();
    assert_eq!((simulation.model.partition(), simulation.model.ready_pods(ChildKind::StatefulSet)), (0, 3));
    simulation.model.set_secret(Some(0));
    simulation.settle();
    simulation.model.check_converged();
    assert_eq!(simulation.model.pods_of_the_new_template(), 3);
}

/// The apply that holds the pods again is the first that this cluster rewrites.
#[test]
fn a_template_that_the_cluster_rewrites_when_all_named_pods_are_held_again_counts_as_no_rollout() {
    let mut simulation = paused_at_partition_zero(NAMED);
    let (told, counted, rollouts) = (simulation.told.len(), simulation.counted, simulation.model.rollouts);
    simulation.model.become_another(Cluster::RewritesImages);
    simulation.model.pause(false);
    simulation.settle();
    simulation.model.check_converged();
    let now = (simulation.told.len(), simulation.counted, simulation.model.rollouts);
    assert_eq!(now, (told, counted, rollouts), "{:?}", simulation.told);
    assert_eq!(simulation.model.partition(), KEEPS_ALL);
}

/// The search for histories found it: pods that are too many have no keys, and were counted for those that have some.
#[test]
fn pods_that_are_too_many_make_nobody_replace_the_others_at_once() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    let grown = [Op::Edit(TWO_NAMED), Op::RunStatefulSet, Op::RunStatefulSet];
    grown.iter().for_each(|op| change_and_settle(&mut simulation, op));
    simulation.model.speak_tls(true);
    let shrinks = [Op::TamperReplicas(4), Op::Stumble(0), Op::Stumble(0), Op::RunStatefulSet];
    shrinks.iter().for_each(|op| change_and_settle(&mut simulation, op));
    assert_eq!(simulation.model.partition(), 2);
    change_and_settle(&mut simulation, &Op::RunStatefulSet);
    assert_eq!(simulation.model.partition(), 2);
}
