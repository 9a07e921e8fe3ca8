//! Caches of the Go operator for the same API, which this operator takes over without a rollout. Pure.
//!
//! To drop them, remove this folder and what calls it: CONTRIBUTING.md lists the places. Outside of the core only
//! the command `preflight` (`src/cli/preflight`) is for such caches alone: it reads a cluster, so it cannot stand here.
//! [`entry`] is its entry in managedFields, [`managed_fields`] finds that and takes its fields over, [`pod_template`] renders its
//! pod template (revision 0), [`defaults`] helps to recognise it, [`secret_hash`] computes its hash of a Secret,
//! [`mounted_secret`] tells by that hash whether a Secret changed meanwhile, [`warning`] says what such a cache lacks until its
//! next rollout.

pub mod defaults;
pub mod entry;
pub mod managed_fields;
pub mod mounted_secret;
pub mod pod_template;
pub mod secret_hash;
mod warning;

pub use entry::{FIELD_MANAGER, GoOperatorEntry};
pub use managed_fields::GoOperatorFields;
pub use secret_hash::{WHOLE_SECRET, of_secret};
pub use warning::of_status as warning;
