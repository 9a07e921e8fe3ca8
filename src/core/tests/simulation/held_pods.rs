//! Named pods whose next one may not go though nobody edits: their Secret is missing or refused, or the policy that guards
//! them is. What stays then, also where a pod is lost meanwhile, and what the status says.

use jiff::SignedDuration;
use memcached_operator_core::kernel::effect::Effect;
use memcached_operator_core::kernel::event::{Event, Unavailable};
use memcached_operator_core::kernel::failure::{Category, Failure};
use memcached_operator_core::kernel::object::{ChildKind, Scope, Watched};
use rstest::rstest;
use serde_json::json;

use crate::model::{NAMED, NAMED_WITH_SECRET, REFUSED};
use crate::simulation::{Simulation, request_name};
use crate::workloads::{answer_all, edited, one_step, pass, run, with_a_secret};

/// Until the last of three pods is new, and all serve. The operator has not heard of that yet.
fn replace_the_last_pod(simulation: &mut Simulation) {
    while simulation.model.pods_of_the_new_template() != 1 {
        one_step(simulation);
    }
    while simulation.model.ready_pods(ChildKind::StatefulSet) != 3 {
        simulation.model.work();
    }
}

/// Pods that mount a Secret, in a rollout between two of them. The Secret is deleted, or gets other content.
fn without_its_secret(content: Option<u8>) -> Simulation {
    let mut simulation = with_a_secret(NAMED_WITH_SECRET);
    simulation.model.trigger(1);
    replace_the_last_pod(&mut simulation);
    simulation.model.set_secret(content);
    while let Some(event) = simulation.model.next_event_of(Watched::Secret) {
        simulation.step(event);
    }
    answer_all(&mut simulation);
    assert_eq!(simulation.model.partition(), 2);
    simulation.requested.clear();
    simulation
}

/// Its node is drained, and the pod that takes its place waits for the Secret: nothing else can come of replacing others.
#[test]
fn a_pod_that_waits_for_a_missing_secret_lets_no_other_go() {
    let mut simulation = without_its_secret(None);
    simulation.model.lose_pod(0);
    pass(&mut simulation, 200);
    let pods =
        (simulation.model.pods_of_the_new_template(), simulation.model.ready_pods(ChildKind::StatefulSet));
    assert_eq!((simulation.model.partition(), pods), (2, (1, 2)), "the others serve");
    simulation.model.set_secret(Some(0));
    run(&mut simulation);
    simulation.model.check_converged();
}

/// Its exporter does not run, and its memcached does.
#[rstest]
#[case::missing(None)]
#[case::refused(Some(REFUSED))]
fn a_pod_that_is_not_ready_keeps_its_keys_while_the_next_one_would_not_start(#[case] content: Option<u8>) {
    let mut simulation = without_its_secret(content);
    simulation.model.sicken(0);
    pass(&mut simulation, 200);
    let deleted = simulation.requested.iter().any(|it| it == "delete Pod");
    assert_eq!((simulation.model.partition(), deleted), (2, false), "{:?}", simulation.requested);
    simulation.model.set_secret(Some(0));
    simulation.settle();
    simulation.model.check_converged();
}

/// Its turn had come before the Secret went. With the gate MaxUnavailableStatefulSet only the operator deletes it.
#[test]
fn a_pod_whose_turn_has_come_is_not_deleted_with_its_keys_while_the_next_one_would_not_start() {
    let mut simulation = with_a_secret(NAMED_WITH_SECRET);
    simulation.model.upgrade();
    simulation.model.trigger(1);
    replace_the_last_pod(&mut simulation);
    answer_all(&mut simulation);
    assert_eq!(simulation.model.partition(), 1);
    simulation.model.sicken(1);
    simulation.model.set_secret(None);
    simulation.requested.clear();
    pass(&mut simulation, 200);
    assert!(!simulation.requested.iter().any(|it| it == "delete Pod"), "{:?}", simulation.requested);
    simulation.model.set_secret(Some(0));
    simulation.settle();
    simulation.model.check_converged();
}

