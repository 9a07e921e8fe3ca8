//! What each condition says, in words, and how a new list of conditions follows from the one before. Pure; called by
//! [`super::status`].

pub use crate::api::reason::Reason;
pub use crate::api::reason::Type;

use crate::api::condition::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::inputs::StatusInputs;
use super::missing_secrets;
use crate::kernel::object::ChildKind;
use crate::kernel::text::truncated;

/// The API's limit for a condition's message, in bytes.
const MAX_MESSAGE: usize = 32_768;

/// One condition as it is now, without its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionValue {
    /// The type of the condition.
    pub of: Type,
    /// The status: `True` or `False`; we never say `Unknown`.
    pub holds: bool,
    /// The reason.
    pub reason: Reason,
    /// The message, of any length.
    pub message: String,
}

/// Whether at least one pod serves, or none is wanted.
#[must_use]
pub fn available(inputs: &StatusInputs<'_>) -> ConditionValue {
    let (ready, desired, former) =
        (inputs.ready(), inputs.replicas_expected, inputs.former_ready.unwrap_or(0));
    let holds = ready + former >= 1 || desired == 0;
    let reason = if holds { Reason::Available } else { Reason::Unavailable };
    let serves = match former {
        0 => String::new(),
        1 => format!("; 1 pod of the {} serves meanwhile", former_workload(inputs)),
        _ => format!("; {former} pods of the {} serve meanwhile", former_workload(inputs)),
    };
    ConditionValue {
        of: Type::Available,
        holds,
        reason,
        message: format!("{ready}/{desired} replicas are ready{serves}"),
    }
}

/// The kind whose pods serve until those of another kind do.
fn former_workload(inputs: &StatusInputs<'_>) -> &'static str {
    let former = ChildKind::WORKLOADS.into_iter().find(|kind| *kind != inputs.workload);
    former.map_or("workload", ChildKind::name)
}

/// Whether pods are being replaced, or their number changes. While the change to them is held back nothing is in
/// progress: the specification knows no such state, and has no words for it.
#[must_use]
pub fn progressing(inputs: &StatusInputs<'_>) -> ConditionValue {
    let desired = inputs.replicas_expected;
    let (holds, reason, message) = match &inputs.rollout {
        None => (true, Reason::Progressing, waits_for_workload(inputs)),
        Some(rollout) if rollout.all_updated(desired) && inputs.rotating().is_some() => rotating(inputs),
        Some(rollout) if rollout.all_updated(desired) => {
            (false, Reason::ProgressingComplete, format!("All {desired} replicas are updated"))
        }
        Some(rollout) if rollout.waits() => {
            let (reason, how) = match inputs.paused {
                Some(_) => (Reason::Paused, "paused"),
                None => (Reason::RolloutHeldBack, "held back"),
            };
            (false, reason, format!("Rollout {how}: {}/{desired} replicas updated", rollout.updated()))
        }
        Some(rollout) => {
            let updated = rollout.updated();
            (true, Reason::Progressing, format!("Rollout in progress: {updated}/{desired} replicas updated"))
        }
    };
    ConditionValue { of: Type::Progressing, holds, reason, message }
}

fn waits_for_workload(inputs: &StatusInputs<'_>) -> String {
    format!("Waiting for {} to be created", inputs.workload.name().to_lowercase())
}

/// Pods are not replaced, but take new content of a Secret; or they should and do not.
fn rotating(inputs: &StatusInputs<'_>) -> (bool, Reason, String) {
    let message = inputs.rotating().unwrap_or_default();
    let stands_still =
        inputs.rotation.as_ref().is_some_and(|it| it.problem.is_some()) || !inputs.missing_secrets.is_empty();
    match stands_still {
        true => (false, Reason::RolloutHeldBack, message),
        false => (true, Reason::Progressing, message),
    }
}

/// Whether a Secret is missing, or fewer pods serve than are wanted. More than wanted is not degraded.
#[must_use]
pub fn degraded(inputs: &StatusInputs<'_>) -> ConditionValue {
    let (ready, desired) = (inputs.ready(), inputs.replicas_expected);
    let (holds, reason, message) = if !inputs.missing_secrets.is_empty() {
        (true, Reason::SecretNotFound, missing_secrets::in_short(inputs))
    } else if ready >= desired {
        (false, Reason::NotDegraded, format!("All {desired} desired replicas are ready"))
    } else if inputs.rollout.is_none() {
        (true, Reason::Degraded, waits_for_workload(inputs))
    } else {
        (true, Reason::Degraded, format!("Only {ready}/{desired} replicas are ready"))
    };
    ConditionValue { of: Type::Degraded, holds, reason, message }
}

/// Says that children are left as they are, and which of them would change.
#[must_use]
pub fn paused(inputs: &StatusInputs<'_>) -> Option<ConditionValue> {
    let waiting = inputs.paused.as_ref()?;
    let message = paused_message(waiting);
    Some(ConditionValue { of: Type::Paused, holds: true, reason: Reason::Paused, message })
}

/// The message about changes that wait.
pub(super) fn paused_message(waiting: &[&str]) -> String {
    let what =
        if waiting.is_empty() { "Changes".to_owned() } else { format!("Changes to {}", waiting.join(", ")) };
    format!("{what} wait until spec.paused is false")
}

/// The new list: our conditions in their order, then those of types that are not ours, as they were.
/// `lastTransitionTime` is `now` exactly where `status` differs from before.
#[must_use]
pub fn follow(
    previous: &[Condition],
    values: Vec<ConditionValue>,
    generation: i64,
    now: &Time,
) -> Vec<Condition> {
    let mut conditions: Vec<Condition> = values
        .into_iter()
        .map(|value| {
            let (of, status) = (value.of.as_str(), if value.holds { "True" } else { "False" });
            let before = previous.iter().find(|it| it.type_ == of).filter(|it| it.status == status);
            Condition {
                type_: value.of.into(),
                status: status.into(),
                reason: value.reason.into(),
                message: truncated(value.message, MAX_MESSAGE),
                observed_generation: Some(generation),
                last_transition_time: before.map_or(now, |it| &it.last_transition_time).clone(),
            }
        })
        .collect();
    for foreign in previous.iter().filter(|it| Type::ALL.iter().all(|ours| ours.as_str() != it.type_)) {
        // A type that stands twice would make the API server refuse every write of the list.
        if conditions.iter().all(|it| it.type_ != foreign.type_) {
            conditions.push(foreign.clone());
        }
    }
    conditions
}
