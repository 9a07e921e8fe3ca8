//! How far the desired pod template is, as the plan has it: whether the workload has it, whether it is held back, and whether
//! all pods run it. Pure; asked by the budget and by the status. What the counters of a workload prove,
//! [`crate::kernel::status::rollout_progress`] says.

use super::action::Planned;
use super::plan::{Plan, Replacement};
use super::view::View;
use crate::api::Validated;
use crate::kernel::desired::partition::KEEPS_ALL;
use crate::kernel::live::Live;
use crate::kernel::object::ChildKind;
use crate::kernel::status::rollout_progress::{RolloutProgress, TemplateProgress};

/// How far the operator is with the template.
#[must_use]
pub fn template_progress(view: &View<'_>, plan: &Plan<'_>) -> TemplateProgress {
    // An autoscaler that cannot be made or deleted holds back the number of pods that depends on it.
    let decides = |it: &&Planned| match it.kind {
        kind if kind == plan.desired.workload() => true,
        ChildKind::HorizontalPodAutoscaler => plan.desired.leaves_replicas(),
        ChildKind::NetworkPolicy
        | ChildKind::Service
        | ChildKind::ConfigMap
        | ChildKind::Deployment
        | ChildKind::StatefulSet
        | ChildKind::PodDisruptionBudget
        | ChildKind::ServiceMonitor => false,
    };
    let waits = |it: &Planned| !it.action.is_in_place() && !it.action.sends();
    let is_rolling = |live: &Live| live.partition.is_some_and(|at| at != KEEPS_ALL);
    let stays = plan.replacement == Replacement::HeldBack && view.our_workload().is_some_and(is_rolling);
    let held_back = stays || plan.children.iter().filter(decides).any(waits);
    TemplateProgress { carries_template: template_in_place(plan), held_back }
}

/// Whether all pods run the desired template and are available.
#[must_use]
pub fn is_complete(view: &View<'_>, spec: &Validated, plan: &Plan<'_>) -> bool {
    let progress = template_progress(view, plan);
    let complete = |live: &Live| RolloutProgress::new(live, progress).complete(view.replicas_expected(spec));
    view.our_workload().is_some_and(complete)
}

/// Whether the live pod template is the desired one, and not only until the pods have their turn.
pub fn template_in_place(plan: &Plan<'_>) -> bool {
    let workload = plan.children.iter().find(|it| it.kind == plan.desired.workload());
    let drifted = workload
        .and_then(Planned::differences)
        .is_some_and(|differences| differences.of_template().next().is_some());
    !drifted && plan.desired.keeps_template() && !plan.desired.is_until_turn()
}
