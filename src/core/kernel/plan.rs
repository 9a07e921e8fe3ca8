//! What to do about each child: a decision, not yet a request. Pure; called by the pass.

use json_patch::jsonptr::PointerBuf;
use json_patch::{PatchOperation, RemoveOperation};

use super::altered::beyond;
use super::diff::Differences;
use super::effect::RolloutCause;
use super::event::Unavailable;
use super::failure::{Category, Failure};
use super::live::{Live, REPLICAS, Slot};
use super::mounted_secrets::MountedSecrets;
use super::object::{ChildKind, Key, ResourceVersion, Uid};
use super::pass::View;
use super::rendered_hashes::DesiredChildren;
use super::sight::Absence;
use super::status::BlockingProblem;
use crate::api::status::NEVER_OBSERVED;

/// What to do about one child.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// It is as it should be.
    Keep,
    /// There is none: create it.
    Create,
    /// It differs: apply. `cause` when that makes pods roll.
    Apply {
        /// The incarnation to apply to.
        uid: Uid,
        /// The version that was looked at. What a late apply would undo depends on it, and so does whether a number of
        /// pods that is left out becomes 1: it does if it is ours after all, which a reply that was lost may hide.
        resource_version: ResourceVersion,
        /// Why pods roll, if they do.
        cause: Option<RolloutCause>,
    },
    /// It differs, and an apply alone would not do: first take away what is in the way of it, or set right what the API
    /// server says we own.
    Patch {
        /// The version to patch.
        resource_version: ResourceVersion,
        /// What to do to it.
        edits: Vec<PatchOperation>,
        /// Why pods roll, if they do.
        cause: Option<RolloutCause>,
    },
    /// Less is known than has to be, see [`super::sight`], or less than we thought, as a conflict showed: read what is
    /// there.
    Look,
    /// Nobody asks for it any more: delete exactly what was seen.
    Delete {
        /// The incarnation that was looked at.
        uid: Uid,
        /// The version that was looked at.
        resource_version: ResourceVersion,
    },
    /// An object that is not ours sits there, and stays untouched. Says whose it is.
    Foreign(String),
    /// A child of an earlier resource of this name, or one of ours that is being deleted: wait until it is gone.
    Collecting(String),
    /// The last write of the same content failed, and its time has not come again.
    BackOff(Failure),
    /// It has to wait for something else: for what it should be, or for the policy that guards it.
    Hold,
    /// It would be changed, were the resource not paused.
    Paused,
    /// Its pods would roll, and too many others do.
    AwaitPermit,
    /// What there is of its kind is not known.
    Unavailable(Unavailable),
}

/// One decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// About which child.
    pub kind: ChildKind,
    /// Hash of its desired body; empty when none is desired.
    pub hash: String,
    /// In what the live one differs, as far as it was compared.
    pub compared: Option<Differences>,
    /// The same without what the API server made of our own apply.
    pub differences: Option<Differences>,
    /// What to do.
    pub action: Action,
}

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
                let cause = (kind == ChildKind::Deployment).then(|| rolls(live, differences.as_ref()));
                let known = differences.as_ref().filter(|left| !left.is_empty() || !unanswered);
                repair(live, known, cause.flatten())
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
        _ => backoff.holds(&view.attempt_at(kind, hash), view.now),
    };
    holds.then(|| Action::BackOff(backoff.failure.clone()))
}

/// Who owns an object that has the name of a child.
enum Owner {
    Us,
    Earlier(String),
    Foreign(String),
}

fn owner(view: &View<'_>, kind: ChildKind, live: &Live) -> Owner {
    let Key { namespace, name } = &view.resource.seen.key;
    let what = format!("{} {namespace}/{name}", kind.name());
    match &live.controller {
        Some(owner) if owner.is_memcached() => {
            if owner.uid == view.resource.seen.uid && live.deleting {
                Owner::Earlier(format!("{what} is being deleted"))
            } else if owner.uid == view.resource.seen.uid {
                Owner::Us
            } else if owner.name == *name {
                Owner::Earlier(format!(
                    "{what} belongs to an earlier Memcached of this name and waits for garbage collection"
                ))
            } else {
                Owner::Foreign(format!("{what} belongs to Memcached {}", owner.name))
            }
        }
        Some(owner) => Owner::Foreign(format!("{what} is controlled by {} {}", owner.kind, owner.name)),
        None if view.orphan(live).is_some() && live.deleting => {
            Owner::Earlier(format!("{what} is being deleted"))
        }
        None if view.orphan(live).is_some() => Owner::Us,
        None => Owner::Foreign(format!("{what} exists and is not controlled by this resource")),
    }
}

