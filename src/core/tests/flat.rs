//! What one event costs the kernel does not depend on how many resources there are: a world of 10,000 is not worked on a
//! hundred times as long, for each of a hundred times as many events, as one of 100.
//!
//! Allocations are counted, and may be 1.3 times as many. What walks through a world and allocates nothing is found by the
//! processor's time of this thread, the least of some rounds: with a hundred times as many resources it may take
//! [`LONGER`] times as long, and no bound is a number of seconds. One test, because a process has one heap.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test ends where the kernel asks for something else than is answered here"
)]

use std::collections::{BTreeSet, VecDeque};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube_core::DynamicObject;
use memcached_operator_core::api::MemcachedStatus;
use memcached_operator_core::api::status::BudgetedRollout;
use memcached_operator_core::kernel::desired::meta;
use memcached_operator_core::kernel::effect::Effect;
use memcached_operator_core::kernel::event::{Event, Reply, SeenChild, SeenResource};
use memcached_operator_core::kernel::failure::{Category, Failure};
use memcached_operator_core::kernel::object::{ChildKind, Key, ResourceVersion, Scope, Uid, Watched};
use memcached_operator_core::kernel::reconciler::{Reconciler, Settings};
use memcached_operator_core::kernel::request::{ChildWrite, Request, RequestId, StatusWrite, Write};
use memcached_operator_core::kernel::rollout_budget::{
    BudgetSettings, RolloutBudget, RolloutTurn, TurnState,
};
use memcached_operator_core::kernel::seen;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

#[global_allocator]
static HEAP: dhat::Alloc = dhat::Alloc;

/// How many others there are.
const WORLDS: [usize; 3] = [100, 1_000, 10_000];
/// Times that each event is measured; the least counts.
const ROUNDS: usize = 20;
/// How much longer an event may take among a hundred times as many others: caches are colder, and trees are deeper.
const LONGER: f64 = 3.0;

/// The namespace of what is worked on, one whose resources wait for its lists, and one that is empty.
const NEAR: &str = "near";
const FAR: &str = "far";
const BESIDE: &str = "beside";

/// What an event cost.
#[derive(Clone, Copy, Debug)]
struct Cost {
    allocations: u64,
    took: Duration,
}

/// How a round is prepared; gives its event.
type Prepare = fn(&mut Operator, usize) -> Event;

/// What is measured.
const EVENTS: [(&str, Prepare); 5] = [
    ("a resource", Operator::resource_again),
    ("a child", Operator::deployment_again),
    ("an orphan that is deleted", Operator::orphan_goes),
    ("an answer that the namespace goes", Operator::namespace_terminates),
    ("the end of a list of an empty namespace", Operator::empty_list),
];

/// What is measured beside these.
const MORE: [&str; 2] = ["a step while many wait to roll", "a pod that fails among many"];

#[test]
fn an_event_costs_as_much_among_ten_thousand_resources_as_among_a_hundred() {
    let [few, more, many] = WORLDS.map(|others| {
        let mut operator = Operator::with_others(others);
        let mut costs: Vec<_> = EVENTS.iter().map(|(_, prepare)| operator.cost(*prepare)).collect();
        costs.push(cost_of_waiting(others));
        (0..others).for_each(|it| operator.step(failing(&other(NEAR, it).name, "not found")));
        costs.push(operator.cost(Operator::pod_fails));
        costs
    });
    let names = EVENTS.iter().map(|(name, _)| *name).chain(MORE);
    let mut dear = Vec::new();
    for (name, ((few, more), many)) in names.zip(few.into_iter().zip(more).zip(many)) {
        let costs = format!("{name}: {few:?} among 100, {more:?} among 1,000, {many:?} among 10,000");
        println!("{costs}");
        let allowed = few.allocations + few.allocations * 3 / 10;
        let is_long = many.took.as_secs_f64() > few.took.as_secs_f64() * LONGER;
        if more.allocations > allowed || many.allocations > allowed || is_long {
            dear.push(costs);
        }
    }
    assert!(dear.is_empty(), "{dear:#?}");
}

