//! How far a cache is whose pods take a changed Secret in place: the agents are asked only while that is under way, what they
//! say stands in the status, no pod is replaced, and another leader goes on.

use jiff::SignedDuration;
use memcached_operator_core::api::secret_rotation::SecretRotation;
use memcached_operator_core::kernel::event::Event;
use memcached_operator_core::kernel::failure::Category;
use memcached_operator_core::kernel::object::ChildKind;
use memcached_operator_core::kernel::observation::RotationResult;
use proptest::prelude::*;

use crate::model::{Agent, REFUSED};
use crate::simulation::Simulation;

/// A cache of three pods with passwords that they take in place, ready.
pub(crate) fn running() -> Simulation {
    running_with(ChildKind::Deployment)
}

/// A cache of three pods with passwords that they take in place, ready, with this kind of workload.
fn running_with(workload: ChildKind) -> Simulation {
    let mut simulation = Simulation::new();
    simulation.model.set_secret(Some(1));
    simulation.model.create_resource();
    simulation.model.edit(3);
    simulation.model.change_spec(|spec| {
        spec.workload = Some(workload.name().to_owned());
        spec.replicas = Some(3);
        spec.security.as_mut().unwrap().rotation = Some("InPlace".to_owned());
    });
    simulation.settle();
    assert_eq!(simulation.questions_asked, 0, "nothing changed");
    simulation.model.rollouts = 0;
    forget(&mut simulation);
    simulation
}

/// What was asked and said before is not looked at.
fn forget(simulation: &mut Simulation) {
    simulation.requested.clear();
    simulation.said.clear();
    simulation.rotations.clear();
    simulation.questions_asked = 0;
}

/// Everything but the agents goes on.
fn hear(simulation: &mut Simulation) {
    loop {
        if let Some(event) = simulation.model.next_event(0) {
            simulation.step(event);
        } else if !simulation.requests.is_empty() {
            simulation.answer(0, true, None);
        } else if !simulation.model.work() {
            return;
        }
    }
}

/// The Secret changes, and the agents answer once.
pub(crate) fn changed(simulation: &mut Simulation, content: u8, agents: &[Agent]) {
    simulation.model.agents = agents.to_vec();
    simulation.model.set_secret(Some(content));
    hear(simulation);
    simulation.answer_question(0, false);
    hear(simulation);
}

/// Time passes, and every question is answered.
pub(crate) fn pass(simulation: &mut Simulation, time: SignedDuration) {
    let end = simulation.now + time;
    while simulation.now < end {
        simulation.wait(SignedDuration::from_secs(1));
        hear(simulation);
        simulation.answer_question(0, false);
        hear(simulation);
    }
}

fn record(simulation: &Simulation) -> SecretRotation {
    simulation.model.resource().status.secret_rotation.as_deref().cloned().unwrap()
}

/// A condition as one line; an empty one where there is none.
fn line(simulation: &Simulation, of: &str) -> String {
    let conditions = &simulation.model.resource().status.conditions;
    let found = conditions.iter().find(|it| it.type_ == of);
    found.map(|it| format!("{} {}: {}", it.status, it.reason, it.message)).unwrap_or_default()
}

const READY: &str = "True MemcachedReady: All 3 replicas are ready";

#[test]
fn the_status_says_how_many_pods_use_the_new_content_until_all_do() {
    let mut simulation = running();
    changed(&mut simulation, 2, &[Agent::Takes, Agent::Waits, Agent::Works]);
    let words = "Rotating Secret credentials: 1/3 pods use the new content";
    assert_eq!(line(&simulation, "Progressing"), format!("True Progressing: {words}"));
    assert_eq!(line(&simulation, "Reconciling"), format!("True Progressing: {words}"));
    assert_eq!(
        line(&simulation, "Ready"),
        format!("False MemcachedNotReady: 3/3 replicas are ready; {words}")
    );
    simulation.model.agents = vec![Agent::Takes, Agent::Takes, Agent::IsBusy];
    pass(&mut simulation, SignedDuration::from_secs(5));
    assert!(line(&simulation, "Progressing").contains("2/3 pods"));
    simulation.settle();
    assert_eq!(line(&simulation, "Ready"), READY);
    assert_eq!(line(&simulation, "Progressing"), "False ProgressingComplete: All 3 replicas are updated");
    assert_eq!((record(&simulation).wanted_hash, record(&simulation).pods), (None, None));
    assert_eq!(simulation.said, ["RotationStarted", "MemcachedReady", "RotationComplete"]);
    assert_eq!(simulation.rotations, [RotationResult::Taken]);
    assert_eq!(simulation.model.rollouts, 0);
    // At rest nobody is asked, also after a restart, and the same content again is no change.
    forget(&mut simulation);
    simulation.restart();
    simulation.settle();
    assert_eq!((simulation.requested.len(), simulation.questions_asked), (0, 0));
    simulation.model.touch_secret();
    simulation.settle();
    assert_eq!((simulation.said.len(), simulation.questions_asked), (0, 0));
}

