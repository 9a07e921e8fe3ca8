//! The images that pods run where their resource names none, and their record on the Deployment. Pure; settings of the
//! reconciler, read back from live Deployments, used by [`super::memcached`] and [`super::exporter`].
//!
//! Settings may change between two runs of the operator, and that alone must not roll pods. So the images are no part of
//! the intent's hash. Whatever a template was rendered with stands beside its revision, and is used for as long as the
//! intent is the same.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::api::Validated;
use crate::api::spec::DEFAULT_IMAGE;

/// Upstream's exporter. Part of the template's revision, as [`OWN_IMAGE`] is: another one is another revision.
pub const UPSTREAM_IMAGE: &str = "prom/memcached-exporter:v0.15.4";
/// The image of this project, with the commands `exporter`, which can log in, and `agent`. It stays at the version that this revision of the template was
/// made with, whatever version this operator has: otherwise each release would roll the pods of caches with a password.
pub const OWN_IMAGE: &str = "ghcr.io/c5c3/memcached-operator-rs:0.1.0";
/// Any version of [`OWN_IMAGE`].
const OWN_REPOSITORY: &str = "ghcr.io/c5c3/memcached-operator-rs";

/// The images of pods whose resource names none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DefaultImages {
    /// Memcached.
    pub memcached: Cow<'static, str>,
    /// The exporter, where memcached asks for no password.
    pub exporter: Cow<'static, str>,
    /// This project's own image: the exporter, where memcached asks for a password, and the agent.
    pub operator: Cow<'static, str>,
}

/// The images without any setting. A Deployment without a record runs these.
pub static BUILT_IN: DefaultImages = DefaultImages {
    memcached: Cow::Borrowed(DEFAULT_IMAGE),
    exporter: Cow::Borrowed(UPSTREAM_IMAGE),
    operator: Cow::Borrowed(OWN_IMAGE),
};

impl Default for DefaultImages {
    fn default() -> Self {
        BUILT_IN.clone()
    }
}

impl DefaultImages {
    /// Memcached's image in the pods of this spec. The API server fills the default in, so that nobody can tell it from
    /// the same text written by a user.
    #[must_use]
    pub fn of_memcached<'a>(&'a self, spec: &'a Validated) -> &'a str {
        if spec.image == DEFAULT_IMAGE { &self.memcached } else { &spec.image }
    }

    /// Whether this image is this project's own, or a mirror of it: any version counts.
    #[must_use]
    pub fn knows_as_own(&self, image: &str) -> bool {
        [OWN_REPOSITORY, repository(&self.operator)].contains(&repository(image))
    }

    /// The value of the annotation `memcached.c5c3.io/default-images`; `None` for [`BUILT_IN`], so that no Deployment of a
    /// cluster without such settings carries it.
    #[must_use]
    pub fn to_annotation(&self) -> Option<String> {
        // Texts only, so this does not fail.
        (*self != BUILT_IN).then(|| serde_json::to_string(self).unwrap_or_default())
    }

    /// Reads the annotation; `None` if it is damaged.
    #[must_use]
    pub fn from_annotation(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// An image reference without tag and digest; a registry's port is neither.
fn repository(image: &str) -> &str {
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}
