//! From a plan to what is said about it: the situation that the status is computed from, and the rest that a
//! finished pass leaves. Pure; called by the pass.

use jiff::Timestamp;

use super::failure::Category;
use super::inputs::{self, Inputs};
use super::object::ChildKind;
use super::outline::Blueprint;
use super::pass::{Pass, Rest, View, template_in_place, worst_trouble};
use super::plan::{Action, Planned};
use super::status::rollout::Rollout;
use super::status::{self, Situation, Trouble};
use crate::api::MemcachedStatus;
use crate::api::Validated;

/// What is to be said about a resource.
pub struct Report {
    /// Its status.
    pub status: MemcachedStatus,
    /// When that changes by itself.
    pub changes_at: Option<Timestamp>,
}

/// The status of a resource whose spec is valid.
#[must_use]
pub fn status(
    view: &View<'_>,
    spec: &Validated,
    (inputs, desired, planned): (&Inputs, &Blueprint<'_>, &[Planned]),
) -> Report {
    let mut situation = observed(view, spec.replicas, template_in_place(view, desired, planned));
    situation.in_place = planned.iter().all(|it| it.action == Action::Keep);
    situation.missing_secrets.clone_from(&inputs.missing);
    situation.trouble = worst_trouble(inputs, planned);
    // Until the template carries the new hash, the status keeps the versions that the live hash stands for.
    if situation.deployment.as_ref().is_some_and(|rollout| rollout.carries_template) {
        situation.secrets.clone_from(&inputs.versions);
    }
    let previous = &view.resource.seen.status;
    Report {
        status: status::status(&situation, previous),
        changes_at: status::next_change(&situation, previous),
    }
}

/// The pass over a resource whose spec cannot be built from: no child is touched.
#[must_use]
pub fn invalid(view: &View<'_>, broken: &str) -> Pass {
    let live = view.our_deployment();
    let wanted = live.and_then(|live| live.replicas).and_then(|replicas| i32::try_from(replicas).ok());
    let mut situation = observed(view, wanted.unwrap_or(1), false);
    situation.trouble = Some(Trouble::InvalidSpec(broken.to_owned()));
    let status = status::status(&situation, &view.resource.seen.status);
    if view.status_differs(&status) {
        return Pass { sends: vec![view.write_status(status)], ..Pass::default() };
    }
    let rest = Rest {
        wake_at: retry_of_status(view),
        failure: Some(Category::Invalid),
        unchanged: Vec::new(),
        instance: None,
    };
    Pass { rest: Some(rest), ..Pass::default() }
}

/// What there is, without a word yet on how it compares with what should be.
fn observed<'a>(view: &View<'a>, desired_replicas: i32, carries_template: bool) -> Situation<'a> {
    let seen = &view.resource.seen;
    let deployment = view.our_deployment();
    let ours = |owner: &super::object::Controller| owner.uid == seen.uid;
    Situation {
        key: &seen.key,
        generation: seen.generation,
        desired_replicas,
        deployment: deployment.map(|live| {
            let rollout = live.rollout.clone().unwrap_or_default();
            Rollout {
                observed: rollout.observed_generation >= live.generation,
                seen: rollout,
                carries_template,
            }
        }),
        service_exists: view
            .resource
            .service
            .live
            .as_ref()
            .and_then(|live| live.controller.as_ref())
            .is_some_and(ours),
        in_place: false,
        missing_secrets: Vec::new(),
        trouble: None,
        pod_problem: view.world.pod_problem(&seen.key).map(str::to_owned),
        secrets: seen.status.secrets.clone(),
        template_revision: deployment
            .and_then(|live| live.template.as_ref())
            .map(|template| template.revision),
        now: view.now,
    }
}

/// What is left when nothing is to be sent.
#[must_use]
pub fn rest(
    view: &View<'_>,
    spec: &Validated,
    (inputs, planned, changes_at): (&Inputs, &[Planned], Option<Timestamp>),
) -> Rest {
    let children = ChildKind::ALL.into_iter().filter_map(|kind| view.resource.slot(kind).setback.as_ref());
    let secrets = inputs::mounted(spec).into_iter().filter_map(|secret| {
        view.world.secrets.get(&view.key_of(&secret.name)).and_then(|secret| secret.setback.as_ref())
    });
    let retries = children.chain(secrets).filter_map(|setback| setback.retry_at);
    let times = retries.chain(retry_of_status(view)).chain(changes_at);
    Rest {
        wake_at: times.filter(|at| *at > view.now).min(),
        failure: failure(inputs, planned),
        unchanged: planned.iter().filter(|it| it.action == Action::Keep).map(|it| it.kind).collect(),
        instance: Some((spec.image.clone(), spec.replicas)),
    }
}

/// The category of what is wrong, for the metrics.
fn failure(inputs: &Inputs, planned: &[Planned]) -> Option<Category> {
    let of_child = planned.iter().find_map(|it| match &it.action {
        Action::BackOff(failure) => Some(failure.category),
        Action::Foreign(_) => Some(Category::Conflict),
        _ => None,
    });
    of_child.or(inputs.unreadable.as_ref().map(|failure| failure.category))
}

fn retry_of_status(view: &View<'_>) -> Option<Timestamp> {
    view.resource.setback.as_ref().and_then(|setback| setback.retry_at)
}