/// What the least of some rounds costs. Each is prepared by `prepare`, which does not count.
fn least<T>(mut prepare: impl FnMut(usize) -> T, mut work: impl FnMut(T)) -> Cost {
    // What is only found out once, or once for a namespace, is no event's.
    for round in 0..2 {
        work(prepare(round));
    }
    let times = (2..2 + ROUNDS).map(|round| {
        let prepared = prepare(round);
        let started = processor_time();
        work(prepared);
        processor_time().saturating_sub(started)
    });
    let took = times.min().unwrap();
    // Whoever counts allocations takes time for each.
    let _profiler = dhat::Profiler::builder().testing().build();
    let counts = (2 + ROUNDS..2 + 2 * ROUNDS).map(|round| {
        let prepared = prepare(round);
        let before = dhat::HeapStats::get().total_blocks;
        work(prepared);
        dhat::HeapStats::get().total_blocks - before
    });
    Cost { allocations: counts.min().unwrap(), took }
}

fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// What the budget is asked after each event, while many wait to adopt newer templates and one that does so stalled.
fn cost_of_waiting(others: usize) -> Cost {
    let budget = BudgetSettings { limit: 10, ..BudgetSettings::default() };
    let mut rollout_budget = RolloutBudget::new(budget, BTreeSet::new());
    let adopting = BudgetedRollout::Adoption;
    let stalled = RolloutTurn { cause: adopting, stalled: true, idle: false };
    rollout_budget.note(&key(NEAR, "stalled"), TurnState::Granted(stalled));
    for number in 0..others {
        rollout_budget.note(&other(NEAR, number), TurnState::Waiting(adopting));
    }
    least(
        |round| other(NEAR, round),
        |key| {
            assert_eq!(rollout_budget.call_next(), vec![]);
            black_box(rollout_budget.turn_state(&key, Some(adopting), true));
            black_box(rollout_budget.counts());
        },
    )
}

fn key(namespace: &str, name: &str) -> Key {
    Key { namespace: namespace.to_owned(), name: name.to_owned() }
}

fn other(namespace: &str, number: usize) -> Key {
    key(namespace, &format!("another-{number:05}"))
}

/// The kernel, and what the API server knows of the one resource that is worked on.
struct Operator {
    reconciler: Reconciler,
    now: Timestamp,
    version: u64,
    /// Its Deployment as it was made.
    deployment: Option<SeenChild>,
    /// How many orphans have not been deleted yet.
    orphans: usize,
    /// Requests that nobody answers yet.
    held: VecDeque<(RequestId, Key, Arc<Request>)>,
}

impl Operator {
    /// One that leads, with a resource at rest among many others: as many are on their way out; as many children were left
    /// behind; and as many resources of another namespace have a turn to roll, and wait for the lists of that namespace.
    fn with_others(others: usize) -> Self {
        let scopes = [NEAR, FAR, BESIDE].map(|name| Scope::Namespace(name.to_owned()));
        let mut operator = Self {
            reconciler: Reconciler::new(Settings { scopes: scopes.into(), ..Settings::default() }),
            now: Timestamp::UNIX_EPOCH,
            version: 1_000,
            deployment: None,
            orphans: others,
            held: VecDeque::new(),
        };
        operator.step(Event::Leading(true));
        let going = resource(&json!({"deletionTimestamp": "2026-11-22T11:00:00Z"}));
        let status = MemcachedStatus {
            budgeted_rollout: Some(BudgetedRollout::Secret.recorded()),
            ..MemcachedStatus::default()
        };
        let rolling = SeenResource { status, ..resource(&json!({})) };
        let named = |seen: &SeenResource, key: Key| {
            let uid = Uid::from(format!("uid-of-{key}"));
            Event::Resource(Box::new(SeenResource { key, uid, ..seen.clone() }))
        };
        operator.list(BESIDE, Watched::Memcached, []);
        operator.list(FAR, Watched::Memcached, (0..others).map(|it| named(&rolling, other(FAR, it))));
        let one = Event::Resource(Box::new(resource(&json!({}))));
        let many = (0..others).map(|it| named(&going, other(NEAR, it)));
        operator.list(NEAR, Watched::Memcached, [one].into_iter().chain(many));
        let labelled = operator.left_behind();
        let orphan = |number| {
            let key = key(NEAR, &format!("orphan-{number:05}"));
            let mut content = labelled.content.clone();
            content.edit(|it| it["metadata"]["labels"] = json!(meta::selector_labels(&key.name)));
            Event::Child(Box::new(SeenChild { key, content, ..labelled.clone() }))
        };
        for kind in Watched::ALL.into_iter().skip(1) {
            match kind {
                Watched::Child(ChildKind::Service) => operator.list(NEAR, kind, (0..others).map(orphan)),
                _ => operator.list(NEAR, kind, []),
            }
        }
        assert!(operator.deployment.is_some(), "the resource has come to rest");
        operator
    }

