//! Which [`RolloutCause`] an apply of the workload has. Pure; called by [`super::plan`].

use super::compare::{Compared, Unanswered};
use super::desired::DesiredChildren;
use super::mounted_secrets::MountedSecrets;
use super::view::View;
use crate::kernel::desired::partition::KEEPS_ALL;
use crate::kernel::diff::Differences;
use crate::kernel::rollout_cause::RolloutCause;

/// Why an apply of the workload starts a rollout; `None` if it replaces no pod.
pub fn rollout_cause(
    view: &View<'_>,
    mounted_secrets: &MountedSecrets,
    desired: &DesiredChildren<'_>,
    compared: &Compared,
) -> Option<RolloutCause> {
    let live = view.resource.live(desired.workload())?;
    let same_intent = desired.keeps_template();
    let of_template = |found: &Differences| found.of_template().next().is_some();
    // The object may have been dropped since its comparison.
    let template_differs =
        compared.differences.as_ref().map_or(!same_intent || desired.adopts_newest(), of_template);
    // Another version of the API server may store the desired template, and pods roll then: of all caches with altered
    // templates at once, if they took no turns.
    let may_roll = compared.unanswered == Some(Unanswered::AnotherServer)
        && compared.found.as_ref().is_some_and(of_template);
    // While the partition holds all pods, neither somebody else's change of the template nor our repair replaces a pod.
    let keeps_pods = live.partition == Some(KEEPS_ALL);
    // A recognised template differs only by defaults of the API server, which sets them again.
    if keeps_pods && same_intent && !desired.adopts_newest() {
        None
    } else if !template_differs || desired.recognises_template() {
        may_roll.then_some(RolloutCause::Definition)
    } else if desired.adopts_newest() {
        Some(RolloutCause::Adoption)
    } else if same_intent {
        Some(RolloutCause::Drift)
    } else if live.restart_trigger != view.resource.seen.restart_trigger {
        Some(RolloutCause::RestartTrigger)
    } else if mounted_secrets.changed_unseen || desired.differs_by_secrets_only(live.secret_hash.as_deref()) {
        Some(RolloutCause::Secret)
    } else if view.is_announced() {
        Some(RolloutCause::Spec)
    } else if live.template.is_none() {
        // Nobody asked for another template, and somebody removed the annotations that name the source of this one.
        Some(RolloutCause::Drift)
    } else {
        Some(RolloutCause::Definition)
    }
}
