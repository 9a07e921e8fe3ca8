//! Caches in every state, as they were read: the facts that the pages of `kubectl mcd` are made of in tests. Pure; for tests
//! only.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use serde_json::{Value, json};

use super::view::answer::Answer;
use super::view::facts::{CacheFacts, PodFacts, WorkloadFacts};
use super::view::figures_source::figures_source;
use super::view::top::Look;
use crate::figures::Figures;

/// When every fixture is looked at.
pub(super) fn now() -> Timestamp {
    "2026-11-21T10:30:00Z".parse().unwrap()
}

/// A condition that is so since 10:20.
fn condition(of: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": of, "status": status, "reason": reason, "message": message, "observedGeneration": 3,
        "lastTransitionTime": "2026-11-21T10:20:00Z",
    })
}

/// These conditions, since another time of that day.
fn since<const N: usize>(time: &str, conditions: [Value; N]) -> [Value; N] {
    conditions.map(|mut condition| {
        condition["lastTransitionTime"] = json!(format!("2026-11-21T{time}Z"));
        condition
    })
}

/// A resource of the namespace `shop`, made three days ago.
pub(super) fn resource(name: &str, spec: &Value, status: &Value) -> kube::core::DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "memcached.c5c3.io/v1beta1", "kind": "Memcached",
        "metadata": {
            "namespace": "shop", "name": name, "generation": 3, "creationTimestamp": "2026-11-18T09:00:00Z",
        },
        "spec": spec, "status": status,
    }))
    .unwrap()
}

/// A status with these conditions, of which so many pods are ready.
fn status(ready: i32, conditions: &[Value]) -> Value {
    json!({
        "observedGeneration": 3, "conditions": conditions, "replicas": 2, "readyReplicas": ready,
        "templateRevision": 1, "serverList": ["carts.shop:11212"],
        "secrets": [
            {"name": "carts-tls", "uid": "t", "resourceVersion": "7", "certificateNotAfter": "2027-01-31T12:00:00Z"},
            {"name": "carts-users", "uid": "p", "resourceVersion": "8"},
        ],
    })
}

fn all_is_well() -> Value {
    status(
        2,
        &[
            condition("Available", "True", "Available", "2/2 replicas are ready"),
            condition("Ready", "True", "MemcachedReady", "All 2 replicas are ready"),
        ],
    )
}

/// TLS, a password and an exporter.
fn spec() -> Value {
    json!({
        "replicas": 2,
        "memcached": {"maxMemoryMB": 96},
        "monitoring": {"enabled": true},
        "security": {
            "sasl": {"enabled": true, "credentialsSecretRef": {"name": "carts-users"}},
            "tls": {"enabled": true, "certificateSecretRef": {"name": "carts-tls"}},
        },
    })
}

/// What memcached's pods run, but for the new one of [`stalled`].
const IMAGE: &str = "memcached:1.6";
/// What no registry has.
const BROKEN_IMAGE: &str = "memcached:1.6.99";

/// The Deployment, whose newest template is the second one.
fn deployment(image: &str, counts: &Value) -> WorkloadFacts {
    deployment_of(1, image, counts)
}

/// The Deployment, its template rendered by this revision.
fn deployment_of(template_revision: u32, image: &str, counts: &Value) -> WorkloadFacts {
    let container = json!({"name": "memcached", "image": image});
    let deployment = json!({
        "metadata": {
            "name": "carts", "generation": 5,
            "annotations": {
                "deployment.kubernetes.io/revision": "2",
                "memcached.c5c3.io/template-revision": template_revision.to_string(),
            },
        },
        "spec": {
            "replicas": 2, "selector": {},
            "template": {"metadata": {}, "spec": {"containers": [container]}},
        },
        "status": counts,
    });
    WorkloadFacts::Deployment {
        deployment: Answer::Known(serde_json::from_value(deployment).unwrap()),
        replica_sets: replica_sets(),
    }
}

fn counts(replicas: i32, ready: i32, updated: i32) -> Value {
    json!({
        "observedGeneration": 5, "replicas": replicas, "readyReplicas": ready, "updatedReplicas": updated,
    })
}