    /// A complete list of a kind in a namespace.
    fn list(&mut self, namespace: &str, kind: Watched, events: impl IntoIterator<Item = Event>) {
        let scope = Scope::Namespace(namespace.to_owned());
        self.step(Event::Listing(kind, scope.clone()));
        events.into_iter().for_each(|event| self.step(event));
        self.step(Event::Listed(kind, scope));
    }

    /// A Service as it is left behind by a resource that went without its children.
    fn left_behind(&self) -> SeenChild {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "namespace": NEAR, "name": "x", "uid": "s", "resourceVersion": "1",
                "creationTimestamp": "2026-11-22T10:00:00Z", "labels": meta::selector_labels("x"),
            },
            "spec": {"clusterIP": "None"},
        }))
        .unwrap();
        SeenChild { entry: Some(0), ..seen::child(ChildKind::Service, &object).unwrap() }
    }

    /// Steps, and answers each request as an API server that refuses nothing.
    fn step(&mut self, event: Event) {
        self.step_once(event);
        while let Some((id, resource, request)) = self.held.pop_front() {
            let reply = self.answer(&resource, &request);
            self.step_once(Event::Done { id, reply });
        }
    }

    fn step_once(&mut self, event: Event) {
        for effect in self.reconciler.step(self.now, event) {
            if let Effect::Send { id, resource, request } = effect {
                self.held.push_back((id, resource, request));
            }
        }
    }

    fn answer(&mut self, resource: &Key, request: &Request) -> Reply {
        self.version += 1;
        match request {
            Request::WriteChild(ChildWrite { kind, write: Write::Create { body }, .. }) => {
                let child = self.created(*kind, body.clone());
                if *kind == ChildKind::Deployment {
                    self.deployment = Some(child.clone());
                }
                Reply::Child(Some(Box::new(child)))
            }
            Request::ReadChild(_) => Reply::Child(None),
            Request::WriteStatus(StatusWrite { patch, .. }) => {
                let known = &self.reconciler.world().resources[resource].seen;
                let mut status = json!(known.status);
                for (field, value) in patch.as_object().into_iter().flatten() {
                    status[field] = value.clone();
                }
                let status = serde_json::from_value(status).unwrap();
                let resource_version = ResourceVersion::from(self.version.to_string());
                Reply::Status(Box::new(SeenResource { status, resource_version, ..known.clone() }))
            }
            other => panic!("{other:?}"),
        }
    }

    fn created(&self, kind: ChildKind, mut body: Value) -> SeenChild {
        body["metadata"]["uid"] = json!(format!("{kind:?}"));
        body["metadata"]["resourceVersion"] = json!(self.version.to_string());
        body["metadata"]["generation"] = json!(1);
        seen::child(kind, &serde_json::from_value(body).unwrap()).unwrap()
    }

    /// What an event costs. What it asks for is answered afterwards.
    fn cost(&mut self, prepare: fn(&mut Self, usize) -> Event) -> Cost {
        let operator = std::cell::RefCell::new(self);
        let prepared = |round| {
            let mut operator = operator.borrow_mut();
            operator.settle();
            prepare(&mut operator, round)
        };
        let cost = least(prepared, |event| operator.borrow_mut().step_once(event));
        operator.borrow_mut().settle();
        cost
    }

    fn settle(&mut self) {
        self.now += SignedDuration::from_secs(1);
        self.step(Event::Tick);
    }

    fn newer(&mut self) -> ResourceVersion {
        self.version += 1;
        ResourceVersion::from(self.version.to_string())
    }

    fn resource_again(&mut self, _: usize) -> Event {
        let resource_version = self.newer();
        let known = self.reconciler.world().resources[&key(NEAR, "cache")].seen.clone();
        Event::Resource(Box::new(SeenResource { resource_version, ..known }))
    }

    fn deployment_again(&mut self, _: usize) -> Event {
        let resource_version = self.newer();
        Event::Child(Box::new(SeenChild { resource_version, ..self.deployment.clone().unwrap() }))
    }

    fn pod_fails(&mut self, round: usize) -> Event {
        failing("cache", &format!("for the {round}th time"))
    }

    fn orphan_goes(&mut self, _: usize) -> Event {
        self.orphans -= 1;
        let key = key(NEAR, &format!("orphan-{:05}", self.orphans));
        Event::Gone { kind: Watched::Child(ChildKind::Service), key }
    }

    /// The Service is gone, and the request that creates it anew is refused.
    fn namespace_terminates(&mut self, round: usize) -> Event {
        // A request that was refused in the same state is not sent again.
        let resource_version = self.newer();
        let mut known = self.reconciler.world().resources[&key(NEAR, "cache")].seen.clone();
        known.generation += 1;
        known.resource_version = resource_version;
        if let Ok(spec) = &mut known.spec {
            let service = json!({"annotations": {"round": round.to_string()}});
            spec.service = Some(serde_json::from_value(service).unwrap());
        }
        if round == 0 {
            self.step_once(Event::Gone { kind: Watched::Child(ChildKind::Service), key: key(NEAR, "cache") });
        } else {
            self.step_once(Event::Resource(Box::new(known)));
        }
        let creates = |request: &Request| {
            matches!(request, Request::WriteChild(ChildWrite { write: Write::Create { .. }, .. }))
        };
        let at = self.held.iter().position(|(_, _, request)| creates(request));
        let (id, _, _) = self.held.remove(at.unwrap()).unwrap();
        let failure = Failure { category: Category::NamespaceTerminating, message: "it goes".to_owned() };
        Event::Done { id, reply: Reply::Failed(failure) }
    }

    fn empty_list(&mut self, _: usize) -> Event {
        let scope = Scope::Namespace(BESIDE.to_owned());
        let kind = Watched::Child(ChildKind::Service);
        self.step(Event::Listing(kind, scope.clone()));
        Event::Listed(kind, scope)
    }
}

