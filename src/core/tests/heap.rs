//! What the kernel takes of the heap: bytes for each resource at rest, and allocations for each event. Both are counted and
//! not timed, so that they are the same on every machine. One test, because a process has one heap.
//!
//! A figure that grows by 5 % fails, and so does one that falls by 5 %: then the new one is written down here.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test ends where the kernel asks for something else than to create and to report"
)]

mod alone;

use alone::{KernelAlone, resource, rollout};
use memcached_operator_core::kernel::event::Event;

#[global_allocator]
static HEAP: dhat::Alloc = dhat::Alloc;

const RESOURCES: usize = 100;

/// What is measured, and the figure that was found last.
const FIGURES: [(&str, usize); 5] = [
    ("allocations to bring a resource to rest", 2_444),
    ("bytes of a resource at rest", 2_982),
    ("allocations of a Deployment that says nothing new", 1),
    ("allocations of a Deployment that has all its pods now", 335),
    ("allocations of a resource that says nothing new", 5),
];

#[test]
fn a_resource_and_an_event_take_as_much_of_the_heap_as_is_written_here() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let resources: Vec<_> = (0..RESOURCES).map(resource).collect();
    // What is made once for a process, the patterns of `validate` for example, is no resource's.
    KernelAlone::new(1).list(&resources[..1]);
    let mut kernel = KernelAlone::new(RESOURCES);
    let mut found = Vec::new();
    let (empty, start) = (bytes(), allocations());
    kernel.list(&resources);
    // To keep the Deployments is no work of the kernel's.
    let (at_rest, used) = (bytes() - empty, allocations() - start);
    let mut kept = Vec::with_capacity(RESOURCES);
    let (before, start) = (bytes(), allocations());
    kept.extend(kernel.deployments.iter().cloned());
    let (of_test, by_test) = (bytes() - before, allocations() - start);
    drop(kept);
    found.push((used - by_test) / RESOURCES);
    found.push((at_rest - of_test) / RESOURCES);
    let events = kernel.deployments("200", None);
    found.push(cost(&mut kernel, events));
    let events = kernel.deployments("300", Some(&rollout(3)));
    found.push(cost(&mut kernel, events));
    let events = kernel.resources("400");
    found.push(cost(&mut kernel, events));

    let found: Vec<_> = FIGURES.iter().map(|(what, _)| *what).zip(found).collect();
    let near = |(&(_, known), &(_, now)): (&(&str, usize), &(&str, usize))| known.abs_diff(now) * 20 <= known;
    assert!(FIGURES.iter().zip(&found).all(near), "{found:#?} instead of {FIGURES:#?}");
}

/// Allocations for each of these events, and for the answers to what comes of it.
fn cost(kernel: &mut KernelAlone, events: Vec<Event>) -> usize {
    let (count, start) = (events.len(), allocations());
    events.into_iter().for_each(|event| kernel.step(event));
    (allocations() - start) / count
}

fn allocations() -> usize {
    usize::try_from(dhat::HeapStats::get().total_blocks).unwrap()
}

fn bytes() -> usize {
    dhat::HeapStats::get().curr_bytes
}
