//! What the numbers of a live workload prove of its pods. Pure; asked by the plan, the budget and the status.

use crate::kernel::live::Live;
use crate::kernel::partition::HELD;
use crate::kernel::status::rollout_progress::RolloutProgress;

/// How far the pod template has been written.
#[derive(Clone, Copy)]
pub struct TemplateProgress {
    /// [`RolloutProgress::carries_template`].
    pub carries_template: bool,
    /// [`RolloutProgress::held_back`].
    pub held_back: bool,
}

/// What the counters of a workload prove.
#[must_use]
pub fn rollout(
    live: &Live,
    TemplateProgress { carries_template, held_back }: TemplateProgress,
) -> RolloutProgress {
    let mut seen = live.rollout.clone().unwrap_or_default();
    // Where no pod may be replaced, those are as they should be that the last rollout brought: what somebody else changed
    // in the template since comes with the next one.
    if let Some(revisions) = seen.revisions.as_ref().filter(|_| live.partition == Some(HELD)) {
        seen.updated = revisions.current_replicas;
    }
    let observed = seen.observed_generation >= live.generation;
    RolloutProgress { observed, seen, asked: live.asked(), carries_template, held_back }
}

/// Whether all pods of a workload run its template, and are available.
#[must_use]
pub fn is_rolled_out(live: &Live) -> bool {
    let its_own = TemplateProgress { carries_template: true, held_back: false };
    rollout(live, its_own).complete(live.asked())
}