/// A node is drained, or somebody deletes a pod with no grace, and the status of the StatefulSet is of before: it counts the pod
/// that ended as ready.
#[rstest]
#[case::after_its_grace(|simulation: &mut Simulation| {
    simulation.model.lose_pod(0);
    while let Some(event) = simulation.model.next_event_of(Watched::Pod) {
        simulation.step(event);
    }
    answer_all(simulation);
    simulation.model.end_pods();
})]
#[case::at_once(|simulation: &mut Simulation| simulation.model.kill_pod(0))]
fn the_next_named_pod_waits_for_one_that_ended_before_its_set_tells_of_that(
    #[case] ends: fn(&mut Simulation),
) {
    let mut simulation = edited(NAMED, NAMED + 1);
    replace_the_last_pod(&mut simulation);
    ends(&mut simulation);
    answer_all(&mut simulation);
    assert_eq!(simulation.model.partition(), 2);
    run(&mut simulation);
    simulation.model.check_converged();
    assert_eq!(simulation.model.pods_of_the_new_template(), 3);
}

/// A node is drained, and in that window the Secret gets other content.
#[test]
fn the_first_named_pod_of_a_rollout_waits_for_another_that_is_away() {
    let mut simulation = with_a_secret(NAMED_WITH_SECRET);
    simulation.model.lose_pod(0);
    while let Some(event) = simulation.model.next_event_of(Watched::Pod) {
        simulation.step(event);
    }
    simulation.model.set_secret(Some(1));
    answer_all(&mut simulation);
    assert_eq!(simulation.model.partition(), 3);
    while simulation.model.partition() != 2 {
        assert_eq!(simulation.model.pods_of_the_new_template(), 0);
        one_step(&mut simulation);
    }
    assert_eq!(simulation.model.ready_pods(ChildKind::StatefulSet), 3);
    run(&mut simulation);
    simulation.model.check_converged();
    assert_eq!(simulation.model.pods_of_the_new_template(), 3);
}

/// The warning of the end of a certificate goes by the versions in the status.
#[test]
fn the_status_names_the_secrets_that_pods_have_while_the_first_one_with_others_waits() {
    let mut simulation = with_a_secret(NAMED_WITH_SECRET);
    let carried = simulation.model.resource().status.secrets.clone();
    simulation.model.lose_pod(0);
    while let Some(event) = simulation.model.next_event_of(Watched::Pod) {
        simulation.step(event);
    }
    simulation.model.set_secret(Some(1));
    answer_all(&mut simulation);
    assert_eq!(simulation.model.partition(), 3);
    assert_eq!(simulation.model.resource().status.secrets, carried);
    while simulation.model.partition() != 2 {
        one_step(&mut simulation);
    }
    answer_all(&mut simulation);
    assert_ne!(simulation.model.resource().status.secrets, carried);
}

/// It never found its Secret after the drain. The edit that mends that reaches it when it is given up, as any pod.
#[test]
fn an_edit_waits_no_longer_than_two_minutes_for_a_named_pod_that_does_not_start() {
    let mut simulation = with_a_secret(NAMED_WITH_SECRET);
    simulation.model.set_secret(None);
    simulation.model.lose_pod(0);
    run(&mut simulation);
    simulation.model.edit(NAMED);
    run(&mut simulation);
    assert_eq!(simulation.model.partition(), 3);
    pass(&mut simulation, 125);
    run(&mut simulation);
    simulation.model.check_converged();
    assert_eq!(simulation.model.pods_of_the_new_template(), 3);
}

/// The clock of its node is behind. It comes back within a minute.
#[test]
fn a_pod_that_misses_probes_by_another_clock_is_waited_for_all_the_same() {
    let mut simulation = edited(NAMED, NAMED + 1);
    replace_the_last_pod(&mut simulation);
    let by_its_node = simulation.now - SignedDuration::from_mins(3);
    simulation.model.sicken_at(0, by_its_node);
    simulation.requested.clear();
    pass(&mut simulation, 60);
    let deleted = simulation.requested.iter().any(|it| it == "delete Pod");
    assert_eq!((simulation.model.partition(), deleted), (2, false), "{:?}", simulation.requested);
    simulation.model.cure_pods();
    run(&mut simulation);
    simulation.model.check_converged();
}