/// A resource as most are: a few settings, three pods.
fn resource(more: &Value) -> SeenResource {
    let mut metadata = json!({
        "namespace": NEAR,
        "name": "cache",
        "uid": "2c1b7d7e-9a50-4b4e-8d0f-0c8d2a6f1e01",
        "resourceVersion": "100",
        "generation": 1,
        "creationTimestamp": "2026-11-22T10:00:00Z",
    });
    metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "memcached.c5c3.io/v1beta1",
        "kind": "Memcached",
        "metadata": metadata,
        "spec": {"replicas": 3, "image": "memcached:1.6", "memcached": {"maxMemoryMB": 64, "threads": 4}},
        "status": {"observedGeneration": -1},
    }))
    .unwrap();
    seen::resource(&object).unwrap()
}

/// A pod of a resource that cannot pull its image.
fn failing(resource: &str, why: &str) -> Event {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {
            "namespace": NEAR, "name": format!("{resource}-7d4b9c6f5-x2x4z"), "uid": "p", "resourceVersion": "1",
            "labels": meta::selector_labels(resource),
        },
        "status": {"containerStatuses": [{
            "name": "memcached", "image": "memcached:1.6", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "CreateContainerError", "message": why}},
        }]},
    }))
    .unwrap();
    Event::Pod(seen::pod(&pod).unwrap())
}
