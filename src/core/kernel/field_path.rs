//! The path of a field in an object, as people read it. Pure data; used by the comparison, managedFields and Events to name fields.

use serde_json::Value;

/// A field of a child, as `spec.template.spec.containers[name=memcached].image`; a name that is not a plain word
/// stands in brackets, as `metadata.labels[app.kubernetes.io/name]`.
pub type Path = String;

/// Whether a path leads to a field or to something in it.
#[must_use]
pub fn is_within(path: &str, field: &str) -> bool {
    path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// A scalar without the quotes of JSON.
#[must_use]
pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
