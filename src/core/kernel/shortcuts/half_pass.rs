//! The first half of a pass, over a resource that waits for its turn. Pure; called by the reconciler.

use crate::api::Validated;
use crate::kernel::object::ChildKind;
use crate::kernel::pass::compare;
use crate::kernel::pass::desired;
use crate::kernel::pass::mounted_secrets;
use crate::kernel::pass::outcome::PassFindings;
use crate::kernel::pass::validate;
use crate::kernel::pass::view::View;

/// Compares those children that no pass has compared yet with the most likely desired ones, and does nothing else. It
/// serves resources that wait in the queue: the results of comparisons are kept instead of whole objects. If the guess
/// is wrong (a Secret has changed), the next pass applies without knowing the differences, or reads the workload again.
#[must_use]
pub fn run(view: &View<'_>) -> PassFindings {
    let Ok(spec) = validate::validated(view) else { return PassFindings::default() };
    let mounted_secrets = mounted_secrets::likely(view, &spec);
    let desired = desired::children(view, &spec, &mounted_secrets);
    let compared =
        compare::compare(view, &desired).into_iter().filter(|(kind, _)| is_settled(view, &spec, *kind));
    PassFindings {
        compared_children: compared.filter_map(|(kind, it)| it.into_kept(view, kind)).collect(),
        rendered_hashes: desired.news(),
    }
}

/// Whether the desired child can be guessed. The ConfigMap tells how the pods listen and, of a StatefulSet, their names,
/// which depend on whether there is a Deployment beside it; and which pods of a StatefulSet may go depends on the pods. After
/// a start these may not all be listed: compared with a wrong guess a child would be written at every start. The Service and the
/// policy follow the pods only where the end of TLS has to wait: one write more is not worth keeping all of them whole.
fn is_settled(view: &View<'_>, spec: &Validated, kind: ChildKind) -> bool {
    let has_names = view.resource.workload() == ChildKind::StatefulSet;
    let all_listed = || view.world.is_synced_in(&view.resource.seen.key.namespace);
    match kind {
        ChildKind::ConfigMap | ChildKind::StatefulSet if has_names => all_listed(),
        ChildKind::ConfigMap => view.listening(spec).is_some(),
        ChildKind::NetworkPolicy
        | ChildKind::Service
        | ChildKind::Deployment
        | ChildKind::StatefulSet
        | ChildKind::PodDisruptionBudget
        | ChildKind::HorizontalPodAutoscaler
        | ChildKind::ServiceMonitor => true,
    }
}
