//! Pods that a StatefulSet's rollout cannot get past: they are to be replaced, and do not serve. With Kubernetes' gate
//! MaxUnavailableStatefulSet one pod that is not available keeps it from replacing any. Pure; called by the pass for what is
//! sent and for the status.
//!
//! A pod without keys goes at once: nothing is lost with it. One whose memcached runs is given time to become ready, because
//! it serves its keys again then until its turn comes. While a new pod would not start none is deleted: nothing would come of
//! it.

use super::mounted_secrets::MountedSecrets;
use super::plan::{Plan, Replacement};
use super::view::View;
use crate::api::spec::Workload;
use crate::kernel::event::SeenPod;
use crate::kernel::kube_events;
use crate::kernel::request::{PodDeletion, Request};
use crate::kernel::stateful_set_rollout::{UnreadyPod, is_rolling};

/// The pods that have to be deleted, so that Kubernetes makes them from the new template.
pub fn all<'a>(
    view: &View<'a>,
    mounted_secrets: &MountedSecrets,
    plan: &Plan<'_>,
) -> impl Iterator<Item = &'a SeenPod> + use<'a> {
    let spec = plan.desired.spec();
    let may_start = plan.replacement == Replacement::Allowed && mounted_secrets.let_pods_start();
    let is_asked_for = spec.workload == Workload::StatefulSet && !spec.paused;
    let live = view.our_workload().filter(|_| is_asked_for && may_start);
    let observed = live.and_then(|live| {
        let seen = live.rollout.as_ref()?;
        let at = live.partition.unwrap_or(0);
        let is_going_on = seen.observed_generation >= live.generation && is_rolling(seen);
        (is_going_on && !live.deleting).then_some((seen, at))
    });
    let pods = observed.map(|(seen, at)| {
        let is_stuck = move |pod: &UnreadyPod<'_>| {
            pod.number >= at && pod.is_older(seen) && (pod.is_given_up || !pod.may_hold_keys)
        };
        let stays = view.unready_pods().filter(|(_, seen)| !seen.deleting);
        stays.filter_map(move |(pod, seen)| is_stuck(&pod).then_some(seen))
    });
    pods.into_iter().flatten()
}

/// Those that are deleted now: not while a failed attempt backs off.
pub fn to_delete<'a>(
    view: &View<'a>,
    mounted_secrets: &MountedSecrets,
    plan: &Plan<'_>,
) -> impl Iterator<Item = &'a SeenPod> + use<'a> {
    let waits =
        view.resource.pod_backoff.as_ref().is_some_and(|it| it.retry_at.is_some_and(|at| view.now < at));
    all(view, mounted_secrets, plan).filter(move |_| !waits)
}

/// The request that deletes one.
#[must_use]
pub fn request(pod: &SeenPod) -> Request {
    Request::DeletePod(PodDeletion {
        pod: pod.key.clone(),
        uid: pod.uid.clone(),
        resource_version: pod.resource_version.clone(),
        kube_event: kube_events::pod_deleted(&pod.key, pod.problem.as_deref()),
    })
}
