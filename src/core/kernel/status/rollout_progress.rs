//! What the counters of a live workload prove about its pods. Pure; the pass makes a [`RolloutProgress`], the other files
//! of this folder read it.

use crate::kernel::desired::partition::KEEPS_ALL;
use crate::kernel::event::SeenRollout;
use crate::kernel::live::Live;

/// How far the pod template has been written.
#[derive(Clone, Copy)]
pub struct TemplateProgress {
    /// [`RolloutProgress::carries_template`].
    pub carries_template: bool,
    /// [`RolloutProgress::held_back`].
    pub held_back: bool,
}

/// The rollout of our Deployment or StatefulSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutProgress {
    /// Its status.
    pub seen: SeenRollout,
    /// Whether it observed its own generation.
    pub observed: bool,
    /// Pods that its own spec asks for.
    pub asked: i32,
    /// Pods that the partition of a StatefulSet keeps from being replaced in a rollout.
    pub kept: i32,
    /// Whether its template is the one that is desired now.
    pub carries_template: bool,
    /// Whether a change of the workload, or of the autoscaler that sets its number of pods, is held back: the resource
    /// is paused or invalid, waits for a turn, or the last request failed. Or no further pod of a StatefulSet may be
    /// replaced: a Secret is missing, or what guards the pods.
    pub held_back: bool,
}

impl RolloutProgress {
    /// What the counters of this workload prove.
    #[must_use]
    pub fn new(live: &Live, TemplateProgress { carries_template, held_back }: TemplateProgress) -> Self {
        let mut seen = live.rollout.as_deref().cloned().unwrap_or_default();
        // While the partition is KEEPS_ALL, pods of the last rollout count as updated. Template changes by others wait for the
        // next rollout.
        if let Some(revisions) = seen.revisions.as_ref().filter(|_| live.partition == Some(KEEPS_ALL)) {
            seen.updated = revisions.current_replicas;
        }
        let (observed, asked) = (seen.observed_generation >= live.generation, live.asked());
        let kept = live.partition.filter(|at| *at != KEEPS_ALL).map_or(0, |at| at.min(asked));
        Self { observed, seen, asked, kept, carries_template, held_back }
    }

    /// Whether the status of the workload describes the desired pods. Until then it describes an older rollout.
    #[must_use]
    pub const fn is_current(&self) -> bool {
        self.observed && self.carries_template
    }

    /// Whether the desired pods have to wait: the change is held back, and the workload's controller has nothing left
    /// to do. Between two pods of a StatefulSet it has not: only the operator lets the next one go.
    #[must_use]
    pub const fn waits(&self) -> bool {
        let are_new = self.seen.updated >= self.asked - self.kept;
        self.held_back && self.observed && are_new && self.seen.replicas == self.asked
    }

    /// Pods that are proven to run the desired template.
    #[must_use]
    pub const fn updated(&self) -> i32 {
        if self.is_current() { self.seen.updated } else { 0 }
    }

    /// Whether exactly the desired pods exist, all of the desired template; they need not be ready.
    #[must_use]
    pub const fn all_updated(&self, desired: i32) -> bool {
        self.updated() == desired && self.seen.replicas == desired
    }

    /// Whether the rollout is over but for readiness: nothing is left to do except for pods to come up.
    #[must_use]
    pub const fn settled(&self, desired: i32) -> bool {
        self.is_current() && self.all_updated(desired)
    }

    /// Whether the rollout is over and every pod serves.
    #[must_use]
    pub const fn complete(&self, desired: i32) -> bool {
        self.settled(desired) && self.seen.ready == desired && self.seen.available == desired
    }

    /// Why the rollout is past its deadline; only for the rollout of the desired pods.
    #[must_use]
    pub fn deadline_exceeded(&self) -> Option<&str> {
        self.seen.deadline_exceeded.as_deref().filter(|_| self.is_current())
    }

    /// Why pods are refused; only for the desired pods.
    #[must_use]
    pub fn replica_failure(&self) -> Option<&str> {
        self.seen.replica_failure.as_deref().filter(|_| self.is_current())
    }
}

/// Whether all pods of a workload run its template, and are available.
#[must_use]
pub fn is_rolled_out(live: &Live) -> bool {
    let its_own = TemplateProgress { carries_template: true, held_back: false };
    RolloutProgress::new(live, its_own).complete(live.asked())
}
