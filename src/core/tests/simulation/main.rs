//! The kernel against a model API server under virtual time: random histories of edits, lost replies, refused
//! requests, restarts, deletions and meddling, and what has to hold after each of them.
//!
//! A failing case shrinks to a short list of [`Op`]s, which is all that is needed to run it again.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test ends where the model is not as it should be"
)]

mod altered;
mod disasters;
mod fleet;
mod model;
mod secrets;
mod sight;
mod turns;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use disasters::{Disaster, bars, disaster};
use jiff::{SignedDuration, Timestamp};
use memcached_operator_core::kernel::effect::{Effect, Observation, RequestId};
use memcached_operator_core::kernel::event::{Departure, Event, Reply};
use memcached_operator_core::kernel::failure::{Category, Failure};
use memcached_operator_core::kernel::object::{ChildKind, Scope, Watched};
use memcached_operator_core::kernel::reconciler::{Reconciler, Settings};
use model::{Cluster, Model, NAME};
use proptest::prelude::*;

/// One step of a history.
#[derive(Clone, Debug)]
enum Op {
    /// The next event of a watch arrives.
    Deliver(usize),
    /// A request is executed and answered.
    Execute(usize),
    /// A request is executed, and its answer is on its way for a while.
    Delay(usize),
    /// An answer that was on its way arrives.
    Arrive(usize),
    /// A request is executed, and its answer is lost.
    LoseReply(usize),
    /// A request of an operator that is gone is executed: another one leads, and has written perhaps.
    ExecuteLate(usize),
    /// A request is refused.
    Refuse(usize, Category),
    /// The operator is killed and started again.
    Restart,
    /// It loses the lead, or wins it.
    Lead(bool),
    /// The user edits the spec: one of a few variants.
    Edit(u8),
    /// The user touches the restart trigger.
    Trigger(u8),
    /// The Secret gets one of a few contents, or goes.
    Secret(Option<u8>),
    /// The Secret's metadata changes.
    TouchSecret,
    /// Somebody changes the live pod template.
    TamperTemplate,
    /// Somebody sets fields of the live pod template to what they are.
    TakeTemplate,
    /// Somebody scales the Deployment.
    TamperReplicas(u8),
    /// Somebody gives our port another number.
    TamperPort,
    /// Somebody deletes the Service.
    DeleteService,
    /// Somebody takes our label off a child.
    TakeLabel(ChildKind),
    /// Somebody puts an object of their own in a child's place, with our label or without.
    Squat(ChildKind, bool),
    /// Somebody takes theirs away.
    MakeRoom(ChildKind),
    /// The user deletes the resource.
    Delete,
    /// The user deletes the resource and keeps its children.
    Orphan,
    /// The user creates it anew.
    Recreate,
    /// The garbage collector runs.
    CollectGarbage,
    /// The Deployment controller works a step.
    RollOut,
    /// The cluster makes something else of what is applied from now on.
    BecomeAnother(Cluster),
    /// The API server gets another version, which it says with the next list.
    Upgrade,
    /// Time passes.
    Wait(u16),
    /// Something befalls the whole API server.
    Befall(Disaster),
}

