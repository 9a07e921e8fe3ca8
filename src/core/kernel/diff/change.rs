//! One field that an apply would change, and how the status remembers it: its path with a digest of what it holds. Pure.

use serde_json::Value;

use crate::api::status::AlteredField;
use crate::kernel::field_path::Path;
use crate::kernel::hash;

/// One field that an apply would change.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange<'a> {
    /// The path of the field.
    pub path: Path,
    /// What is there; `None` where nothing is.
    pub live: Option<&'a Value>,
    /// What is to be there.
    pub desired: &'a Value,
}

/// Digits of a digest: it has to tell a value from others, not to keep anybody from guessing it.
const DIGITS: usize = 32;

/// A field that differs, with digests of the desired and of the live value.
#[must_use]
pub fn field(change: &FieldChange<'_>) -> AlteredField {
    let live = change.live.map(hash::of_json).unwrap_or_default();
    let parts = [change.path.as_str(), &hash::of_json(change.desired), &live];
    AlteredField { path: change.path.clone(), digest: digest(parts) }
}

/// A digest of a few texts, for the status.
#[must_use]
pub fn digest<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut digest = hash::of_parts(parts);
    digest.truncate(DIGITS);
    digest
}
