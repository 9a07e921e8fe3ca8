//! What the conditions of a status say in words, after every pass of every history: nothing that contradicts itself,
//! another condition, the numbers beside it, or what the operator knew.
//!
//! Every simulation asks [`check`]; the histories here add what changes words and no request: pauses, invalid specs,
//! Deployments in all stages, Secrets without their key, turns that do not come.

mod claims;
mod contradictions;
mod known;
mod page;
mod pairs;
mod quoted;

use std::cell::RefCell;
use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use memcached_operator_core::api::MemcachedStatus;
use memcached_operator_core::api::condition::Condition;
use memcached_operator_core::kernel::effect::Effect;
use memcached_operator_core::kernel::event::{Event, SeenPod};
use memcached_operator_core::kernel::failure::Category;
use memcached_operator_core::kernel::object::{ChildKind, Key, ResourceVersion, Scope, Uid};
use memcached_operator_core::kernel::pod_readiness::Readiness;
use memcached_operator_core::kernel::reconciler::{Reconciler, Settings};
use memcached_operator_core::kernel::request::{Request, StatusWrite};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use crate::disasters::Disaster;
use crate::history::Op;
use crate::model::{
    LACKING, Model, NAME, NAMED, NAMED_AND_SCALED, NAMED_WITH_SECRET, Report, SCALED, WARM, merged,
};
use crate::simulation::Simulation;

/// Refuses words that contradict each other or what the kernel knew when it sent them. Returns what was claimed.
pub(crate) fn check(reconciler: &Reconciler, now: Timestamp, effect: &Effect) -> BTreeSet<String> {
    if let Effect::Publish { kube_event, .. } = effect {
        page::is_known_event(kube_event);
    }
    let Some((key, status)) = status_of(reconciler, effect) else { return BTreeSet::new() };
    let found = contradictions::contradictions(&status, &known::Known::new(reconciler, key, now));
    assert!(found.is_empty(), "{}", found.join("\n"));
    page::are_known_conditions(&status.conditions);
    let claims = |it: &Condition| {
        let claims = claims::claims(it, &status.conditions).unwrap_or_default();
        claims.iter().map(|claim| (it.type_.to_string(), claim.name())).collect::<Vec<_>>()
    };
    let all: Vec<_> = status.conditions.iter().flat_map(claims).collect();
    let others = |at: usize| all[at + 1..].iter().map(move |(_, other)| (at, other));
    let pairs = (0..all.len()).flat_map(others).map(|(at, other)| pairs::pair(&all[at].1, other));
    all.iter().map(|(of, claim)| format!("{of} {claim}")).chain(pairs).collect()
}

/// The status that a request writes, whole.
fn status_of<'a>(reconciler: &Reconciler, effect: &'a Effect) -> Option<(&'a Key, MemcachedStatus)> {
    let Effect::Send { resource, request, .. } = effect else { return None };
    let Request::WriteStatus(StatusWrite { patch, .. }) = &**request else { return None };
    Some((resource, merged(&reconciler.world().resources[resource].seen.status, patch)))
}

