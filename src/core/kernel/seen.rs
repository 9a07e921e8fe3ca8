//! API objects in, events out, reduced to what decisions need. Pure; called by the shell for every object of a watch or
//! a reply.
//!
//! Everything here is total: an object of any shape gives an event or, without a name or uid, nothing.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, OwnerReference};
use kube_core::DynamicObject;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::desired::meta::{INSTANCE_LABEL, MANAGED_BY, MANAGED_BY_LABEL};
use super::event::{
    ScalingInactive, SeenChild, SeenPod, SeenResource, SeenRevisions, SeenRollout, SeenSecret,
    WithoutDeadline,
};
use super::go_operator::managed_fields as go_operator_fields;
use super::json_text::JsonText;
use super::managed_fields;
use super::object::{ChildKind, Controller, FIELD_MANAGER, Key, ResourceVersion, Uid, Watched};
use super::pod_problem;
use super::pod_readiness::Readiness;
use super::text::truncated;
use crate::api::{MemcachedSpec, MemcachedStatus, RESTART_TRIGGER};

/// Label of a StatefulSet's pods, by Kubernetes: the revision of the template that they were made from.
const REVISION_LABEL: &str = "controller-revision-hash";

/// The identity that every event carries.
struct Identity {
    key: Key,
    uid: Uid,
    resource_version: ResourceVersion,
}

fn identity(meta: &ObjectMeta) -> Option<Identity> {
    Some(Identity {
        key: Key { namespace: meta.namespace.clone()?, name: meta.name.clone()? },
        uid: Uid::from(meta.uid.clone()?),
        resource_version: ResourceVersion::from(meta.resource_version.clone()?),
    })
}

/// A `Memcached`. A spec that does not deserialise is an event too: the resource has to say so in its status.
#[must_use]
pub fn resource(object: &DynamicObject) -> Option<SeenResource> {
    let meta = &object.metadata;
    let Identity { key, uid, resource_version } = identity(meta)?;
    let trigger = meta.annotations.as_ref().and_then(|all| all.get(RESTART_TRIGGER));
    Some(SeenResource {
        key,
        uid,
        resource_version,
        created: meta.creation_timestamp.as_ref().map(|created| created.0),
        generation: meta.generation.unwrap_or_default(),
        deleting: meta.deletion_timestamp.is_some(),
        restart_trigger: trigger.filter(|value| !value.is_empty()).cloned(),
        spec: MemcachedSpec::parse(object.data.get("spec")).map_err(|violation| violation.to_string()),
        status: object
            .data
            .get("status")
            .and_then(|raw| MemcachedStatus::deserialize(raw).ok())
            .unwrap_or_default(),
    })
}

/// An object of a child's kind, under the key of its resource; `None` where no resource has a child of this name. Of a
/// foreign object only the owner is kept: its content must not reach the journal.
#[must_use]
pub fn child(kind: ChildKind, object: &DynamicObject) -> Option<SeenChild> {
    let meta = &object.metadata;
    let Identity { key, uid, resource_version } = identity(meta)?;
    let key = Watched::Child(kind).known_as(key)?;
    let controller = controller(meta);
    let whose = SeenChild {
        kind,
        key,
        uid,
        resource_version,
        created: meta.creation_timestamp.as_ref().map(|created| created.0),
        generation: meta.generation.unwrap_or_default(),
        deleting: meta.deletion_timestamp.is_some(),
        controller: controller.map(Controller::from),
        content: json!({"metadata": {"labels": our_label(meta)}}).into(),
        owned: None,
        entry: None,
        go_operator: None,
        managers: Vec::new(),
        rollout: None,
        inactive: None,
    };
    if is_foreign(meta, whose.controller.as_ref()) {
        return Some(whose);
    }
    let managed = || meta.managed_fields.iter().flatten();
    let entry = managed().position(|entry| {
        entry.manager.as_deref() == Some(FIELD_MANAGER)
            && entry.operation.as_deref() == Some("Apply")
            && entry.subresource.is_none()
    });
    let owned = entry.and_then(|at| managed().nth(at)?.fields_v1.as_ref()).map(|fields| &fields.0);
    let go_operator_entry = go_operator_fields::find_entry(managed(), controller);
    let entries = meta.managed_fields.as_deref().unwrap_or_default();
    let field = kind.content_field();
    let content = BTreeMap::from([
        ("metadata", Content::Metadata(meta.into())),
        (field, Content::Field(object.data.get(field))),
    ]);
    Some(SeenChild {
        content: JsonText::new(&content),
        managers: managed_fields::others(entries, owned, go_operator_entry.as_ref()),
        owned: owned.map(JsonText::new),
        entry,
        go_operator: go_operator_entry,
        rollout: kind.is_workload().then(|| rollout(object.data.get("status"))),
        inactive: match kind {
            ChildKind::HorizontalPodAutoscaler => inactive(object.data.get("status")),
            _ => None,
        },
        ..whose
    })
}

