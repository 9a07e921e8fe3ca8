//! What the reconciler wants done. Pure data; the shell carries it out and answers each request with
//! [`super::event::Event::Done`].

use jiff::Timestamp;
use json_patch::PatchOperation;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::agents::AgentsQuestion;
use super::messages::{KubeEvent, LogLine};
use super::object::{ChildKind, Key, ResourceVersion, Uid};
use super::observation::Observation;

/// Number of a request, unique within one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(pub u64);

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Effect {
    /// Send a request on behalf of a resource and answer with its reply.
    Send {
        /// Comes back in `Done`.
        id: RequestId,
        /// The resource on whose behalf.
        resource: Key,
        /// What to send.
        request: Request,
    },
    /// Ask the pods of a resource and answer with their reply. No pass waits for that.
    Ask {
        /// Comes back in `Done`.
        id: RequestId,
        /// The resource whose pods are asked.
        resource: Key,
        /// What to ask.
        question: PodQuestion,
    },
    /// Publish a Kubernetes Event about a resource: best effort, no answer.
    Publish {
        /// The resource.
        resource: Key,
        /// Its uid.
        uid: Uid,
        /// What to say.
        kube_event: KubeEvent,
    },
    /// Send a `Tick` at this time or soon after; replaces the wake asked for before.
    Wake(Timestamp),
    /// The API server does not serve this kind of child: ask for it again and again while a resource wants one.
    PollMissingKind {
        /// Which kind.
        kind: ChildKind,
        /// Whether it is wanted.
        wanted: bool,
    },
    /// List every kind again: resourceVersions went back, and nothing is decided until every list is complete.
    RelistAll,
    /// Something that the metrics count.
    Observe(Observation),
    /// Write a line into the log.
    Log {
        /// What the line is about.
        about: About,
        /// The line.
        line: LogLine,
    },
}

/// What a line is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum About {
    /// A resource.
    Resource(Key),
    /// A namespace.
    Namespace(String),
}

/// A question to the pods of a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PodQuestion {
    /// Whether the pods use this content of their Secrets; their agents answer.
    Rotation(AgentsQuestion),
    /// What their memcacheds count.
    Figures,
}

/// A request to the API server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// GET a Secret, and answer with the digests of these keys.
    ReadSecret {
        /// Which Secret.
        secret: Key,
        /// Keys whose digests are wanted.
        keys: Vec<String>,
    },
    /// GET a child, for example after a create that conflicted.
    ReadChild {
        /// Its kind.
        kind: ChildKind,
        /// Where.
        key: Key,
    },
    /// Server-side apply with resourceVersion "1": creates, or answers 409 when anything exists.
    Create {
        /// Its kind.
        kind: ChildKind,
        /// Where.
        key: Key,
        /// The whole object.
        body: Value,
    },
    /// Server-side apply to this version of this incarnation. If this process does not lead any more when the request
    /// arrives, the new leader has written in the meantime, and the API server refuses the apply.
    Apply {
        /// Its kind.
        kind: ChildKind,
        /// Where.
        key: Key,
        /// The child that we believe to exist; the request fails if it is another one.
        uid: Uid,
        /// The version that was looked at: the request fails if it is not the newest.
        resource_version: ResourceVersion,
        /// The whole object, without uid and version.
        body: Value,
    },
    /// JSON patch of this version: removes what blocks an apply, or corrects our entry in managedFields. An apply
    /// cannot do that: it removes only fields that it owns, and removes every field that it gives up.
    Patch {
        /// Its kind.
        kind: ChildKind,
        /// Where.
        key: Key,
        /// The version that was looked at.
        resource_version: ResourceVersion,
        /// To be done one after the other.
        edits: Vec<PatchOperation>,
    },
    /// DELETE exactly this version of this incarnation.
    Delete {
        /// Its kind.
        kind: ChildKind,
        /// Where.
        key: Key,
        /// The incarnation that was looked at.
        uid: Uid,
        /// The version that was looked at.
        resource_version: ResourceVersion,
    },
    /// DELETE exactly this incarnation of a pod, so that its StatefulSet makes a new one.
    DeletePod {
        /// The pod.
        pod: Key,
        /// The incarnation that was looked at.
        uid: Uid,
        /// The version that was looked at.
        resource_version: ResourceVersion,
    },
    /// Merge-patch the resource's status subresource.
    PatchStatus {
        /// The version of the resource that the status was computed from.
        resource_version: ResourceVersion,
        /// The new status; a field to be removed is null.
        status: Value,
    },
}
