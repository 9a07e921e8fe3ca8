//! The first half of a pass, over a resource that waits for its turn. Pure; called by the reconciler.

use crate::kernel::object::ChildKind;
use crate::kernel::pass::compare;
use crate::kernel::pass::mounted_secrets;
use crate::kernel::pass::outcome::Findings;
use crate::kernel::pass::validate;
use crate::kernel::pass::view::View;

/// Compares those children that no pass has compared yet with the most likely desired ones, and does nothing else. It
/// serves resources that wait in the queue: the results of comparisons are kept instead of whole objects. If the guess
/// is wrong (a Secret has changed), the next pass applies without knowing the differences.
#[must_use]
pub fn run(view: &View<'_>) -> Findings {
    let Ok(spec) = validate::validated(view) else { return Findings::default() };
    let mounted_secrets = mounted_secrets::likely(view, &spec);
    let desired = view.desired_children(&spec, &mounted_secrets);
    let compared = compare::compare(view, &desired).into_iter().filter(|(kind, _)| is_settled(view, *kind));
    Findings {
        compared_children: compared.filter_map(|(kind, it)| it.into_kept(view, kind)).collect(),
        rendered_hashes: desired.news(),
    }
}

/// Whether the desired child can be guessed. The ConfigMap tells how the pods listen, and after a start it may be listed
/// before the Deployment: compared with a wrong guess it would be written at every start.
fn is_settled(view: &View<'_>, kind: ChildKind) -> bool {
    kind != ChildKind::ConfigMap || view.listening().is_some()
}
