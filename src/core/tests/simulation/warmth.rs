//! A StatefulSet whose rollout waits for warm pods: what ends a wait, what interrupts it, and what is written meanwhile. The
//! model checks each partition that is written.

use jiff::SignedDuration;
use memcached_operator_core::api::spec::{MonitoringSpec, RolloutSpec, WarmthSpec};
use memcached_operator_core::kernel::effect::Effect;
use memcached_operator_core::kernel::failure::Category;
use memcached_operator_core::kernel::object::ChildKind;
use rstest::rstest;

use crate::model::{NAMED_WITH_SECRET, WARM};
use crate::simulation::{Simulation, request_name};
use crate::workloads::{edited, pass, readiness, run, with_a_secret};

fn warming(simulation: &Simulation) -> Option<(String, Option<i32>)> {
    let warming = simulation.model.resource().status.warming.clone();
    warming.map(|it| (it.pod, it.items_percent))
}

#[test]
fn the_next_named_pod_waits_until_the_last_one_is_warm_and_the_status_says_so() {
    let mut simulation = edited(WARM, WARM + 1);
    run(&mut simulation);
    assert_eq!(warming(&simulation), Some(("cache-2".to_owned(), None)));
    pass(&mut simulation, 60);
    assert_eq!(warming(&simulation), Some(("cache-2".to_owned(), Some(0))));
    assert!((25..=31).contains(&simulation.questions_asked), "{}", simulation.questions_asked);
    let ready = simulation.model.resource().status.conditions.iter().find(|it| it.type_ == "Ready").unwrap();
    let words = "3/3 replicas are ready; 2 pods of an older template are left; the next pod waits until cache-2 is warm \
        (80 %, or at 2027-01-15T08:15:00Z): it has 0 % of the items of older pods";
    assert_eq!(ready.message, words);
    simulation.model.fill_pods(79);
    pass(&mut simulation, 10);
    assert_eq!(warming(&simulation), Some(("cache-2".to_owned(), Some(79))));
    simulation.model.fill_pods(90);
    pass(&mut simulation, 5);
    assert_eq!(warming(&simulation), Some(("cache-1".to_owned(), Some(0))));
    simulation.model.fill_pods(86);
    pass(&mut simulation, 10);
    assert_eq!(warming(&simulation), Some(("cache-1".to_owned(), Some(86))));
    let lack = simulation.model.resource().status.warming.as_ref().and_then(|it| it.earlier_lack_percent);
    assert_eq!(lack, Some(7), "cache-2 holds 90 %, and 3 may be chance");
    simulation.model.fill_pods(88);
    simulation.questions_asked = 0;
    pass(&mut simulation, 600);
    simulation.model.check_converged();
    assert_eq!(warming(&simulation), None);
    assert!(simulation.questions_asked <= 2, "{} after the rollout", simulation.questions_asked);
}

/// Whatever becomes of the pods meanwhile: the wait is one of a rollout.
#[test]
fn no_pod_is_asked_how_warm_it_is_while_no_rollout_waits() {
    let mut simulation = edited(WARM, WARM);
    run(&mut simulation);
    simulation.model.lose_pod(1);
    pass(&mut simulation, 30);
    simulation.model.ask_for(4);
    pass(&mut simulation, 30);
    simulation.restart();
    pass(&mut simulation, 30);
    simulation.model.check_converged();
    assert_eq!((simulation.questions_asked, warming(&simulation)), (0, None));
}

#[test]
fn a_pod_that_finds_as_much_as_the_others_is_warm_however_few_items_it_holds() {
    let mut simulation = edited(WARM, WARM + 1);
    run(&mut simulation);
    let shares = |simulation: &Simulation| {
        let warming = simulation.model.resource().status.warming.clone().unwrap();
        (warming.pod, warming.items_percent, warming.hit_ratio_percent)
    };
    for _ in 0..10 {
        simulation.model.read_from_pods(2, 500);
        pass(&mut simulation, 2);
    }
    assert_eq!(shares(&simulation), ("cache-2".to_owned(), Some(0), Some(50)));
    assert_eq!(simulation.model.pods_of_the_new_template(), 1);
    for _ in 0..2 {
        simulation.model.read_from_pods(2, 800);
        pass(&mut simulation, 2);
    }
    assert!(simulation.model.pods_of_the_new_template() > 1);
}