fn op() -> impl Strategy<Value = Op> {
    let refusal = prop_oneof![
        Just(Category::Transient),
        Just(Category::Forbidden),
        Just(Category::QuotaExceeded),
        Just(Category::Conflict),
    ];
    let cluster =
        prop::sample::select(vec![Cluster::Faithful, Cluster::RewritesImages, Cluster::RewritesArguments]);
    prop_oneof![
        8 => (0..8usize).prop_map(Op::Deliver),
        8 => (0..8usize).prop_map(Op::Execute),
        2 => (0..8usize).prop_map(Op::Delay),
        2 => (0..8usize).prop_map(Op::Arrive),
        2 => (0..8usize).prop_map(Op::LoseReply),
        2 => (0..8usize).prop_map(Op::ExecuteLate),
        2 => ((0..8usize), refusal).prop_map(|(at, why)| Op::Refuse(at, why)),
        1 => Just(Op::Restart),
        1 => Just(Op::Lead(false)),
        2 => Just(Op::Lead(true)),
        2 => (0..8u8).prop_map(Op::Edit),
        1 => (0..3u8).prop_map(Op::Trigger),
        2 => proptest::option::weighted(0.7, 0..3u8).prop_map(Op::Secret),
        1 => Just(Op::TouchSecret),
        1 => Just(Op::TamperTemplate),
        1 => Just(Op::TakeTemplate),
        1 => (0..5u8).prop_map(Op::TamperReplicas),
        1 => Just(Op::TamperPort),
        1 => Just(Op::DeleteService),
        2 => child().prop_map(Op::TakeLabel),
        1 => (child(), any::<bool>()).prop_map(|(kind, labelled)| Op::Squat(kind, labelled)),
        1 => child().prop_map(Op::MakeRoom),
        1 => Just(Op::Delete),
        1 => Just(Op::Orphan),
        2 => Just(Op::Recreate),
        1 => Just(Op::CollectGarbage),
        3 => Just(Op::RollOut),
        1 => cluster.prop_map(Op::BecomeAnother),
        1 => Just(Op::Upgrade),
        2 => (0..2000u16).prop_map(Op::Wait),
        3 => disaster().prop_map(Op::Befall),
    ]
}

/// A kind that the specs here ask for.
fn child() -> impl Strategy<Value = ChildKind> + Clone {
    proptest::sample::select(vec![
        ChildKind::NetworkPolicy,
        ChildKind::Service,
        ChildKind::Deployment,
        ChildKind::HorizontalPodAutoscaler,
    ])
}

/// The operator, the API server, and what is between them.
struct Simulation {
    reconciler: Reconciler,
    model: Model,
    now: Timestamp,
    requests: Vec<Effect>,
    /// Requests of operators that are gone, on their way. Nobody waits for their answers.
    left_behind: Vec<Effect>,
    /// The lists that were asked for and are not answered.
    asked: BTreeMap<Watched, Departure>,
    /// Whether the operator knows that it may not list the resources.
    barred: bool,
    /// How often it found that versions had gone back.
    times_listed_anew: usize,
    /// Answers on their way.
    late: Vec<(RequestId, Reply)>,
    wake: Option<Timestamp>,
    /// Whether each step is also taken by a kernel that was written down and read back right before.
    with_twin: bool,
    /// Whether it may write.
    leads: bool,
    /// Reasons of the Events that were published.
    said: Vec<String>,
    /// What was asked of the API server.
    requested: Vec<String>,
    /// Rollouts that the metrics count.
    counted: usize,
    /// What the Events say of rollouts.
    told: Vec<String>,
    /// What the conditions claimed.
    claims: BTreeSet<String>,
}

impl Simulation {
    fn new() -> Self {
        let mut simulation = Self {
            reconciler: Reconciler::new(Settings::default()),
            model: Model::default(),
            now: Timestamp::from_second(1_800_000_000).unwrap(),
            requests: Vec::new(),
            left_behind: Vec::new(),
            asked: BTreeMap::new(),
            barred: false,
            times_listed_anew: 0,
            late: Vec::new(),
            wake: None,
            with_twin: false,
            leads: false,
            said: Vec::new(),
            requested: Vec::new(),
            counted: 0,
            told: Vec::new(),
            claims: BTreeSet::new(),
        };
        simulation.restart();
        simulation
    }

    /// All memory is lost, or another operator leads, which is the same; lists come anew. What was sent is on its way.
    fn restart(&mut self) {
        self.restart_with(Settings::default());
    }

