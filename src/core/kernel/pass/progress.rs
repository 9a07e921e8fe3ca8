//! How far the pods of a workload are, and how many there are to be. Pure; asked by the budget and by the status.

use super::action::Planned;
use super::plan::Plan;
use super::view::View;
use crate::api::Validated;
use crate::kernel::live::Live;
use crate::kernel::object::ChildKind;
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

/// How far the operator is, as the plan has it.
#[must_use]
pub fn progress(plan: &Plan<'_>) -> TemplateProgress {
    // An autoscaler that cannot be made or deleted holds back the number of pods that depends on it.
    let decides = |it: &&Planned| match it.kind {
        kind if kind == plan.desired.workload() => true,
        ChildKind::HorizontalPodAutoscaler => plan.desired.leaves_replicas(),
        _ => false,
    };
    let held = |it: &Planned| !it.action.is_in_place() && !it.action.sends();
    let held_back = plan.children.iter().filter(decides).any(held);
    TemplateProgress { carries_template: template_in_place(plan), held_back }
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

/// Whether all pods run the desired template and are available.
#[must_use]
pub fn is_complete(view: &View<'_>, spec: &Validated, plan: &Plan<'_>) -> bool {
    let progress = progress(plan);
    let complete = |live: &Live| rollout(live, progress).complete(view.replicas_expected(spec));
    view.our_workload().is_some_and(complete)
}

/// Whether all pods of a workload run its template, and are available.
#[must_use]
pub fn is_rolled_out(live: &Live) -> bool {
    let its_own = TemplateProgress { carries_template: true, held_back: false };
    rollout(live, its_own).complete(live.asked())
}

/// Whether the live pod template is the desired one.
pub fn template_in_place(plan: &Plan<'_>) -> bool {
    let workload = plan.children.iter().find(|it| it.kind == plan.desired.workload());
    let drifted = workload
        .and_then(Planned::differences)
        .is_some_and(|differences| differences.of_template().next().is_some());
    !drifted && plan.desired.keeps_template()
}