/// A policy came after the pods, and the user corrects the spec. Kubernetes tries to make the pod that is missing before it
/// replaces any.
#[rstest]
#[case::the_same_operator_goes_on(|_: &mut Simulation| ())]
#[case::another_one_leads_by_then(Simulation::restart)]
#[case::the_list_of_pods_was_the_first_one(Simulation::restart_listing_backwards)]
fn a_named_pod_that_is_refused_gets_the_template_that_is_not(#[case] then: fn(&mut Simulation)) {
    let mut simulation = edited(NAMED, NAMED);
    run(&mut simulation);
    simulation.model.refuse_pods();
    simulation.model.lose_pod(0);
    run(&mut simulation);
    assert_eq!(simulation.model.ready_pods(ChildKind::StatefulSet), 2);
    simulation.model.edit(NAMED + 1);
    run(&mut simulation);
    then(&mut simulation);
    run(&mut simulation);
    assert_eq!((simulation.model.partition(), simulation.model.pods_of_the_new_template()), (3, 0));
    pass(&mut simulation, 125);
    run(&mut simulation);
    simulation.model.check_converged();
    assert_eq!(simulation.model.pods_of_the_new_template(), 3);
}

/// A quota admits no more of them, and the user asks for less in each. No watch ever tells of a pod that was never there.
#[rstest]
#[case::of_more_than_before(|simulation: &mut Simulation| {
    simulation.model.edit(NAMED);
    run(simulation);
})]
#[case::of_a_new_cache(|simulation: &mut Simulation| simulation.model.edit(NAMED))]
fn named_pods_that_were_never_made_get_the_template_that_is_not_refused(#[case] begins: fn(&mut Simulation)) {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.model.admit_pods(3);
    begins(&mut simulation);
    simulation.model.change_spec(|spec| spec.replicas = Some(5));
    run(&mut simulation);
    assert_eq!(simulation.model.ready_pods(ChildKind::StatefulSet), 3);
    simulation.model.change_spec(|spec| {
        spec.memcached = Some(serde_json::from_value(json!({"maxMemoryMB": 32})).unwrap());
    });
    run(&mut simulation);
    pass(&mut simulation, 125);
    run(&mut simulation);
    simulation.model.check_converged();
    assert_eq!(simulation.model.pods_of_the_new_template(), 5);
}

/// What Ready says.
fn ready(simulation: &Simulation) -> String {
    let conditions = &simulation.model.resource().status.conditions;
    conditions.iter().find(|it| it.type_ == "Ready").unwrap().message.clone()
}

/// Nothing happens then but that time passes. The StatefulSet has no condition that says so.
#[rstest]
#[case::a_quota_admits_three(
    || {
        let mut simulation = Simulation::new();
        simulation.model.create_resource();
        simulation.model.admit_pods(3);
        simulation.model.edit(NAMED);
        simulation.model.change_spec(|spec| spec.replicas = Some(5));
        simulation
    },
    "3/5 replicas are ready",
    "cache-3 and 1 more"
)]
#[case::a_policy_came_after_the_pods(
    || {
        let mut simulation = edited(NAMED, NAMED);
        run(&mut simulation);
        simulation.model.refuse_pods();
        simulation.model.lose_pod(0);
        simulation
    },
    "2/3 replicas are ready",
    "cache-0"
)]
fn named_pods_that_are_refused_are_named_after_two_minutes_until_they_are_made(
    #[case] begins: fn() -> Simulation,
    #[case] counts: &str,
    #[case] missing: &str,
) {
    let mut simulation = begins();
    run(&mut simulation);
    pass(&mut simulation, 115);
    assert_eq!(ready(&simulation), counts);
    pass(&mut simulation, 10);
    let words = format!("{counts}; the StatefulSet has not made pod {missing} for 2 minutes: see its Events");
    assert_eq!(ready(&simulation), words);
    simulation.requested.clear();
    pass(&mut simulation, 200);
    assert_eq!(
        (ready(&simulation), &simulation.requested),
        (words.clone(), &Vec::new()),
        "it is written once"
    );
    // Who starts anew does not know since when.
    simulation.restart();
    run(&mut simulation);
    pass(&mut simulation, 200);
    assert_eq!(ready(&simulation), words);
    assert!(!simulation.requested.iter().any(|it| it.contains("status")), "{:?}", simulation.requested);
    simulation.model.change_spec(|spec| {
        spec.memcached = Some(serde_json::from_value(json!({"maxMemoryMB": 32})).unwrap());
    });
    run(&mut simulation);
    pass(&mut simulation, 125);
    simulation.model.check_converged();
    assert!(ready(&simulation).starts_with("All "), "{}", ready(&simulation));
}