#[test]
fn questions_are_spaced_and_only_one_is_open() {
    let mut simulation = running();
    changed(&mut simulation, 2, &[Agent::Waits]);
    pass(&mut simulation, SignedDuration::from_mins(1));
    assert!((8..=12).contains(&simulation.questions_asked), "{} in a minute", simulation.questions_asked);
    // A question that hangs is not repeated, and keeps nothing from being done.
    forget(&mut simulation);
    for _ in 0..60 {
        simulation.wait(SignedDuration::from_secs(1));
        hear(&mut simulation);
    }
    assert_eq!(simulation.questions_asked, 1);
    simulation.model.trigger(1);
    hear(&mut simulation);
    assert!(simulation.requested.iter().any(|it| it == "apply Deployment"), "{:?}", simulation.requested);
}

#[test]
fn what_an_agent_refuses_is_said_with_the_secret_and_the_key_and_ends_with_the_next_content() {
    let mut simulation = running();
    changed(&mut simulation, 2, &[Agent::Takes, Agent::Refuses]);
    let words = "Secret credentials, password-file: a zero byte is in it; the pods keep what they have: correct the Secret";
    assert_eq!(line(&simulation, "Stalled"), format!("True SecretInvalid: {words}"));
    assert_eq!(line(&simulation, "Ready"), format!("False SecretInvalid: {words}"));
    assert!(line(&simulation, "Progressing").starts_with("False RolloutHeldBack: Rotating Secret"));
    pass(&mut simulation, SignedDuration::from_mins(20));
    assert_eq!(simulation.said, ["RotationStarted", "SecretInvalid"]);
    assert_eq!(simulation.rotations, [RotationResult::Refused]);
    changed(&mut simulation, 4, &[]);
    hear(&mut simulation);
    assert_eq!(line(&simulation, "Ready"), READY);
    assert_eq!(simulation.model.rollouts, 0);
}

#[test]
fn what_an_agent_refused_is_not_said_of_a_secret_that_is_gone() {
    let mut simulation = running();
    changed(&mut simulation, 2, &[Agent::Refuses]);
    assert!(line(&simulation, "Stalled").starts_with("True SecretInvalid"));
    simulation.model.set_secret(None);
    hear(&mut simulation);
    assert!(line(&simulation, "Ready").starts_with("False SecretNotFound"), "{}", line(&simulation, "Ready"));
    assert_eq!(line(&simulation, "Stalled"), "");
    changed(&mut simulation, 4, &[]);
    hear(&mut simulation);
    assert_eq!(line(&simulation, "Ready"), READY);
}

#[test]
fn an_agent_that_does_not_answer_is_told_of_after_three_minutes_and_once() {
    let mut simulation = running();
    changed(&mut simulation, 2, &[Agent::Takes, Agent::Hangs]);
    pass(&mut simulation, SignedDuration::from_secs(170));
    assert_eq!(line(&simulation, "Stalled"), "");
    // Another leader knows since when.
    simulation.restart();
    pass(&mut simulation, SignedDuration::from_secs(15));
    let words = "Secret credentials changed, and the agent of pod cache-1 does not say whether the pod uses it (no answer within 2 s): \
                 no pod is restarted; let the operator reach port 9150 of the pods";
    assert_eq!(line(&simulation, "Stalled"), format!("True AgentUnreachable: {words}"));
    simulation.requested.clear();
    pass(&mut simulation, SignedDuration::from_mins(10));
    assert_eq!(simulation.requested, Vec::<String>::new(), "nothing is new");
    assert_eq!(simulation.said, ["RotationStarted", "AgentUnreachable"]);
    simulation.settle();
    assert_eq!(line(&simulation, "Ready"), READY);
    assert_eq!(simulation.rotations, [RotationResult::Unreachable, RotationResult::Taken]);
    assert_eq!(simulation.model.rollouts, 0);
}

#[test]
fn a_pod_that_takes_nothing_for_ten_minutes_is_told_of() {
    let mut simulation = running();
    changed(&mut simulation, 2, &[Agent::Works]);
    pass(&mut simulation, SignedDuration::from_secs(11 * 60));
    assert_eq!(
        line(&simulation, "Stalled"),
        "True ProgressDeadlineExceeded: Secret credentials changed, and pod cache-0 does not use it yet: memcached does not \
         answer; no pod is restarted"
    );
    simulation.settle();
    assert_eq!(line(&simulation, "Ready"), READY);
    assert_eq!(simulation.rotations, [RotationResult::Stalled, RotationResult::Taken]);
}

