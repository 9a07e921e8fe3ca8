//! What is left where a pass finds nothing to send: when to look again, and what the metrics show. Pure; called by the
//! pass.

use jiff::Timestamp;

use super::action::{Action, Planned};
use super::mounted_secrets::MountedSecrets;
use super::outcome::Settled;
use super::status::ComputedStatus;
use super::view::View;
use crate::api::{MemcachedStatus, Validated};
use crate::kernel::desired::secrets;
use crate::kernel::event::Unavailable;
use crate::kernel::failure::Category;
use crate::kernel::instance_metrics::InstanceMetrics;
use crate::kernel::live::Live;
use crate::kernel::object::ChildKind;
use crate::kernel::stateful_set_rollout::is_rolling;

/// What a pass leaves when nothing is left to send.
#[must_use]
pub fn of_valid(
    view: &View<'_>,
    spec: &Validated,
    mounted_secrets: &MountedSecrets,
    planned: &[Planned],
    ComputedStatus { status, changes_at, pod_failure, turn_state: _ }: &ComputedStatus,
) -> Settled {
    let repairs = planned
        .iter()
        .filter_map(|it| view.resource.child(it.kind).repairs.exhausted_until(it.hash(), view.now));
    let secrets = secrets::mounted_by_name(spec).into_iter().filter_map(|secret| {
        view.world.secrets.get(&view.key_of(&secret.name)).and_then(|secret| secret.backoff.as_ref())
    });
    let retries = retries_of_children(view).chain(secrets.filter_map(|backoff| backoff.retry_at));
    let rechecks = planned
        .iter()
        .filter_map(|it| view.resource.child(it.kind).recheck.as_ref().map(|recheck| recheck.at));
    let of_pods = view.resource.pod_backoff.as_ref().and_then(|backoff| backoff.retry_at);
    let of_pods = of_pods.into_iter().chain(pods_are_given_up_at(view));
    let times =
        retries.chain(rechecks).chain(of_pods).chain(retry_of_status(view)).chain(repairs).chain(*changes_at);
    let of_children = failure(mounted_secrets, planned);
    Settled {
        wake_at: times.filter(|at| *at > view.now).min(),
        failure: of_children.or(*pod_failure).or_else(|| view.status_failure(status)),
        children_fail: of_children.is_some(),
        unchanged: planned.iter().filter(|it| it.action == Action::Keep).map(|it| it.kind).collect(),
        instance_metrics: InstanceMetrics::from_status(
            status,
            Some((spec.image.clone(), view.replicas_expected(spec))),
            view.former_ready(),
        ),
    }
}

/// When pods that keep a rollout waiting are no longer waited for.
fn pods_are_given_up_at(view: &View<'_>) -> impl Iterator<Item = Timestamp> {
    let rollout = view.our_workload().and_then(|live| live.rollout.as_deref());
    rollout.filter(|rollout| is_rolling(rollout)).map(|_| view.pods_are_given_up_at()).into_iter().flatten()
}

/// What a pass leaves of a resource whose spec cannot be built from. Its pods serve on, and are missed when they do not.
#[must_use]
pub fn of_invalid(view: &View<'_>, status: &MemcachedStatus) -> Settled {
    // What the spec says is not done.
    let running = view.our_workload().or_else(|| view.former_workload());
    Settled {
        wake_at: retries_of_children(view).chain(retry_of_status(view)).filter(|at| *at > view.now).min(),
        failure: Some(Category::Invalid),
        children_fail: true,
        unchanged: Vec::new(),
        instance_metrics: InstanceMetrics {
            wanted_all_the_same: running.map(Live::asked),
            ..InstanceMetrics::from_status(status, None, view.former_ready())
        },
    }
}

/// The category of the failure of a child or a Secret, for the metrics.
fn failure(mounted_secrets: &MountedSecrets, planned: &[Planned]) -> Option<Category> {
    let of_child = planned.iter().find_map(|it| match &it.action {
        Action::BackOff(failure) | Action::Unavailable(Unavailable::Refused(failure)) => {
            Some(failure.category)
        }
        Action::Foreign(_) => Some(Category::Conflict),
        _ => None,
    });
    let unreadable = || mounted_secrets.unreadable.as_ref().map(|failure| failure.category);
    let invalid = || (!mounted_secrets.invalid.is_empty()).then_some(Category::Invalid);
    of_child.or_else(unreadable).or_else(invalid)
}

fn retries_of_children(view: &View<'_>) -> impl Iterator<Item = Timestamp> {
    ChildKind::ALL.into_iter().filter_map(|kind| view.resource.child(kind).backoff.as_ref()?.retry_at)
}

fn retry_of_status(view: &View<'_>) -> Option<Timestamp> {
    view.resource.backoff.as_ref().and_then(|backoff| backoff.retry_at)
}
