//! Half a pass, for memory alone: see [`crate::kernel::shortcuts`]. Pure; called by the reconciler.

use super::action::Planned;
use super::outcome::{ComparedChild, Pass};
use super::validate::validated;
use super::view::View;
use super::{mounted_secrets, plan};

/// Compares those children that no pass has compared yet with the most likely desired ones, and does nothing else. It
/// serves resources that wait in the queue: the results of comparisons are kept instead of whole objects. If the guess
/// is wrong (a Secret has changed), the next pass applies without knowing the differences.
#[must_use]
pub fn compare(view: &View<'_>) -> Pass {
    let Ok(spec) = validated(view) else { return Pass::default() };
    let mounted_secrets = mounted_secrets::likely(view, &spec);
    let desired = view.desired_children(&spec, &mounted_secrets);
    let planned = plan::plan(view, &desired, &mounted_secrets);
    Pass {
        compared_children: compared_children(view, &planned),
        rendered_hashes: desired.news(),
        ..Pass::default()
    }
}

/// The comparisons that a plan made of children whose objects are still kept.
#[must_use]
pub fn compared_children(view: &View<'_>, planned: &[Planned]) -> Vec<ComparedChild> {
    let open = planned.iter().filter(|it| view.resource.slot(it.kind).is_open());
    let judgement = |it: &Planned| {
        Some(ComparedChild { kind: it.kind, desired: it.hash.clone(), differences: it.compared.clone()? })
    };
    open.filter_map(judgement).collect()
}
