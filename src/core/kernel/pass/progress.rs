//! How far the pods of a Deployment are, and how many there are to be. Pure; asked by the budget and by the status.

use super::action::Planned;
use super::plan::Plan;
use super::view::View;
use crate::api::Validated;
use crate::api::spec::Autoscaling;
use crate::kernel::live::Live;
use crate::kernel::object::ChildKind;
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
        ChildKind::Deployment => true,
        ChildKind::HorizontalPodAutoscaler => plan.desired.leaves_replicas(),
        _ => false,
    };
    let held = |it: &Planned| !it.action.is_in_place() && !it.action.sends();
    let held_back = plan.children.iter().filter(decides).any(held);
    TemplateProgress { carries_template: template_in_place(plan), held_back }
}

/// What the counters of a Deployment prove.
#[must_use]
pub fn rollout(
    live: &Live,
    TemplateProgress { carries_template, held_back }: TemplateProgress,
) -> RolloutProgress {
    let seen = live.rollout.clone().unwrap_or_default();
    let observed = seen.observed_generation >= live.generation;
    RolloutProgress { observed, seen, asked: asked(live), carries_template, held_back }
}

/// Pods that a Deployment asks for.
pub fn asked(live: &Live) -> i32 {
    live.replicas.and_then(|replicas| i32::try_from(replicas).ok()).unwrap_or(1)
}

/// Pods expected: under an autoscaler the number that the autoscaler set, within its bounds. Zero switches the
/// autoscaler off.
pub fn replicas_expected(view: &View<'_>, spec: &Validated) -> i32 {
    let Some(Autoscaling { min_replicas, max_replicas, .. }) = &spec.autoscaling else {
        return spec.replicas;
    };
    let asked = view.our_deployment().and_then(|live| live.replicas);
    match asked.and_then(|asked| i32::try_from(asked).ok()) {
        Some(0) => 0,
        asked => asked.unwrap_or(*min_replicas).min(*max_replicas).max(*min_replicas),
    }
}

/// Whether all pods run the desired template and are available.
#[must_use]
pub fn is_complete(view: &View<'_>, spec: &Validated, plan: &Plan<'_>) -> bool {
    let progress = progress(plan);
    let complete = |live: &Live| rollout(live, progress).complete(replicas_expected(view, spec));
    view.our_deployment().is_some_and(complete)
}

/// Whether all pods of a Deployment run its template, and are available.
#[must_use]
pub fn is_rolled_out(live: &Live) -> bool {
    let its_own = TemplateProgress { carries_template: true, held_back: false };
    rollout(live, its_own).complete(asked(live))
}

/// Whether the live pod template is the desired one.
pub fn template_in_place(plan: &Plan<'_>) -> bool {
    let deployment = plan.children.iter().find(|it| it.kind == ChildKind::Deployment);
    let drifted = deployment
        .and_then(Planned::differences)
        .is_some_and(|differences| differences.of_template().next().is_some());
    !drifted && plan.desired.keeps_template()
}