#[test]
fn a_wait_for_warmth_ends_with_its_time_also_where_no_pod_answers_and_the_operator_restarts() {
    let mut simulation = edited(WARM, WARM + 1);
    run(&mut simulation);
    for second in 0..298 {
        simulation.wait(SignedDuration::from_secs(1));
        run(&mut simulation);
        simulation.answer_question(0, true);
        run(&mut simulation);
        if second % 100 == 50 {
            simulation.restart();
            run(&mut simulation);
        }
        assert_eq!(warming(&simulation), Some(("cache-2".to_owned(), None)), "after {second} s");
    }
    pass(&mut simulation, 5);
    assert_eq!(warming(&simulation).map(|it| it.0).as_deref(), Some("cache-1"));
    pass(&mut simulation, 295);
    assert_eq!(warming(&simulation).map(|it| it.0).as_deref(), Some("cache-1"));
    let conditions = &simulation.model.resource().status.conditions;
    assert!(!conditions.iter().any(|it| it.type_ == "Stalled"), "{conditions:?}");
    pass(&mut simulation, 10);
    assert_eq!(warming(&simulation), None, "no pod waits for the last one");
    simulation.model.check_converged();
}

/// The pods that were replaced first are too many by then, and lack nothing any more.
#[test]
fn what_pods_lack_that_are_gone_is_taken_off_no_other() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.model.edit(WARM);
    simulation.model.ask_for(5);
    simulation.settle();
    simulation.model.fill_pods(100);
    simulation.model.change_spec(|spec| spec.memcached.get_or_insert_default().threads = Some(3));
    run(&mut simulation);
    for pod in ["cache-4", "cache-3"] {
        assert_eq!(warming(&simulation).map(|it| it.0).as_deref(), Some(pod));
        simulation.model.fill_pods(40);
        pass(&mut simulation, 305);
    }
    simulation.model.fill_pods(40);
    pass(&mut simulation, 5);
    let lack = |simulation: &Simulation| {
        let warming = simulation.model.resource().status.warming.clone().unwrap();
        (warming.pod, warming.earlier_lack_percent)
    };
    assert_eq!(lack(&simulation), ("cache-2".to_owned(), Some(114)));
    simulation.model.ask_for(3);
    pass(&mut simulation, 10);
    assert_eq!(lack(&simulation), ("cache-2".to_owned(), None));
    simulation.model.fill_pods(85);
    pass(&mut simulation, 5);
    assert_eq!(warming(&simulation).map(|it| it.0).as_deref(), Some("cache-1"));
}

/// All that tell are as empty as the new one; the one that does not may hold all keys.
#[test]
fn a_pod_that_does_not_say_what_it_holds_is_not_taken_for_an_empty_one() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.model.edit(WARM);
    simulation.settle();
    simulation.model.silence(0);
    simulation.model.edit(WARM + 1);
    run(&mut simulation);
    pass(&mut simulation, 290);
    assert_eq!(warming(&simulation), Some(("cache-2".to_owned(), None)));
    pass(&mut simulation, 15);
    assert_eq!(warming(&simulation), Some(("cache-1".to_owned(), None)), "the time is over");
}

/// Pods that mount a Secret, in a rollout that waits for warm pods: the last one is new.
fn warming_with_a_secret() -> Simulation {
    let mut simulation = with_a_secret(NAMED_WITH_SECRET);
    simulation.model.change_spec(|spec| {
        let rollout = RolloutSpec { warmth: Some(WarmthSpec::default()), ..RolloutSpec::default() };
        spec.rollout = Some(Box::new(rollout));
        spec.monitoring = Some(Box::new(MonitoringSpec { enabled: Some(true), ..MonitoringSpec::default() }));
    });
    run(&mut simulation);
    assert_eq!(warming(&simulation), Some(("cache-2".to_owned(), None)));
    simulation
}

/// What a minute costs: writes of the status, and questions.
fn minute(simulation: &mut Simulation, mut second: impl FnMut(&mut Simulation)) -> (usize, usize) {
    (simulation.requested, simulation.questions_asked) = (Vec::new(), 0);
    for _ in 0..60 {
        second(simulation);
    }
    let writes = simulation.requested.iter().filter(|it| *it == "status").count();
    (writes, simulation.questions_asked)
}

