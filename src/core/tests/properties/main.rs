//! What holds for every resource, as properties over generated ones.

#![expect(clippy::expect_used, reason = "a test ends where its fixture is not as it should be")]

mod desired;
mod diff;
#[path = "../fixture/mod.rs"]
mod fixture;
mod generate;
mod live;
mod merge;
