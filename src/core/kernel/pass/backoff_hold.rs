//! What delays the write that was decided for a child: a backoff after a failure, or too many repairs of the same fields. Pure;
//! asked by the plan, the budget and the status.

use super::action::Action;
use super::view::View;
use crate::kernel::backoff::Attempt;
use crate::kernel::failure::{Category, Failure};
use crate::kernel::hash::BodyHash;
use crate::kernel::live::Live;
use crate::kernel::object::{ChildKind, Key};
use crate::kernel::unwatched::Absence;

/// The action, unless something delays it. `hash` is that of the desired body, `None` if none is wanted.
#[must_use]
pub fn or_delayed(view: &View<'_>, kind: ChildKind, hash: Option<BodyHash>, wanted: Action) -> Action {
    if !wanted.sends() {
        return or_read(view, kind, wanted);
    }
    let exhausted = || repairs_exhausted(view, kind, hash).filter(|_| wanted.writes());
    match held_back(view, kind, hash, &wanted).or_else(exhausted) {
        Some(delayed) => or_read(view, kind, delayed),
        None => wanted,
    }
}

/// The action, which sends nothing; or a read, if the action depends on an object that no watch shows and a read is
/// due.
#[must_use]
pub fn or_read(view: &View<'_>, kind: ChildKind, action: Action) -> Action {
    let (child, generation) = (view.resource.child(kind), view.resource.seen.generation);
    let due = match (&action, &child.live) {
        (Action::Unavailable(_), _) => false,
        (_, Some(live)) => {
            !live.in_sight && child.recheck.as_ref().is_none_or(|it| it.is_due(generation, view.now))
        }
        // A held-back create cannot prove that the name is free, so read the object instead.
        (Action::Paused | Action::Wait | Action::AwaitTurn, None) => {
            child.absence != Absence::Proven
                && view.was_handled_before()
                && held_back(view, kind, None, &Action::Read).is_none()
        }
        (_, None) => false,
    };
    if due { Action::Read } else { action }
}

/// If somebody keeps changing fields that we repair, their change stays for a while and the status names them; `None`
/// otherwise.
#[must_use]
pub fn repairs_exhausted(view: &View<'_>, kind: ChildKind, hash: Option<BodyHash>) -> Option<Action> {
    let child = view.resource.child(kind);
    child.repairs.exhausted_until(hash, view.now)?;
    let Key { namespace, name } = &view.resource.seen.key;
    // Without their times, which move with each of their writes: each would be another status.
    let managers = child.live.iter().flat_map(|live| &live.managers).map(|it| it.name.as_str());
    let managers = managers.collect::<Vec<_>>().join(", ");
    let message = format!(
        "somebody keeps changing fields of {} {namespace}/{} that this operator sets, and it puts them back only a \
         few times a minute; other field managers: {managers}",
        kind.name(),
        kind.name_of_child(name)
    );
    Some(Action::BackOff(Failure { category: Category::Conflict, message }))
}

/// Why the same attempt has to wait, if the last one failed.
fn held_back(view: &View<'_>, kind: ChildKind, hash: Option<BodyHash>, wanted: &Action) -> Option<Action> {
    let backoff = view.resource.child(kind).backoff.as_ref()?;
    let holds = match wanted {
        // A read does not depend on what is written after it.
        Action::Read => backoff.retry_at.is_some_and(|at| view.now < at),
        _ => backoff.holds(&view.attempt_at(kind, hash, wanted), view.now),
    };
    holds.then(|| Action::BackOff(backoff.failure.clone()))
}

impl View<'_> {
    /// The attempt to write the desired child with this hash.
    #[must_use]
    pub fn attempt_at(&self, kind: ChildKind, hash: Option<BodyHash>, action: &Action) -> Attempt {
        let live = self.resource.child(kind).live.as_ref();
        let spec_version = live.map(Live::spec_version).unwrap_or_default();
        // A patch removes what the apply was refused for.
        let prepares = if matches!(action, Action::Patch { .. }) { " patch" } else { "" };
        Attempt {
            body: hash,
            against: format!("{} {spec_version}{prepares}", self.resource.seen.generation),
            version: live.map(|live| live.resource_version.clone()),
        }
    }
}