/// One step of a history.
#[derive(Clone, Debug)]
enum Step {
    /// One that every simulation takes.
    Any(Op),
    /// All requests are answered, all events arrive.
    Quiet,
    /// All requests are answered, all events arrive, and the cluster comes to rest too.
    Settle,
    /// A request is refused.
    Refuse(usize, Category),
    /// The user pauses the resource, or lets it go on.
    Pause(bool),
    /// The user breaks a rule, or no longer does.
    Break(bool),
    /// The user asks for so many pods.
    AskFor(u8),
    /// The Secret loses its key.
    LoseKey,
    /// The user wants pods to take changed Secrets in place.
    TakeInPlace,
    /// The Deployment controller tells how far it is.
    Report(Report),
    /// A pod does not run, or does.
    PodProblem(bool),
    /// The operator starts again, and knows or does not know yet who else rolls.
    Restart { waits: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let category = prop::sample::select(vec![
        Category::Invalid,
        Category::ImmutableField,
        Category::Forbidden,
        Category::QuotaExceeded,
        Category::AdmissionDenied,
        Category::Transient,
        Category::Conflict,
        Category::NamespaceTerminating,
    ]);
    let report = (0..3_i32, 0..3_i32, 0..4_i32, 0..4_i32, 0..6_u8, prop::bool::weighted(0.8)).prop_map(
        |(surge, updated, ready, available, failed, observed)| Report {
            surge,
            updated,
            ready,
            available,
            deadline_exceeded: failed == 0,
            replica_failure: failed == 1,
            observed,
        },
    );
    let usual = super::op().prop_filter("it restarts by itself", |op| !matches!(op, Op::Restart));
    prop_oneof![
        12 => usual.prop_map(Step::Any),
        8 => Just(Step::Quiet),
        3 => ((0..8usize), category).prop_map(|(at, category)| Step::Refuse(at, category)),
        3 => any::<bool>().prop_map(Step::Pause),
        2 => any::<bool>().prop_map(Step::Break),
        2 => (0..4_u8).prop_map(Step::AskFor),
        2 => Just(Step::LoseKey),
        1 => Just(Step::TakeInPlace),
        6 => report.prop_map(Step::Report),
        1 => any::<bool>().prop_map(Step::PodProblem),
        2 => any::<bool>().prop_map(|waits| Step::Restart { waits }),
    ]
}

/// How a history begins: what chance alone would seldom bring about.
fn beginnings() -> impl Strategy<Value = Vec<Step>> {
    let any = |op| Step::Any(op);
    let rotates = vec![
        Step::Restart { waits: true },
        any(Op::Edit(3)),
        Step::Quiet,
        any(Op::RollOut),
        any(Op::RollOut),
        any(Op::Secret(Some(1))),
        Step::Quiet,
    ];
    let refused =
        vec![any(Op::Edit(2)), any(Op::Deliver(0)), Step::Refuse(0, Category::Forbidden), Step::Quiet];
    let waits = vec![any(Op::Edit(2)), Step::Pause(true), Step::Quiet];
    let empty =
        vec![Step::AskFor(0), Step::Quiet, any(Op::RollOut), any(Op::RollOut), any(Op::TamperTemplate)];
    let missing = vec![any(Op::Edit(3)), any(Op::Secret(None)), Step::Quiet];
    let restarts_none = vec![Step::AskFor(0), Step::Settle, any(Op::Trigger(1)), Step::Quiet];
    let switches_none = vec![any(Op::Edit(NAMED)), Step::AskFor(0), Step::Pause(true), Step::Quiet];
    let in_place = vec![
        any(Op::Edit(3)),
        Step::TakeInPlace,
        Step::Settle,
        any(Op::Secret(Some(1))),
        Step::Quiet,
        any(Op::RollOut),
        any(Op::RollOut),
        Step::Quiet,
    ];
    let one_by_one = || [any(Op::RunStatefulSet), Step::Quiet].into_iter().cycle().take(24);
    let rotate_named =
        [any(Op::Edit(NAMED_WITH_SECRET)), Step::Settle, any(Op::Secret(Some(1))), Step::Quiet];
    let starts = rotate_named.into_iter().chain(one_by_one()).collect();
    let fill = any(Op::FillPods(100));
    let roll_warm = [any(Op::Edit(WARM)), Step::Settle, fill, any(Op::Edit(WARM + 1)), Step::Quiet];
    let warms = roll_warm.into_iter().chain(one_by_one()).collect();
    prop_oneof![
        6 => Just(Vec::new()),
        1 => prop::sample::select(vec![
            rotates, refused, waits, empty, missing, restarts_none, switches_none, in_place, starts, warms,
        ]),
    ]
}

fn histories() -> impl Strategy<Value = (u8, Vec<Step>)> {
    let steps = (beginnings(), prop::collection::vec(step(), 0..24));
    (0..7_u8, steps.prop_map(|(beginning, steps)| [beginning, steps].concat()))
}

fn take(simulation: &mut Simulation, step: &Step) {
    match step {
        Step::Any(op) => simulation.apply(op),
        Step::Quiet => quieten(simulation),
        Step::Settle => {
            simulation.settle();
        }
        Step::Refuse(at, category) => simulation.answer(*at, false, Some(*category)),
        Step::Pause(paused) => simulation.model.pause(*paused),
        Step::Break(broken) => simulation.model.break_rule(*broken),
        Step::AskFor(replicas) => simulation.model.ask_for(*replicas),
        Step::LoseKey => simulation.model.set_secret(Some(LACKING)),
        Step::TakeInPlace => simulation.model.take_in_place(),
        Step::Report(report) => simulation.model.report(report),
        Step::PodProblem(problem) => {
            let key = simulation.model.resource_key().clone();
            let pod = SeenPod {
                key: Key { name: format!("{NAME}-5d4f8-x2x7q"), ..key },
                uid: Uid::from(String::new()),
                resource_version: ResourceVersion::default(),
                instance: NAME.to_owned(),
                revision: None,
                ip: None,
                readiness: Readiness::NotReady { since: Timestamp::UNIX_EPOCH },
                deleting: false,
                problem: problem.then(|| "CrashLoopBackOff".to_owned()),
            };
            simulation.step(Event::Pod(pod));
        }
        Step::Restart { waits } => {
            // Until a namespace has been seen its caches may roll, and nobody gets a turn.
            let unseen = waits.then(|| Scope::Namespace("elsewhere".to_owned()));
            let scopes = [Scope::All].into_iter().chain(unseen).collect();
            simulation.restart_with(Settings { scopes, ..Settings::default() });
        }
    }
}

/// All requests are answered and all events arrive; the cluster itself stands still.
fn quieten(simulation: &mut Simulation) {
    for _ in 0..200 {
        if let Some(event) = simulation.model.next_event(0) {
            simulation.step(event);
        } else if !simulation.late.is_empty() {
            simulation.arrive(0);
        } else if !simulation.requests.is_empty() {
            simulation.answer(0, true, None);
        } else {
            break;
        }
    }
    simulation.wait(SignedDuration::from_secs(1));
}

fn run(variant: u8, history: &[Step]) -> Simulation {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.model.set_secret(Some(0));
    simulation.model.edit(variant);
    simulation.settle();
    for step in history {
        take(&mut simulation, step);
    }
    quieten(&mut simulation);
    simulation
}

proptest! {
    #[test]
    fn no_condition_contradicts_itself_another_or_the_world((variant, history) in histories()) {
        run(variant, &history);
    }
}

/// What a condition can claim. How many pods of the former workload serve is said by Available only: Ready is about those
/// that are asked for.
const CLAIMS: &[&str] = &[
    "Available Former",
    "Available Ready",
    "Degraded AllReady",
    "Degraded KeysMissing",
    "Degraded NoWorkload",
    "Degraded OnlyReady",
    "Degraded SecretsMissing",
    "Paused Paused",
    "Progressing AllUpdated",
    "Progressing HeldBack",
    "Progressing InProgress",
    "Progressing NoWorkload",
    "Progressing Rotating",
    "Ready AllReady",
    "Ready Available",
    "Ready Extra",
    "Ready KeysMissing",
    "Ready LacksTemplate",
    "Ready NoWorkload",
    "Ready Older",
    "Ready Pending",
    "Ready PodProblem",
    "Ready Quoted",
    "Ready Ready",
    "Ready Rotating",
    "Ready SecretsMissing",
    "Ready Unobserved",
    "Ready Warming",
    "Reconciling InProgress",
    "Reconciling NewGeneration",
    "Reconciling Paused",
    "Reconciling Pending",
    "Reconciling Quoted",
    "Reconciling Rotating",
    "Reconciling Starting",
    "Reconciling Unobserved",
    "Reconciling WaitsForTurn",
    "Stalled Quoted",
];

#[test]
fn the_histories_reach_what_a_condition_can_claim() {
    let mut runner = TestRunner::new_with_rng(
        ProptestConfig::with_cases(1_000),
        TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    );
    let told = RefCell::new(BTreeSet::new());
    let expected: BTreeSet<_> =
        CLAIMS.iter().map(ToString::to_string).chain(pairs::to_be_reached()).collect();
    let unheard = |told: &BTreeSet<String>| -> Vec<_> { expected.difference(told).cloned().collect() };
    let walk = runner.run(&histories(), |(variant, history)| {
        // Those that are left would show nothing new.
        if !unheard(&told.borrow()).is_empty() {
            told.borrow_mut().append(&mut run(variant, &history).claims);
        }
        Ok(())
    });
    walk.unwrap();
    let told = told.into_inner();
    let unheard = unheard(&told);
    assert!(unheard.is_empty(), "{unheard:?} are never said, only {told:#?}");
}

/// What a Deployment of one pod says once it is rolled out.
const ROLLED_OUT: Report = Report {
    surge: 0,
    updated: 1,
    ready: 1,
    available: 1,
    deadline_exceeded: false,
    replica_failure: false,
    observed: true,
};

/// Why a condition is as it is, in the status that is stored.
fn reason<'a>(model: &'a Model, of: &str) -> Option<&'a str> {
    model.resource().status.conditions.iter().find(|it| it.type_ == of).map(|it| it.reason.as_str())
}

