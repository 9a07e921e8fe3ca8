//! What the children of one resource are to be. Pure: an [`Intent`] in, whole objects out; called by the pass.
//!
//! One child a file. [`meta`] holds names, labels and the owner reference, [`args`] memcached's command line,
//! [`pod`] the pod template by revision, [`secrets`] which Secret keys are mounted and their hash.

pub mod args;
pub mod deployment;
mod live;
pub mod meta;
pub mod pod;
pub mod secrets;
pub mod service;

pub use live::LiveTemplate;

use deployment::Rendered;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use serde::Serialize;
use serde_json::{Value, json};

use super::hash;
use super::object::{ChildKind, Key, Uid};
use crate::api::validated::{Process, Validated};

/// Everything that children are made from.
#[derive(Clone, Debug)]
pub struct Intent<'a> {
    /// The resource: also the key of every child.
    pub key: &'a Key,
    /// Its incarnation, for the owner reference.
    pub uid: &'a Uid,
    /// What the user wants.
    pub spec: &'a Validated,
    /// Pods that the Deployment asks for; `None`: who scales it decides.
    pub replicas: Option<i32>,
    /// Hash of the mounted Secret keys; `None` while it is not known.
    pub secret_hash: Option<&'a str>,
    /// Value of the restart-trigger annotation.
    pub restart_trigger: Option<&'a str>,
}

/// Which rules rendered a pod template: they differ from release to release, and that must not roll a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u32);

impl Revision {
    /// What this build renders when pods roll anyway.
    pub const NEWEST: Self = Self(1);
}

/// The children of one resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// The rules that rendered the Deployment's template.
    pub revision: Revision,
    /// [`Intent::hash`] of what the Deployment's template was rendered from.
    pub template_hash: String,
    /// Whole objects, without uid: only fields that we own, no empty list or map, no null, what users wrote aside. A
    /// kind that is missing is not wanted.
    pub bodies: BTreeMap<ChildKind, Value>,
}

impl Desired {
    /// The whole child; `None` when none is wanted.
    #[must_use]
    pub fn body(&self, kind: ChildKind) -> Option<&Value> {
        self.bodies.get(&kind)
    }
}

/// Renders every child. `live` is what the Deployment says about its template; `None` without a Deployment of
/// ours, or when the annotations are missing or damaged.
///
/// While the live hash is the intent's, the user changed nothing that reaches the pods, and the template is
/// rendered at the live revision: any difference is drift. Otherwise pods roll anyway, so it is rendered at
/// [`Revision::NEWEST`]. At a revision that only a newer operator knows (this one is a downgrade), an unchanged
/// intent keeps the live template as it is.
#[must_use]
pub fn children(intent: &Intent<'_>, live: Option<&LiveTemplate>) -> Desired {
    let Rendered { body, revision, template_hash } = deployment::deployment(intent, live);
    let bodies = [(ChildKind::Service, Some(service::service(intent))), (ChildKind::Deployment, Some(body))];
    let wanted = bodies.into_iter().filter_map(|(kind, body)| Some((kind, body?)));
    Desired { revision, template_hash, bodies: wanted.collect() }
}

/// The part of an intent that reaches the pods, as it is hashed. Names, order and meaning of these fields are
/// frozen: another hash for the same intent rolls every cache to the newest revision.
///
/// A field added later is left out while it has no value, so that the hash of those who do not use it stays.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReachesPods<'a> {
    image: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<&'a ResourceRequirements>,
    max_memory_mb: i32,
    max_connections: i32,
    threads: i32,
    max_item_size: &'a str,
    verbosity: i32,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    extra_args: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    sasl_secret: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret_hash: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    restart_trigger: Option<&'a str>,
}

impl Intent<'_> {
    /// SHA-256 in hexadecimal of everything of the intent that reaches the pods.
    ///
    /// It is the intent's and not the rendered template's, for two reasons: an operator that does not know the
    /// live revision can still tell that nothing changed, and an edit that an old revision does not render
    /// (a field younger than it) is still seen as an edit.
    #[must_use]
    pub fn hash(&self) -> String {
        // Taken apart without `..`: whoever adds a field decides here whether it reaches the pods.
        let Validated { image, resources, memcached, security, .. } = self.spec;
        let Process { max_memory_mb, max_connections, threads, max_item_size, verbosity, extra_args } =
            memcached;
        hash::of_json(&json!(ReachesPods {
            image,
            resources: resources.as_ref(),
            max_memory_mb: *max_memory_mb,
            max_connections: *max_connections,
            threads: *threads,
            max_item_size,
            verbosity: *verbosity,
            extra_args,
            sasl_secret: security.sasl_secret.as_deref(),
            secret_hash: self.secret_hash,
            restart_trigger: self.restart_trigger,
        }))
    }
}