    fn restart_with(&mut self, settings: Settings) {
        self.reconciler = Reconciler::new(settings);
        self.left_behind.append(&mut self.requests);
        self.late.clear();
        self.asked.clear();
        self.wake = None;
        self.lead(true);
        self.step(self.model.says_version());
        for kind in Watched::ALL {
            if kind == Watched::Memcached && !self.model.has_role {
                self.step(Event::Unlistable(kind, Scope::All));
                continue;
            }
            self.step(Event::Listing(kind, Scope::All));
            for event in self.model.list(kind) {
                self.step(event);
            }
            self.step(Event::Listed(kind, Scope::All));
        }
    }

    fn step(&mut self, event: Event) {
        let twin = self.with_twin.then(|| {
            let snapshot = serde_json::to_vec(&self.reconciler).unwrap();
            serde_json::from_slice::<Reconciler>(&snapshot).unwrap().step(self.now, event.clone())
        });
        self.barred = bars(&event).unwrap_or(self.barred);
        let unanswered = self.requests.len() + self.late.len();
        let effects = self.reconciler.step(self.now, event);
        assert_eq!(twin.unwrap_or_else(|| effects.clone()), effects);
        let sends = effects.iter().any(|effect| matches!(effect, Effect::Send { .. }));
        assert!(!sends || unanswered == 0, "two batches at once: {effects:?} beside {unanswered} requests");
        assert!(!sends || !self.barred, "{effects:?} where the resources may not be listed");
        for effect in effects {
            self.claims.append(&mut words::check(&self.reconciler, self.now, &effect));
            match effect {
                Effect::Send { ref request, .. } => {
                    assert!(self.leads, "a follower asks for {effect:?}");
                    self.requested.push(request_name(request));
                    self.requests.push(effect);
                }
                Effect::Wake(at) => self.wake = Some(at),
                Effect::Publish { kube_event, .. } => {
                    if kube_event.reason == "RolloutStarted" {
                        self.told.push(kube_event.message);
                    }
                    self.said.push(kube_event.reason);
                }
                Effect::Observe(Observation::Rollout(_)) => self.counted += 1,
                Effect::RelistAll => {
                    assert!(self.model.history > 0, "versions did not go back");
                    self.times_listed_anew += 1;
                    Watched::ALL.into_iter().for_each(|kind| self.ask(kind));
                }
                Effect::PollMissingKind { .. } | Effect::Observe(_) => {}
            }
        }
    }

    fn answer(&mut self, at: usize, execute: bool, lost: Option<Category>) {
        if self.requests.is_empty() {
            return;
        }
        let at = at % self.requests.len();
        let Effect::Send { id, request, .. } = self.requests.remove(at) else { return };
        let executed = execute.then(|| self.model.respond(&request));
        let failed = |category| {
            let message = format!("cannot {}: {category:?}", request_name(&request));
            Reply::Failed(Failure { category, message })
        };
        let reply = lost.map(failed).or(executed).unwrap();
        self.step(Event::Done { id, reply });
    }

    fn execute_late(&mut self, at: usize) {
        let Some(at) = at.checked_rem(self.left_behind.len()) else { return };
        let Effect::Send { request, .. } = self.left_behind.remove(at) else { return };
        self.model.respond(&request);
    }

    fn delay(&mut self, at: usize) {
        let Some(at) = at.checked_rem(self.requests.len()) else { return };
        let Effect::Send { id, request, .. } = self.requests.remove(at) else { return };
        let reply = self.model.respond(&request);
        self.late.push((id, reply));
    }

