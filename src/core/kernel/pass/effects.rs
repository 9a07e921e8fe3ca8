//! Ninth stage: decisions become requests, each with what is needed to understand its reply. Pure; called by the pass.

use super::action::Action;
use super::budget::BudgetedPlan;
use super::changes::{ChangedChild, ChildrenToSend};
use super::mounted_secrets::MountedSecrets;
use super::plan::Plan;
use super::stuck_pods;
use super::view::View;
use super::warnings;
use crate::api::MemcachedStatus;
use crate::api::status::NEVER_OBSERVED;
use crate::kernel::desired::partition::KEEPS_ALL;
use crate::kernel::go_operator;
use crate::kernel::kube_events;
use crate::kernel::log_lines;
use crate::kernel::messages::KubeEvent;
use crate::kernel::object::{ChildKind, Key};
use crate::kernel::request::{ChildRead, ChildWrite, PossibleRollout, Request, StatusWrite, Write};
use crate::kernel::rollout_budget::TurnState;
use crate::kernel::rollout_cause::RolloutCause;
use crate::kernel::rotation_record;
use crate::kernel::status::patch;

/// What is to be sent now: the reads, without them the writes of children, without them the status; nothing where
/// all is as it should be, or as far as it can be.
#[must_use]
pub fn requests(
    view: &View<'_>,
    mounted_secrets: &MountedSecrets,
    BudgetedPlan { plan, turn_state }: &BudgetedPlan<'_>,
    ChildrenToSend { reads, writes }: ChildrenToSend<'_>,
    status: &MemcachedStatus,
) -> Vec<Request> {
    let spec = plan.desired.spec();
    if !reads.is_empty() {
        // The writes and the status depend on what the reads find.
        return reads.into_iter().map(|kind| read(view, kind)).collect();
    }
    let may_send = view.may_send_children(plan, *turn_state);
    let status_is_due = view.status_differs(status) || (!may_send && view.may_prove_status());
    // What replaces no pod does not wait for a status that may not be written.
    let may_go = |it: &ChangedChild<'_>| may_send || it.planned.action.cause().is_none();
    let writes = writes.into_iter().filter(may_go).filter_map(|it| write(view, plan, mounted_secrets, it));
    let deletions = stuck_pods::to_delete(view, mounted_secrets, plan).map(stuck_pods::request);
    let writes: Vec<_> = writes.chain(deletions).collect();
    if !writes.is_empty() && (may_send || !status_is_due) {
        writes
    } else if status_is_due {
        let warning = go_operator::warning(&view.resource.seen.status, status, spec);
        vec![view.write_status(status, warning)]
    } else {
        Vec::new()
    }
}

/// Where the child is.
fn key_of_child(view: &View<'_>, kind: ChildKind) -> Key {
    let Key { namespace, name } = &view.resource.seen.key;
    Key { namespace: namespace.clone(), name: kind.name_of_child(name) }
}

fn read(view: &View<'_>, kind: ChildKind) -> Request {
    let known = view.resource.child(kind).known_versions_when_asked();
    Request::ReadChild(ChildRead { kind, key: key_of_child(view, kind), known })
}

/// The request that executes one decision; `None` where nothing is to be written.
fn write(
    view: &View<'_>,
    plan: &Plan<'_>,
    mounted_secrets: &MountedSecrets,
    ChangedChild { planned, changes }: ChangedChild<'_>,
) -> Option<Request> {
    let kind = planned.kind;
    let body = || plan.desired.body(kind).clone();
    let replaces = |cause: Option<RolloutCause>| {
        let live = view.resource.live(kind).filter(|_| kind == plan.desired.workload())?;
        // At KEEPS_ALL all pods stay, also when somebody else changes the template and we put it back, or the cluster
        // makes another one of it.
        if cause.is_none() && plan.desired.holds_pods() {
            return None;
        }
        let secrets = match cause {
            Some(RolloutCause::Secret) => view.changed_secrets(mounted_secrets),
            _ => Vec::new(),
        };
        Some(PossibleRollout { cause, secrets, template: live.template_content_hash })
    };
    let write = match planned.action.clone() {
        Action::Create { .. } => Write::Create { body: body() },
        Action::Apply { uid, resource_version, cause } => {
            Write::Apply { uid, resource_version, body: body(), replaces: replaces(cause) }
        }
        Action::Patch { resource_version, edits, cause } => {
            Write::Patch { resource_version, edits, replaces: replaces(cause) }
        }
        Action::Delete { uid, resource_version } => Write::Delete { uid, resource_version },
        Action::Keep
        | Action::Read
        | Action::Foreign(_)
        | Action::Collecting(_)
        | Action::BackOff(_)
        | Action::Wait
        | Action::Paused
        | Action::AwaitTurn
        | Action::Unavailable(_) => return None,
    };
    let warnings =
        || warnings::kube_events(warnings::of_pods(view.now, plan.desired.spec(), mounted_secrets));
    let is_created = matches!(planned.action, Action::Create { .. });
    let switches = is_created && kind.is_workload() && view.former_workload().is_some();
    let cause = planned.action.cause();
    let switched = switches.then(|| kube_events::workload_switched(kind, &view.resource.seen.key, cause));
    let makes_pods = cause.is_some() || (kind == plan.desired.workload() && is_created);
    Some(Request::WriteChild(ChildWrite {
        kind,
        key: key_of_child(view, kind),
        write,
        attempt: view.attempt_at(kind, planned.hash(), &planned.action),
        changes,
        kube_events: switched.into_iter().chain(if makes_pods { warnings() } else { Vec::new() }).collect(),
    }))
}

