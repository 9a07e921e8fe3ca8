//! Eighth stage: which children are to be read or written now, and what each write changes, for people. Pure; called by the
//! pass.
//!
//! An Event names the fields of the template that a rollout changes. Where they are not known, the workload is read once
//! more before. A read that failed holds nothing up.

use super::action::{Action, Planned};
use super::plan::Plan;
use super::view::View;
use crate::api::spec::validate;
use crate::kernel::altered::{self, is_mark};
use crate::kernel::backoff::Backoff;
use crate::kernel::child_state::ChildState;
use crate::kernel::field_managers::owners_of;
use crate::kernel::field_path::Path;
use crate::kernel::object::ChildKind;
use crate::kernel::request::Changes;
use crate::kernel::rollout_cause::RolloutCause;
use crate::kernel::spec_edit_words::spec_edit_words;

/// The children about which something is to be sent.
#[derive(Default)]
pub struct ChildrenToSend<'a> {
    /// Those to read.
    pub reads: Vec<ChildKind>,
    /// Those to write.
    pub writes: Vec<ChangedChild<'a>>,
}

/// A child that is to be written.
pub struct ChangedChild<'a> {
    /// What to do.
    pub planned: &'a Planned,
    /// What that changes.
    pub changes: Changes,
}

/// The children of a plan about which something is to be sent.
#[must_use]
pub fn of_plan<'a>(view: &View<'_>, plan: &'a Plan<'_>) -> ChildrenToSend<'a> {
    let mut to_send = ChildrenToSend::default();
    for planned in plan.children.iter().filter(|it| it.action.sends()) {
        if planned.action == Action::Read {
            to_send.reads.push(planned.kind);
            continue;
        }
        let changes = changes(view, plan, planned);
        if may_read(view, planned.kind) && may_change_unknown_fields(view, plan, planned, &changes) {
            to_send.reads.push(planned.kind);
        } else {
            to_send.writes.push(ChangedChild { planned, changes });
        }
    }
    to_send
}

/// Whether the child may be read once more: a watch shows it, and no failure backs off.
fn may_read(view: &View<'_>, kind: ChildKind) -> bool {
    let child = view.resource.child(kind);
    let waits = |backoff: &Backoff| backoff.retry_at.is_none_or(|at| view.now < at);
    !child.is_out_of_sight() && !child.backoff.as_deref().is_some_and(waits)
}

/// Whether an apply may change fields of the template of which nobody knows: the workload was compared with something else
/// and dropped, and then either the source of its template is unknown, or somebody changed the template since it was written.
/// That is put back along with whatever is applied, also where no rollout is planned.
fn may_change_unknown_fields(view: &View<'_>, plan: &Plan<'_>, planned: &Planned, changes: &Changes) -> bool {
    let applies = planned.kind == plan.desired.workload() && matches!(planned.action, Action::Apply { .. });
    let has_unknown_source = planned.action.cause().is_some() && changes.fields.is_none();
    applies
        && planned.differences().is_none()
        && (has_unknown_source || !has_named_template(view.resource.child(planned.kind)))
}

/// Whether a workload that was dropped is known to have the very template that its annotations name: the last comparison,
/// whatever that was with, found neither another template nor other annotations of ours, but for what the API server made
/// of our own apply.
fn has_named_template(child: &ChildState) -> bool {
    let found = child.live.as_ref().and_then(|live| live.comparison.last());
    found.is_some_and(|found| {
        let left = altered::left(found, child.altered.as_deref());
        left.of_template().next().is_none() && !left.paths.iter().any(|path| is_mark(path))
    })
}

/// What the write changes in the live child.
fn changes(view: &View<'_>, plan: &Plan<'_>, planned: &Planned) -> Changes {
    let (kind, cause) = (planned.kind, planned.action.cause());
    let Some(live) = view.resource.live(kind) else { return Changes::default() };
    let known = planned.differences().map(|differences| differences.paths.clone());
    let fields = known.or_else(|| cause.and_then(|_| template_changes(view, plan)));
    let managers = owners_of(&live.managers, fields.as_deref().unwrap_or_default());
    let child = view.resource.child(kind);
    let is_repair = match cause {
        None => !managers.is_empty() || child.repairs.is_repair(planned.hash()),
        Some(cause) => cause == RolloutCause::Drift,
    };
    let edits = if is_repair { Vec::new() } else { edits(view) };
    Changes { fields, edits, managers: if is_repair { managers } else { Vec::new() }, is_repair }
}

/// The edits of the spec that have yet to reach the workload.
fn edits(view: &View<'_>) -> Vec<String> {
    let before = view.resource.spec_before_edit.as_deref();
    let after = view.resource.seen.spec.as_ref().ok();
    before.zip(after).map(|(before, after)| spec_edit_words(before, after)).unwrap_or_default()
}

/// Fields of the template that an apply would change; `None` if the workload was dropped after its comparison and the
/// source of its template is unknown.
fn template_changes(view: &View<'_>, plan: &Plan<'_>) -> Option<Vec<Path>> {
    let edited = view.resource.spec_before_edit.as_deref();
    let before = edited.and_then(|spec| validate(&view.resource.seen.key.name, spec).ok());
    let live = view.our_workload()?;
    plan.desired.changed_fields(before.as_ref(), live)
}