fn replica_sets() -> Answer<Vec<k8s_openapi::api::apps::v1::ReplicaSet>> {
    let one = |hash: &str, revision: &str| {
        json!({"metadata": {
            "name": format!("carts-{hash}"), "labels": {"pod-template-hash": hash},
            "annotations": {"deployment.kubernetes.io/revision": revision},
        }})
    };
    Answer::Known(serde_json::from_value(json!([one("5d4f8c", "1"), one("7b9c6d", "2")])).unwrap())
}

/// The StatefulSet of three pods, whose newest template is the second one.
fn stateful_set(partition: i32, status: &Value) -> WorkloadFacts {
    let stateful_set = json!({
        "metadata": {
            "name": "carts", "generation": 5, "annotations": {"memcached.c5c3.io/template-revision": "1"},
        },
        "spec": {
            "replicas": 3, "selector": {}, "serviceName": "carts",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}},
            "template": {"metadata": {}, "spec": {"containers": [{"name": "memcached", "image": IMAGE}]}},
        },
        "status": status,
    });
    WorkloadFacts::StatefulSet(Answer::Known(serde_json::from_value(stateful_set).unwrap()))
}

/// What a StatefulSet says of three pods, so many of which are ready and of each template.
fn named_counts(ready: i32, of_first: i32, of_second: i32) -> Value {
    json!({
        "observedGeneration": 5, "replicas": 3, "readyReplicas": ready, "currentReplicas": of_first,
        "updatedReplicas": of_second, "currentRevision": "carts-5d4f8c", "updateRevision": "carts-7b9c6d",
    })
}

/// The pod as a StatefulSet makes it from this template.
fn named(mut facts: PodFacts, hash: &str) -> PodFacts {
    let owner = json!([{
        "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "carts", "uid": "carts", "controller": true,
    }]);
    facts.pod.metadata.owner_references = serde_json::from_value(owner).unwrap();
    let labels = facts.pod.metadata.labels.as_mut().unwrap();
    labels.remove("pod-template-hash");
    labels.insert("controller-revision-hash".to_owned(), format!("carts-{hash}"));
    facts
}

/// A pod that serves, or why it does not.
fn pod(name: &str, created: &str, problem: Option<&str>) -> k8s_openapi::api::core::v1::Pod {
    let hash = name.split('-').nth(1).unwrap();
    let state = match problem {
        None => json!({"running": {}}),
        Some("ContainerCreating") => json!({"waiting": {"reason": "ContainerCreating"}}),
        Some(reason) => json!({"waiting": {"reason": reason, "message": "memcached:1.6.99: not found"}}),
    };
    let ready = if problem.is_none() { "True" } else { "False" };
    let image = match problem {
        None | Some("ContainerCreating") => IMAGE,
        Some(_) => BROKEN_IMAGE,
    };
    serde_json::from_value(json!({
        "metadata": {
            "namespace": "shop", "name": name, "uid": name, "resourceVersion": "1",
            "creationTimestamp": format!("2026-11-{created}Z"),
            "labels": {"pod-template-hash": hash, "app.kubernetes.io/instance": "carts"},
        },
        "spec": {"containers": [
            {"name": "memcached", "image": image, "args": ["-Y", "/etc/memcached/sasl/password-file"]},
        ]},
        "status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{
                "name": "memcached", "image": image, "imageID": "", "ready": problem.is_none(), "restartCount": 0,
                "state": state,
            }],
        },
    }))
    .unwrap()
}

/// What a memcached counts that has answered so many reads.
fn figures(hits: f64, misses: f64) -> Answer<Figures> {
    Answer::Known(Figures {
        uptime_seconds: Some(hits),
        hit_ratio: Some(hits / (hits + misses)),
        get_hits: Some(hits),
        get_misses: Some(misses),
        items: Some(10_482.0),
        bytes: Some(61_341_696.0),
        limit_bytes: Some(96.0 * 1024.0 * 1024.0),
        evictions: Some(0.0),
        connections: Some(17.0),
    })
}

