//! A world for a pass, made of a resource and live children, and what a pass in it sends and says.

use jiff::Timestamp;
use kube_core::DynamicObject;
use memcached_operator_core::api::condition::Condition;
use memcached_operator_core::kernel::desired::default_images::BUILT_IN;
use memcached_operator_core::kernel::event::{SeenChild, SeenRollout};
use memcached_operator_core::kernel::object::{ChildKind, Key};
use memcached_operator_core::kernel::pass::{self, Pass, View};
use memcached_operator_core::kernel::request::{ChildWrite, Request, StatusWrite, Write};
use memcached_operator_core::kernel::seen;
use memcached_operator_core::kernel::world::World;
use serde_json::{Value, json};

use crate::fixture::Fixture;

pub(crate) const NAME: &str = "cache";

/// A child as it is after an apply of what this spec wants.
pub(crate) fn live(kind: ChildKind, spec: &Value) -> SeenChild {
    with_others_field(kind, spec, "")
}

/// A child as it is after an apply of what this spec wants, but that this field of it is somebody else's.
pub(crate) fn with_others_field(kind: ChildKind, spec: &Value, field: &str) -> SeenChild {
    let mut object = object(kind, spec);
    if let Some((map, name)) = field.rsplit_once('/') {
        let fields = &mut object["metadata"]["managedFields"][0]["fieldsV1"];
        fields.pointer_mut(map).unwrap().as_object_mut().unwrap().remove(name).unwrap();
    }
    seen::child(kind, &serde_json::from_value::<DynamicObject>(object).unwrap()).unwrap()
}

/// A child after an apply of what this spec wants, as the API server holds it.
pub(crate) fn object(kind: ChildKind, spec: &Value) -> Value {
    object_of(kind, &Fixture::new(NAME, spec))
}

fn object_of(kind: ChildKind, fixture: &Fixture) -> Value {
    let mut object = fixture.child(kind);
    let fields = owned(&object);
    object["metadata"]["uid"] = json!(format!("uid-{}", kind.name()));
    object["metadata"]["resourceVersion"] = json!("7");
    object["metadata"]["managedFields"] = json!([
        {"manager": "memcached-operator", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields},
    ]);
    object
}

/// A record of ownership of all of this; a list counts as a whole.
fn owned(value: &Value) -> Value {
    let fields = value.as_object().into_iter().flatten();
    fields.map(|(name, value)| (format!("f:{name}"), owned(value))).collect()
}

/// The Deployment of this spec, whose number of pods somebody else decides.
pub(crate) fn scaled_by_others(spec: &Value) -> SeenChild {
    with_others_field(ChildKind::Deployment, spec, "/f:spec/f:replicas")
}

/// A Deployment all of whose pods serve.
pub(crate) fn complete(child: SeenChild, pods: i32) -> SeenChild {
    let rollout = SeenRollout {
        observed_generation: i64::MAX,
        replicas: pods,
        ready: pods,
        updated: pods,
        available: pods,
        ..SeenRollout::default()
    };
    SeenChild { rollout: Some(rollout), ..child }
}

pub(crate) fn service(spec: &Value) -> SeenChild {
    live(ChildKind::Service, spec)
}

pub(crate) fn deployment(spec: &Value) -> SeenChild {
    live(ChildKind::Deployment, spec)
}

/// A Deployment whose pods were started with Secrets of this hash.
pub(crate) fn deployment_with_secrets(spec: &Value, hash: &str) -> SeenChild {
    let fixture = Fixture { secret_hash: Some(hash.to_owned()), ..Fixture::new(NAME, spec) };
    let object = object_of(ChildKind::Deployment, &fixture);
    seen::child(ChildKind::Deployment, &serde_json::from_value::<DynamicObject>(object).unwrap()).unwrap()
}

/// A world with a resource of this spec, its ConfigMap and these children.
pub(crate) fn world(spec: &Value, children: Vec<SeenChild>) -> World {
    let Fixture { key, uid, .. } = Fixture::new(NAME, spec);
    let resource = json!({
        "metadata": {
            "namespace": key.namespace, "name": key.name, "uid": uid, "resourceVersion": "9", "generation": 1,
            "creationTimestamp": "2026-01-02T00:00:00Z",
        },
        "spec": spec,
    });
    let mut world = World::default();
    world.see_resource(seen::resource(&serde_json::from_value(resource).unwrap()).unwrap());
    for child in std::iter::once(live(ChildKind::ConfigMap, spec)).chain(children) {
        world.see_child(child, Timestamp::UNIX_EPOCH).unwrap();
    }
    world
}

pub(crate) fn run(world: &World) -> Pass {
    let key = Key { namespace: "default".to_owned(), name: NAME.to_owned() };
    pass::run(&View {
        world,
        resource: &world.resources[&key],
        now: Timestamp::UNIX_EPOCH,
        images: &BUILT_IN,
        operator_pods: None,
    })
}

/// What is sent about the children: `apply Deployment`.
pub(crate) fn sent(world: &World) -> Vec<String> {
    let about = |request: &Request| match request {
        Request::WriteChild(ChildWrite { kind, write, .. }) => {
            let verb = match write {
                Write::Create { .. } => "create",
                Write::Apply { .. } => "apply",
                Write::Patch { .. } => "patch",
                Write::Delete { .. } => "delete",
            };
            Some(format!("{verb} {}", kind.name()))
        }
        _ => None,
    };
    run(world).requests.iter().filter_map(about).collect()
}

/// Status and reason of a condition in the status that a pass writes: `False Forbidden`.
pub(crate) fn condition(world: &World, of: &str) -> Option<String> {
    condition_said(world, of, |it| format!("{} {}", it.status, it.reason))
}

/// Status, reason and words of a condition in the status that a pass writes: `False Forbidden: cannot apply Deployment`.
pub(crate) fn condition_in_words(world: &World, of: &str) -> Option<String> {
    condition_said(world, of, |it| format!("{} {}: {}", it.status, it.reason, it.message))
}

fn condition_said(world: &World, of: &str, said: impl Fn(&Condition) -> String) -> Option<String> {
    run(world).requests.iter().find_map(|request| {
        match request {
            Request::WriteStatus(StatusWrite { status, .. }) => {
                status.conditions.iter().find(|it| it.type_ == of)
            }
            _ => None,
        }
        .map(&said)
    })
}