    fn arrive(&mut self, at: usize) {
        let Some(at) = at.checked_rem(self.late.len()) else { return };
        let (id, reply) = self.late.remove(at);
        self.step(Event::Done { id, reply });
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Deliver(at) => {
                if let Some(event) = self.model.next_event(*at) {
                    self.step(event);
                }
            }
            Op::Execute(at) => self.answer(*at, true, None),
            Op::Delay(at) => self.delay(*at),
            Op::Arrive(at) => self.arrive(*at),
            Op::LoseReply(at) => self.answer(*at, true, Some(Category::Transient)),
            Op::ExecuteLate(at) => self.execute_late(*at),
            Op::Refuse(at, category) => self.answer(*at, false, Some(*category)),
            Op::Restart => self.restart(),
            Op::Lead(leads) => self.lead(*leads),
            Op::Edit(variant) => self.model.edit(*variant),
            Op::Trigger(value) => self.model.trigger(*value),
            Op::Secret(content) => self.model.set_secret(*content),
            Op::TouchSecret => self.model.touch_secret(),
            Op::TamperTemplate => self.model.tamper_template(),
            Op::TakeTemplate => self.model.take_template(),
            Op::TamperReplicas(replicas) => self.model.tamper_replicas(*replicas),
            Op::TamperPort => self.model.tamper_port(),
            Op::DeleteService => self.model.delete_service(),
            Op::TakeLabel(kind) => self.model.take_label(*kind),
            Op::Squat(kind, labelled) => self.model.squat(*kind, *labelled),
            Op::MakeRoom(kind) => self.model.make_room(*kind),
            Op::Delete => self.model.delete_resource(),
            Op::Orphan => self.model.orphan(),
            Op::Recreate => self.model.create_resource(),
            Op::CollectGarbage => self.model.collect_garbage(),
            Op::RollOut => self.model.roll_out(),
            Op::Befall(disaster) => self.befall(disaster),
            Op::BecomeAnother(cluster) => self.model.become_another(*cluster),
            Op::Upgrade => {
                self.model.upgrade();
                self.step(self.model.says_version());
            }
            Op::Wait(millis) => self.wait(SignedDuration::from_millis(i64::from(*millis))),
        }
    }

    fn wait(&mut self, duration: SignedDuration) {
        self.now += duration;
        if self.wake.is_some_and(|at| at <= self.now) {
            self.wake = None;
            self.step(Event::Tick);
        }
    }

    fn lead(&mut self, leads: bool) {
        self.leads = leads;
        self.step(Event::Leading(leads));
    }

    /// The watches tell all that they have to tell.
    fn hear(&mut self) {
        while let Some(event) = self.model.next_event(0) {
            self.step(event);
        }
    }

    /// Whatever is somebody else's goes, faults stop, everybody does their work, time passes. Returns the requests that
    /// were sent meanwhile.
    fn settle(&mut self) -> usize {
        ChildKind::ALL.into_iter().for_each(|kind| self.model.make_room(kind));
        self.settle_beside_others(usize::MAX)
    }

    /// As [`Self::settle`], but what is somebody else's stays, and so many times are awaited.
    fn settle_beside_others(&mut self, mut times: usize) -> usize {
        if !self.leads {
            self.lead(true);
        }
        let mut sent = 0;
        for _ in 0..10_000 {
            if let Some(event) = self.model.next_event(0) {
                self.step(event);
            } else if !self.late.is_empty() {
                self.arrive(0);
            } else if !self.requests.is_empty() {
                sent += 1;
                self.answer(0, true, None);
            // A list is answered within seconds, and the controllers of the cluster always find something to do.
            } else if self.catch_up() || self.model.work() {
            } else if let Some(at) = self.wake
                && at.duration_since(self.now) < SignedDuration::from_mins(20)
                && times > 0
            {
                times -= 1;
                self.wait(at.duration_since(self.now));
            } else {
                return sent;
            }
        }
        panic!("no rest after 10,000 steps");
    }
}

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
        prop_assert!(sent <= simulation.model.missing_reads(), "{} requests after a restart", sent);
    }
}

