//! Children without a controller: those that this operator made for an earlier resource are taken back, others are not.

use jiff::Timestamp;
use json_patch::{AddOperation, PatchOperation};
use memcached_operator_core::kernel::event::SeenChild;
use memcached_operator_core::kernel::object::{ChildKind, ResourceVersion, Uid};
use memcached_operator_core::kernel::request::{ChildWrite, Request, Write};
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::support::{NAME, condition, condition_in_words, deployment, live, run, sent, service, world};

/// A child without its owner: `kubectl delete --cascade=orphan` takes the reference and who wrote it.
fn orphaned(child: SeenChild, other_owners: &Value) -> SeenChild {
    let created = "2026-01-01T00:00:00Z".parse().ok();
    let mut child = SeenChild { controller: None, created, ..child };
    child.content.edit(|it| it["metadata"]["ownerReferences"] = other_owners.clone());
    child.owned.as_mut().unwrap().edit(|owned| {
        let fields = owned["f:metadata"].as_object_mut().unwrap();
        fields.remove("f:ownerReferences").unwrap();
    });
    child
}

/// A Service by another hand, with our labels.
fn copied(spec: &Value) -> SeenChild {
    SeenChild { entry: None, owned: None, ..orphaned(service(spec), &Value::Null) }
}

#[test]
fn orphans_get_their_owner_back_and_their_pods_stay() {
    let spec = json!({"replicas": 2});
    let left = [service(&spec), deployment(&spec)].map(|child| orphaned(child, &Value::Null));
    let world = world(&spec, left.to_vec());
    assert_eq!(sent(&world), ["apply Service", "apply Deployment"]);
    for request in run(&world).requests {
        let Request::WriteChild(ChildWrite {
            kind,
            write: Write::Apply { uid, resource_version, body, replaces },
            ..
        }) = request
        else {
            panic!("{request:?}");
        };
        assert_eq!(
            (uid, resource_version),
            (Uid::from(format!("uid-{}", kind.name())), ResourceVersion::from("7"))
        );
        let cause = replaces.and_then(|it| it.cause);
        assert_eq!((cause, body["metadata"]["ownerReferences"].as_array().unwrap().len()), (None, 1));
    }
}

#[test]
fn an_orphan_that_is_not_asked_for_is_taken_back_before_it_is_deleted() {
    let spec = json!({"replicas": 1});
    let guarded = json!({"replicas": 1, "security": {"networkPolicy": {"enabled": true}}});
    let other = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "u"}]);
    for (owners, path) in [(Value::Null, "/metadata/ownerReferences"), (other, "/metadata/ownerReferences/-")]
    {
        let policy = orphaned(live(ChildKind::NetworkPolicy, &guarded), &owners);
        let mut world = world(&spec, vec![service(&spec), deployment(&spec), policy.clone()]);
        assert_eq!(sent(&world), ["patch NetworkPolicy"]);
        let requests = run(&world).requests;
        let [Request::WriteChild(ChildWrite { write: Write::Patch { resource_version, edits, .. }, .. })] =
            &requests[..]
        else {
            panic!("{requests:?}");
        };
        assert_eq!(*resource_version, ResourceVersion::from("7"));
        let [PatchOperation::Add(AddOperation { path: at, value })] = &edits[..] else { panic!("{edits:?}") };
        assert_eq!(at.as_str(), path);
        assert_eq!(value.pointer("/0/uid").or(value.get("uid")), Some(&json!(Fixture::new(NAME, &spec).uid)));
        let controlled = SeenChild {
            resource_version: ResourceVersion::from("8"),
            ..live(ChildKind::NetworkPolicy, &guarded)
        };
        world.see_child(controlled, Timestamp::UNIX_EPOCH);
        assert_eq!(sent(&world), ["delete NetworkPolicy"]);
    }
}

#[test]
fn what_only_looks_like_an_orphan_stays_somebody_elses() {
    let spec = json!({"replicas": 1});
    let mut of_another = orphaned(service(&spec), &Value::Null);
    of_another.content.edit(|it| it["metadata"]["labels"]["app.kubernetes.io/instance"] = json!("another"));
    // The resource itself made it: it may be on its way out, and take it along.
    let created = "2026-01-02T00:00:00Z".parse().ok();
    let its_own = SeenChild { created, ..orphaned(service(&spec), &Value::Null) };
    for foreign in [copied(&spec), of_another, its_own] {
        let world = world(&spec, vec![foreign, deployment(&spec)]);
        assert_eq!(sent(&world), Vec::<String>::new());
        assert_eq!(condition(&world, "Ready").as_deref(), Some("False NameConflict"));
    }
}

/// Times have whole seconds: nobody can tell of the same one whether the resource made the child itself.
#[test]
fn an_orphan_of_the_very_second_of_the_resource_is_not_taken_back_and_is_said_to_be_in_the_way() {
    let spec = json!({"replicas": 1});
    let beside = |created: &str| {
        let left = SeenChild { created: created.parse().ok(), ..orphaned(service(&spec), &Value::Null) };
        world(&spec, vec![left, deployment(&spec)])
    };
    assert_eq!(sent(&beside("2026-01-01T23:59:59Z")), ["apply Service"]);
    let world = beside("2026-01-02T00:00:00Z");
    assert_eq!(sent(&world), Vec::<String>::new());
    let words = "NameConflict: Service default/cache exists and is not controlled by this resource: delete or rename it, or \
                 give this Memcached another name";
    for (condition, status) in [("Ready", "False"), ("Stalled", "True")] {
        assert_eq!(condition_in_words(&world, condition), Some(format!("{status} {words}")));
    }
}

#[test]
fn a_paused_resource_leaves_its_orphans_until_it_goes_on() {
    let spec = json!({"replicas": 1, "paused": true});
    let left = [service(&spec), deployment(&spec)].map(|child| orphaned(child, &Value::Null));
    assert_eq!(sent(&world(&spec, left.to_vec())), Vec::<String>::new());
}
