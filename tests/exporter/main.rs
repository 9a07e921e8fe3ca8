//! The exporter, and what is found in Secrets, against real memcacheds, on loopback.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod certificates;
#[path = "../crowd/mod.rs"]
mod crowd;
#[path = "../memcached_process/mod.rs"]
mod memcached_process;
mod names;
mod plugin;
mod program;
mod scrapes;
mod secrets;
mod support;