fn serving(name: &str, created: &str, hits: f64) -> PodFacts {
    PodFacts { pod: pod(name, created, None), figures: figures(hits, 2_048.0) }
}

/// A pod whose memcached does not run, or lets nobody ask.
fn silent(name: &str, created: &str, problem: Option<&str>) -> PodFacts {
    let pod = pod(name, created, problem);
    let figures = Answer::unknown(figures_source(&pod).unwrap_err());
    PodFacts { pod, figures }
}

/// When a pod of the first template was made.
const LONG_AGO: &str = "18T09:00:10";

fn event(at: &str, reason: &str, message: &str) -> Event {
    serde_json::from_value(json!({
        "metadata": {"name": at}, "type": "Normal", "reason": reason, "message": message,
        "involvedObject": {"kind": "Memcached", "name": "carts"}, "eventTime": format!("2026-11-21T{at}.000000Z"),
    }))
    .unwrap()
}

/// An edit that was rolled out.
fn rollout(at: &str, edit: &str, field: &str) -> Event {
    let template = format!("spec.template.spec.containers[name=memcached].{field}");
    event(at, "RolloutStarted", &format!("Replacing pods, cause spec: {edit} ({template})"))
}

/// More memory for memcached.
fn enlarged(at: &str) -> Event {
    rollout(at, "memcached.maxMemoryMB 64 -> 96", "args")
}

/// All is well.
pub(super) fn healthy() -> CacheFacts {
    CacheFacts {
        now: now(),
        resource: resource("carts", &spec(), &all_is_well()),
        workload: deployment(IMAGE, &counts(2, 2, 2)),
        pods: Answer::Known(vec![
            serving("carts-7b9c6d-x2x4z", "21T10:20:01", 152_394.0),
            serving("carts-7b9c6d-k8s9w", "21T10:20:14", 149_021.0),
        ]),
        events: Answer::Known(vec![
            event("10:20:30", "MemcachedReady", "All 2 replicas are ready"),
            enlarged("10:20:00"),
        ]),
    }
}

/// The second of two pods is being replaced.
pub(super) fn rolling() -> CacheFacts {
    let (message, ready) = (
        "Rollout in progress: 2/2 replicas updated",
        "2/2 replicas are ready; 1 pod of an older template is left",
    );
    let conditions = [
        condition("Available", "True", "Available", "2/2 replicas are ready"),
        condition("Ready", "False", "MemcachedNotReady", ready),
        condition("Reconciling", "True", "NewGeneration", "Reconciling new generation 3"),
        condition("Progressing", "True", "Progressing", message),
    ];
    CacheFacts {
        resource: resource("carts", &spec(), &status(2, &since("10:29:40", conditions))),
        workload: deployment(IMAGE, &counts(3, 2, 2)),
        pods: Answer::Known(vec![
            serving("carts-7b9c6d-x2x4z", "21T10:29:41", 381.0),
            serving("carts-5d4f8c-mm2tq", LONG_AGO, 149_021.0),
            silent("carts-7b9c6d-k8s9w", "21T10:29:56", Some("ContainerCreating")),
        ]),
        events: Answer::Known(vec![enlarged("10:29:40")]),
        ..healthy()
    }
}

/// A StatefulSet of three pods: the last one is new, the next one is being replaced.
pub(super) fn rolling_stateful_set() -> CacheFacts {
    let mut spec = spec();
    spec["workload"] = json!("StatefulSet");
    spec["replicas"] = json!(3);
    let conditions = [
        condition("Available", "True", "Available", "2/3 replicas are ready"),
        condition("Ready", "False", "MemcachedNotReady", "2/3 replicas are ready"),
        condition("Reconciling", "True", "NewGeneration", "Reconciling new generation 3"),
        condition("Progressing", "True", "Progressing", "Rollout in progress: 2/3 replicas updated"),
    ];
    let mut status = status(2, &since("10:29:20", conditions));
    status["replicas"] = json!(3);
    let servers = [0, 1, 2].map(|pod| format!("carts-{pod}.carts.shop.svc:11212"));
    status["serverList"] = json!(servers);
    CacheFacts {
        resource: resource("carts", &spec, &status),
        workload: stateful_set(1, &named_counts(2, 1, 2)),
        pods: Answer::Known(vec![
            named(serving("carts-0", LONG_AGO, 149_021.0), "5d4f8c"),
            named(silent("carts-1", "21T10:29:56", Some("ContainerCreating")), "7b9c6d"),
            named(serving("carts-2", "21T10:29:24", 381.0), "7b9c6d"),
        ]),
        events: Answer::Known(vec![enlarged("10:29:20")]),
        ..healthy()
    }
}

