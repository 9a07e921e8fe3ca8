//! When a workload counts as stuck that does not tell by itself: a StatefulSet never does, and a Deployment does not while it
//! is scaled or paused, nor in every rollout ([`SeenRollout::without_deadline`]). So the start of the wait stands in the status. Pure;
//! called by [`super::status`].
//!
//! [`SeenRollout::without_deadline`]: crate::kernel::event::SeenRollout::without_deadline

use jiff::{SignedDuration, Timestamp};

use super::inputs::{BlockingProblem, StatusInputs};
use super::rollout_progress::RolloutProgress;
use crate::api::MemcachedStatus;
use crate::kernel::event::WithoutDeadline;
use crate::kernel::object::ChildKind;

/// How long no further pod may be replaced or become ready: as long as Kubernetes gives a Deployment.
pub(super) const PROGRESS_DEADLINE: SignedDuration = SignedDuration::from_secs(600);

/// Since when the pods make no progress; `None` where none is awaited. `reached`: whether this generation was reached
/// before. Then pods that are lost are no rollout. A rollout that waits for a pod's warmth, or until its pods have been ready
/// for `minReadySeconds`, has an end of its own, and goes on after it.
#[must_use]
pub(super) fn progressing_since(
    inputs: &StatusInputs<'_>,
    previous: &MemcachedStatus,
    reached: bool,
    now: Timestamp,
) -> Option<Timestamp> {
    let waits = inputs.awaited_warmth().is_some() || waits_for_secrets(inputs) || waits_for_time(inputs);
    let tells_itself =
        |it: &RolloutProgress| inputs.workload == ChildKind::Deployment && it.seen.without_deadline.is_none();
    let of_us = inputs.rollout.as_ref().filter(|it| !waits && !tells_itself(it));
    let desired = inputs.replicas_expected;
    let rollout = of_us.filter(|it| !it.held_back && !it.complete(desired))?;
    let before = previous.progressing_since.as_ref().map(|since| since.0.min(now));
    let goes_on = inputs.generation != previous.observed_generation
        || rollout.updated() > previous.updated_replicas
        || inputs.ready() > previous.ready_replicas;
    match before {
        Some(since) if !goes_on => Some(since),
        Some(_) => Some(now),
        None => (!reached || !rollout.settled(desired)).then_some(now),
    }
}

/// Whether new pods would not find a Secret that memcached takes: they wait for a person, and the deadline begins once it is
/// there.
fn waits_for_secrets(inputs: &StatusInputs<'_>) -> bool {
    let invalid = matches!(inputs.blocking_problem, Some(BlockingProblem::SecretInvalid(_)));
    invalid || !inputs.missing_secrets.is_empty()
}

/// Whether all pods are ready, and have to be so for longer.
fn waits_for_time(inputs: &StatusInputs<'_>) -> bool {
    let desired = inputs.replicas_expected;
    let rollout = inputs.rollout.as_ref().filter(|it| it.is_current());
    rollout.is_some_and(|it| {
        it.seen.replicas == desired && it.seen.ready == desired && it.seen.available < desired
    })
}

/// When the deadline ends.
#[must_use]
pub(super) fn ends(since: Timestamp) -> Option<Timestamp> {
    since.checked_add(PROGRESS_DEADLINE).ok()
}

/// What to say once it is over.
#[must_use]
pub(super) fn message(inputs: &StatusInputs<'_>) -> String {
    let (kind, name) = (inputs.workload.name(), &inputs.key.name);
    let exist = inputs.rollout.as_ref().map_or(0, |rollout| rollout.seen.replicas);
    let who_says = match inputs.workload {
        ChildKind::Deployment => "its ReplicaSets",
        _ => "the StatefulSet",
    };
    let missing = if exist < inputs.replicas_expected {
        format!(
            "; {exist}/{} pods exist, and the Events of {who_says} say why no more",
            inputs.replicas_expected
        )
    } else {
        String::new()
    };
    let paused = match inputs.rollout.as_ref().and_then(|rollout| rollout.seen.without_deadline) {
        Some(WithoutDeadline::Paused) => {
            "; somebody paused the Deployment (its own spec.paused): kubectl rollout resume ends that"
        }
        Some(WithoutDeadline::Finished) | None => "",
    };
    format!("{kind} {name} has made no progress for 10 minutes{paused}{missing}")
}