/// Pods are said to roll before they do, so that no tool sees them roll while Ready is true. That contradicts nothing
/// where a person has to act on something else: somebody else's Service sits in the place of ours.
#[test]
fn a_rollout_that_begins_beside_somebody_elses_service_is_in_progress() {
    let put_foreign = || Step::Any(Op::PutForeign(ChildKind::Service, false));
    let late = Report { ready: 0, available: 0, deadline_exceeded: true, ..ROLLED_OUT };
    let tampered = |report| vec![put_foreign(), Step::Any(Op::TamperTemplate), Step::Report(report)];
    let rotated = vec![put_foreign(), Step::Quiet, Step::Any(Op::Secret(Some(1)))];
    for (variant, history) in [(0, tampered(ROLLED_OUT)), (0, tampered(late)), (3, rotated)] {
        let Simulation { model, requested, .. } = run(variant, &history);
        let reasons = ["Progressing", "Stalled"].map(|of| reason(&model, of));
        assert_eq!(reasons, [Some("Progressing"), Some("NameConflict")]);
        let begins = requested.iter().rposition(|it| it == "apply Deployment").unwrap();
        assert_eq!(requested[begins - 1], "status", "{requested:?}");
    }
}

/// The search for histories found it: the check took the kind that may have run the pods before for the one that does.
#[test]
fn a_rollout_begins_though_nobody_may_look_for_another_workload() {
    let any = Step::Any;
    let rotates =
        [any(Op::Edit(3)), Step::Quiet, any(Op::RollOut), any(Op::RollOut), any(Op::Secret(Some(1)))];
    let refused = [Step::Restart { waits: false }, any(Op::Execute(0)), Step::Refuse(0, Category::Forbidden)];
    let begins = [Step::Restart { waits: true }].into_iter().chain(rotates).chain([Step::Quiet]);
    let Simulation { model, requested, .. } = run(0, &begins.chain(refused).collect::<Vec<_>>());
    assert!(requested.iter().any(|it| it == "apply Deployment"), "{requested:?}");
    assert_eq!(reason(&model, "Progressing"), Some("Progressing"));
}

