//! The Go operator's hash of a Secret: one over every key and value. Pure; the shell computes it when it reads a Secret.

use crate::kernel::hash;

/// A key that asks for the digest of a whole Secret: of every key and value, as the Go operator hashes the only Secret
/// that it knows. No key of a Secret can have this name.
pub const WHOLE_SECRET: &str = "*";

/// The hash of a Secret as the Go operator computes it: over name, key and value of each key in their order, the first
/// two each followed by a zero.
#[must_use]
pub fn of_secret<'a>(name: &str, data: impl Iterator<Item = (&'a str, &'a [u8])>) -> String {
    let parts = data.flat_map(|(key, value)| [name.as_bytes(), b"\0", key.as_bytes(), b"\0", value]);
    hash::of_bytes(&parts.collect::<Vec<_>>().concat())
}
