//! The phase of a resource between "just created" and "all is well": the table of Ready, Reconciling and Stalled. Pure;
//! called by [`super::status`].
//!
//! [`ReadinessPhase::from_inputs`] picks the first row that fits, [`ReadinessPhase::conditions`] says what each row
//! looks like.

use jiff::{SignedDuration, Timestamp};

use super::conditions::{ConditionValue, paused_message, progressing};
use super::deadline;
use super::inputs::{BlockingProblem, StatusInputs};
use super::missing_secrets;
use super::rollout_progress::RolloutProgress;
use super::unfinished::unfinished;
use crate::api::reason::{Reason, Type};
use crate::api::status::BudgetedRollout;
use crate::kernel::rollout_budget::{RolloutTurn, TurnState};

/// How long requests may be refused before the resource counts as stalled: most refusals end when a quota is raised or
/// a rule is added, and tools give up on a stalled resource.
pub const STALLED_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// Since when the resource waits for something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Since {
    /// The operator is refused what it needs.
    pub failing: Option<Timestamp>,
    /// No further pod was replaced or became ready, and the workload counts no deadline itself.
    pub progressing: Option<Timestamp>,
}

/// The rows, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadinessPhase<'a> {
    /// The spec is not reached until a person changes something; what does not depend on that goes on.
    Broken(Reason, &'a str),
    /// Changes to these kinds of children wait for the user.
    Paused(&'a [&'static str]),
    /// A Secret is missing.
    SecretMissing {
        /// Whether this generation was reached before.
        reached: bool,
    },
    /// A Secret cannot be read; it may exist.
    SecretUnreadable(&'a str),
    /// A child, or the pods, are refused.
    Refused {
        /// The kind of refusal.
        reason: Reason,
        /// The words of the refusal.
        message: &'a str,
        /// Whether [`STALLED_AFTER`] is over.
        overdue: bool,
    },
    /// The Deployment made no progress until its deadline.
    DeadlineExceeded(&'a str),
    /// The workload made no progress until our deadline.
    NoProgress,
    /// A problem that ends by itself: an error, or pending garbage collection.
    Waiting(Reason, &'a str),
    /// This generation was never reached, and is on its way.
    NewGeneration,
    /// This generation was reached before; children or pods are being brought back to it.
    Progressing,
    /// All is in place, and pods take new content of a Secret.
    Rotating,
    /// All is in place, but pods were lost.
    PodsLost,
    /// All is well.
    Steady,
}

impl<'a> ReadinessPhase<'a> {
    /// The first row that fits. `reached`: whether this generation was reached before.
    #[must_use]
    pub fn from_inputs(inputs: &'a StatusInputs<'_>, reached: bool, since: Since) -> Self {
        match &inputs.blocking_problem {
            Some(BlockingProblem::InvalidSpec(message)) => return Self::Broken(Reason::InvalidSpec, message),
            Some(BlockingProblem::NameConflict(message)) => {
                return Self::Broken(Reason::NameConflict, message);
            }
            Some(BlockingProblem::ImmutableField(message)) => {
                return Self::Broken(Reason::ImmutableField, message);
            }
            _ if let Some(waiting) = inputs.paused.as_deref().filter(|it| !it.is_empty()) => {
                return Self::Paused(waiting);
            }
            Some(BlockingProblem::SecretInvalid(message)) => {
                return Self::Broken(Reason::SecretInvalid, message);
            }
            _ if !inputs.missing_secrets.is_empty() => return Self::SecretMissing { reached },
            Some(BlockingProblem::SecretUnreadable(message)) => return Self::SecretUnreadable(message),
            _ => {}
        }
        if let Some((reason, message)) = refusal(inputs) {
            let overdue =
                since.failing.is_some_and(|since| inputs.now.duration_since(since) >= STALLED_AFTER);
            return Self::Refused { reason, message, overdue };
        }
        let rollout = inputs.rollout.as_ref();
        if let Some(message) = rollout.and_then(|rollout| rollout.deadline_exceeded()) {
            return Self::DeadlineExceeded(message);
        }
        match &inputs.blocking_problem {
            Some(BlockingProblem::AgentUnreachable(message)) => {
                return Self::Broken(Reason::AgentUnreachable, message);
            }
            Some(BlockingProblem::RotationStalled(message)) => {
                return Self::Broken(Reason::ProgressDeadlineExceeded, message);
            }
            Some(BlockingProblem::WaitingForGarbageCollection(message)) => {
                return Self::Waiting(Reason::WaitingForGarbageCollection, message);
            }
            Some(BlockingProblem::RetryingAfterError(message)) => {
                return Self::Waiting(Reason::RetryingAfterError, message);
            }
            _ => {}
        }
        if since.progressing.and_then(deadline::ends).is_some_and(|end| end <= inputs.now) {
            return Self::NoProgress;
        }
        let desired = inputs.replicas_expected;
        let in_place = rollout.filter(|_| inputs.pending.is_empty());
        match in_place {
            Some(rollout) if rollout.complete(desired) && inputs.rotating().is_some() => Self::Rotating,
            Some(rollout) if rollout.complete(desired) => Self::Steady,
            _ if !reached => Self::NewGeneration,
            Some(rollout) if rollout.settled(desired) && since.progressing.is_none() => Self::PodsLost,
            _ => Self::Progressing,
        }
    }

    /// Ready, and Reconciling or Stalled where one of them is true.
    #[must_use]
    pub fn conditions(&self, inputs: &StatusInputs<'_>) -> (ConditionValue, Option<ConditionValue>) {
        let not_ready = |reason, message: &str| condition(Type::Ready, reason, message);
        let reconciling = |reason, message: &str| Some(condition(Type::Reconciling, reason, message));
        let stalled = |reason, message: &str| Some(condition(Type::Stalled, reason, message));
        let generation = || format!("Reconciling new generation {}", inputs.generation);
        let secrets = || missing_secrets::with_keys(inputs);
        let pods = || pods_ready(inputs);
        match *self {
            Self::Broken(reason, message) => (not_ready(reason, message), stalled(reason, message)),
            // Not ready though all pods may serve: who waits for Ready after an edit has not got it.
            Self::Paused(waiting) => (
                not_ready(Reason::MemcachedNotReady, &pods()),
                reconciling(Reason::Paused, &paused_message(waiting)),
            ),
            Self::SecretMissing { reached: false } => (
                not_ready(Reason::SecretNotFound, &secrets()),
                reconciling(Reason::NewGeneration, &generation()),
            ),
            Self::SecretMissing { reached: true } => (not_ready(Reason::SecretNotFound, &secrets()), None),
            Self::SecretUnreadable(message) => {
                (not_ready(Reason::SecretUnreadable, message), reconciling(Reason::SecretUnreadable, message))
            }
            Self::Refused { reason, message, overdue: false } => {
                (not_ready(reason, message), reconciling(reason, message))
            }
            Self::Refused { reason, message, overdue: true } => {
                (not_ready(reason, message), stalled(reason, message))
            }
            Self::DeadlineExceeded(message) => past_deadline(message, inputs),
            Self::NoProgress => past_deadline(&deadline::message(inputs), inputs),
            Self::Waiting(reason, message) => {
                (not_ready(Reason::MemcachedNotReady, message), reconciling(reason, message))
            }
            Self::NewGeneration if awaited_turn(inputs).is_some() => (
                not_ready(Reason::MemcachedNotReady, &pods()),
                reconciling(Reason::Progressing, &work_left(inputs)),
            ),
            Self::NewGeneration => (
                not_ready(Reason::MemcachedNotReady, &pods()),
                reconciling(Reason::NewGeneration, &generation()),
            ),
            Self::Progressing => (
                not_ready(Reason::MemcachedNotReady, &pods()),
                reconciling(Reason::Progressing, &work_left(inputs)),
            ),
            Self::Rotating => (
                not_ready(Reason::MemcachedNotReady, &pods()),
                reconciling(Reason::Progressing, &inputs.rotating().unwrap_or_default()),
            ),
            Self::PodsLost => (not_ready(Reason::MemcachedNotReady, &pods()), None),
            Self::Steady => (steady(inputs), None),
        }
    }
}

/// The reason and the words of a refusal; `None` if nothing is refused.
#[must_use]
pub fn refusal<'a>(inputs: &'a StatusInputs<'_>) -> Option<(Reason, &'a str)> {
    if let Some(BlockingProblem::Denied { denial, message }) = &inputs.blocking_problem {
        return Some((Reason::from(*denial), message));
    }
    let message = inputs.rollout.as_ref()?.replica_failure()?;
    Some((Reason::ReplicaFailure, message))
}

/// The rollout is past its deadline, and a person has to look.
fn past_deadline(message: &str, inputs: &StatusInputs<'_>) -> (ConditionValue, Option<ConditionValue>) {
    let reason = Reason::ProgressDeadlineExceeded;
    let message = with_halt(with_pod_problem(message, inputs), inputs);
    (condition(Type::Ready, reason, &message), Some(condition(Type::Stalled, reason, &message)))
}

/// A condition as the rows have them: Ready is false, the other two are there only while true.
fn condition(of: Type, reason: Reason, message: &str) -> ConditionValue {
    ConditionValue { of, holds: of != Type::Ready, reason, message: message.to_owned() }
}

fn steady(inputs: &StatusInputs<'_>) -> ConditionValue {
    let message = format!("All {} replicas are ready", inputs.replicas_expected);
    ConditionValue { holds: true, ..condition(Type::Ready, Reason::MemcachedReady, &message) }
}

/// How many pods are ready, and what is unfinished.
fn pods_ready(inputs: &StatusInputs<'_>) -> String {
    let counts = format!("{}/{} replicas are ready", inputs.ready(), inputs.replicas_expected);
    let unfinished = unfinished(inputs);
    if unfinished.is_empty() {
        return with_pod_problem(&counts, inputs);
    }
    // The failing pod stands before its consequences: a terminal cuts the end of a long line off.
    let of_pod = inputs.pod_problem.iter().map(|problem| format!("a pod does not run: {problem}"));
    [counts].into_iter().chain(of_pod).chain(unfinished).collect::<Vec<_>>().join("; ")
}

/// The message, then why a pod does not run, where one does not.
fn with_pod_problem(message: &str, inputs: &StatusInputs<'_>) -> String {
    match &inputs.pod_problem {
        Some(problem) => format!("{}: {problem}", message.trim_end_matches('.')),
        None => message.to_owned(),
    }
}

/// The message, and what else waits for this resource.
fn with_halt(message: String, inputs: &StatusInputs<'_>) -> String {
    match inputs.turn_state {
        TurnState::Granted(RolloutTurn { cause: BudgetedRollout::Adoption, .. }) => {
            format!("{message}; no other cache adopts a newer pod template until this one is available")
        }
        _ => message,
    }
}

/// Says that pods wait for a turn, and why they are to be replaced; `None` if they need not wait.
fn awaited_turn(inputs: &StatusInputs<'_>) -> Option<String> {
    let (cause, begun) = match inputs.turn_state {
        TurnState::Waiting(cause) => (cause, false),
        TurnState::Suspended(turn, _) => (turn.cause, true),
        TurnState::NotNeeded | TurnState::Granted(_) => return None,
    };
    let event = match cause {
        BudgetedRollout::Secret => "A Secret changed",
        BudgetedRollout::Definition => "What the stored spec means changed though nobody edited it",
        BudgetedRollout::Adoption if begun => "The pods get a newer template",
        BudgetedRollout::Adoption => return None,
    };
    // Others may keep it from adopting though there are free turns.
    let halted = match inputs.turn_state {
        TurnState::Suspended(_, Some(BudgetedRollout::Adoption)) => {
            ", and no other cache is stalled with a newer template"
        }
        _ => "",
    };
    Some(format!(
        "{event}; pods are replaced once fewer other caches replace theirs (--max-concurrent-rollouts){halted}"
    ))
}

/// What is left to do to reach a generation again that was reached before.
fn work_left(inputs: &StatusInputs<'_>) -> String {
    if let Some(waits) = awaited_turn(inputs) {
        return waits;
    }
    let rollout = progressing(inputs);
    let current = inputs.rollout.as_ref().is_some_and(RolloutProgress::is_current);
    if rollout.holds {
        rollout.message
    } else if inputs.pending.is_empty() && current {
        "Waiting for the last pods to become ready".to_owned()
    } else if inputs.pending.is_empty() {
        format!("Waiting for the {} to observe its newest spec", inputs.workload.name())
    } else {
        format!("Waiting for changes to {} to be confirmed", inputs.pending.join(", "))
    }
}
