//! Last stage: decisions become requests, each with what is needed to understand its reply. Pure; called by the pass.

use super::action::{Action, Planned};
use super::desired::DesiredChildren;
use super::outcome::Send;
use super::view::View;
use crate::api::MemcachedStatus;
use crate::api::spec::validate;
use crate::kernel::diff::Path;
use crate::kernel::effect::{KubeEvent, Request, RolloutCause};
use crate::kernel::kube_events;
use crate::kernel::object::ChildKind;
use crate::kernel::pending_request::{Replacement, WriteKind};
use crate::kernel::rollout_budget::PermitState;
use crate::kernel::status::patch;

/// The request that carries out one decision; `None` where nothing is to be sent.
#[must_use]
pub fn send(
    view: &View<'_>,
    desired: &DesiredChildren<'_>,
    (planned, warnings): (&Planned, &dyn Fn() -> Vec<KubeEvent>),
) -> Option<Send> {
    let (kind, key) = (planned.kind, view.resource.seen.key.clone());
    let body = || desired.body(kind).clone();
    let write = |change, request, cause: Option<RolloutCause>| {
        let makes_pods = cause.is_some() || (kind == ChildKind::Deployment && change == WriteKind::Create);
        let kube_events = if makes_pods { warnings() } else { Vec::new() };
        let attempt = view.attempt_at(kind, &planned.hash, &planned.action);
        let live = view.resource.live(kind).filter(|_| kind == ChildKind::Deployment);
        let replaces = live.map(|live| Replacement {
            cause,
            fields: cause.and_then(|_| changed_fields(view, desired, planned)),
            template: live.template_print,
        });
        Some(Send::Write { request, kind, attempt, change, replaces, kube_events })
    };
    match &planned.action {
        Action::Create => write(WriteKind::Create, Request::Create { kind, key, body: body() }, None),
        Action::Apply { uid, resource_version, cause } => {
            let (uid, resource_version) = (uid.clone(), resource_version.clone());
            write(
                WriteKind::Update,
                Request::Apply { kind, key, uid, resource_version, body: body() },
                *cause,
            )
        }
        Action::Patch { resource_version, edits, cause } => {
            let (resource_version, edits) = (resource_version.clone(), edits.clone());
            write(WriteKind::Update, Request::Patch { kind, key, resource_version, edits }, *cause)
        }
        Action::Delete { uid, resource_version } => {
            let (uid, resource_version) = (uid.clone(), resource_version.clone());
            write(WriteKind::Delete, Request::Delete { kind, key, uid, resource_version }, None)
        }
        Action::Look => Some(Send::Read(Request::ReadChild { kind, key })),
        Action::Keep
        | Action::Foreign(_)
        | Action::Collecting(_)
        | Action::BackOff(_)
        | Action::Hold
        | Action::Paused
        | Action::AwaitPermit
        | Action::Unavailable(_) => None,
    }
}

/// Fields of the template that an apply would change; `None` if the Deployment was dropped after its comparison and the
/// source of its template is unknown.
fn changed_fields(view: &View<'_>, desired: &DesiredChildren<'_>, planned: &Planned) -> Option<Vec<Path>> {
    if let Some(differences) = &planned.differences {
        return Some(differences.of_template().cloned().collect());
    }
    let edited = view.resource.edited.as_deref();
    let before = edited.and_then(|spec| validate(&view.resource.seen.key.name, spec).ok());
    let live = view.our_deployment()?;
    desired.changed_fields(before.as_ref(), (live.secret_hash.as_deref(), live.restart_trigger.as_deref()))
}

impl View<'_> {
    /// Whether children may be written before the status. Before a template change that no new generation announces
    /// (Secret, restart trigger, drift), Ready has to become false first: otherwise a tool reads Current while pods
    /// roll. What the status says counts only where it is known which status is stored.
    pub fn may_send_children(&self, planned: &[Planned], permit_state: PermitState) -> bool {
        let cause = planned.iter().find_map(|it| it.action.cause());
        let seen = &self.resource.seen;
        let known = self.knows_status();
        let announced =
            seen.generation != seen.status.observed_generation || (known && !patch::says_ready(&seen.status));
        let recorded = !matches!(permit_state, PermitState::Granted(_)) || (known && self.records_permit());
        cause.is_none_or(|cause| announced && (cause.budgeted().is_none() || recorded))
    }

    /// Whether the stored status records the permit, or cannot, because an older CRD drops the field.
    fn records_permit(&self) -> bool {
        let says = |status: &MemcachedStatus| status.budgeted_rollout.is_some();
        let dropped = |(sent, got): &(MemcachedStatus, MemcachedStatus)| says(sent) && !says(got);
        says(&self.resource.seen.status) || self.resource.unstorable.as_deref().is_some_and(dropped)
    }

    /// The request that writes a status, with warnings beside the Events of the status itself.
    #[must_use]
    pub fn write_status(&self, status: MemcachedStatus, warnings: Option<KubeEvent>) -> Send {
        let seen = &self.resource.seen;
        let request = Request::PatchStatus {
            resource_version: seen.resource_version.clone(),
            status: patch::patch(&seen.status, &status),
        };
        Send::Status {
            request,
            kube_events: kube_events::of_status(&seen.status, &status).into_iter().chain(warnings).collect(),
            attempt: self.attempt_at_status(),
            status: Box::new(status),
        }
    }
}
