//! Fifth stage: what to do about each child; no request yet. Pure; called by the pass.

use json_patch::jsonptr::PointerBuf;
use json_patch::{PatchOperation, RemoveOperation};

use super::action::{Action, Planned};
use super::backoff_hold::{or_delayed, or_read};
use super::cause_of_apply::rollout_cause;
use super::compare::{self, Compared};
use super::desired::DesiredChildren;
use super::mounted_secrets::MountedSecrets;
use super::owner::{Owner, owner};
use super::view::View;
use crate::api::Validated;
use crate::kernel::backoff::Backoff;
use crate::kernel::child_state::ChildState;
use crate::kernel::desired::partition::KEEPS_ALL;
use crate::kernel::desired::scheduling;
use crate::kernel::diff::Differences;
use crate::kernel::failure::Category;
use crate::kernel::hash::BodyHash;
use crate::kernel::live::{Live, REPLICAS};
use crate::kernel::object::ChildKind;
use crate::kernel::pod_problem;
use crate::kernel::rollout_cause::RolloutCause;
use crate::kernel::status::rollout_progress::is_rolled_out;
use crate::kernel::unwatched::Absence;

/// What is to be done.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The children that there are to be.
    pub desired: DesiredChildren<'a>,
    /// The decisions, about every child that is wanted or may exist.
    pub children: Vec<Planned>,
    /// Whether pods may be replaced now.
    pub replacement: Replacement,
}

/// Whether pods may be replaced now, whatever for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// New pods start.
    Allowed,
    /// New pods would not start, or no NetworkPolicy would guard them.
    HeldBack,
}

impl Replacement {
    /// Every new pod mounts the Secrets as they are now, whatever it is made for, and the policy that the spec asks for has to
    /// guard it. While a Secret is missing, pods may be replaced only if none serves. `guarded`: no NetworkPolicy is about to be
    /// made.
    fn new(view: &View<'_>, mounted_secrets: &MountedSecrets, guarded: bool) -> Self {
        let waits_for_secret = !mounted_secrets.missing.is_empty() && view.serves();
        match guarded && mounted_secrets.invalid.is_empty() && !waits_for_secret {
            true => Self::Allowed,
            false => Self::HeldBack,
        }
    }
}

/// Decides about every child. While no pod may be replaced, the partition of a StatefulSet lets no further pod go, whatever for.
#[must_use]
pub fn plan<'a>(view: &View<'a>, mounted_secrets: &MountedSecrets, desired: DesiredChildren<'a>) -> Plan<'a> {
    let plan = decided(view, mounted_secrets, desired);
    match plan.replacement == Replacement::HeldBack && plan.lets_pods_go(view) {
        true => plan.keeping_pods(view, mounted_secrets),
        false => plan,
    }
}

impl<'a> Plan<'a> {
    /// Whether the plan lowers the partition of the StatefulSet and leaves its template, so that Kubernetes replaces one more
    /// pod.
    #[must_use]
    pub fn lets_pods_go(&self, view: &View<'_>) -> bool {
        let writes = |it: &Planned| it.kind == ChildKind::StatefulSet && it.action.writes();
        let live = view.our_workload().filter(|_| self.children.iter().any(writes));
        live.is_some_and(|live| self.desired.lets_pods_go(live))
    }

    /// The plan made again so that no further pod of the StatefulSet goes. All else goes on, such as a change of scale.
    #[must_use]
    pub fn keeping_pods(self, view: &View<'a>, mounted_secrets: &MountedSecrets) -> Self {
        let plan = decided(view, mounted_secrets, self.desired.keeping_pods(view));
        Self { replacement: Replacement::HeldBack, ..plan }
    }
}

