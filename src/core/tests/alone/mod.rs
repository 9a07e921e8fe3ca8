//! The kernel alone, each of its requests answered at once as an API server that refuses nothing. Shared by the counts of
//! its heap and by its benchmark.

use std::collections::VecDeque;

use jiff::Timestamp;
use kube_core::DynamicObject;
use memcached_operator_core::kernel::effect::Effect;
use memcached_operator_core::kernel::event::{Event, Reply, SeenChild, SeenResource, SeenRollout};
use memcached_operator_core::kernel::object::{ChildKind, ResourceVersion, Scope, Watched};
use memcached_operator_core::kernel::reconciler::{Reconciler, Settings};
use memcached_operator_core::kernel::request::{ChildWrite, Request, StatusWrite, Write};
use memcached_operator_core::kernel::seen;
use serde_json::{Value, json};

/// The kernel, and the Deployments that it made.
pub(crate) struct KernelAlone {
    pub(crate) reconciler: Reconciler,
    pub(crate) deployments: Vec<SeenChild>,
}

impl KernelAlone {
    /// One that leads, and has room for the Deployments of so many resources.
    pub(crate) fn new(resources: usize) -> Self {
        let mut kernel = Self {
            reconciler: Reconciler::new(Settings::default()),
            deployments: Vec::with_capacity(resources),
        };
        kernel.step(Event::Leading(true));
        kernel
    }

    /// Every kind is listed; there is nothing but these resources, which come to rest.
    pub(crate) fn list(&mut self, resources: &[SeenResource]) {
        for kind in Watched::ALL {
            self.step(Event::Listing(kind, Scope::All));
            if kind == Watched::Memcached {
                resources.iter().for_each(|it| self.step(Event::Resource(Box::new(it.clone()))));
            }
            self.step(Event::Listed(kind, Scope::All));
        }
    }

    /// Steps, and answers what is asked for.
    pub(crate) fn step(&mut self, event: Event) {
        let mut waiting = VecDeque::from([event]);
        while let Some(event) = waiting.pop_front() {
            for effect in self.reconciler.step(Timestamp::UNIX_EPOCH, event) {
                if let Effect::Send { id, resource, request } = effect {
                    let known = &self.reconciler.world().resources[&resource].seen;
                    let reply = answer(known, &request);
                    if let Reply::Child(Some(child)) = &reply
                        && child.kind == ChildKind::Deployment
                    {
                        self.deployments.push(*child.clone());
                    }
                    waiting.push_back(Event::Done { id, reply });
                }
            }
        }
    }

    /// Every Deployment again, in another version, with this status or the same.
    pub(crate) fn deployments(&self, version: &str, rollout: Option<&SeenRollout>) -> Vec<Event> {
        let again = self.deployments.iter().cloned().map(|it| SeenChild {
            resource_version: ResourceVersion::from(version),
            rollout: rollout.cloned().or(it.rollout),
            ..it
        });
        again.map(Box::new).map(Event::Child).collect()
    }

    /// Every resource again, in another version.
    pub(crate) fn resources(&self, version: &str) -> Vec<Event> {
        let known = self.reconciler.world().resources.values().map(|it| it.seen.clone());
        let newer = known.map(|it| SeenResource { resource_version: ResourceVersion::from(version), ..it });
        newer.map(Box::new).map(Event::Resource).collect()
    }
}

/// The status of a Deployment of which so many of three pods are ready.
pub(crate) fn rollout(ready: i32) -> SeenRollout {
    SeenRollout {
        observed_generation: 1,
        replicas: 3,
        ready,
        updated: 3,
        available: ready,
        ..SeenRollout::default()
    }
}

/// A resource as most are: a few settings, three pods.
pub(crate) fn resource(number: usize) -> SeenResource {
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
        Request::WriteChild(ChildWrite { kind, write: Write::Create { body }, .. }) => {
            created(*kind, body.clone())
        }
        Request::WriteStatus(StatusWrite { patch, .. }) => {
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