/// Why an apply starts a rollout; `None` if it does not change the template.
fn rollout_cause(
    view: &View<'_>,
    mounted_secrets: &MountedSecrets,
    (live, differences, desired): (&Live, Option<&Differences>, &DesiredChildren<'_>),
) -> Option<RolloutCause> {
    let same_intent = desired.keeps_template();
    // The object may have been dropped since its comparison.
    let template_differs = differences
        .map_or(!same_intent || desired.adopts_newest(), |found| found.of_template().next().is_some());
    // A recognised template differs only by defaults of the API server, which sets them again.
    if !template_differs || desired.recognises_template() {
        None
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

impl Action {
    /// Whether the action sends a request now.
    #[must_use]
    pub const fn sends(&self) -> bool {
        self.writes() || matches!(self, Self::Look)
    }

    /// Whether the action changes the child.
    #[must_use]
    pub const fn writes(&self) -> bool {
        matches!(self, Self::Create | Self::Apply { .. } | Self::Patch { .. } | Self::Delete { .. })
    }

    /// Whether the child is as desired, or as far as possible: a kind that the API server does not serve is a state of
    /// the cluster, not a failure.
    #[must_use]
    pub const fn is_in_place(&self) -> bool {
        matches!(self, Self::Keep | Self::Unavailable(Unavailable::NotServed))
    }

    /// Why the action starts a rollout, if it does.
    #[must_use]
    pub const fn cause(&self) -> Option<RolloutCause> {
        match self {
            Self::Apply { cause, .. } | Self::Patch { cause, .. } => *cause,
            _ => None,
        }
    }

    /// The blocking problem that the status reports for it.
    #[must_use]
    pub fn blocking_problem(&self) -> Option<BlockingProblem> {
        match self {
            Self::Keep
            | Self::Create
            | Self::Apply { .. }
            | Self::Patch { .. }
            | Self::Delete { .. }
            | Self::Look
            | Self::Hold
            | Self::Paused
            | Self::AwaitPermit
            | Self::Unavailable(Unavailable::NotServed) => None,
            Self::Foreign(whose) => Some(BlockingProblem::NameConflict(format!(
                "{whose}: delete or rename it, or give this Memcached another name"
            ))),
            Self::Collecting(what) => Some(BlockingProblem::WaitingForGarbageCollection(what.clone())),
            Self::BackOff(failure) | Self::Unavailable(Unavailable::Refused(failure)) => {
                Some(blocking_problem(failure))
            }
        }
    }
}

/// The blocking problem that the status reports for a failed request.
#[must_use]
pub fn blocking_problem(failure: &Failure) -> BlockingProblem {
    let Failure { category, message } = failure.clone();
    match category {
        Category::Invalid => BlockingProblem::InvalidSpec(message),
        Category::ImmutableField => BlockingProblem::ImmutableField(message),
        Category::Forbidden | Category::QuotaExceeded | Category::AdmissionDenied => {
            BlockingProblem::Denied { category, message }
        }
        Category::Conflict | Category::Transient | Category::Internal | Category::NamespaceTerminating => {
            BlockingProblem::RetryingAfterError(message)
        }
    }
}

/// The severity of a problem, worst first: the status reports the worst.
#[must_use]
pub const fn rank(blocking_problem: &BlockingProblem) -> u8 {
    match blocking_problem {
        BlockingProblem::InvalidSpec(_) => 0,
        BlockingProblem::NameConflict(_) => 1,
        BlockingProblem::ImmutableField(_) => 2,
        BlockingProblem::SecretUnreadable(_) => 3,
        BlockingProblem::Denied { .. } => 4,
        BlockingProblem::WaitingForGarbageCollection(_) => 5,
        BlockingProblem::RetryingAfterError(_) => 6,
    }
}
