//! How long the kernel takes for an event, among 1,000 resources: `cargo bench -p memcached-operator-core`. Pure; nothing is compared
//! here. `make bench` has the bounds, and `tests/heap.rs` counts what does not depend on the machine.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a benchmark ends where the kernel asks for something else than to create and to report"
)]

#[path = "../tests/alone/mod.rs"]
mod alone;

use alone::{KernelAlone, resource, rollout};
use divan::Bencher;
use divan::counter::ItemsCount;
use memcached_operator_core::kernel::event::Event;

const RESOURCES: usize = 1_000;

fn main() {
    divan::main();
}

/// All resources are at rest, and all their pods are there.
fn settled() -> KernelAlone {
    let mut kernel = KernelAlone::new(RESOURCES);
    kernel.list(&(0..RESOURCES).map(resource).collect::<Vec<_>>());
    let events = kernel.deployments("200", Some(&rollout(3)));
    events.into_iter().for_each(|event| kernel.step(event));
    kernel
}

/// Measures rounds of these events, which are made beforehand.
fn events(bencher: Bencher<'_, '_>, make: impl Fn(&KernelAlone, &str, bool) -> Vec<Event>) {
    let kernel = std::cell::RefCell::new(settled());
    let round = std::cell::Cell::new(300_u64);
    bencher
        .counter(ItemsCount::new(RESOURCES))
        .with_inputs(|| {
            round.set(round.get() + 1);
            make(&kernel.borrow(), &round.get().to_string(), round.get().is_multiple_of(2))
        })
        .bench_local_values(|events| events.into_iter().for_each(|event| kernel.borrow_mut().step(event)));
}

/// A write of somebody else to a field that is not ours, at each Deployment.
#[divan::bench]
fn deployments_of_a_settled_world(bencher: Bencher<'_, '_>) {
    events(bencher, |kernel, version, _| kernel.deployments(version, Some(&rollout(3))));
}

/// A write of somebody else to a field that is not ours, at each resource.
#[divan::bench]
fn resources_of_a_settled_world(bencher: Bencher<'_, '_>) {
    events(bencher, |kernel, version, _| kernel.resources(version));
}

/// A pod comes or goes at each Deployment; the status says so and is answered.
#[divan::bench]
fn a_rollout_of_all(bencher: Bencher<'_, '_>) {
    events(bencher, |kernel, version, more| {
        kernel.deployments(version, Some(&rollout(if more { 2 } else { 3 })))
    });
}

/// From nothing to rest.
#[divan::bench(sample_count = 10)]
fn a_start(bencher: Bencher<'_, '_>) {
    let resources: Vec<_> = (0..RESOURCES).map(resource).collect();
    bencher
        .counter(ItemsCount::new(RESOURCES))
        .with_inputs(|| KernelAlone::new(RESOURCES))
        .bench_local_values(|mut kernel| {
            kernel.list(&resources);
            kernel
        });
}
