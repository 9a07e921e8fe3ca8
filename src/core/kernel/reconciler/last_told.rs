//! What the shell was told last about the queue and the rollouts: it is told only what is new. Pure data; part of the
//! reconciler.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::kernel::effect::{About, Effect};
use crate::kernel::log_lines;
use crate::kernel::observation::{Observation, RolloutCounts};

/// What the shell was told last.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct LastTold {
    depth: usize,
    rollouts: RolloutCounts,
    wake: Option<Timestamp>,
    /// Namespaces that are being deleted.
    terminating_namespaces: BTreeSet<String>,
}

impl LastTold {
    /// How many resources wait in the queue.
    pub(super) fn queue_depth(&mut self, depth: usize, effects: &mut Vec<Effect>) {
        if depth != self.depth {
            self.depth = depth;
            effects.push(Effect::Observe(Observation::QueueDepth(depth)));
        }
    }

    /// When the next timer of the queue fires.
    pub(super) fn wake(&mut self, next: Option<Timestamp>, effects: &mut Vec<Effect>) {
        if next.is_some() && next != self.wake {
            self.wake = next;
            effects.extend(next.map(Effect::Wake));
        }
    }

    /// The shell's timer has fired.
    pub(super) fn woken(&mut self) {
        self.wake = None;
    }

    /// A request was refused because its namespace is being deleted. One line tells of all of its resources, which are
    /// counted for that line only: each of them is refused.
    pub(super) fn namespace_terminates(
        &mut self,
        namespace: &str,
        resources: impl FnOnce() -> usize,
        effects: &mut Vec<Effect>,
    ) {
        if !self.terminating_namespaces.contains(namespace) {
            self.terminating_namespaces.insert(namespace.to_owned());
            let about = About::Namespace(namespace.to_owned());
            effects.push(Effect::Log { about, line: log_lines::of_namespace(resources()) });
        }
    }

    /// The last resource of a namespace is gone.
    pub(super) fn namespace_is_empty(&mut self, namespace: &str) {
        self.terminating_namespaces.remove(namespace);
    }

    /// How many resources have a turn, and how many wait.
    pub(super) fn rollouts(&mut self, counts: RolloutCounts, effects: &mut Vec<Effect>) {
        if counts != self.rollouts {
            self.rollouts = counts;
            effects.push(Effect::Observe(Observation::RolloutCounts(counts)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_resources_of_a_namespace_that_goes_are_counted_once() {
        let (mut last_told, mut effects, counted) = (LastTold::default(), Vec::new(), Cell::new(0));
        let mut refused = |last_told: &mut LastTold, namespace: &str| {
            let count = || {
                counted.set(counted.get() + 1);
                1_000
            };
            last_told.namespace_terminates(namespace, count, &mut effects);
        };
        for _ in 0..1_000 {
            refused(&mut last_told, "a");
        }
        refused(&mut last_told, "b");
        last_told.namespace_is_empty("a");
        refused(&mut last_told, "a");
        assert_eq!((counted.get(), effects.len()), (3, 3));
    }
}
