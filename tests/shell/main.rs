//! The shell against an API server in a closure: what goes over the wire, what comes of the answers, and what
//! becomes of it all when something breaks.

#![expect(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod admin;
mod agents;
#[path = "../crowd/mod.rs"]
mod crowd;
mod effects;
mod handover;
mod journal;
mod metered;
mod namespaces;
mod pod_figures;
mod publish;
mod run;
mod secure_metrics;
mod support;
mod watch_fixture;
mod watches;
