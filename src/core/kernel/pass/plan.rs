//! Fourth and fifth stage: compares each child with what it should be, and decides what to do about it; no request yet.
//! Pure; called by the pass.

use json_patch::jsonptr::PointerBuf;
use json_patch::{PatchOperation, RemoveOperation};

use super::action::{Action, Planned};
use super::desired::DesiredChildren;
use super::mounted_secrets::MountedSecrets;
use super::owner::{Owner, owner};
use super::rollout_cause::rollout_cause;
use super::view::View;
use crate::api::status::NEVER_OBSERVED;
use crate::kernel::altered::beyond;
use crate::kernel::diff::Differences;
use crate::kernel::effect::RolloutCause;
use crate::kernel::failure::{Category, Failure};
use crate::kernel::live::{Live, REPLICAS};
use crate::kernel::object::{ChildKind, Key};
use crate::kernel::sight::Absence;
use crate::kernel::slot::Slot;

/// Decides about every child.
#[must_use]
pub fn plan(
    view: &View<'_>,
    desired: &DesiredChildren<'_>,
    mounted_secrets: &MountedSecrets,
) -> Vec<Planned> {
    let rolls = |live: &Live, differences: Option<&Differences>| {
        rollout_cause(view, mounted_secrets, (live, differences, desired))
    };
    let decision = |kind| match desired.hash(kind) {
        Some(hash) => Some(decide(view, (kind, hash, desired), &rolls)),
        None => unwanted(view, (kind, desired)),
    };
    let mut planned: Vec<Planned> = ChildKind::ALL.into_iter().filter_map(decision).collect();
    // A policy that is about to be deleted guards nothing.
    let open =
        |it: &Planned| it.kind == ChildKind::NetworkPolicy && !it.hash.is_empty() && !it.action.is_in_place();
    let guarded = !planned.iter().any(open);
    if let Some(deployment) = planned.iter_mut().find(|it| it.kind == ChildKind::Deployment) {
        let action = &deployment.action;
        let unguarded = !guarded && (*action == Action::Create || action.cause().is_some());
        if unguarded || (mounted_secrets.hold_templates() && action.writes()) {
            deployment.action = or_look(view, deployment.kind, Action::Hold);
        }
    }
    planned
}

type Rolls<'a> = dyn Fn(&Live, Option<&Differences>) -> Option<RolloutCause> + 'a;

fn decide(
    view: &View<'_>,
    (kind, hash, desired): (ChildKind, &str, &DesiredChildren<'_>),
    rolls: &Rolls<'_>,
) -> Planned {
    let slot = view.resource.slot(kind);
    let compared = |live: &Live| live.comparison.differences(kind, hash, || desired.body(kind));
    let compared = slot.live.as_ref().and_then(compared);
    let known = slot.altered.as_deref();
    let differences =
        compared.as_ref().map(|found| known.map_or_else(|| found.clone(), |it| beyond(found, it)));
    // Only an answer shows how the API server changes another object, or how another version of the API server changes
    // this one.
    let unanswered = compared != differences && known.is_some_and(|it| !view.has_answered(it, hash));
    let wanted = match &slot.live {
        _ if let Some(why) = view.world.unavailable(kind, &view.resource.seen.key.namespace) => {
            Action::Unavailable(why.clone())
        }
        _ if slot.look => Action::Look,
        // Otherwise an object of somebody else would cost a write after every restart.
        None if slot.absence == Absence::Unproven && was_handled_before(view) => Action::Look,
        None => Action::Create,
        Some(live) => match owner(view, kind, live) {
            Owner::Foreign(whose) => Action::Foreign(whose),
            Owner::Earlier(what) => Action::Collecting(what),
            Owner::Us if let Some(first) = before_apply(kind, desired, live) => first,
            Owner::Us => {
                let cause =
                    (kind == ChildKind::Deployment).then(|| rolls(live, differences.as_ref())).flatten();
                // Another version of the API server may store the desired template, and pods roll then: of all caches with
                // altered templates at once, if they took no turns.
                let may_roll = || {
                    let of_template = |found: &Differences| found.of_template().next().is_some();
                    (unanswered && compared.as_ref().is_some_and(of_template))
                        .then_some(RolloutCause::Definition)
                };
                let known = differences.as_ref().filter(|left| !left.is_empty() || !unanswered);
                repair(live, known, cause.or_else(may_roll))
            }
        },
    };
    Planned {
        kind,
        hash: hash.to_owned(),
        compared,
        differences,
        action: permitted(view, (kind, hash, desired), wanted),
    }
}

/// What to do about a child that the spec does not ask for; `None` if we have none.
fn unwanted(view: &View<'_>, (kind, desired): (ChildKind, &DesiredChildren<'_>)) -> Option<Planned> {
    let slot = view.resource.slot(kind);
    let ours = |live: &&Live| matches!(owner(view, kind, live), Owner::Us);
    let wanted = match (
        slot.live.as_ref().filter(ours),
        view.world.unavailable(kind, &view.resource.seen.key.namespace),
    ) {
        (None, Some(_)) => return None,
        // The child may still be active, and the status has to say so.
        (Some(_), Some(why)) => Action::Unavailable(why.clone()),
        _ if slot.look || may_be_left(view, slot) => Action::Look,
        (None, None) => return None,
        (Some(live), None) => match view.orphan(live) {
            Some(orphan) => Action::Patch {
                resource_version: live.resource_version.clone(),
                edits: vec![orphan.taken_back(&view.resource.seen)],
                cause: None,
            },
            None => Action::Delete { uid: live.uid.clone(), resource_version: live.resource_version.clone() },
        },
    };
    let action = permitted(view, (kind, "", desired), wanted);
    Some(Planned { kind, hash: String::new(), compared: None, differences: None, action })
}

