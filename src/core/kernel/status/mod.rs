//! The status of a resource. Pure: a [`StatusInputs`] and the previous status in, the new one out.
//!
//! Called by the pass. [`rollout_progress`] turns a workload's counters into what they prove, [`conditions`] holds
//! types, reasons and messages, [`readiness`] decides between Ready, Reconciling and Stalled, [`missing_secrets`] and
//! [`unfinished`] have words that they say, [`patch`] makes the request that writes it all.

pub mod conditions;
mod deadline;
pub mod inputs;
mod missing_secrets;
pub mod patch;
pub mod readiness;
pub mod rollout_progress;
pub mod unfinished;

pub use inputs::BlockingProblem;
pub use inputs::Denial;
pub use inputs::MissingSecret;
pub use inputs::StatusInputs;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::desired::meta;
use super::rollout_budget::RolloutTurn;
use crate::api::MemcachedStatus;
use crate::api::reason::Type;
use crate::api::status::{BudgetedRollout, NEVER_OBSERVED};
use readiness::{ReadinessPhase, STALLED_AFTER, Since};

/// Computes the status. `previous` is what stands there now, of the same incarnation: conditions of types that
/// are not ours are kept, and `lastTransitionTime` moves exactly when a condition's `status` flips.
///
/// Computing the status again from its own result changes nothing.
#[must_use]
pub fn status(inputs: &StatusInputs<'_>, previous: &MemcachedStatus) -> MemcachedStatus {
    let now = whole_seconds(inputs.now);
    let failing_since = failing_since(inputs, previous);
    // A larger number than the generation was restored from a backup of another incarnation.
    let reconciled = previous.reconciled_generation.filter(|it| *it <= inputs.generation);
    let reached = reconciled == Some(inputs.generation);
    let progressing_since = deadline::progressing_since(inputs, previous, reached, now);
    let since = Since { failing: failing_since, progressing: progressing_since };
    let phase = ReadinessPhase::from_inputs(inputs, reached, since);
    let (ready, other) = phase.conditions(inputs);
    let ended = other.as_ref().map_or(ready.holds, |it| it.of == Type::Stalled);
    let mut values = vec![
        conditions::available(inputs),
        conditions::progressing(inputs),
        conditions::degraded(inputs),
        ready,
    ];
    values.extend(other);
    values.extend(conditions::paused(inputs));
    let rollout = inputs.rollout.as_ref();
    let key = inputs.key;
    let reconciled_generation = if ended { Some(inputs.generation) } else { reconciled };
    let turn_cause = inputs.turn_state.on_record().map(|turn| turn.cause);
    let mut status = MemcachedStatus {
        observed_generation: inputs.generation,
        reconciled_generation,
        template_generation: Some(current_template_generation(inputs, previous)),
        conditions: conditions::follow(&previous.conditions, values, inputs.generation, &Time(now)),
        replicas: rollout.map_or(0, |rollout| rollout.seen.replicas),
        ready_replicas: inputs.ready(),
        updated_replicas: rollout.map_or(0, rollout_progress::RolloutProgress::updated),
        selector: meta::selector_text_of_pods(&key.name, inputs.counted).into(),
        template_revision: inputs.template_revision.map(|revision| revision.0),
        server_list: inputs.servers.clone(),
        unserved_kinds: inputs.unserved.iter().map(ToString::to_string).collect(),
        secrets: inputs.secrets.clone().into(),
        secret_rotation: inputs.rotation.clone().map(Box::new),
        warnings: inputs.warnings.clone().into(),
        budgeted_rollout: turn_cause.map(BudgetedRollout::recorded),
        budgeted_rollout_cause: turn_cause.and_then(BudgetedRollout::recorded_cause),
        budgeted_rollout_stalled: false,
        altered_fields: inputs.altered.clone().into(),
        other_field_managers: inputs.other_managers.clone().into(),
        weakened_by_others: inputs.weakened.clone().into(),
        failing_since: failing_since.map(Time),
        progressing_since: progressing_since.map(Time),
        warming: inputs.warmth_wait.as_ref().map(|wait| Box::new(wait.warming.clone())),
    };
    let turn = inputs.turn_state_by(&status).on_record();
    status.budgeted_rollout_stalled = turn.is_some_and(RolloutTurn::halts_adoption);
    status
}

/// The last generation whose template was in place, by the status; `None` if the status does not say.
///
/// Every status of ours has this field. Without it, another operator wrote the status, or an older CRD drops the field:
/// then it is the generation that was seen last, because nobody knows whether its template was in place. If it was not,
/// the cache only waits for a turn. The opposite error would roll many caches at once. A resource that was never seen is
/// new, and one whose numbers are from before a restore rolls when it is edited.
#[must_use]
pub fn template_generation(status: &MemcachedStatus, generation: i64) -> Option<i64> {
    let seen = Some(status.observed_generation).filter(|it| *it != NEVER_OBSERVED);
    status.template_generation.or(seen).filter(|it| *it <= generation)
}

/// This generation, if its template is in place; otherwise the last one before; 0 if there was none. While a former workload
/// stands, the edit that asked for another one is still under way: should that one be deleted, it is made anew for this edit.
fn current_template_generation(inputs: &StatusInputs<'_>, previous: &MemcachedStatus) -> i64 {
    let in_place = inputs.rollout.as_ref().is_some_and(|rollout| rollout.carries_template);
    if in_place && inputs.former_ready.is_none() {
        return inputs.generation;
    }
    template_generation(previous, inputs.generation).unwrap_or(0)
}

/// Since when the operator is refused what it needs. The start is kept while the refusal lasts. It is kept, but not
/// set, after another error and while the workload's controller has not seen the spec. Otherwise it is cleared.
fn failing_since(inputs: &StatusInputs<'_>, previous: &MemcachedStatus) -> Option<Timestamp> {
    let now = whole_seconds(inputs.now);
    // A start in the future, from a clock that went wrong, would put the deadline off.
    let since = previous.failing_since.as_ref().map(|since| whole_seconds(since.0).min(now));
    if readiness::refusal(inputs).is_some() {
        return since.or(Some(now));
    }
    let failed_otherwise = matches!(
        inputs.blocking_problem,
        Some(BlockingProblem::SecretUnreadable(_) | BlockingProblem::RetryingAfterError(_))
    );
    let unobserved = inputs.rollout.as_ref().is_some_and(|rollout| !rollout.observed);
    since.filter(|_| failed_otherwise || unobserved)
}

/// The time at which the status changes by itself: the end of the 10 minutes after which a refusal, or a workload that makes no
/// progress and counts no deadline itself, counts as stalled. `None` while there is neither, and once it is stalled.
#[must_use]
pub fn next_change(inputs: &StatusInputs<'_>, previous: &MemcachedStatus) -> Option<Timestamp> {
    let failing = failing_since(inputs, previous);
    let reached = previous.reconciled_generation == Some(inputs.generation);
    let progressing = deadline::progressing_since(inputs, previous, reached, whole_seconds(inputs.now));
    // Whether the generation was reached before makes no difference to a refusal.
    match ReadinessPhase::from_inputs(inputs, false, Since { failing, progressing }) {
        ReadinessPhase::Refused { overdue: false, .. } => failing?.checked_add(STALLED_AFTER).ok(),
        ReadinessPhase::NewGeneration | ReadinessPhase::Progressing => deadline::ends(progressing?),
        _ => None,
    }
}

/// Times in the API have whole seconds; computing with more would make a status differ from itself once stored.
fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}
