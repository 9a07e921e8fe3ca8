//! What the operator decides. Pure and synchronous: no client, no clock, no environment, no randomness.
//!
//! [`event`]s are folded into the [`world`]; the [`queue`] picks a resource; one [`pass`] compares what is
//! [`desired`] with what is there ([`diff`]), computes the [`status`], and answers with [`effect`]s.
//! [`kernel::Kernel::step`] is the whole of it. Uses `api` only; `shell` and `cli` call it.

pub mod advice;
pub mod altered;
pub mod desired;
pub mod diff;
pub mod effect;
pub mod event;
pub mod failure;
pub mod fight;
pub mod figures;
pub mod flight;
pub mod hash;
pub mod inputs;
#[expect(clippy::module_inception, reason = "the one entry of the folder is what the folder is called after")]
pub mod kernel;
pub mod legacy;
pub mod lists;
pub mod live;
pub mod notice;
pub mod object;
pub mod orphan;
pub mod outline;
pub mod pass;
pub mod plan;
pub mod queue;
pub mod report;
pub mod rollouts;
pub mod seen;
pub mod setback;
pub mod sight;
pub mod status;
pub mod world;