/// A StatefulSet at rest, in whose template somebody else has changed something since: no pod has that.
pub(super) fn held_stateful_set() -> CacheFacts {
    let mut stateful = rolling_stateful_set();
    stateful.resource.data["status"]["readyReplicas"] = json!(3);
    let pods = ["carts-0", "carts-1", "carts-2"].map(|name| named(serving(name, LONG_AGO, 1.0), "5d4f8c"));
    CacheFacts {
        workload: stateful_set(crate::kernel::desired::partition::KEEPS_ALL, &named_counts(3, 3, 0)),
        pods: Answer::Known(pods.into()),
        ..stateful
    }
}

/// A renewed certificate, which one of two pods uses.
pub(super) fn rotating() -> CacheFacts {
    let mut spec = spec();
    spec["security"]["rotation"] = json!("InPlace");
    let message = "Rotating Secret carts-tls: 1/2 pods use the new content";
    let conditions = [
        condition("Available", "True", "Available", "2/2 replicas are ready"),
        condition("Ready", "False", "MemcachedNotReady", &format!("2/2 replicas are ready; {message}")),
        condition("Reconciling", "True", "Progressing", message),
    ];
    let started = "Secret carts-tls changed: pods take the new content, and none is replaced";
    CacheFacts {
        resource: resource("carts", &spec, &status(2, &since("10:29:20", conditions))),
        workload: deployment_of(2, IMAGE, &counts(2, 2, 2)),
        events: Answer::Known(vec![enlarged("10:20:00"), event("10:29:20", "RotationStarted", started)]),
        ..healthy()
    }
}

/// The new image cannot be pulled, and ten minutes later the deadline has passed. Both pods of before serve.
pub(super) fn stalled() -> CacheFacts {
    let message = "ReplicaSet \"carts-7b9c6d\" has timed out progressing: container memcached cannot pull \
                   memcached:1.6.99: not found";
    let conditions = [
        condition("Available", "True", "Available", "2/2 replicas are ready"),
        condition("Ready", "False", "ProgressDeadlineExceeded", message),
        condition("Progressing", "True", "Progressing", "Rollout in progress: 1/2 replicas updated"),
        condition("Stalled", "True", "ProgressDeadlineExceeded", message),
    ];
    let mut spec = spec();
    spec["image"] = json!(BROKEN_IMAGE);
    CacheFacts {
        resource: resource("carts", &spec, &status(2, &conditions)),
        workload: deployment(BROKEN_IMAGE, &counts(3, 2, 1)),
        pods: Answer::Known(vec![
            serving("carts-5d4f8c-mm2tq", LONG_AGO, 149_021.0),
            serving("carts-5d4f8c-q8wzt", LONG_AGO, 152_394.0),
            silent("carts-7b9c6d-x2x4z", "21T10:10:00", Some("ImagePullBackOff")),
        ]),
        events: Answer::Known(vec![rollout("10:10:00", "image memcached:1.6 -> memcached:1.6.99", "image")]),
        ..healthy()
    }
}

/// A change of the Deployment waits.
pub(super) fn paused() -> CacheFacts {
    let message = "Changes to Deployment wait until spec.paused is false";
    let conditions = [
        condition("Available", "True", "Available", "2/2 replicas are ready"),
        condition(
            "Ready",
            "False",
            "MemcachedNotReady",
            "2/2 replicas are ready; not as desired yet: Deployment",
        ),
        condition("Reconciling", "True", "Paused", message),
        condition("Paused", "True", "Paused", message),
    ];
    let mut spec = spec();
    spec["paused"] = json!(true);
    CacheFacts { resource: resource("carts", &spec, &status(2, &conditions)), ..healthy() }
}

