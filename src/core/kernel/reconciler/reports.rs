//! What the shell was told last about the queue and the rollouts: it is told only what is new. Pure data; part of the
//! reconciler.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::kernel::effect::{Effect, Observation, RolloutCounts};

/// What the shell was told last.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Reports {
    depth: usize,
    rollouts: RolloutCounts,
    wake: Option<Timestamp>,
}

impl Reports {
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

    /// How many resources have a permit, and how many wait.
    pub(super) fn rollouts(&mut self, counts: RolloutCounts, effects: &mut Vec<Effect>) {
        if counts != self.rollouts {
            self.rollouts = counts;
            effects.push(Effect::Observe(Observation::RolloutCounts(counts)));
        }
    }
}
