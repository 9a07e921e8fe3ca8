//! Names and specs that each rule takes and refuses, just inside and just outside, with the words of the refusal. Pure data;
//! played by the tests of `validate` and by those of the API server (`e2e/tests/validation`), so that a case is written once.
//!
//! Not here are values on which the two differ on purpose: `validate` takes a zero or empty value for the default, and
//! then checks the other rules (`tests`), where the API server refuses it.

mod autoscaling;
mod case;
mod high_availability;
mod image;
mod labels;
mod memcached;
mod monitoring;
mod names;
mod pod;
mod replicas;
mod resources;
mod rollout;
mod security;
mod service;
mod workload;

pub use self::case::{By, Case, Refusal, Validate};

/// Every case.
#[must_use]
pub fn all() -> Vec<Case> {
    [
        names::cases(),
        replicas::cases(),
        memcached::cases(),
        image::cases(),
        resources::cases(),
        high_availability::cases(),
        monitoring::cases(),
        security::cases(),
        autoscaling::cases(),
        service::cases(),
        pod::cases(),
        rollout::cases(),
        workload::cases(),
    ]
    .concat()
}