#[test]
fn who_keeps_changing_a_child_is_named_and_gets_few_answers_a_minute() {
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
    assert_eq!(applied, 12);
    let status = &simulation.model.resource().status;
    let reconciling = status.conditions.iter().find(|it| it.type_ == "Reconciling").unwrap();
    assert_eq!(reconciling.reason, "RetryingAfterError");
    assert!(reconciling.message.contains("somebody keeps changing fields"), "{}", reconciling.message);
    simulation.settle();
    simulation.model.check_converged();
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

/// Carries out what is asked for until nothing is, while the Deployment's status moves before every write of it. `told` says
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
    assert_eq!(sent, [["apply Deployment"; 6].as_slice(), &["status"]].concat());
    simulation.settle();
    simulation.model.check_converged();
}

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
fn a_new_resource_costs_two_children_and_one_status() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    let event = simulation.model.next_event(0).unwrap();
    simulation.step(event);
    let mut writes = Vec::new();
    while let Some(Effect::Send { request, .. }) = simulation.requests.first() {
        writes.push(request_name(request));
        simulation.answer(0, true, None);
    }
    assert_eq!(writes, ["create Service", "create Deployment", "status"]);
    assert_eq!(simulation.model.resource().key.name, NAME);
}

#[test]
fn a_resource_that_is_created_anew_waits_for_the_last_batch_of_the_one_before_it() {
    let under_way = |simulation: &Simulation| -> Vec<String> {
        let requests = simulation.requests.iter();
        let name = |it: &Effect| match it {
            Effect::Send { request, .. } => request_name(request),
            other => format!("{other:?}"),
        };
        requests.map(name).collect()
    };
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.hear();
    assert_eq!(under_way(&simulation), ["create Service", "create Deployment"]);
    simulation.model.delete_resource();
    simulation.hear();
    simulation.answer(0, false, Some(Category::Transient));
    simulation.model.create_resource();
    simulation.hear();
    assert_eq!(under_way(&simulation), ["create Deployment"], "of the resource that is gone");
    simulation.answer(0, false, Some(Category::Transient));
    assert_eq!(under_way(&simulation), ["create Service", "create Deployment"]);
    simulation.answer(0, true, None);
    assert_eq!(under_way(&simulation), ["create Deployment"]);
    simulation.settle();
    simulation.model.check_converged();
}

#[test]
fn what_was_refused_for_good_is_tried_again_when_the_resource_or_the_child_is_another() {
    let mut simulation = Simulation::new();
    let refuse = |simulation: &mut Simulation, name: &str| {
        while let Some(event) = simulation.model.next_event(0) {
            simulation.step(event);
        }
        let named = |it: &Effect| matches!(it, Effect::Send { request, .. } if request_name(request) == name);
        let at = simulation.requests.iter().position(named).expect("it is sent");
        simulation.answer(at, false, Some(Category::Invalid));
        simulation.settle();
    };
    simulation.model.create_resource();
    refuse(&mut simulation, "create Service");
    simulation.model.edit(1); // which leaves the Service as it is
    simulation.settle();
    simulation.model.check_converged();

    simulation.model.tamper_replicas(7);
    refuse(&mut simulation, "apply Deployment");
    assert_eq!(simulation.settle(), 0, "it is not tried again for nothing");
    simulation.model.tamper_replicas(8);
    simulation.settle();
    simulation.model.check_converged();
}

#[test]
fn no_object_is_kept_while_the_lists_are_not_complete() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.settle();
    let (own, [service, deployment]) =
        (Watched::Memcached, [ChildKind::Service, ChildKind::Deployment].map(Watched::Child));
    simulation.reconciler = Reconciler::new(Settings::default());
    for kind in [own, service, deployment] {
        simulation.step(Event::Listing(kind, Scope::All));
        for event in simulation.model.list(kind) {
            simulation.step(event);
        }
    }
    let known = simulation.reconciler.world().resources.values().next().unwrap();
    assert!(known.live(ChildKind::Deployment).is_some() && known.live(ChildKind::Service).is_some());
    assert!(!known.is_open());
}