/// Until nothing happens but by time; whatever the operator asks for with these words is refused.
pub(crate) fn run_without(simulation: &mut Simulation, refused: &str) {
    loop {
        simulation.hear();
        let names = simulation.requests.iter().map(request_of);
        match names.enumerate().find(|(_, name)| name.ends_with(refused)) {
            Some((at, _)) => simulation.answer(at, false, Some(Category::Forbidden)),
            None if !simulation.requests.is_empty() => simulation.answer(0, true, None),
            None if simulation.model.work() => {}
            None => break,
        }
    }
}

fn request_of(effect: &Effect) -> String {
    match effect {
        Effect::Send { request, .. } => request_name(request),
        _ => String::new(),
    }
}

/// What the status says of the rollout.
fn progressing(simulation: &Simulation) -> String {
    let conditions = &simulation.model.resource().status.conditions;
    let it = conditions.iter().find(|it| it.type_ == "Progressing").unwrap();
    format!("{} {}: {}", it.status, it.reason, it.message)
}

const HELD_BACK: &str = "False RolloutHeldBack: Rollout held back: 1/3 replicas updated";

/// An edit asks for the policy in the midst of a rollout, and it is not granted.
#[test]
fn no_further_named_pod_goes_while_the_policy_that_guards_it_is_refused() {
    let mut simulation = edited(NAMED, NAMED + 1);
    replace_the_last_pod(&mut simulation);
    simulation.model.change_spec(|spec| {
        spec.security = Some(serde_json::from_value(json!({"networkPolicy": {"enabled": true}})).unwrap());
    });
    run_without(&mut simulation, "NetworkPolicy");
    for _ in 0..200 {
        simulation.wait(SignedDuration::from_secs(1));
        run_without(&mut simulation, "NetworkPolicy");
    }
    assert_eq!((simulation.model.partition(), simulation.model.pods_of_the_new_template()), (2, 1));
    assert_eq!(progressing(&simulation), HELD_BACK);
    simulation.settle();
    simulation.model.check_converged();
    assert_eq!(simulation.model.pods_of_the_new_template(), 3);
}

#[rstest]
#[case::missing(None)]
#[case::refused(Some(REFUSED))]
fn a_rollout_of_named_pods_that_waits_for_a_secret_is_not_called_one(#[case] content: Option<u8>) {
    let simulation = without_its_secret(content);
    assert_eq!(progressing(&simulation), HELD_BACK);
}

#[test]
fn a_rollout_of_named_pods_that_is_paused_between_two_of_them_is_not_called_one() {
    let mut simulation = edited(NAMED, NAMED + 1);
    replace_the_last_pod(&mut simulation);
    simulation.model.pause(true);
    run(&mut simulation);
    assert_eq!(simulation.model.partition(), 2);
    assert_eq!(progressing(&simulation), "False Paused: Rollout paused: 1/3 replicas updated");
    simulation.model.pause(false);
    run(&mut simulation);
    simulation.model.check_converged();
}

#[test]
fn a_rollout_of_named_pods_whose_next_step_is_refused_is_not_called_one() {
    let mut simulation = edited(NAMED, NAMED + 1);
    replace_the_last_pod(&mut simulation);
    run_without(&mut simulation, "apply StatefulSet");
    assert_eq!(simulation.model.partition(), 2);
    assert_eq!(progressing(&simulation), HELD_BACK);
    simulation.settle();
    simulation.model.check_converged();
}

#[test]
fn a_rollout_of_named_pods_that_may_not_be_listed_is_not_called_one() {
    let mut simulation = edited(NAMED, NAMED + 1);
    replace_the_last_pod(&mut simulation);
    let failure = Failure { category: Category::Forbidden, message: "no".to_owned() };
    let why = Unavailable::Refused(failure);
    simulation.step(Event::Unavailable { kind: ChildKind::StatefulSet, scope: Scope::All, why });
    answer_all(&mut simulation);
    assert_eq!(simulation.model.partition(), 2);
    assert_eq!(progressing(&simulation), HELD_BACK);
}