/// Gives a child the trees of the object that it was made of. It is for objects that are most likely new: they are compared at
/// once, and their texts need not be parsed for that.
pub fn give_trees(object: DynamicObject, seen: &mut SeenChild) {
    let DynamicObject { types: _, mut metadata, mut data } = object;
    let ours = seen.entry.and_then(|at| metadata.managed_fields.as_mut()?.get_mut(at)?.fields_v1.take());
    // Of a foreign object there is none.
    let (Some(owned), Some(ours)) = (&mut seen.owned, ours) else { return };
    owned.keep_tree(ours.0);
    let field = seen.kind.content_field();
    let asked = data.get_mut(field).map(Value::take).unwrap_or_default();
    let metadata = json!(ContentMetadata::from(&metadata));
    let content = Map::from_iter([("metadata".to_owned(), metadata), (field.to_owned(), asked)]);
    seen.content.keep_tree(Value::Object(content));
}

/// A part of [`SeenChild::content`].
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Metadata(ContentMetadata<'a>),
    Field(Option<&'a Value>),
}

/// The part of the metadata that is compared. Its fields stand in the order of their names, as all fields of a content do: the
/// text of an object has to be the same wherever it is written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ContentMetadata<'a> {
    annotations: Option<&'a BTreeMap<String, String>>,
    labels: Option<&'a BTreeMap<String, String>>,
    owner_references: Option<&'a [OwnerReference]>,
}

impl<'a> From<&'a ObjectMeta> for ContentMetadata<'a> {
    fn from(meta: &'a ObjectMeta) -> Self {
        Self {
            annotations: meta.annotations.as_ref(),
            labels: meta.labels.as_ref(),
            owner_references: meta.owner_references.as_deref(),
        }
    }
}

