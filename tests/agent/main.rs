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
mod version;
mod world;
