//! What the kernel takes of the heap: bytes for each resource at rest, and allocations for each event. Both are counted and
//! not timed, so that they are the same on every machine. One test, because a process has one heap.
//!
//! A figure that grows by 5 % fails, and so does one that falls by 5 %: then the new one is written down here.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test ends where the kernel asks for something else than to create and to report"
)]

use std::collections::VecDeque;

use jiff::Timestamp;
use kube_core::DynamicObject;
use memcached_operator_core::kernel::effect::{Effect, Request};
use memcached_operator_core::kernel::event::{Event, Reply, SeenChild, SeenResource, SeenRollout};
use memcached_operator_core::kernel::object::{ChildKind, ResourceVersion, Scope, Watched};
use memcached_operator_core::kernel::reconciler::{Reconciler, Settings};
use memcached_operator_core::kernel::seen;
use serde_json::{Value, json};

#[global_allocator]
static HEAP: dhat::Alloc = dhat::Alloc;

const RESOURCES: usize = 100;

/// What is measured, and the figure that was found last.
const FIGURES: [(&str, usize); 5] = [
    ("allocations to bring a resource to rest", 3_040),
    ("bytes of a resource at rest", 4_780),
    ("allocations of a Deployment that says nothing new", 149),
    ("allocations of a Deployment that has all its pods now", 635),
    ("allocations of a resource that says nothing new", 73),
];

#[test]
fn a_resource_and_an_event_take_as_much_of_the_heap_as_is_written_here() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let resources: Vec<_> = (0..RESOURCES).map(resource).collect();
    // What is made once for a process, the patterns of `validate` for example, is no resource's.
    Operator::new().list(&resources[..1]);
    let mut operator = Operator::new();
    let mut found = Vec::new();
    let (empty, start) = (dhat::HeapStats::get().curr_bytes, allocations());
    operator.list(&resources);
    found.push((allocations() - start) / RESOURCES);
    let deployments = std::mem::take(&mut operator.deployments);
    found.push((dhat::HeapStats::get().curr_bytes - empty - deployments.bytes) / RESOURCES);
    let deployments = deployments.all;
    let again = |version: &str, rollout: Option<&SeenRollout>| {
        let again = deployments.iter().cloned().map(|it| SeenChild {
            resource_version: ResourceVersion::from(version),
            rollout: rollout.cloned().or(it.rollout),
            ..it
        });
        again.map(Box::new).map(Event::Child).collect::<Vec<_>>()
    };
    found.push(operator.cost(again("200", None)));
    let complete = SeenRollout {
        observed_generation: 1,
        replicas: 3,
        ready: 3,
        updated: 3,
        available: 3,
        ..SeenRollout::default()
    };
    found.push(operator.cost(again("300", Some(&complete))));
    let known = operator.reconciler.world().resources.values().map(|it| it.seen.clone());
    let newer = known.map(|it| SeenResource { resource_version: ResourceVersion::from("400"), ..it });
    let newer = newer.map(Box::new).map(Event::Resource).collect();
    found.push(operator.cost(newer));

    let found: Vec<_> = FIGURES.iter().map(|(what, _)| *what).zip(found).collect();
    let near = |(&(_, known), &(_, now)): (&(&str, usize), &(&str, usize))| known.abs_diff(now) * 20 <= known;
    assert!(FIGURES.iter().zip(&found).all(near), "{found:#?} instead of {FIGURES:#?}");
}

fn allocations() -> usize {
    usize::try_from(dhat::HeapStats::get().total_blocks).unwrap()
}

/// The Deployments that were made, and what the test itself holds by keeping them.
#[derive(Default)]
struct Deployments {
    all: Vec<SeenChild>,
    bytes: usize,
}

/// The kernel, each of its requests answered at once.
struct Operator {
    reconciler: Reconciler,
    deployments: Deployments,
}

impl Operator {
    fn new() -> Self {
        let mut operator = Self {
            reconciler: Reconciler::new(Settings::default()),
            deployments: Deployments { all: Vec::with_capacity(RESOURCES), bytes: 0 },
        };
        operator.step(Event::Leading(true));
        operator
    }

    /// Every kind is listed; there is nothing but these resources.
    fn list(&mut self, resources: &[SeenResource]) {
        for kind in Watched::ALL {
            self.step(Event::Listing(kind, Scope::All));
            if kind == Watched::Memcached {
                resources.iter().for_each(|it| self.step(Event::Resource(Box::new(it.clone()))));
            }
            self.step(Event::Listed(kind, Scope::All));
        }
    }

    /// Allocations for each of these events, and for the answers to what comes of it.
    fn cost(&mut self, events: Vec<Event>) -> usize {
        let (count, start) = (events.len(), allocations());
        events.into_iter().for_each(|event| self.step(event));
        (allocations() - start) / count
    }

    fn step(&mut self, event: Event) {
        let mut waiting = VecDeque::from([event]);
        while let Some(event) = waiting.pop_front() {
            for effect in self.reconciler.step(Timestamp::UNIX_EPOCH, event) {
                if let Effect::Send { id, resource, request } = effect {
                    let known = &self.reconciler.world().resources[&resource].seen;
                    let reply = answer(known, &request);
                    if let Reply::Child(Some(child)) = &reply
                        && child.kind == ChildKind::Deployment
                    {
                        let before = dhat::HeapStats::get().curr_bytes;
                        self.deployments.all.push(*child.clone());
                        self.deployments.bytes += dhat::HeapStats::get().curr_bytes - before;
                    }
                    waiting.push_back(Event::Done { id, reply });
                }
            }
        }
    }
}

/// A resource as most are: a few settings, three pods.
fn resource(number: usize) -> SeenResource {
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "memcached.c5c3.io/v1beta1",
        "kind": "Memcached",
        "metadata": {
            "namespace": "fleet",
            "name": format!("cache-{number:05}"),
            "uid": format!("2c1b7d7e-9a50-4b4e-8d0f-{number:012}"),
            "resourceVersion": "100",
            "generation": 1,
            "creationTimestamp": "2026-11-22T10:00:00Z",
        },
        "spec": {"replicas": 3, "image": "memcached:1.6", "memcached": {"maxMemoryMB": 64, "threads": 4}},
        "status": {"observedGeneration": -1},
    }))
    .unwrap();
    seen::resource(&object).unwrap()
}

fn answer(resource: &SeenResource, request: &Request) -> Reply {
    match request {
        Request::Create { kind, body, .. } => created(*kind, body.clone()),
        Request::PatchStatus { status: patch, .. } => {
            let mut status = json!(resource.status);
            for (field, value) in patch.as_object().into_iter().flatten() {
                status[field] = value.clone();
            }
            let status = serde_json::from_value(status).unwrap();
            let resource_version = ResourceVersion::from("101");
            Reply::Status(Box::new(SeenResource { status, resource_version, ..resource.clone() }))
        }
        other => panic!("{other:?}"),
    }
}

fn created(kind: ChildKind, mut body: Value) -> Reply {
    body["metadata"]["uid"] = json!("2c1b7d7e-9a50-4b4e-8d0f-0c8d2a6f1e01");
    body["metadata"]["resourceVersion"] = json!("100");
    body["metadata"]["generation"] = json!(1);
    let object: DynamicObject = serde_json::from_value(body).unwrap();
    Reply::Child(seen::child(kind, &object).map(Box::new))
}