#[test]
fn what_is_said_of_a_pod_that_takes_nothing_is_what_its_agent_said() {
    let kinds = [
        (Agent::Works, "memcached does not answer"),
        (Agent::Waits, "the kubelet has not brought the new files"),
        (Agent::IsBusy, "its agent was asked too often to say why"),
        // For less than the three minutes after which this is a problem of its own.
        (Agent::Hangs, "no answer within 2 s"),
    ];
    for (agent, why) in kinds {
        let mut simulation = running();
        changed(&mut simulation, 2, &[Agent::Works]);
        pass(&mut simulation, SignedDuration::from_secs(9 * 60));
        simulation.model.agents = vec![agent];
        pass(&mut simulation, SignedDuration::from_secs(2 * 60));
        let words = format!(
            "Secret credentials changed, and pod cache-0 does not use it yet: {why}; no pod is restarted"
        );
        assert_eq!(line(&simulation, "Stalled"), format!("True ProgressDeadlineExceeded: {words}"));
    }
}

#[test]
fn what_waits_for_a_restart_is_a_warning_until_the_pods_are_others() {
    for agent in [Agent::LeavesSomething, Agent::NeedsRestart] {
        let mut simulation = running();
        changed(&mut simulation, 2, &[Agent::Takes, agent]);
        assert_eq!(line(&simulation, "Ready"), READY);
        let warnings = |simulation: &Simulation| {
            let all = &simulation.model.resource().status.warnings;
            all.iter().map(|it| it.message.clone()).collect::<Vec<_>>()
        };
        let said = warnings(&simulation);
        assert!(said[0].starts_with("Secret credentials: until the pods restart: "), "{said:?}");
        assert_eq!(
            simulation.said,
            ["RotationStarted", "MemcachedReady", "RotationComplete", "RestartNeeded"]
        );
        assert_eq!(simulation.rotations, [RotationResult::RestartNeeded]);
        simulation.restart();
        simulation.settle();
        assert_eq!(warnings(&simulation), said);
        simulation.model.trigger(1);
        simulation.settle();
        assert_eq!(warnings(&simulation), Vec::<String>::new());
    }
}

#[test]
fn a_secret_that_goes_and_comes_back_ends_the_rotation_with_what_it_holds_then() {
    for content in [2, 1] {
        let mut simulation = running();
        changed(&mut simulation, 2, &[Agent::Takes, Agent::Waits]);
        simulation.model.set_secret(None);
        hear(&mut simulation);
        assert!(line(&simulation, "Ready").starts_with("False SecretNotFound"));
        forget(&mut simulation);
        pass(&mut simulation, SignedDuration::from_mins(1));
        assert_eq!(simulation.questions_asked, 0, "there is nothing to ask for");
        // Some pods took the second content: also to go back to the first is a rotation.
        simulation.model.set_secret(Some(content));
        hear(&mut simulation);
        assert!(
            line(&simulation, "Progressing").starts_with("True Progressing: Rotating Secret credentials")
        );
        simulation.settle();
        assert_eq!(line(&simulation, "Ready"), READY);
        assert_eq!(simulation.model.rollouts, 0);
    }
}

#[test]
fn an_answer_about_another_content_or_to_another_leader_changes_nothing() {
    let mut simulation = running();
    simulation.model.set_secret(Some(2));
    hear(&mut simulation);
    // It is changed again while the agents are asked.
    let (id, question) = simulation.questions.remove(0);
    let taken = simulation.model.answer_question(&question);
    simulation.model.set_secret(Some(4));
    hear(&mut simulation);
    simulation.step(Event::Answered { id, reply: taken.clone() });
    hear(&mut simulation);
    assert!(record(&simulation).wanted_hash.is_some(), "that was about another content");
    // The lead is lost and won again while they are asked.
    let (id, _) = simulation.questions.remove(0);
    let before = record(&simulation);
    simulation.lead(false);
    simulation.lead(true);
    simulation.step(Event::Answered { id, reply: taken });
    hear(&mut simulation);
    assert_eq!(record(&simulation), before);
    simulation.settle();
    assert_eq!(line(&simulation, "Ready"), READY);
}

#[test]
fn pods_of_a_paused_cache_take_what_comes_and_the_status_says_so() {
    let mut simulation = running();
    simulation.model.pause(true);
    simulation.settle();
    changed(&mut simulation, 2, &[Agent::Takes, Agent::Waits]);
    assert!(
        line(&simulation, "Progressing").starts_with("True Progressing: Rotating Secret credentials: 2/3")
    );
    simulation.settle();
    assert_eq!(line(&simulation, "Progressing"), "False ProgressingComplete: All 3 replicas are updated");
    simulation.restart();
    simulation.settle();
    simulation.model.pause(false);
    simulation.settle();
    assert_eq!(line(&simulation, "Ready"), READY);
    assert_eq!((record(&simulation).wanted_hash, simulation.model.rollouts), (None, 0));
}