#[test]
fn a_pod_that_is_warm_is_asked_no_more_while_the_next_one_would_not_find_its_secret() {
    let mut simulation = warming_with_a_secret();
    simulation.model.set_secret(None);
    run(&mut simulation);
    simulation.model.fill_pods(100);
    pass(&mut simulation, 5);
    assert_eq!(warming(&simulation), Some(("cache-2".to_owned(), Some(100))));
    assert_eq!(minute(&mut simulation, |it| pass(it, 1)), (0, 0));
    assert_eq!(warming(&simulation), Some(("cache-2".to_owned(), Some(100))));
    assert_eq!(readiness(&simulation, ChildKind::StatefulSet), (3, "SecretNotFound".to_owned()));
    simulation.model.set_secret(Some(0));
    pass(&mut simulation, 600);
    simulation.model.check_converged();
}

#[test]
fn a_pod_that_is_warm_is_asked_no_more_while_the_next_one_is_refused() {
    let mut simulation = edited(WARM, WARM + 1);
    run(&mut simulation);
    simulation.model.fill_pods(100);
    let applies = |it: &Effect| matches!(it, Effect::Send { request, .. } if request_name(request) == "apply StatefulSet");
    let refused = |simulation: &mut Simulation| {
        simulation.wait(SignedDuration::from_secs(1));
        simulation.answer_question(0, false);
        loop {
            simulation.hear();
            match simulation.requests.iter().position(applies) {
                Some(at) => simulation.answer(at, false, Some(Category::Forbidden)),
                None if simulation.requests.is_empty() => break,
                None => simulation.answer(0, true, None),
            }
        }
    };
    (0..10).for_each(|_| refused(&mut simulation));
    let (writes, questions) = minute(&mut simulation, refused);
    assert_eq!((writes, questions), (0, 0));
    assert_eq!(warming(&simulation), Some(("cache-2".to_owned(), Some(100))));
    pass(&mut simulation, 900);
    simulation.model.check_converged();
}

#[test]
fn a_pod_that_is_warm_is_asked_no_more_while_another_one_is_being_deleted() {
    let mut simulation = edited(WARM, WARM + 1);
    run(&mut simulation);
    simulation.model.fill_pods(100);
    simulation.model.lose_pod(0);
    // The kubelet takes its time.
    let no_controller = |simulation: &mut Simulation| {
        simulation.wait(SignedDuration::from_secs(1));
        simulation.answer_question(0, false);
        simulation.hear();
        while !simulation.requests.is_empty() {
            simulation.answer(0, true, None);
            simulation.hear();
        }
    };
    (0..5).for_each(|_| no_controller(&mut simulation));
    assert_eq!(minute(&mut simulation, no_controller), (0, 0));
    assert!(!simulation.requested.iter().any(|it| it == "apply StatefulSet"), "{:?}", simulation.requested);
    pass(&mut simulation, 600);
    simulation.model.check_converged();
}

/// A pod misses a probe each minute, or is asked for and taken back.
#[rstest]
#[case::another_pod_misses_probes(|it: &mut Simulation| it.model.stumble(0))]
#[case::the_new_pod_misses_probes(|it: &mut Simulation| it.model.stumble(2))]
#[case::one_more_pod_is_asked_for(|it: &mut Simulation| it.model.ask_for(4))]
fn a_wait_ends_in_time_though_it_is_interrupted(#[case] interrupt: fn(&mut Simulation)) {
    let mut simulation = edited(WARM, WARM + 1);
    run(&mut simulation);
    let begun = simulation.model.resource().status.warming.clone().unwrap();
    for second in 0..298 {
        if second % 60 == 30 {
            interrupt(&mut simulation);
        }
        pass(&mut simulation, 1);
        let warming = simulation.model.resource().status.warming.clone().unwrap();
        assert_eq!((&warming.pod, &warming.since), (&begun.pod, &begun.since), "after {second} s");
    }
    pass(&mut simulation, 5);
    assert_eq!(warming(&simulation).map(|it| it.0).as_deref(), Some("cache-1"));
}

#[test]
fn a_wait_begins_anew_with_a_pod_that_lost_its_keys() {
    let mut simulation = edited(WARM, WARM + 1);
    run(&mut simulation);
    simulation.model.fill_pods(100);
    pass(&mut simulation, 5);
    let begun = simulation.model.resource().status.warming.clone().unwrap();
    assert_eq!(begun.pod, "cache-1");
    pass(&mut simulation, 100);
    simulation.model.lose_pod(1);
    pass(&mut simulation, 5);
    let warming = simulation.model.resource().status.warming.clone().unwrap();
    assert_eq!(warming.pod, begun.pod);
    assert!(warming.since.0.duration_since(begun.since.0) >= SignedDuration::from_secs(100));
}