fn controller(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Whether an object is foreign, so that only its name matters: somebody else controls it, or nobody does and no record
/// says that this operator or the Go operator made it.
fn is_foreign(meta: &ObjectMeta, controller: Option<&Controller>) -> bool {
    let made = |entry: &ManagedFieldsEntry| {
        entry.manager.as_deref() == Some(FIELD_MANAGER)
            || go_operator_fields::wrote(entry, || our_label(meta).is_some())
    };
    match controller {
        Some(controller) => !controller.is_memcached(),
        None => !meta.managed_fields.iter().flatten().any(made),
    }
}

/// Our label, by which the watches see what they see.
fn our_label(meta: &ObjectMeta) -> Option<Value> {
    let value = meta.labels.as_ref()?.get(MANAGED_BY_LABEL).filter(|value| *value == MANAGED_BY)?;
    Some(json!({MANAGED_BY_LABEL: value}))
}

fn rollout(status: Option<&Value>) -> SeenRollout {
    let integer =
        |name: &str| status.and_then(|status| status.get(name)).and_then(Value::as_i64).unwrap_or(0);
    let count = |name: &str| i32::try_from(integer(name).max(0)).unwrap_or(i32::MAX);
    let text = |name: &str| Some(status?.get(name)?.as_str()?.to_owned());
    let conditions =
        || status.and_then(|status| status.get("conditions")).and_then(Value::as_array).into_iter().flatten();
    let is = |condition: &Value, field: &str, value: &str| {
        condition.get(field).and_then(Value::as_str) == Some(value)
    };
    let message =
        |condition: &Value| condition.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
    SeenRollout {
        observed_generation: integer("observedGeneration"),
        replicas: count("replicas"),
        ready: count("readyReplicas"),
        updated: count("updatedReplicas"),
        available: count("availableReplicas"),
        deadline_exceeded: conditions()
            .find(|it| is(it, "type", "Progressing") && is(it, "reason", "ProgressDeadlineExceeded"))
            .map(message),
        without_deadline: conditions().find(|it| is(it, "type", "Progressing")).and_then(without_deadline),
        replica_failure: conditions()
            .find(|it| is(it, "type", "ReplicaFailure") && is(it, "status", "True"))
            .map(message),
        revisions: text("currentRevision")
            .zip(text("updateRevision"))
            .map(|(current, update)| SeenRevisions {
                current,
                update,
                current_replicas: count("currentReplicas"),
            })
            .map(Box::new),
    }
}

fn without_deadline(progressing: &Value) -> Option<WithoutDeadline> {
    match progressing.get("reason")?.as_str()? {
        "NewReplicaSetAvailable" => Some(WithoutDeadline::Finished),
        "DeploymentPaused" => Some(WithoutDeadline::Paused),
        _ => None,
    }
}

/// The most bytes that are kept of an autoscaler's own words.
const MAX_INACTIVE: usize = 512;

/// Why an autoscaler does not scale. While no pods are wanted it is disabled, and that is no problem.
fn inactive(status: Option<&Value>) -> Option<ScalingInactive> {
    let conditions = status?.get("conditions")?.as_array()?;
    let text = |condition: &'_ Value, field: &str| Some(condition.get(field)?.as_str()?.to_owned());
    let is_inactive = |it: &&Value| {
        let has = |field, value: &str| text(it, field).as_deref() == Some(value);
        has("type", "ScalingActive") && has("status", "False") && !has("reason", "ScalingDisabled")
    };
    let condition = conditions.iter().find(is_inactive)?;
    let since = text(condition, "lastTransitionTime")?.parse().ok()?;
    let message = truncated(text(condition, "message").unwrap_or_default(), MAX_INACTIVE);
    Some(ScalingInactive { since, message })
}

/// A Secret's metadata.
#[must_use]
pub fn secret(meta: &ObjectMeta) -> Option<SeenSecret> {
    let Identity { key, uid, resource_version } = identity(meta)?;
    Some(SeenSecret { key, uid, resource_version })
}

/// One of our pods; `None` without the instance label.
#[must_use]
pub fn pod(object: &Pod) -> Option<SeenPod> {
    let Identity { key, uid, resource_version } = identity(&object.metadata)?;
    let labels = object.metadata.labels.as_ref()?;
    let instance = labels.get(INSTANCE_LABEL)?.clone();
    let controller = controller(&object.metadata).map(Controller::from);
    let is_named = controller.is_some_and(|it| it.is_stateful_set() && it.name == instance);
    Some(SeenPod {
        key,
        uid,
        resource_version,
        instance,
        // Of others not: a label may be copied along, and a pod with a revision may be deleted.
        revision: labels.get(REVISION_LABEL).filter(|_| is_named).cloned(),
        ip: object.status.as_ref().and_then(|status| status.pod_ip.clone()),
        readiness: Readiness::from_pod(object),
        deleting: object.metadata.deletion_timestamp.is_some(),
        problem: pod_problem::of_pod(object),
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::kernel::field_managers::OtherManager;

    fn object(raw: Value) -> DynamicObject {
        serde_json::from_value(raw).unwrap()
    }

    #[test]
    fn a_spec_of_the_wrong_type_is_an_event_that_says_so() {
        let seen = resource(&object(json!({
            "metadata": {"namespace": "n", "name": "bad", "uid": "u", "resourceVersion": "7", "generation": 2},
            "spec": {"replicas": "many"},
            "status": "none",
        })))
        .unwrap();
        assert_eq!(seen.spec, Err("spec.replicas: invalid type: string \"many\", expected i32".to_owned()));
        assert_eq!(seen.status, MemcachedStatus::default());
    }

    #[test]
    fn only_a_pod_of_the_stateful_set_of_its_cache_has_a_revision() {
        let revision = |owner: Value| {
            let raw = json!({"metadata": {
                "namespace": "n", "name": "x-0", "uid": "u", "resourceVersion": "7", "ownerReferences": [owner],
                "labels": {"app.kubernetes.io/instance": "x", "controller-revision-hash": "x-1"},
            }});
            pod(&serde_json::from_value(raw).unwrap()).unwrap().revision
        };
        let owner = |group: &str, kind: &str, name: &str, controller: bool| {
            let api_version = format!("{group}/v1");
            json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": "o", "controller": controller})
        };
        assert_eq!(revision(owner("apps", "StatefulSet", "x", true)), Some("x-1".to_owned()));
        for stranger in [
            owner("batch", "Job", "x", true),
            owner("apps", "StatefulSet", "y", true),
            owner("apps", "StatefulSet", "x", false),
            owner("example.com", "StatefulSet", "x", true),
        ] {
            assert_eq!(revision(stranger.clone()), None, "{stranger}");
        }
    }

    #[test]
    fn of_a_spec_that_is_too_large_nothing_is_kept() {
        let object = |text: &str| {
            object(json!({
                "metadata": {"namespace": "n", "name": "large", "uid": "u", "resourceVersion": "7"},
                "spec": {"replicas": 3, "pod": {"annotations": {"a": text}}},
            }))
        };
        let seen = resource(&object(&"x".repeat(1024 * 1024))).unwrap();
        let why = "spec: Too large: may not take more than 262144 bytes of memory".to_owned();
        assert_eq!(seen, SeenResource { spec: Err(why), ..resource(&object("x")).unwrap() });
    }

    #[test]
    fn an_object_without_a_uid_is_no_event() {
        let raw = json!({"metadata": {"namespace": "n", "name": "x", "resourceVersion": "7"}});
        assert_eq!(resource(&object(raw)), None);
    }

    #[test]
    fn a_deployments_counters_are_clamped_and_our_entry_of_managed_fields_is_kept() {
        let seen = child(
            ChildKind::Deployment,
            &object(json!({
                "metadata": {
                    "namespace": "n", "name": "x", "uid": "u", "resourceVersion": "7", "generation": 3,
                    "labels": {"a": "b"},
                    "managedFields": [
                        {"manager": "kubectl", "operation": "Update", "time": "2026-11-22T10:00:00Z",
                         "fieldsV1": {"f:spec": {"f:paused": {}}}},
                        {"manager": "memcached-operator", "operation": "Apply", "fieldsV1": {"f:spec": {}}},
                        {"manager": "kube-controller-manager", "operation": "Update", "subresource": "status",
                         "fieldsV1": {"f:status": {"f:replicas": {}}}},
                    ],
                },
                "spec": {"replicas": 1},
                "status": {"observedGeneration": 2, "replicas": -4, "readyReplicas": 1},
            })),
        )
        .unwrap();
        assert_eq!(
            seen,
            SeenChild {
                kind: ChildKind::Deployment,
                key: Key { namespace: "n".into(), name: "x".into() },
                uid: Uid::from("u"),
                resource_version: ResourceVersion::from("7"),
                created: None,
                generation: 3,
                deleting: false,
                controller: None,
                content: json!({
                    "metadata": {"labels": {"a": "b"}, "annotations": null, "ownerReferences": null},
                    "spec": {"replicas": 1},
                })
                .into(),
                owned: Some(json!({"f:spec": {}}).into()),
                entry: Some(1),
                go_operator: None,
                managers: vec![OtherManager {
                    name: "kubectl".into(),
                    time: Some("2026-11-22T10:00:00Z".parse().unwrap()),
                    fields: vec!["spec.paused".into()],
                }],
                rollout: Some(SeenRollout { observed_generation: 2, ready: 1, ..SeenRollout::default() }),
                inactive: None,
            }
        );
    }

    #[test]
    fn the_text_of_a_content_is_that_of_its_value() {
        let owner = json!({
            "uid": "o", "name": "x", "kind": "Memcached", "controller": true, "blockOwnerDeletion": true,
            "apiVersion": "memcached.c5c3.io/v1alpha1",
        });
        for (kind, field) in [(ChildKind::Service, "spec"), (ChildKind::ConfigMap, "data")] {
            let name = kind.name_of_child("x");
            let mut raw = json!({"metadata": {
                "namespace": "n", "name": name, "uid": "u", "resourceVersion": "7",
                "labels": {"b": "\"<é>\"", "a": ""}, "annotations": {"z": "1", "y": "2"}, "ownerReferences": [owner],
            }});
            raw[field] = json!({"z": [1.0, {"y": null, "x": true}], "a": {}});
            let seen = child(kind, &object(raw.clone())).unwrap();
            let metadata =
                ["labels", "annotations", "ownerReferences"].map(|it| (it, raw["metadata"][it].clone()));
            let metadata: BTreeMap<_, _> = metadata.into();
            let value = json!({"metadata": metadata, field: raw[field]});
            assert_eq!(seen.content.as_str(), value.to_string());
        }
    }

    #[test]
    fn the_trees_that_a_child_is_given_are_those_of_its_texts() {
        let child_of = |manager: &str, field: &str| {
            let mut raw = json!({"metadata": {
                "namespace": "n", "name": "x", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"},
                "managedFields": [
                    {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:paused": {}}}},
                    {"manager": manager, "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
                ],
            }});
            raw[field] = json!({"replicas": 1, "list": [{"b": null, "a": "\u{e9}"}]});
            let object = object(raw);
            let before = child(ChildKind::Deployment, &object).unwrap();
            let mut seen = before.clone();
            give_trees(object, &mut seen);
            assert_eq!(seen, before);
            seen
        };
        for (manager, field) in [(FIELD_MANAGER, "spec"), (FIELD_MANAGER, "status"), ("helm", "spec")] {
            let seen = child_of(manager, field);
            assert_eq!(seen.content.tree(), &seen.content.parse());
            let owned = seen.owned.as_ref();
            assert_eq!(owned.map(JsonText::tree), owned.map(JsonText::parse).as_ref());
        }
    }

    #[rstest]
    #[case::of_a_deployment_that_was_scaled(
        "True",
        "NewReplicaSetAvailable",
        Some(WithoutDeadline::Finished)
    )]
    #[case::of_a_deployment_that_is_paused("Unknown", "DeploymentPaused", Some(WithoutDeadline::Paused))]
    #[case::of_a_deployment_that_was_paused("Unknown", "DeploymentResumed", None)]
    #[case::that_is_counted("True", "ReplicaSetUpdated", None)]
    fn a_rollout_without_a_deadline_is_one_that_a_deployment_calls_finished_or_paused(
        #[case] status: &str,
        #[case] reason: &str,
        #[case] expected: Option<WithoutDeadline>,
    ) {
        let conditions = json!([{"type": "Progressing", "status": status, "reason": reason}]);
        let status =
            json!({"replicas": 4, "updatedReplicas": 4, "readyReplicas": 1, "conditions": conditions});
        assert_eq!(rollout(Some(&status)).without_deadline, expected);
    }

    #[test]
    fn an_autoscaler_that_cannot_read_its_metrics_says_why_and_since_when() {
        let words = "no metrics".repeat(100);
        let seen = |reason: &str, status: &str| {
            let condition = json!({
                "type": "ScalingActive", "status": status, "reason": reason, "message": words,
                "lastTransitionTime": "2026-11-22T10:00:00Z",
            });
            let raw = json!({
                "metadata": {
                    "namespace": "n", "name": "x", "uid": "u", "resourceVersion": "7",
                    "managedFields": [{"manager": "memcached-operator", "operation": "Apply", "fieldsV1": {}}],
                },
                "status": {"conditions": [condition]},
            });
            child(ChildKind::HorizontalPodAutoscaler, &object(raw)).unwrap().inactive
        };
        let since = "2026-11-22T10:00:00Z".parse().unwrap();
        let inactive = ScalingInactive { since, message: truncated(words.clone(), MAX_INACTIVE) };
        assert_eq!(seen("FailedGetResourceMetric", "False"), Some(inactive));
        assert_eq!(seen("ValidMetricFound", "True"), None);
        assert_eq!(seen("ScalingDisabled", "False"), None);
    }

    #[test]
    fn of_an_object_of_somebody_else_nothing_is_kept_but_whose_it_is() {
        let deployment = |labels: Value, owner: Option<(&str, &str)>, manager: &str| {
            let owners = owner.map(|(api_version, kind)| {
                json!([{"apiVersion": api_version, "kind": kind, "name": "theirs", "uid": "o", "controller": true}])
            });
            let container = json!({"name": "c", "env": [{"name": "DB_PASSWORD", "value": "hunter2"}]});
            let seen = child(
                ChildKind::Deployment,
                &object(json!({
                    "metadata": {
                        "namespace": "n", "name": "x", "uid": "u", "resourceVersion": "7", "generation": 3,
                        "labels": labels, "ownerReferences": owners, "annotations": {"secret": "hunter2"},
                        "managedFields": [{
                            "manager": manager, "operation": "Apply", "fieldsV1": {"f:metadata": {"f:hunter2": {}}},
                        }],
                    },
                    "spec": {"template": {"spec": {"containers": [container]}}},
                    "status": {"conditions": [
                        {"type": "ReplicaFailure", "status": "True", "message": "hunter2"},
                    ]},
                })),
            );
            json!(seen.unwrap())
        };
        let plain = json!({"app": "hunter2"});
        let labelled = json!({"app": "hunter2", "app.kubernetes.io/managed-by": "memcached-operator"});
        for (labels, owner) in [
            (&plain, None),
            (&labelled, None),
            (&labelled, Some(("example.com/v1", "Memcached"))),
            (&plain, Some(("apps/v1", "ReplicaSet"))),
        ] {
            let seen = deployment(labels.clone(), owner, "helm");
            assert!(!seen.to_string().contains("hunter2"), "{seen:#}");
            assert_eq!(seen["controller"]["kind"].as_str(), owner.map(|(_, kind)| kind));
            let label = &seen["content"]["metadata"]["labels"]["app.kubernetes.io/managed-by"];
            assert_eq!(label.is_string(), *labels == labelled, "whether the watch tells of it");
        }
        for (owner, manager) in
            [(Some(("memcached.c5c3.io/v1alpha1", "Memcached")), "helm"), (None, "memcached-operator")]
        {
            let seen = deployment(labelled.clone(), owner, manager);
            assert!(seen["content"]["spec"].is_object(), "it is ours: {seen:#}");
        }
    }
}