/// The action, unless something holds it back.
fn permitted(
    view: &View<'_>,
    (kind, hash, desired): (ChildKind, &str, &DesiredChildren<'_>),
    wanted: Action,
) -> Action {
    if wanted.writes() && desired.is_paused() {
        return or_look(view, kind, Action::Paused);
    }
    if !wanted.sends() {
        return or_look(view, kind, wanted);
    }
    let fight = || fought_over(view, kind, hash).filter(|_| wanted.writes());
    match held_back(view, (kind, hash), &wanted).or_else(fight) {
        Some(held) => or_look(view, kind, held),
        None => wanted,
    }
}

/// Whether this resource has a status. A new resource gets its children without a read before.
fn was_handled_before(view: &View<'_>) -> bool {
    view.resource.seen.status.observed_generation != NEVER_OBSERVED
}

/// Whether a child that the spec does not ask for may exist without our label: it left the watch, or the operator may
/// not have finished deleting it before this run. Otherwise a settled resource would cost reads at every restart.
fn may_be_left(view: &View<'_>, slot: &Slot) -> bool {
    slot.live.is_none()
        && match slot.absence {
            Absence::Proven => false,
            Absence::Likely => true,
            Absence::Unproven => view.resource.inherited,
        }
}

/// The action, which sends nothing; or a read, if the action depends on an object that no watch shows and a read is
/// due.
#[must_use]
pub fn or_look(view: &View<'_>, kind: ChildKind, action: Action) -> Action {
    let (slot, generation) = (view.resource.slot(kind), view.resource.seen.generation);
    let due = match (&action, &slot.live) {
        (Action::Unavailable(_), _) => false,
        (_, Some(live)) => {
            !live.in_sight && slot.recheck.as_ref().is_none_or(|it| it.is_due(generation, view.now))
        }
        // The create that is held back would have found out.
        (Action::Paused | Action::Hold, None) => {
            slot.absence != Absence::Proven
                && was_handled_before(view)
                && held_back(view, (kind, ""), &Action::Look).is_none()
        }
        (_, None) => false,
    };
    if due { Action::Look } else { action }
}

/// If somebody keeps changing fields that we repair, their change stays for a while and the status names them; `None`
/// otherwise.
#[must_use]
pub fn fought_over(view: &View<'_>, kind: ChildKind, hash: &str) -> Option<Action> {
    let slot = view.resource.slot(kind);
    slot.repairs.exhausted_until(hash, view.now)?;
    let Key { namespace, name } = &view.resource.seen.key;
    let managers = slot.live.as_ref().map(|live| live.managers.join(", ")).unwrap_or_default();
    let message = format!(
        "somebody keeps changing fields of {} {namespace}/{name} that this operator sets, and it puts them back only a \
         few times a minute; other managers of its fields: {managers}",
        kind.name()
    );
    Some(Action::BackOff(Failure { category: Category::Conflict, message }))
}

/// A change of managedFields that is needed before an apply has the desired effect.
fn before_apply(kind: ChildKind, desired: &DesiredChildren<'_>, live: &Live) -> Option<Action> {
    let leaves_replicas = kind == ChildKind::Deployment && desired.leaves_replicas();
    let take_over =
        live.go_operator.as_ref().map(|fields| fields.edits_to_take_over(live.entry, leaves_replicas));
    // An apply that omits replicas while we own the field would set it to 1.
    let give_up = || {
        let entry = live.entry.filter(|_| leaves_replicas && live.owns_replicas)?;
        let entry = entry.to_string();
        let field = ["metadata", "managedFields", &entry, "fieldsV1"];
        Some(vec![removal(PointerBuf::from_tokens(field.into_iter().chain(REPLICAS.split('/').skip(1))))])
    };
    let edits = take_over.or_else(give_up)?;
    Some(Action::Patch { resource_version: live.resource_version.clone(), edits, cause: None })
}

fn removal(path: PointerBuf) -> PatchOperation {
    PatchOperation::Remove(RemoveOperation { path })
}

fn repair(live: &Live, differences: Option<&Differences>, cause: Option<RolloutCause>) -> Action {
    match differences {
        Some(differences) if differences.is_empty() => Action::Keep,
        Some(Differences { in_the_way, .. }) if !in_the_way.is_empty() => Action::Patch {
            resource_version: live.resource_version.clone(),
            edits: in_the_way.iter().cloned().map(removal).collect(),
            cause,
        },
        _ => Action::Apply { uid: live.uid.clone(), resource_version: live.resource_version.clone(), cause },
    }
}

fn held_back(view: &View<'_>, (kind, hash): (ChildKind, &str), wanted: &Action) -> Option<Action> {
    let backoff = view.resource.slot(kind).backoff.as_ref()?;
    let holds = match wanted {
        // A read does not depend on what is written after it.
        Action::Look => backoff.retry_at.is_some_and(|at| view.now < at),
        _ => backoff.holds(&view.attempt_at(kind, hash, wanted), view.now),
    };
    holds.then(|| Action::BackOff(backoff.failure.clone()))
}
