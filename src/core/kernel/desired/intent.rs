//! What the children of a resource are made from, and by which rules. Pure data.

use crate::api::Validated;
use crate::kernel::object::{Key, Uid};

/// Everything that the children are rendered from.
#[derive(Clone, Debug)]
pub struct Intent<'a> {
    /// The resource: also the key of every child.
    pub key: &'a Key,
    /// The uid of the resource, for the owner reference.
    pub uid: &'a Uid,
    /// What the user wants.
    pub spec: &'a Validated,
    /// `spec.replicas` of the Deployment; `None`: an autoscaler decides.
    pub replicas: Option<i32>,
    /// Hash of the mounted Secret keys; `None` while it is not known.
    pub secret_hash: Option<&'a str>,
    /// Value of the restart-trigger annotation.
    pub restart_trigger: Option<&'a str>,
}

/// The version of the rules that rendered a pod template. The rules differ between releases, and that alone must not
/// roll a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u32);

impl Revision {
    /// What the Go operator for the same API renders: [`crate::kernel::go_operator::pod_template`].
    pub const GO_OPERATOR: Self = Self(0);
    /// The revision that this build renders when pods roll anyway.
    pub const NEWEST: Self = Self(if cfg!(feature = "next-revision") { 2 } else { 1 });
}
