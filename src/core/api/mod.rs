//! What users write and read: the `Memcached` resource. Pure; uses nothing else of this crate.
//!
//! [`spec`] and [`status`] are the two halves of the resource, [`validate`] turns a raw spec into a [`validated`]
//! one that the kernel may build from, [`crd`] is the schema that the API server enforces. [`rules`] holds the
//! numbers and sentences of both, `cel` the API server's rules, `schema` what derived schemas lack, [`quantity`]
//! and [`resources`] what `128Mi` means, [`headroom`] how many of them memcached takes beside its items.

mod cel;
pub mod crd;
pub mod headroom;
pub mod quantity;
pub mod resources;
pub mod rules;
mod schema;
pub mod spec;
pub mod status;
pub mod validate;
pub mod validated;

pub use spec::{Memcached, MemcachedSpec};
pub use status::MemcachedStatus;
pub use validated::Validated;

/// API group of the resource.
pub const GROUP: &str = "memcached.c5c3.io";
/// Kind of the resource.
pub const KIND: &str = "Memcached";
/// Versions that are served, the stored one first. They mean the same.
pub const VERSIONS: [&str; 2] = ["v1beta1", "v1alpha1"];
/// Annotation on the resource whose value is copied to the pod template: a new value rolls the pods once.
pub const RESTART_TRIGGER: &str = "memcached.c5c3.io/restart-trigger";
