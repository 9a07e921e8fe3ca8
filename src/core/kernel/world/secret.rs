//! A Secret that resources name: whether it exists, what it held when it was read, and the hash that was computed of
//! several. Pure data; part of [`super::World`].

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::api::MemcachedSpec;
use crate::api::status::SecretVersion;
use crate::kernel::backoff::Backoff;
use crate::kernel::event::{SecretContent, SeenResource};
use crate::kernel::known_versions::Presence;
use crate::kernel::lists::Moment;
use crate::kernel::object::Key;

/// A Secret that some resource names.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Secret {
    /// Whether the Secret exists.
    pub presence: Presence,
    /// Digests of the content that was read last in this run, and what was found in it.
    pub content: Option<SecretContent>,
    /// When a read of it was answered last.
    #[serde(default)]
    pub answered: Moment,
    /// Why it could not be read.
    pub backoff: Option<Backoff>,
    /// The resources that name it.
    pub users: BTreeSet<Key>,
}

/// A Secret hash, and the Secrets that it was computed from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretHash {
    /// The hash.
    pub hash: String,
    /// The versions of those Secrets; empty if they are not known.
    pub versions: Vec<SecretVersion>,
    /// The digests of what they held; empty if they are not known.
    #[serde(default, skip_serializing_if = "SecretDigests::is_empty")]
    pub digests: SecretDigests,
}

/// Digests of values, by the name of the Secret and the key in it.
pub type SecretDigests = BTreeMap<String, BTreeMap<String, String>>;

/// The Secrets that the enabled features of a resource name.
#[must_use]
pub fn secret_names(seen: &SeenResource) -> Vec<Key> {
    let Ok(MemcachedSpec { security: Some(security), .. }) = &seen.spec else { return Vec::new() };
    let sasl = security.sasl.as_ref().filter(|sasl| sasl.enabled == Some(true));
    let tls = security.tls.as_ref().filter(|tls| tls.enabled == Some(true));
    let references = [
        sasl.and_then(|sasl| sasl.credentials_secret_ref.as_ref()),
        tls.and_then(|tls| tls.certificate_secret_ref.as_ref()),
    ];
    let names = references.into_iter().filter_map(|reference| reference?.name.clone());
    names.map(|name| Key { namespace: seen.key.namespace.clone(), name }).collect()
}