/// The former workload's pods serve what was asked for before, and the list for clients leads to them too.
#[test]
fn a_change_of_workloads_that_is_paused_half_way_is_not_ready() {
    let any = Step::Any;
    let run_pods = || any(Op::RunStatefulSet);
    let half_way = [any(Op::Edit(NAMED)), Step::Quiet, run_pods(), run_pods(), Step::Pause(true)];
    let model = run(0, &half_way).model;
    let ready = model.resource().status.conditions.iter().find(|it| it.type_ == "Ready").unwrap();
    assert_eq!(ready.message, "3/3 replicas are ready; not as desired yet: Deployment");
}

/// The search for histories found it. The former workload's pods are those that are replaced once it is their turn.
#[test]
fn another_workload_waits_for_its_turn_where_an_older_definition_hides_whether_anybody_asked_for_it() {
    let redefine = Step::Any(Op::Befall(Disaster::Redefine));
    let asks = [redefine, Step::Any(Op::Edit(NAMED)), Step::Break(true), Step::Restart { waits: true }];
    let model = run(0, &asks).model;
    let said = |kind: &str| {
        let found = model.resource().status.conditions.iter().find(|it| it.type_ == kind);
        found.map(|it| it.message.clone()).unwrap_or_default()
    };
    assert_eq!(said("Available"), "0/3 replicas are ready; 1 pod of the Deployment serves meanwhile");
    assert_eq!(said("Progressing"), "Waiting for statefulset to be created");
    let waits = "What the stored spec means changed though nobody edited it; pods are replaced once fewer other caches \
                 replace theirs (--max-concurrent-rollouts)";
    assert_eq!(said("Reconciling"), waits);
}

/// Nobody does anything for a rollout that waits for its policy, whether that is refused or somebody else's.
#[test]
fn a_rollout_that_waits_for_its_policy_is_not_in_progress() {
    let hear = || Step::Any(Op::Deliver(0));
    let tampered = |labelled| {
        let put_foreign = Op::PutForeign(ChildKind::NetworkPolicy, labelled);
        [put_foreign, Op::TamperTemplate].into_iter().map(Step::Any).chain([Step::Report(ROLLED_OUT)])
    };
    let theirs: Vec<_> = tampered(true).collect();
    let gone = [Step::Any(Op::RemoveForeign(ChildKind::NetworkPolicy)), hear(), hear(), hear()];
    let refused = tampered(false).chain(gone).chain([Step::Refuse(0, Category::Forbidden)]).collect();
    for history in [refused, theirs] {
        assert_eq!(reason(&run(5, &history).model, "Progressing"), Some("RolloutHeldBack"));
    }
}

/// The check asked nothing of it where an autoscaler decides on the number of pods.
#[test]
fn a_rollout_that_nobody_is_at_contradicts_what_is_known_also_under_an_autoscaler() {
    for variant in [0, SCALED, NAMED, NAMED_AND_SCALED] {
        let Simulation { model, reconciler, now, .. } = run(variant, &[]);
        let known = known::Known::new(&reconciler, model.resource_key(), now);
        let mut status = model.resource().status.clone();
        assert_eq!(contradictions::contradictions(&status, &known), [""; 0], "variant {variant}");
        let pods = status.updated_replicas;
        let progressing = status.conditions.iter_mut().find(|it| it.type_ == "Progressing").unwrap();
        (progressing.status, progressing.reason) = ("True".into(), "Progressing".into());
        progressing.message = format!("Rollout in progress: {pods}/{pods} replicas updated");
        let found = contradictions::contradictions(&status, &known);
        let why = "a rollout is in progress and nobody does anything\n";
        assert!(found.iter().any(|it| it.starts_with(why)), "variant {variant}: {found:?}");
    }
}
