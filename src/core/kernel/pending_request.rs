//! A request from the decision to the reply: what is sent, and what is needed to understand the reply. Pure data; made
//! by the pass, sent and kept by the reconciler.

use json_patch::PatchOperation;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::backoff::Attempt;
use super::effect::Request;
use super::event::SeenResource;
use super::field_managers::OtherManager;
use super::field_path::Path;
use super::known_versions::{KnownVersions, Presence};
use super::messages::{KubeEvent, LogLine};
use super::object::{ChildKind, Key, ResourceVersion, Uid};
use super::observation::{ChildResult, RotationResult};
use super::rollout_cause::{ChangedSecret, RolloutCause};
use super::status::patch;
use crate::api::MemcachedStatus;

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
    /// What was sent.
    pub request: PlannedRequest,
}

/// A request that a pass decided on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PlannedRequest {
    /// A read of a Secret.
    ReadSecret(SecretRead),
    /// A read of a child.
    ReadChild {
        /// Which.
        kind: ChildKind,
        /// What is known of the child when the request leaves.
        known: KnownVersions,
    },
    /// A write of a child.
    WriteChild(ChildWrite),
    /// The deletion of a pod, see [`super::pass::stuck_pods`].
    DeletePod(PodDeletion),
    /// A write of the status.
    WriteStatus {
        /// The status as it will be stored.
        status: Box<MemcachedStatus>,
        /// What identifies the attempt.
        attempt: Attempt,
        /// Kubernetes Events to publish once this status is stored. They are computed with the decision and not with
        /// the reply: by then the watch may already show the new status.
        kube_events: Vec<KubeEvent>,
        /// Lines of the log, likewise.
        log: Vec<LogLine>,
        /// Whether the pods roll because somebody else changed their template.
        rollout_by_others: bool,
        /// What came of Secrets that pods take in place.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rotation: Option<RotationResult>,
    },
}

/// A read of a Secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SecretRead {
    /// Which.
    pub secret: Key,
    /// The keys asked for.
    pub keys: Vec<String>,
    /// What is known of the Secret when the request leaves.
    pub known: Presence,
}

/// The deletion of a pod.
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

/// A write of a child.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChildWrite {
    /// Which child.
    pub kind: ChildKind,
    /// What is done to it.
    pub write: Write,
    /// What identifies the attempt.
    pub attempt: Attempt,
    /// What it changes, for people.
    pub changes: Changes,
    /// Kubernetes Events to publish once the write succeeded.
    pub kube_events: Vec<KubeEvent>,
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
/// The shell gets a copy, because it puts preconditions into it; the copy is gone as soon as its bytes are made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Write {
    /// [`Request::Create`].
    Create {
        /// The whole object.
        body: Value,
    },
    /// [`Request::Apply`].
    Apply {
        /// The child that we believe to exist.
        uid: Uid,
        /// The version that was looked at.
        resource_version: ResourceVersion,
        /// The whole object.
        body: Value,
        /// The rollout that the write may start; `None` for all but the workload.
        replaces: Option<Replacement>,
    },
    /// [`Request::Patch`].
    Patch {
        /// The version that was looked at.
        resource_version: ResourceVersion,
        /// To be done one after the other.
        edits: Vec<PatchOperation>,
        /// The rollout that the write may start; `None` for all but the workload.
        replaces: Option<Replacement>,
    },
    /// [`Request::Delete`].
    Delete {
        /// The incarnation that was looked at.
        uid: Uid,
        /// The version that was looked at.
        resource_version: ResourceVersion,
    },
}

/// A rollout that a write may start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replacement {
    /// Why; `None` if the write should start none. A webhook that changes the template starts one all the same.
    pub cause: Option<RolloutCause>,
    /// The Secrets whose content changed, where that is the cause.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<ChangedSecret>,
    /// [`super::live::template_content_hash`] of the workload before the write: if the answer has the same, no pod is
    /// replaced.
    pub template: Option<u64>,
}

impl PlannedRequest {
    /// The request as it is sent; `resource` is as the pass saw it.
    #[must_use]
    pub fn on_the_wire(&self, resource: &SeenResource) -> Request {
        let key = |kind: ChildKind| {
            let Key { namespace, name } = &resource.key;
            Key { namespace: namespace.clone(), name: kind.name_of_child(name) }
        };
        match self {
            Self::ReadSecret(SecretRead { secret, keys, known: _ }) => {
                Request::ReadSecret { secret: secret.clone(), keys: keys.clone() }
            }
            Self::ReadChild { kind, known: _ } => Request::ReadChild { kind: *kind, key: key(*kind) },
            Self::WriteChild(ChildWrite { kind, write, .. }) => write.on_the_wire(*kind, key(*kind)),
            Self::DeletePod(PodDeletion { pod, uid, resource_version, kube_event: _ }) => {
                Request::DeletePod {
                    pod: pod.clone(),
                    uid: uid.clone(),
                    resource_version: resource_version.clone(),
                }
            }
            Self::WriteStatus { status, .. } => Request::PatchStatus {
                resource_version: resource.resource_version.clone(),
                status: patch::patch(&resource.status, status),
            },
        }
    }

    /// The child that it reads or writes.
    #[must_use]
    pub const fn child(&self) -> Option<ChildKind> {
        match self {
            Self::ReadChild { kind, .. } | Self::WriteChild(ChildWrite { kind, .. }) => Some(*kind),
            Self::ReadSecret(_) | Self::DeletePod(_) | Self::WriteStatus { .. } => None,
        }
    }
}

impl Write {
    fn on_the_wire(&self, kind: ChildKind, key: Key) -> Request {
        match self.clone() {
            Self::Create { body } => Request::Create { kind, key, body },
            Self::Apply { uid, resource_version, body, replaces: _ } => {
                Request::Apply { kind, key, uid, resource_version, body }
            }
            Self::Patch { resource_version, edits, replaces: _ } => {
                Request::Patch { kind, key, resource_version, edits }
            }
            Self::Delete { uid, resource_version } => Request::Delete { kind, key, uid, resource_version },
        }
    }

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
    pub const fn replaces(&self) -> Option<&Replacement> {
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

impl Replacement {
    /// Why pods were replaced. Without a planned cause somebody else changed the template.
    #[must_use]
    pub fn cause(&self) -> RolloutCause {
        self.cause.unwrap_or(RolloutCause::Drift)
    }
}
