//! Everything that the operator learns. Pure data; the shell makes these events, the reconciler folds them.
//!
//! Events are serialised, because the journal consists of them, and hold no Secret bytes. Objects are reduced to what
//! decisions need, by [`super::seen`].

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::agents::AgentsReply;
use super::failure::Failure;
use super::field_managers::OtherManager;
use super::go_operator::entry::GoOperatorEntry;
use super::json_text::JsonText;
use super::lists::Moment;
use super::object::{ChildKind, Controller, Key, ResourceVersion, Scope, Uid, Watched};
use super::pod_figures::PodFigures;
use super::pod_readiness::Readiness;
use super::request::RequestId;
use super::secret_finding::SecretFinding;
use crate::api::{MemcachedSpec, MemcachedStatus};

/// One thing learned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// The first answer to the request of a list arrived and follows as the next event: the list begins, or was
    /// refused.
    Asked {
        /// The kind that is listed.
        kind: Watched,
        /// The namespaces that are listed.
        scope: Scope,
        /// When the request left.
        left: Departure,
    },
    /// A list of this kind begins: the objects until [`Event::Listed`] are all that exist. Without an [`Event::Asked`]
    /// before, the request left just now.
    Listing(Watched, Scope),
    /// The list is complete: objects that it lacks are deleted.
    Listed(Watched, Scope),
    /// A required list is refused, or its kind is not served: nothing is written in this scope until the next
    /// [`Event::Listed`].
    Unlistable(Watched, Scope),
    /// Objects of this kind of child cannot be listed, so none is written until the next [`Event::Listed`].
    Unavailable {
        /// The kind that cannot be listed.
        kind: ChildKind,
        /// The namespaces in which it cannot be listed.
        scope: Scope,
        /// The reason.
        why: Unavailable,
    },
    /// A resource as it is now.
    Resource(Box<SeenResource>),
    /// A child, or an object with the name of a child, as it is now.
    Child(Box<SeenChild>),
    /// A Secret exists in this version.
    Secret(SeenSecret),
    /// One of our pods.
    Pod(SeenPod),
    /// The object was deleted.
    Gone {
        /// The kind of the object.
        kind: Watched,
        /// The namespace and name of the object.
        key: Key,
    },
    /// A request of the reconciler has ended.
    Done {
        /// The id that the effect had.
        id: RequestId,
        /// How it ended.
        reply: Reply,
    },
    /// A question to the pods of a resource has ended.
    Answered {
        /// The id that the effect had.
        id: RequestId,
        /// How it ended.
        reply: PodsReply,
    },
    /// Whether this process may write; false until the first such event.
    Leading(bool),
    /// The version of the API server: it may store our applies otherwise than an earlier version did.
    ServerVersion(String),
    /// Time has passed; sent when a [`super::effect::Effect::Wake`] is due.
    Tick,
}

/// When the request of a list left: the list is as old as that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departure {
    /// How many requests of the reconciler had been answered.
    pub answers: Moment,
    /// How often this process had listed the resources again before, because it was to lead.
    pub relists: u64,
}

/// Why a kind of child cannot be listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unavailable {
    /// The API server does not know this kind: nobody has one.
    NotServed,
    /// The API server refuses to list it.
    Refused(Failure),
}

/// A `Memcached` as listed or watched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeenResource {
    /// Namespace and name.
    pub key: Key,
    /// The incarnation of the resource.
    pub uid: Uid,
    /// The version of the resource.
    pub resource_version: ResourceVersion,
    /// `metadata.creationTimestamp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether a deletionTimestamp is set: nothing is written any more.
    pub deleting: bool,
    /// Value of the restart-trigger annotation, when present and not empty.
    pub restart_trigger: Option<String>,
    /// The raw spec, or why it does not deserialise.
    pub spec: Result<MemcachedSpec, String>,
    /// The status as last written; the default where it is missing or unreadable.
    pub status: MemcachedStatus,
}

/// An object of a child's kind at a resource's key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeenChild {
    /// The kind of the child.
    pub kind: ChildKind,
    /// Namespace and name.
    pub key: Key,
    /// The incarnation of the child.
    pub uid: Uid,
    /// The version of the child.
    pub resource_version: ResourceVersion,
    /// `metadata.creationTimestamp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// `metadata.generation`; 0 for kinds that have none.
    pub generation: i64,
    /// Whether a deletionTimestamp is set.
    pub deleting: bool,
    /// Who controls it, if anybody.
    pub controller: Option<Controller>,
    /// `{"metadata": {labels, annotations, ownerReferences}, "spec": ...}` as the API server holds it.
    pub content: JsonText,
    /// `fieldsV1` of our own apply entry in managedFields: what the API server says we own.
    pub owned: Option<JsonText>,
    /// The place of that entry in managedFields.
    pub entry: Option<usize>,
    /// The Go operator's entry in managedFields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub go_operator: Option<GoOperatorEntry>,
    /// The other field managers, by name, with the fields that are theirs alone.
    pub managers: Vec<OtherManager>,
    /// What the status of a Deployment or StatefulSet says; `None` for other kinds.
    pub rollout: Option<SeenRollout>,
    /// Why a HorizontalPodAutoscaler does not scale; `None` if it does, and for other kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inactive: Option<ScalingInactive>,
}

