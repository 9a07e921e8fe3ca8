//! What the annotations of a live workload say about its pod template. Pure; the world reads them from each
//! workload.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::default_images::{BUILT_IN, DefaultImages};
use super::intent::Intent;
use super::meta::{DEFAULT_IMAGES, SECRET_HASH, TEMPLATE_HASH, TEMPLATE_REVISION};
use super::revision::Revision;
use crate::api::spec::Rotation;
use crate::kernel::diff;
use crate::kernel::go_operator::pod_template::PreservedMetadata;
use crate::kernel::hash_text::HashText;

/// The source of a live template: the hash of its intent, and its revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveTemplate {
    /// `memcached.c5c3.io/template-revision`.
    pub revision: Revision,
    /// `memcached.c5c3.io/template-hash`.
    pub hash: HashText,
    /// `memcached.c5c3.io/default-images`; `None` stands for [`BUILT_IN`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<Box<DefaultImages>>,
    /// `memcached.c5c3.io/secret-hash` of the workload: the Secrets that the pods are to have taken in place. `None` where
    /// pods restart for a changed Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_hash: Option<String>,
    /// The metadata that the template keeps from the Go operator, at revision 0.
    #[serde(default, skip_serializing_if = "PreservedMetadata::is_empty")]
    pub preserved: PreservedMetadata,
    /// The part of the template that we own. Set only if a newer operator rendered it and this build does not know the
    /// revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_unknown_revision: Option<Box<Value>>,
}

impl LiveTemplate {
    /// The images that the template was rendered with, where the spec names none.
    #[must_use]
    pub fn images(&self) -> &DefaultImages {
        self.images.as_deref().unwrap_or(&BUILT_IN)
    }

    /// Whether the template was rendered from an intent with this hash and this way of taking changed Secrets. The hash
    /// does not tell the second, so that an operator that knows one way only finds its own hash.
    #[must_use]
    pub fn is_of(&self, hash: &HashText, rotation: Rotation) -> bool {
        self.hash == *hash && self.revision.rotates(rotation)
    }

    /// Whether this intent, whose hash is `hash`, needs no other pods: it is the one that the template was rendered from, or
    /// that but for the content of Secrets that the pods take in place.
    #[must_use]
    pub fn serves(&self, intent: &Intent<'_>, hash: &HashText) -> bool {
        let rotation = intent.spec.security.rotation;
        let but_for_secrets = || {
            let before = Intent { secret_hash: self.secret_hash.as_deref(), ..intent.clone() };
            self.is_of(&before.hash(), rotation)
        };
        self.is_of(hash, rotation) || (rotation == Rotation::InPlace && but_for_secrets())
    }

    /// Reads the source from a live workload of ours: `content` and `owned` as in
    /// [`crate::kernel::event::SeenChild`]. `None` when an annotation is missing or damaged, or when somebody else
    /// wrote it: a forged revision would look like that of a newer operator, whose template is never replaced.
    #[must_use]
    pub fn from_workload(content: &Value, owned: Option<&Value>) -> Option<Self> {
        let said = |name| content.pointer("/metadata/annotations").and_then(|all| all.get(name)?.as_str());
        let by_us = |name: &str| {
            let ours =
                |owned: &Value| owned.pointer("/f:metadata/f:annotations")?.get(format!("f:{name}")).cloned();
            owned.is_none_or(|owned| ours(owned).is_some())
        };
        let annotation = |name| said(name).filter(|_| by_us(name));
        let revision = Revision(annotation(TEMPLATE_REVISION)?.parse().ok()?);
        let hash = annotation(TEMPLATE_HASH)?.into();
        let images = match said(DEFAULT_IMAGES) {
            Some(_) => Some(Box::new(DefaultImages::from_annotation(annotation(DEFAULT_IMAGES)?)?)),
            None => None,
        };
        let in_place = revision.rotates(Rotation::InPlace);
        let secret_hash = annotation(SECRET_HASH).filter(|_| in_place).map(str::to_owned);
        let in_template = || content.pointer("/spec/template").map(PreservedMetadata::from_template);
        let preserved = PreservedMetadata::for_revision(revision, || in_template().unwrap_or_default());
        let of_unknown_revision =
            (!revision.is_known()).then(|| owned_template(content, owned)).flatten().map(Box::new);
        Some(Self { revision, hash, images, secret_hash, preserved, of_unknown_revision })
    }
}

/// The part of the template that we own, so that applying it changes nothing; without a record of ownership, the whole
/// template.
pub(super) fn owned_template(content: &Value, owned: Option<&Value>) -> Option<Value> {
    let live = content.pointer("/spec/template")?;
    let ours = owned
        .and_then(|owned| owned.pointer("/f:spec/f:template"))
        .and_then(|owned| diff::owned_part(live, owned));
    Some(ours.unwrap_or_else(|| live.clone()))
}
