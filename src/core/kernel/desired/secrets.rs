//! Which Secret keys are mounted into the pods, and the hash that rolls the pods when one changes. Pure; the
//! pass asks which keys to have read, and puts the hash into the [`super::Intent`].

use std::collections::{BTreeMap, BTreeSet};

use super::files;
use crate::api::Validated;
use crate::kernel::hash;

/// One mounted key of one Secret in the resource's namespace. Ordered by Secret, then key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MountedKey<'a> {
    /// Name of the Secret.
    pub secret: &'a str,
    /// The key in it.
    pub key: &'static str,
}

/// The keys that the pods of this spec mount, each once, in order. Empty when no Secret is used. An exporter reads none
/// that memcached does not read.
#[must_use]
pub fn mounted(spec: &Validated) -> Vec<MountedKey<'_>> {
    let all = files::of_memcached(spec).into_iter();
    let keys =
        all.flat_map(|files| files.keys.iter().map(move |key| MountedKey { secret: files.secret, key }));
    keys.collect::<BTreeSet<_>>().into_iter().collect()
}

/// A Secret that the pods mount.
pub struct MountedSecret {
    /// Its name.
    pub name: String,
    /// The keys that are used.
    pub keys: Vec<&'static str>,
    /// Which digests of it are needed.
    pub digests: NeededDigests,
}

/// Which digests of a Secret are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeededDigests {
    /// One of each key that is used.
    OfKeys,
    /// Also one of the whole Secret: see [`crate::kernel::go_operator::mounted_secret`].
    OfKeysAndWhole,
}

/// The Secrets that the pods of this spec mount, each once, in order.
#[must_use]
pub fn mounted_by_name(spec: &Validated) -> Vec<MountedSecret> {
    let mut by_name: BTreeMap<&str, Vec<&'static str>> = BTreeMap::new();
    for MountedKey { secret, key } in mounted(spec) {
        by_name.entry(secret).or_default().push(key);
    }
    let secret = |(name, keys): (&str, _)| MountedSecret {
        name: name.to_owned(),
        keys,
        digests: NeededDigests::OfKeys,
    };
    by_name.into_iter().map(secret).collect()
}

/// The value of the annotation `memcached.c5c3.io/secret-hash`: SHA-256 over Secret, key and SHA-256 of the
/// value (in hexadecimal) of each mounted key, each preceded by its length, in the order of the keys.
///
/// The digest stands for the value so that no Secret byte enters the kernel. The order of `digests` does not
/// matter; the result must never change for the same content, or every cache with a Secret rolls.
#[must_use]
pub fn secret_hash<'a>(digests: impl IntoIterator<Item = (MountedKey<'a>, &'a str)>) -> String {
    let mut digests: Vec<_> = digests.into_iter().collect();
    digests.sort_unstable();
    hash::of_parts(digests.iter().flat_map(|(mounted, digest)| [mounted.secret, mounted.key, digest]))
}
