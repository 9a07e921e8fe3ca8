//! A request to the API server, from the decision to the reply: what is sent, and what is needed to understand the reply. Pure
//! data; made by the pass, kept by the reconciler, sent by the shell.

use std::sync::Arc;

use json_patch::PatchOperation;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::backoff::Attempt;
use super::field_managers::OtherManager;
use super::field_path::Path;
use super::known_versions::{KnownVersions, Presence};
use super::messages::{KubeEvent, LogLine};
use super::object::{ChildKind, Key, ResourceVersion, Uid};
use super::observation::{ChildResult, RotationResult};
use super::rollout_cause::{ChangedSecret, RolloutCause};
use crate::api::MemcachedStatus;

/// Number of a request, unique within one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(pub u64);

/// A request without a reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingRequest {
    /// The resource for which the request was sent.
    pub resource: Key,
    /// Its incarnation: a reply for an earlier incarnation is not applied to the present one.
    pub uid: Uid,
    /// Its generation that was looked at.
    #[serde(default)]
    pub generation: i64,
    /// What was sent. The shell shares it until it tells of the reply.
    pub request: Arc<Request>,
}

/// A request to the API server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// GET a Secret.
    ReadSecret(SecretRead),
    /// GET a child, for example after a create that conflicted.
    ReadChild(ChildRead),
    /// Create, change or delete a child.
    WriteChild(ChildWrite),
    /// DELETE a pod, see [`super::pass::stuck_pods`].
    DeletePod(PodDeletion),
    /// Merge-patch the resource's status subresource.
    WriteStatus(StatusWrite),
}

/// A read of a Secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SecretRead {
    /// Which.
    pub secret: Key,
    /// The keys whose digests are wanted.
    pub keys: Vec<String>,
    /// What is known of the Secret when the request leaves.
    pub known: Presence,
}

/// A read of a child.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChildRead {
    /// Its kind.
    pub kind: ChildKind,
    /// Where.
    pub key: Key,
    /// What is known of the child when the request leaves.
    pub known: KnownVersions,
}

/// A write of a child.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChildWrite {
    /// Its kind.
    pub kind: ChildKind,
    /// Where.
    pub key: Key,
    /// What is done to it.
    pub write: Write,
    /// What identifies the attempt.
    pub attempt: Attempt,
    /// What it changes, for people.
    pub changes: Changes,
    /// Kubernetes Events to publish once the write succeeded.
    pub kube_events: Vec<KubeEvent>,
}

/// The deletion of exactly this incarnation of a pod, so that its StatefulSet makes a new one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PodDeletion {
    /// The pod.
    pub pod: Key,
    /// The incarnation that was looked at.
    pub uid: Uid,
    /// The version that was looked at: since then it may have become ready.
    pub resource_version: ResourceVersion,
    /// The Kubernetes Event to publish once the pod is deleted.
    pub kube_event: KubeEvent,
}

/// A write of the status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusWrite {
    /// The version of the resource that the status was computed from.
    pub resource_version: ResourceVersion,
    /// What is sent: the fields that change; a field to be removed is null.
    pub patch: Value,
    /// The whole status as it will be stored.
    pub status: Box<MemcachedStatus>,
    /// What identifies the attempt.
    pub attempt: Attempt,
    /// Kubernetes Events to publish once this status is stored. They are computed with the decision and not with the reply: by
    /// then the watch may already show the new status.
    pub kube_events: Vec<KubeEvent>,
    /// Lines of the log, likewise.
    pub log: Vec<LogLine>,
    /// Whether the pods roll because somebody else changed their template.
    pub rollout_by_others: bool,
    /// What came of Secrets that pods take in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation: Option<RotationResult>,
}