/// One step of a history.
#[derive(Clone, Debug)]
enum Step {
    Secret(Option<u8>),
    Agents(Vec<Agent>),
    Deliver(usize),
    Execute(usize),
    Lose(usize),
    Agent(usize, bool),
    Restart,
    Lead(bool),
    Wait(u16),
    Work,
    Pause(bool),
    ScaleTo(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let agent = prop::sample::select(vec![
        Agent::Takes,
        Agent::Waits,
        Agent::IsBusy,
        Agent::Works,
        Agent::Hangs,
        Agent::Refuses,
        Agent::LeavesSomething,
        Agent::NeedsRestart,
    ]);
    prop_oneof![
        3 => prop::option::weighted(0.8, 0..=REFUSED + 1).prop_map(Step::Secret),
        3 => prop::collection::vec(agent, 0..4).prop_map(Step::Agents),
        8 => (0..8usize).prop_map(Step::Deliver),
        8 => (0..8usize).prop_map(Step::Execute),
        2 => (0..8usize).prop_map(Step::Lose),
        8 => ((0..2usize), prop::bool::weighted(0.1)).prop_map(|(at, lost)| Step::Agent(at, lost)),
        1 => Just(Step::Restart),
        1 => any::<bool>().prop_map(Step::Lead),
        3 => (0..200u16).prop_map(Step::Wait),
        2 => Just(Step::Work),
        1 => any::<bool>().prop_map(Step::Pause),
        1 => (0..4u8).prop_map(Step::ScaleTo),
    ]
}

fn take(simulation: &mut Simulation, step: &Step) {
    match step {
        Step::Secret(content) => simulation.model.set_secret(*content),
        Step::Agents(agents) => simulation.model.agents.clone_from(agents),
        Step::Deliver(at) => {
            if let Some(event) = simulation.model.next_event(*at) {
                simulation.step(event);
            }
        }
        Step::Execute(at) => simulation.answer(*at, true, None),
        Step::Lose(at) => {
            simulation.answer(*at, true, Some(Category::Transient));
        }
        Step::Agent(at, lost) => simulation.answer_question(*at, *lost),
        Step::Restart => simulation.restart(),
        Step::Lead(leads) => simulation.lead(*leads),
        Step::Wait(seconds) => simulation.wait(SignedDuration::from_secs(i64::from(*seconds))),
        Step::Work => drop(simulation.model.work()),
        Step::Pause(paused) => simulation.model.pause(*paused),
        Step::ScaleTo(replicas) => simulation.model.ask_for(*replicas),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        // One takes as long as a few of the others.
        cases: ProptestConfig::default().cases / 4,
        max_shrink_iters: 5_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_content_of_a_secret_replaces_a_pod_and_every_rotation_ends(
        history in prop::collection::vec(step(), 0..60),
        workload in prop::sample::select(ChildKind::WORKLOADS.to_vec()),
    ) {
        let mut simulation = running_with(workload);
        simulation.with_twin = true;
        for step in &history {
            take(&mut simulation, step);
        }
        simulation.model.pause(false);
        simulation.model.ask_for(3);
        simulation.model.set_secret(Some(5));
        simulation.settle();
        prop_assert_eq!(simulation.model.rollouts, 0);
        prop_assert_eq!(line(&simulation, "Ready"), READY);
        prop_assert_eq!(record(&simulation).wanted_hash, None);
        let hash = simulation.model.workload().content.parse().pointer("/metadata/annotations/memcached.c5c3.io~1secret-hash").cloned();
        prop_assert_eq!(hash, Some(record(&simulation).used_hash.into()));
    }
}

/// A cache of three pods is scaled to one and then to none, and paused in between: one pod is asked before the watch shows that
/// two are gone.
#[test]
fn the_words_name_the_pods_whose_agents_answered_where_others_are_wanted_and_counted() {
    let mut simulation = running();
    let scaled = [Step::ScaleTo(1), Step::Deliver(0), Step::Execute(0), Step::Deliver(0)];
    let paused = [Step::Pause(true), Step::Agents(vec![Agent::Waits]), Step::ScaleTo(0), Step::Deliver(0)];
    let changed = [Step::Secret(Some(2)), Step::Deliver(1), Step::Execute(0), Step::Deliver(0)];
    let asked = [Step::Execute(0), Step::Execute(0), Step::Agent(0, false)];
    for step in scaled.iter().chain(&paused).chain(&changed).chain(&asked) {
        take(&mut simulation, step);
    }
    simulation.answer(0, true, None);
    let words = line(&simulation, "Ready");
    assert!(words.starts_with("False MemcachedNotReady: 3/0 replicas are ready"), "{words}");
    assert!(words.ends_with("Rotating Secret credentials: 0/1 pods use the new content"), "{words}");
}