/// All is well, and there are warnings.
pub(super) fn with_warnings() -> CacheFacts {
    let mut status = all_is_well();
    status["secrets"][0]["certificateNotAfter"] = json!("2026-11-30T08:00:00Z");
    status["warnings"] = json!([
        {
            "reason": "CertificateExpiresSoon",
            "message": "Secret carts-tls: its certificate ends at 2026-11-30T08:00:00Z, and then connections with TLS fail: renew it",
        },
    ]);
    status["otherFieldManagers"] = json!([{
        "manager": "kubectl-patch", "time": "2026-11-21T10:20:00Z",
        "fields": ["spec.template.spec.containers[name=debug]"],
    }]);
    status["weakenedByOthers"] = json!(["container debug is privileged"]);
    status["unservedKinds"] = json!(["ServiceMonitor"]);
    CacheFacts { resource: resource("carts", &spec(), &status), ..healthy() }
}

/// The Secret of the certificate is gone.
pub(super) fn without_secret() -> CacheFacts {
    let message = "Referenced Secrets not found: carts-tls";
    let conditions = [
        condition("Available", "True", "Available", "2/2 replicas are ready"),
        condition("Degraded", "True", "SecretNotFound", message),
        condition("Ready", "False", "SecretNotFound", message),
    ];
    let mut status = status(2, &conditions);
    status["secrets"] = json!([{"name": "carts-users", "uid": "p", "resourceVersion": "8"}]);
    CacheFacts { resource: resource("carts", &spec(), &status), ..healthy() }
}

/// A user who may see the resource and nothing else.
pub(super) fn without_rights() -> CacheFacts {
    let refused = |what: &str, kind: &str| {
        format!(
            "cannot read {what}: 403 {kind} is forbidden: User \"jane\" cannot list resource \"{kind}\" in API group \"\" \
             in the namespace \"shop\""
        )
    };
    CacheFacts {
        workload: WorkloadFacts::Deployment {
            deployment: Answer::unknown(refused("the Deployment", "deployments")),
            replica_sets: Answer::unknown(refused("the ReplicaSets", "replicasets")),
        },
        pods: Answer::unknown(refused("the pods", "pods")),
        events: Answer::unknown(refused("the Events", "events")),
        ..healthy()
    }
}

/// Memcached wants a password, and there is no exporter.
pub(super) fn without_figures() -> CacheFacts {
    let pods = ["carts-7b9c6d-x2x4z", "carts-7b9c6d-k8s9w"].map(|name| silent(name, LONG_AGO, None));
    let mut spec = spec();
    spec["monitoring"]["enabled"] = json!(false);
    CacheFacts {
        resource: resource("carts", &spec, &all_is_well()),
        pods: Answer::Known(pods.into()),
        events: Answer::Known(vec![]),
        ..healthy()
    }
}

/// No operator has looked at the resource.
pub(super) fn unseen() -> CacheFacts {
    CacheFacts {
        resource: resource("carts", &json!({"replicas": 2}), &json!({"observedGeneration": -1})),
        workload: WorkloadFacts::Deployment {
            deployment: Answer::Known(None),
            replica_sets: Answer::Known(vec![]),
        },
        pods: Answer::Known(vec![]),
        events: Answer::Known(vec![]),
        ..healthy()
    }
}

/// Two looks at the pods of a cache, a second apart.
pub(super) fn looks() -> [Look; 2] {
    let look = |at: &str, reads: f64| Look {
        at: at.parse().unwrap(),
        pods: vec![
            serving("carts-7b9c6d-x2x4z", LONG_AGO, 152_394.0 + reads),
            serving("carts-7b9c6d-k8s9w", LONG_AGO, 149_021.0 + reads / 2.0),
        ],
    };
    [look("2026-11-21T10:29:59Z", 0.0), look("2026-11-21T10:30:00Z", 230.0)]
}
