//! What users write and read: the `Memcached` resource. Pure; uses nothing else of this package.
//!
//! [`spec`] and [`status`] are the two halves of the resource: [`spec::validate`] turns a spec as it was written into a
//! [`Validated`] one, which the kernel builds from. [`crd`] is the schema that the API server enforces, `schema` what
//! derived schemas lack. [`admission`] says what the API server would refuse of a new resource. [`quantity`] says what
//! `128Mi` means, [`headroom`] how much of it memcached takes beside its items, [`warnings`] what a valid spec may cost one
//! day. A [`condition`] of the status has a type and a [`reason`]; a [`word`] is a text that nearly always is one of these.

pub mod admission;
pub mod condition;
pub mod crd;
pub mod few;
pub mod headroom;
pub mod quantity;
pub mod reason;
mod schema;
pub mod secret_rotation;
pub mod selector;
pub mod spec;
pub mod status;
pub mod warming;
pub mod warnings;
pub mod word;

pub use spec::{Memcached, MemcachedSpec, Validated};
pub use status::MemcachedStatus;

/// API group of the resource.
pub const GROUP: &str = "memcached.c5c3.io";
/// Kind of the resource.
pub const KIND: &str = "Memcached";
/// Versions that are served, the stored one first. They mean the same.
pub const VERSIONS: [&str; 2] = ["v1beta1", "v1alpha1"];
/// Annotation on the resource whose value is copied to the pod template: a new value rolls the pods once.
pub const RESTART_TRIGGER: &str = "memcached.c5c3.io/restart-trigger";