#[test]
fn what_a_status_says_is_published_though_the_watch_tells_of_it_before_the_reply() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    loop {
        if let Some(event) = simulation.model.next_event(0) {
            simulation.step(event);
        } else if let Some(Effect::Send { id, request, .. }) = simulation.requests.pop() {
            let reply = simulation.model.execute(&request);
            while let Some(event) = simulation.model.next_event(0) {
                simulation.step(event);
            }
            simulation.step(Event::Done { id, reply });
        } else if !simulation.model.work() {
            break;
        }
    }
    assert_eq!(simulation.said, ["Created", "Created", "MemcachedReady"]);
}

#[test]
fn a_template_that_is_taken_back_and_one_that_the_api_server_stores_as_it_was_are_no_rollouts() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.settle();
    simulation.said.clear();
    simulation.model.take_template();
    assert!(simulation.settle() > 0, "it is taken back");
    assert_eq!((simulation.said.as_slice(), simulation.counted), (&[][..], 0));
    simulation.model.edit(2);
    let applies = |it: &Effect| matches!(it, Effect::Send { request, .. } if request_name(request) == "apply Deployment");
    while !simulation.requests.iter().any(applies) {
        match simulation.model.next_event(0) {
            Some(event) => simulation.step(event),
            None => simulation.answer(0, true, None),
        }
    }
    let at = simulation.requests.iter().position(applies).unwrap();
    let Effect::Send { id, .. } = simulation.requests.remove(at) else { unreachable!() };
    let as_it_was = Reply::Child(Some(Box::new(simulation.model.deployment().clone())));
    simulation.step(Event::Done { id, reply: as_it_was });
    assert_eq!((simulation.said.as_slice(), simulation.counted), (&[][..], 0));
    simulation.settle();
    assert_eq!(
        (simulation.said.as_slice(), simulation.counted),
        (&["RolloutStarted".to_owned(), "MemcachedReady".to_owned()][..], 1)
    );
}

#[test]
fn an_event_names_the_fields_of_the_template_that_an_edit_a_secret_and_a_trigger_change() {
    let mut simulation = Simulation::new();
    simulation.model.set_secret(Some(1));
    simulation.model.create_resource();
    simulation.settle();
    simulation.model.edit(3);
    simulation.settle();
    simulation.model.set_secret(Some(2));
    simulation.settle();
    simulation.model.trigger(1);
    simulation.settle();
    simulation.model.edit(2);
    simulation.settle();
    let fields =
        |told: &String| told.split_once(" (").unwrap().1.trim_end_matches(')').replace("spec.template.", "");
    let told: Vec<_> = simulation.told.iter().map(fields).collect();
    let of_memcached = |field: &str| format!("spec.containers[name=memcached].{field}");
    let [args, mounts] = ["args", "volumeMounts"].map(of_memcached);
    assert_eq!(
        told,
        [
            format!("metadata.annotations, {args}, {mounts}, spec.volumes"),
            "metadata.annotations[memcached.c5c3.io/secret-hash]".to_owned(),
            "metadata.annotations[memcached.c5c3.io/restart-trigger]".to_owned(),
            format!("{args}, metadata.annotations[memcached.c5c3.io/secret-hash], {mounts}, spec.volumes"),
        ]
    );
}

fn request_name(request: &memcached_operator_core::kernel::effect::Request) -> String {
    use memcached_operator_core::kernel::effect::Request;
    match request {
        Request::ReadSecret { .. } => "read Secret".into(),
        Request::ReadChild { kind, .. } => format!("read {}", kind.name()),
        Request::Create { kind, .. } => format!("create {}", kind.name()),
        Request::Apply { kind, .. } => format!("apply {}", kind.name()),
        Request::Patch { kind, .. } => format!("patch {}", kind.name()),
        Request::Delete { kind, .. } => format!("delete {}", kind.name()),
        Request::PatchStatus { .. } => "status".into(),
    }
}
