//! Writes of somebody else at the same time: of a person who keeps changing a child, of an operator that led before, of
//! the Deployment's controller.

use jiff::SignedDuration;
use memcached_operator_core::kernel::effect::Effect;
use memcached_operator_core::kernel::object::ChildKind;

use crate::model::NAMED;
use crate::simulation::{Simulation, request_name};
use crate::workloads::answer_all;

/// Somebody changes a Deployment every second, for a while. Gives how often it was put back.
pub(crate) fn kept_changing() -> (Simulation, usize) {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.settle();
    let mut applied = 0;
    for second in 0..40_u8 {
        simulation.model.tamper_replicas(2 + second % 2);
        simulation.wait(SignedDuration::from_secs(1));
        while let Some(event) = simulation.model.next_event(0) {
            simulation.step(event);
            while let Some(Effect::Send { request, .. }) = simulation.requests.first() {
                applied += usize::from(request_name(request) == "apply Deployment");
                simulation.answer(0, true, None);
            }
        }
    }
    (simulation, applied)
}

#[test]
fn who_keeps_changing_a_child_is_named_and_gets_few_answers_a_minute() {
    let (mut simulation, applied) = kept_changing();
    assert_eq!(applied, 12);
    let status = &simulation.model.resource().status;
    let reconciling = status.conditions.iter().find(|it| it.type_ == "Reconciling").unwrap();
    assert_eq!(reconciling.reason, "RetryingAfterError");
    assert!(reconciling.message.contains("somebody keeps changing fields"), "{}", reconciling.message);
    simulation.settle();
    simulation.model.check_converged();
}

#[test]
fn whoever_keeps_changing_a_child_and_writes_it_again_and_again_costs_one_status() {
    let (mut simulation, _) = kept_changing();
    simulation.requested.clear();
    for value in 0..5 {
        simulation.wait(SignedDuration::from_secs(1));
        simulation.model.set_label(value);
        answer_all(&mut simulation);
    }
    assert_eq!(simulation.requested, ["status"], "the first one names the manager");
}

#[test]
fn what_a_former_leader_sent_changes_nothing_once_the_next_one_wrote() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.settle();
    // One edit after the other is decided on by one operator and comes late, after the next operator has done it.
    for edit in [1, 2, 3, 4, 5, 6, 0] {
        simulation.model.set_secret(Some(edit));
        simulation.model.edit(edit);
        while let Some(event) = simulation.model.next_event(0) {
            simulation.step(event);
        }
        simulation.restart();
        simulation.settle();
        let before = simulation.model.version();
        assert!(!simulation.left_behind.is_empty(), "edit {edit} is decided on");
        while !simulation.left_behind.is_empty() {
            simulation.execute_late(0);
        }
        assert_eq!(simulation.model.version(), before, "edit {edit}: a late write");
        simulation.model.check_converged();
    }
}

/// Executes what is asked for until nothing is, while the Deployment's status moves before every write of it. `told` says
/// whether the watch is as fast as the answers. Gives what was sent.
fn sent_while_the_status_moves(simulation: &mut Simulation, times: usize, told: bool) -> Vec<String> {
    let mut sent = Vec::new();
    while let Some(Effect::Send { request, .. }) = simulation.requests.first() {
        let name = request_name(request);
        let races = sent.iter().filter(|before| **before == name).count();
        if name == "apply Deployment" && races < times {
            simulation.model.move_status();
        }
        while told && let Some(event) = simulation.model.next_event(0) {
            simulation.step(event);
        }
        sent.push(name);
        simulation.answer(0, true, None);
    }
    sent
}

#[test]
fn an_edit_waits_for_no_clock_though_the_status_of_the_deployment_moves_all_the_time() {
    for (told, race) in
        [(true, &["apply Deployment"][..]), (false, &["apply Deployment", "read Deployment"][..])]
    {
        let mut simulation = Simulation::new();
        simulation.model.create_resource();
        simulation.settle();
        simulation.model.edit(1);
        let edited = simulation.model.next_event(0).unwrap();
        simulation.step(edited);
        let sent = sent_while_the_status_moves(&mut simulation, 4, told);
        let expected = [race.repeat(4), ["apply Deployment", "status"].to_vec()].concat();
        assert_eq!(sent, expected, "the watch is fast: {told}");
        simulation.settle();
        simulation.model.check_converged();
    }
}

#[test]
fn an_edit_that_loses_every_race_slows_down() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.settle();
    simulation.model.edit(1);
    let edited = simulation.model.next_event(0).unwrap();
    simulation.step(edited);
    let sent = sent_while_the_status_moves(&mut simulation, usize::MAX, true);
    assert_eq!(sent, [["apply Deployment"; 21].as_slice(), &["status"]].concat());
    simulation.settle();
    simulation.model.check_converged();
}

/// The read after a create that conflicted shows the child of an earlier resource; the watch has told of its end before
/// the answer arrives.
#[test]
fn a_child_of_an_earlier_resource_that_goes_while_it_is_read_is_made_anew() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.settle();
    simulation.model.delete_resource();
    simulation.hear();
    simulation.model.create_resource();
    simulation.hear();
    let reads = |it: &Effect| matches!(it, Effect::Send { request, .. } if request_name(request).starts_with("read "));
    while !simulation.requests.iter().any(reads) {
        simulation.answer(0, true, None);
    }
    while !simulation.requests.is_empty() {
        simulation.delay(0);
    }
    simulation.model.collect_garbage();
    simulation.hear();
    simulation.settle();
    simulation.model.check_converged();
}

/// The search for histories found it: the Deployment stayed beside the StatefulSet until the next list.
#[test]
fn a_late_answer_that_a_child_is_not_there_takes_back_nothing_that_the_watch_has_shown_since() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.hear();
    // Another operator leads when the user asks for the other kind. It reads the Deployment, which is not there.
    simulation.model.edit(NAMED);
    simulation.restart();
    let reads = |it: &Effect| matches!(it, Effect::Send { request, .. } if request_name(request) == "read Deployment");
    let at = simulation.requests.iter().position(reads).unwrap();
    simulation.delay(at);
    // What the former leader sent comes now. The watch shows it before the answer arrives, and nothing of it afterwards.
    let creates = |it: &Effect| matches!(it, Effect::Send { request, .. } if request_name(request) == "create Deployment");
    let at = simulation.left_behind.iter().position(creates).unwrap();
    simulation.execute_late(at);
    for _ in 0..2 {
        simulation.model.roll_out();
    }
    simulation.hear();
    simulation.settle();
    simulation.model.check_converged();
    let before = simulation.model.version();
    simulation.restart();
    simulation.settle();
    assert_eq!(simulation.model.version(), before, "something was left to do");
}

/// The search for histories found it: the Deployment stayed beside the StatefulSet for ever.
#[test]
fn a_former_workload_that_lost_its_label_goes_also_after_a_restart_in_the_midst_of_the_switch() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.settle();
    simulation.model.edit(NAMED);
    simulation.hear();
    // The StatefulSet is made and the status says so; the Deployment waits for its pods.
    while !simulation.requests.is_empty() {
        simulation.answer(0, true, None);
    }
    assert_eq!(
        simulation.model.resource().status.observed_generation,
        simulation.model.resource().generation
    );
    simulation.model.take_label(ChildKind::Deployment);
    simulation.restart();
    simulation.settle();
    simulation.model.check_converged();
}