fn decided<'a>(view: &View<'_>, mounted_secrets: &MountedSecrets, desired: DesiredChildren<'a>) -> Plan<'a> {
    let mut compared = compare::compare(view, &desired);
    let decide = |kind: ChildKind| {
        let at = compared.iter().position(|(of, _)| *of == kind);
        let compared = at.map(|at| compared.swap_remove(at).1);
        let action = match &compared {
            Some(compared) => wanted(view, mounted_secrets, &desired, kind, compared),
            None => unwanted(view, mounted_secrets, &desired, kind)?,
        };
        let action = if action.writes() && desired.is_paused() { Action::Paused } else { action };
        let hash = compared.as_ref().map(|compared| compared.hash);
        Some(Planned { kind, action: or_delayed(view, kind, hash, action), compared })
    };
    let mut children: Vec<Planned> = ChildKind::ALL.into_iter().filter_map(decide).collect();
    // A policy that is about to be deleted guards nothing.
    let open = |it: &Planned| {
        it.kind == ChildKind::NetworkPolicy && it.compared.is_some() && !it.action.is_in_place()
    };
    let guarded = !children.iter().any(open);
    if let Some(workload) = children.iter_mut().find(|it| it.kind == desired.workload())
        && must_hold_back(view, mounted_secrets, &workload.action, guarded)
    {
        workload.action = or_read(view, workload.kind, Action::Wait);
    }
    Plan { desired, children, replacement: Replacement::new(view, mounted_secrets, guarded) }
}

/// Whether a write of the workload has to wait. `guarded`: no NetworkPolicy that the spec asks for is about to be made.
fn must_hold_back(view: &View<'_>, mounted_secrets: &MountedSecrets, action: &Action, guarded: bool) -> bool {
    let makes_pods = matches!(action, Action::Create { .. }) || action.cause().is_some();
    // Every new pod mounts the Secrets as they are now, whatever it is made for.
    let unfit = !guarded || !mounted_secrets.invalid.is_empty();
    // A change by somebody else is put back all the same: the pods that still have our template then stay. If all pods of a
    // StatefulSet have the changed template already, putting it back replaces a pod.
    let lets_go = |live: &Live| live.has_rolled_out && live.partition.is_some_and(|at| at != KEEPS_ALL);
    let lets_go = view.our_workload().is_some_and(lets_go);
    let replaces_pods = action.cause().is_some_and(|cause| cause != RolloutCause::Drift || lets_go);
    (makes_pods && unfit)
        || (replaces_pods && !mounted_secrets.missing.is_empty() && view.serves())
        || (mounted_secrets.hold_templates() && action.writes())
}

/// What to do about a child that the spec asks for.
fn wanted(
    view: &View<'_>,
    mounted_secrets: &MountedSecrets,
    desired: &DesiredChildren<'_>,
    kind: ChildKind,
    compared: &Compared,
) -> Action {
    let child = view.resource.child(kind);
    match &child.live {
        _ if let Some(why) = view.world.unavailable(kind, &view.resource.seen.key.namespace) => {
            Action::Unavailable(why.clone())
        }
        _ if child.must_read => Action::Read,
        // Otherwise an object of somebody else would cost a write after every restart.
        None if child.absence == Absence::Unproven && view.was_handled_before() => Action::Read,
        None => Action::Create { cause: cause_of_another_workload(view, desired, kind) },
        Some(live) => match owner(view, kind, live) {
            Owner::Foreign(whose) => Action::Foreign(whose),
            Owner::Earlier(what) => Action::Collecting(what),
            Owner::Us if let Some(first) = before_apply(kind, desired, live) => first,
            Owner::Us => {
                let cause = match kind {
                    kind if kind == desired.workload() => {
                        rollout_cause(view, mounted_secrets, desired, compared)
                    }
                    _ => None,
                };
                repair(child, live, compared, cause)
            }
        },
    }
}

/// The cause where another workload is to run the pods and no new generation announces that: an older definition drops
/// `spec.workload` of many caches at once.
fn cause_of_another_workload(
    view: &View<'_>,
    desired: &DesiredChildren<'_>,
    kind: ChildKind,
) -> Option<RolloutCause> {
    (kind == desired.workload() && view.keeps_former()).then_some(RolloutCause::Definition)
}

/// What to do about a child that the spec does not ask for; `None` if we have none.
fn unwanted(
    view: &View<'_>,
    mounted_secrets: &MountedSecrets,
    desired: &DesiredChildren<'_>,
    kind: ChildKind,
) -> Option<Action> {
    let stops_former = || view.may_stop_former(desired.spec(), mounted_secrets);
    let child = view.resource.child(kind);
    let ours = |live: &&Live| matches!(owner(view, kind, live), Owner::Us);
    let unavailable = view.world.unavailable(kind, &view.resource.seen.key.namespace);
    match (child.live.as_ref().filter(ours), unavailable) {
        (None, Some(_)) => None,
        // The child may still be active, and the status has to say so.
        (Some(_), Some(why)) => Some(Action::Unavailable(why.clone())),
        _ if child.must_read || may_be_left(view, kind) => Some(Action::Read),
        (None, None) => None,
        (Some(_), None) if kind.is_workload() && !stops_former() => Some(Action::Wait),
        (Some(live), None) => Some(match view.orphan(live) {
            Some(orphan) => Action::Patch {
                resource_version: live.resource_version.clone(),
                edits: vec![orphan.taken_back(&view.resource.seen)],
                cause: None,
            },
            None => Action::Delete { uid: live.uid.clone(), resource_version: live.resource_version.clone() },
        }),
    }
}