/// What a write changes in a child that exists, for Kubernetes Events and the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// The fields of the child; `None` if they are not known.
    pub fields: Option<Vec<Path>>,
    /// The edits of the spec behind it, in words; empty if there are none or they are not known.
    pub edits: Vec<String>,
    /// Who put there what is changed, as managedFields said before the write.
    pub managers: Vec<OtherManager>,
    /// Whether somebody else changed what is put back.
    pub is_repair: bool,
}

/// What a write does to a child.
///
/// The body of an apply stays here until the reply: fields that differ in the answer were changed by the API server.
/// The shell copies it, because it puts preconditions into it; the copy is gone as soon as its bytes are made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Write {
    /// Server-side apply with resourceVersion "1": creates, or answers 409 when anything exists.
    Create {
        /// The whole object.
        body: Value,
    },
    /// Server-side apply to this version of this incarnation. If this process does not lead any more when the request
    /// arrives, the new leader has written in the meantime, and the API server refuses the apply.
    Apply {
        /// The child that we believe to exist; the request fails if it is another one.
        uid: Uid,
        /// The version that was looked at: the request fails if it is not the newest.
        resource_version: ResourceVersion,
        /// The whole object, without uid and version.
        body: Value,
        /// The rollout that the write may start; `None` for all but the workload.
        replaces: Option<PossibleRollout>,
    },
    /// JSON patch of this version: removes what blocks an apply, or corrects our entry in managedFields. An apply
    /// cannot do that: it removes only fields that it owns, and removes every field that it gives up.
    Patch {
        /// The version that was looked at.
        resource_version: ResourceVersion,
        /// To be done one after the other.
        edits: Vec<PatchOperation>,
        /// The rollout that the write may start; `None` for all but the workload.
        replaces: Option<PossibleRollout>,
    },
    /// DELETE exactly this version of this incarnation.
    Delete {
        /// The incarnation that was looked at.
        uid: Uid,
        /// The version that was looked at.
        resource_version: ResourceVersion,
    },
}

/// A rollout that a write may start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PossibleRollout {
    /// Why; `None` if the write should start none. A webhook that changes the template starts one all the same.
    pub cause: Option<RolloutCause>,
    /// The Secrets whose content changed, where that is the cause.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<ChangedSecret>,
    /// [`super::live::template_content_hash`] of the workload before the write: if the answer has the same, no pod is
    /// replaced.
    pub template: Option<u64>,
}

impl Request {
    /// The child that it reads or writes.
    #[must_use]
    pub const fn child(&self) -> Option<ChildKind> {
        match self {
            Self::ReadChild(ChildRead { kind, .. }) | Self::WriteChild(ChildWrite { kind, .. }) => {
                Some(*kind)
            }
            Self::ReadSecret(_) | Self::DeletePod(_) | Self::WriteStatus(_) => None,
        }
    }
}

impl Write {
    /// The body of an apply.
    #[must_use]
    pub const fn applied(&self) -> Option<&Value> {
        match self {
            Self::Create { body } | Self::Apply { body, .. } => Some(body),
            Self::Patch { .. } | Self::Delete { .. } => None,
        }
    }

    /// The rollout that the write may start.
    #[must_use]
    pub const fn replaces(&self) -> Option<&PossibleRollout> {
        match self {
            Self::Apply { replaces, .. } | Self::Patch { replaces, .. } => replaces.as_ref(),
            Self::Create { .. } | Self::Delete { .. } => None,
        }
    }

    /// What has happened to the child once the write succeeded.
    #[must_use]
    pub const fn result(&self) -> ChildResult {
        match self {
            Self::Create { .. } => ChildResult::Created,
            Self::Apply { .. } | Self::Patch { .. } => ChildResult::Updated,
            Self::Delete { .. } => ChildResult::Deleted,
        }
    }
}

impl PossibleRollout {
    /// Why pods were replaced. Without a planned cause somebody else changed the template.
    #[must_use]
    pub fn cause(&self) -> RolloutCause {
        self.cause.unwrap_or(RolloutCause::Drift)
    }
}
