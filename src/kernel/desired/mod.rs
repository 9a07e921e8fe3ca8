//! What the children of one resource are to be. Pure: an [`Intent`] in, whole objects out; called by the pass.
//!
//! One child a file. [`meta`] holds names, labels and the owner reference, [`args`] memcached's command line,
//! [`pod`] the pod template by revision.

pub mod args;
pub mod deployment;
pub mod meta;
pub mod pod;
pub mod service;

use serde_json::Value;

use super::object::{ChildKind, Key, Uid};
use crate::api::validate::Validated;

/// Everything that children are made from.
#[derive(Clone, Debug)]
pub struct Intent<'a> {
    /// The resource: also the key of every child.
    pub key: &'a Key,
    /// Its incarnation, for the owner reference.
    pub uid: &'a Uid,
    /// What the user wants.
    pub spec: &'a Validated,
    /// Hash of the mounted Secret keys; `None` while it is not known.
    pub secret_hash: Option<&'a str>,
    /// Value of the restart-trigger annotation.
    pub restart_trigger: Option<&'a str>,
}

/// Which rules rendered a pod template: they differ from release to release, and that must not roll a fleet.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct Revision(pub u32);

impl Revision {
    /// What this build renders when pods roll anyway.
    pub const NEWEST: Self = Self(1);
}

/// The annotations of a live Deployment that say which intent its template was rendered from.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LiveTemplate {
    /// `memcached.c5c3.io/template-revision`.
    pub revision: Revision,
    /// `memcached.c5c3.io/template-hash`.
    pub hash: String,
}

/// The children of one resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// The pods.
    pub deployment: Child,
    /// The rules that rendered the Deployment's template.
    pub revision: Revision,
    /// The hash of the rendered template.
    pub template_hash: String,
    /// Their address.
    pub service: Child,
}

/// One child as it is to be applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    /// Its kind.
    pub kind: ChildKind,
    /// The whole object, without uid: only fields that we own, no empty list or map, no null.
    pub body: Value,
}

/// Renders every child. `live` is what the Deployment says about its template; `None` without a Deployment of
/// ours, or when the annotations are missing or damaged.
///
/// The template is rendered at the live revision when that gives the live hash (the intent did not change),
/// and at [`Revision::NEWEST`] otherwise: pods roll anyway.
#[must_use]
pub fn children(intent: &Intent<'_>, live: Option<&LiveTemplate>) -> Desired {
    let rendered = deployment::deployment(intent, live);
    Desired {
        deployment: Child { kind: ChildKind::Deployment, body: rendered.body },
        revision: rendered.revision,
        template_hash: rendered.template_hash,
        service: Child { kind: ChildKind::Service, body: service::service(intent) },
    }
}