impl View<'_> {
    /// Whether the pods of the former workload may go. True when all new pods are ready, or cannot be scheduled beside the old
    /// ones. False while the new workload does not exist, also when we may not create it, and while a new pod would wait for a
    /// Secret: then nobody would serve.
    fn may_stop_former(&self, spec: &Validated, mounted_secrets: &MountedSecrets) -> bool {
        let finds_no_room = scheduling::keeps_apart(spec) || self.is_kept_off_by_spread(spec);
        let finds_no_room = finds_no_room && mounted_secrets.let_pods_start();
        let ours = self.our_workload().filter(|live| !live.deleting);
        ours.is_some_and(|live| finds_no_room || is_rolled_out(live))
    }

    /// Whether a topology spread keeps the new pods off every node while the old pods are there. All old pods would go at once,
    /// and a spread may well leave room beside them, as one over zones does. So the scheduler has to have said that it leaves
    /// none.
    fn is_kept_off_by_spread(&self, spec: &Validated) -> bool {
        let mut problems = self.world.pods.problems_of(&self.resource.seen.key, self.resource.workload());
        scheduling::needs_room_of_its_own(spec) && problems.any(pod_problem::is_by_spread)
    }
}

/// Whether a child that the spec does not ask for may exist without our label: it left the watch, or an earlier run or the
/// leader before may not have finished deleting it. Otherwise a settled resource would cost reads at every restart and change
/// of leader.
fn may_be_left(view: &View<'_>, kind: ChildKind) -> bool {
    let child = view.resource.child(kind);
    let of_earlier_leader =
        view.resource.may_be_unfinished || (kind.is_workload() && view.resource.former_may_stand);
    child.live.is_none()
        && match child.absence {
            Absence::Proven => false,
            Absence::Likely => true,
            Absence::Unproven => of_earlier_leader,
        }
}

/// A change of managedFields that is needed before an apply has the desired effect.
fn before_apply(kind: ChildKind, desired: &DesiredChildren<'_>, live: &Live) -> Option<Action> {
    let leaves_replicas = kind.is_workload() && desired.leaves_replicas();
    let take_over =
        live.go_operator.as_ref().map(|fields| fields.edits_to_take_over(live.entry(), leaves_replicas));
    // An apply that omits replicas while we own the field would set it to 1.
    let give_up = || {
        let entry = live.entry().filter(|_| leaves_replicas && live.owns_replicas)?;
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

fn repair(child: &ChildState, live: &Live, compared: &Compared, cause: Option<RolloutCause>) -> Action {
    match compared.differences.as_ref().filter(|left| !left.is_empty() || compared.unanswered.is_none()) {
        Some(differences) if differences.is_empty() => Action::Keep,
        Some(differences) if let Some(edits) = removals(child, compared.hash, differences) => {
            Action::Patch { resource_version: live.resource_version.clone(), edits, cause }
        }
        _ => Action::Apply { uid: live.uid.clone(), resource_version: live.resource_version.clone(), cause },
    }
}

/// What has to go before an apply is sent: items for which the API server would refuse the apply, and fields of others for which
/// it may have refused this very apply. The fields are removed only after such a refusal: where a webhook writes one in the place
/// of ours, the API server takes the apply.
fn removals(child: &ChildState, hash: BodyHash, differences: &Differences) -> Option<Vec<PatchOperation>> {
    let is_refusal = |it: &Backoff| it.failure.category == Category::Invalid && it.sent.body == Some(hash);
    let was_refused = child.backoff.as_deref().is_some_and(is_refusal);
    let excluding = differences.excluding.iter().filter(|_| was_refused);
    let removals: Vec<_> = differences.in_the_way.iter().chain(excluding).cloned().map(removal).collect();
    (!removals.is_empty()).then_some(removals)
}