impl View<'_> {
    /// Whether children may be written before the status. Before a template change that no new generation announces
    /// (Secret, restart trigger, drift), Ready has to become false first: otherwise a tool reads Current while pods
    /// roll. What the status says counts only where it is known which status is stored. A turn is on record before pods go by it,
    /// and off the record before they go for an edit: whoever leads next would have the edit wait for others.
    fn may_send_children(&self, plan: &Plan<'_>, turn_state: TurnState) -> bool {
        let cause = plan.children.iter().find_map(|it| it.action.cause());
        let seen = &self.resource.seen;
        let known = self.knows_status();
        let announced =
            seen.generation != seen.status.observed_generation || (known && !patch::says_ready(&seen.status));
        let is_right = |cause: RolloutCause| match (cause.budgeted(), turn_state) {
            (Some(_), TurnState::Granted(_)) => known && self.records_turn(),
            (None, TurnState::NotNeeded) => !cause.is_edit() || seen.status.budgeted_rollout.is_none(),
            _ => true,
        };
        cause.is_none_or(|cause| announced && is_right(cause))
    }

    /// The request that writes a status, with a warning beside the Events of the status itself.
    #[must_use]
    pub fn write_status(&self, status: &MemcachedStatus, warning: Option<KubeEvent>) -> Request {
        let (resource, before) = (self.resource, &self.resource.seen.status);
        let template_changed = resource.child(resource.workload()).template_changed;
        let kept = self.our_workload().is_some_and(|live| live.partition == Some(KEEPS_ALL));
        let is_first = before.observed_generation == NEVER_OBSERVED;
        // What was written before the resource was made changes no pod of it.
        let since = resource.seen.created.filter(|_| is_first);
        let by_others =
            kube_events::replaced_by_others(before, status, since).filter(|_| template_changed && !kept);
        let is_edited = status.observed_generation != before.observed_generation;
        let edit = resource.spec_before_edit.as_deref().zip(resource.seen.spec.as_ref().ok());
        let not_used = edit.filter(|_| is_edited);
        let not_used = not_used.and_then(|(before, after)| kube_events::replicas_not_used(before, after));
        let of_pod = |pod| kube_events::of_pod_problem(before, status, pod);
        let of_pod = self.world.pods.failing(&self.resource.seen.key).and_then(of_pod);
        let rollout_by_others = by_others.is_some();
        let inactive = kube_events::of_autoscaler(before, status);
        let others = by_others.into_iter().chain(not_used).chain(of_pod).chain(inactive).chain(warning);
        let of_cluster = kube_events::of_cluster(before, status);
        let others: Vec<_> =
            kube_events::of_rotation(before, status).chain(of_cluster).chain(others).collect();
        let log =
            log_lines::of_ready(before, status).into_iter().chain(others.iter().map(log_lines::of_event));
        Request::WriteStatus(StatusWrite {
            resource_version: resource.seen.resource_version.clone(),
            patch: patch::patch(before, status),
            log: log.collect(),
            kube_events: kube_events::of_ready(before, status).into_iter().chain(others).collect(),
            rollout_by_others,
            rotation: rotation_record::result(
                before.secret_rotation.as_deref(),
                status.secret_rotation.as_deref(),
            ),
            attempt: self.attempt_at_status(),
            status: Box::new(status.clone()),
        })
    }
}
