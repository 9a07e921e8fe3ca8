//! The agent against real memcacheds on loopback, with files swapped as the kubelet swaps them.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod any;
mod broken;
mod connections;
mod contents;
mod pages;
mod pod;
mod processor;
mod program;
mod rotations;
#[path = "../../e2e/src/test_times.rs"]
#[allow(unreachable_pub, reason = "it is a part of a library too")]
mod test_times;
mod version;
mod world;