/// A HorizontalPodAutoscaler cannot tell how many pods are needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScalingInactive {
    /// Since when.
    pub since: Timestamp,
    /// Why, in the words of the controller.
    pub message: String,
}

/// The status of a Deployment or StatefulSet, counters clamped to at least 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenRollout {
    /// `status.observedGeneration`.
    pub observed_generation: i64,
    /// `status.replicas`.
    pub replicas: i32,
    /// `status.readyReplicas`.
    pub ready: i32,
    /// `status.updatedReplicas`.
    pub updated: i32,
    /// `status.availableReplicas`.
    pub available: i32,
    /// Message of the condition Progressing while its reason is `ProgressDeadlineExceeded`.
    pub deadline_exceeded: Option<String>,
    /// Why Kubernetes counts no deadline for the rollout of a Deployment; `None` where it counts one, and for a StatefulSet, of
    /// which it never does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_deadline: Option<WithoutDeadline>,
    /// Message of the condition ReplicaFailure while it is true.
    pub replica_failure: Option<String>,
    /// The revisions of a StatefulSet; `None` for a Deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revisions: Option<Box<SeenRevisions>>,
}

/// What a Deployment's condition Progressing says while Kubernetes counts no deadline for its rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WithoutDeadline {
    /// The last rollout is finished (`NewReplicaSetAvailable`). It says so also where pods are missing: after it was scaled, and
    /// on the way back to a template whose ReplicaSet is still there, until its controller sees one more new pod; where it sees
    /// the numbers of both ReplicaSets change at once, to the end.
    Finished,
    /// Somebody paused it (`DeploymentPaused`), such as by `kubectl rollout pause`: it replaces no pod until that ends.
    Paused,
}

/// The names that a StatefulSet gives to its pod templates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenRevisions {
    /// `status.currentRevision`: the template that all pods had last.
    pub current: String,
    /// `status.updateRevision`: the template that it has now.
    pub update: String,
    /// `status.currentReplicas`: pods of the former.
    pub current_replicas: i32,
}

/// A Secret's metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenSecret {
    /// Namespace and name.
    pub key: Key,
    /// The incarnation of the Secret.
    pub uid: Uid,
    /// The version of the Secret.
    pub resource_version: ResourceVersion,
}

/// One of our pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenPod {
    /// Namespace and name of the pod.
    pub key: Key,
    /// The incarnation of the pod. Pods of a StatefulSet have the name of the pod whose place they take.
    #[serde(default)]
    pub uid: Uid,
    /// The version of the pod.
    #[serde(default)]
    pub resource_version: ResourceVersion,
    /// Name of the resource, from the instance label.
    pub instance: String,
    /// The revision of the StatefulSet that made it; `None` of a Deployment's pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The address of the pod, once it has one.
    pub ip: Option<String>,
    /// Whether it serves.
    pub readiness: Readiness,
    /// Whether a deletionTimestamp is set: it still counts as ready until it ends.
    #[serde(default)]
    pub deleting: bool,
    /// Why it does not run, see [`super::pod_problem`].
    pub problem: Option<String>,
}

/// What a Secret holds, reduced to digests and findings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretContent {
    /// Which incarnation was read.
    pub uid: Uid,
    /// Which version was read.
    pub resource_version: ResourceVersion,
    /// The keys that were asked for.
    pub requested: Vec<String>,
    /// The SHA-256, in hexadecimal, of the value of each requested key that exists.
    pub digests: BTreeMap<String, String>,
    /// What was found in the values of those keys.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub findings: BTreeSet<SecretFinding>,
    /// When the certificate of a key ends; of several authorities the last one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub not_after: BTreeMap<String, Timestamp>,
}

impl SecretContent {
    /// Adds what was read of other keys of the same version.
    pub fn unite(&mut self, other: Self) {
        let Self { uid: _, resource_version: _, requested, digests, findings, not_after } = other;
        self.requested.extend(requested);
        self.requested.sort();
        self.requested.dedup();
        self.digests.extend(digests);
        self.findings.extend(findings);
        self.not_after.extend(not_after);
    }
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// Answer to a Secret read; `None` when there is no such Secret.
    Secret(Option<SecretContent>),
    /// Answer to a child read, create, apply or delete: the object as it is now; `None` when there is none.
    Child(Option<Box<SeenChild>>),
    /// The pod is going, or gone.
    PodDeleted,
    /// The status was written: the resource as the API server now holds it.
    Status(Box<SeenResource>),
    /// The request failed.
    Failed(Failure),
}

/// How a question to the pods of a resource ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PodsReply {
    /// What their agents say.
    Agents(AgentsReply),
    /// What their memcacheds count, of those that answer.
    Figures(Vec<PodFigures>),
    /// The pods could not be asked.
    Failed(Failure),
}
