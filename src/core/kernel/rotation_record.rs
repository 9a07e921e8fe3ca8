//! How far a cache is that takes changed Secrets in place: the record in its status, moved on by what its agents answer
//! ([`super::asked_agents`]), and said in words. Pure; the pass calls [`next`], the rest of the kernel reads the record.
//!
//! The record is all that is remembered, so that a restart or another leader goes on where the last one stopped, and writes
//! nothing. A rotation begins when the content that is wanted is another than the one that every pod was seen to use, and
//! ends when each pod that runs uses what is wanted, also where that is the old content again. A pod that does not run yet
//! counts neither way: it reads the files when it starts.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use strum::VariantArray;

use super::agents::{AgentSays, PodAnswer, RefusedKey};
use super::observation::RotationResult;
use super::text::truncated;
use crate::api::reason::Reason;
use crate::api::secret_rotation::{RotationProblem, SecretRotation, UntilRestart};

/// How long an agent may be silent before somebody is told: containers restart and nodes are busy for less.
pub const UNREACHABLE_AFTER: SignedDuration = SignedDuration::from_mins(3);
/// How long no further pod may take the content before somebody is told. The kubelet brings files within two minutes.
pub const NO_PROGRESS_AFTER: SignedDuration = SignedDuration::from_mins(10);
/// The most bytes of a message.
const MAX_MESSAGE: usize = 900;

/// Why a rotation does not go on. The record has the reason of the condition Stalled, as a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
pub enum RotationProblemReason {
    /// A Secret holds what memcached would refuse.
    SecretInvalid,
    /// The agent of a pod does not answer.
    AgentUnreachable,
    /// No further pod takes the content.
    NoProgress,
}

impl RotationProblemReason {
    /// The reason of a recorded problem; `None` for one that only a later release knows.
    #[must_use]
    pub fn from_problem(problem: &RotationProblem) -> Option<Self> {
        Self::VARIANTS.iter().copied().find(|it| Reason::from(*it).as_str() == problem.reason)
    }
}

impl From<RotationProblemReason> for Reason {
    fn from(reason: RotationProblemReason) -> Self {
        match reason {
            RotationProblemReason::SecretInvalid => Self::SecretInvalid,
            RotationProblemReason::AgentUnreachable => Self::AgentUnreachable,
            RotationProblemReason::NoProgress => Self::ProgressDeadlineExceeded,
        }
    }
}

/// What the record depends on, beside the answers of the agents.
#[derive(Clone, Debug)]
pub struct RotationInputs<'a> {
    /// The time, in whole seconds.
    pub now: Timestamp,
    /// Hash of the content that is wanted.
    pub wanted: &'a str,
    /// Hash of the content that the workload says was wanted last.
    pub of_workload: Option<&'a str>,
    /// The Secrets that changed last.
    pub changed: Vec<String>,
    /// Every mounted key, as Secret and key.
    pub mounted: Vec<(&'a str, &'a str)>,
    /// Hash of the live pod template.
    pub pod_template: String,
}

impl RotationInputs<'_> {
    fn now(&self) -> Option<Time> {
        Some(Time(self.now))
    }

    /// `Secret tls, tls.key: what is wrong with it`.
    fn in_words(&self, RefusedKey { key, words }: &RefusedKey) -> String {
        match self.mounted.iter().find(|(_, mounted)| mounted == key) {
            Some((secret, key)) => format!("Secret {secret}, {key}: {words}"),
            None => format!("{key}: {words}"),
        }
    }
}

/// The record after the present one. `answers` are those about the content that is wanted, if there are any yet.
#[must_use]
pub fn next(
    record: Option<&SecretRotation>,
    inputs: &RotationInputs<'_>,
    answers: Option<&[PodAnswer]>,
) -> SecretRotation {
    // Pods that were made before there was a record started with the content that their workload names.
    let used_hash = inputs.of_workload.unwrap_or(inputs.wanted);
    let unknown = || SecretRotation { used_hash: used_hash.to_owned(), ..SecretRotation::default() };
    let mut record = record.cloned().unwrap_or_else(unknown);
    record.until_restart.take_if(|it| it.pod_template != inputs.pod_template);
    // A start in the future, of a leader whose clock is ahead, would put off what is told.
    for Time(since) in [&mut record.since, &mut record.unreachable_since].into_iter().flatten() {
        *since = inputs.now.min(*since);
    }
    match record.wanted_hash.as_deref() {
        None if record.used_hash == inputs.wanted => record,
        Some(wanted) if wanted == inputs.wanted => match answers {
            Some(answers) => answered(&record, inputs, answers),
            None => record,
        },
        // The answers so far are about other content, so none of them counts.
        _ => begun(record, inputs),
    }
}

/// Another content is wanted.
fn begun(record: SecretRotation, inputs: &RotationInputs<'_>) -> SecretRotation {
    let changed: BTreeSet<String> = record.secrets.into_iter().chain(inputs.changed.clone()).collect();
    SecretRotation {
        used_hash: record.used_hash,
        wanted_hash: Some(inputs.wanted.to_owned()),
        secrets: changed.into_iter().collect(),
        since: inputs.now(),
        unreachable_since: record.unreachable_since,
        until_restart: record.until_restart,
        pods: None,
        updated_pods: None,
        problem: None,
    }
}

fn answered(before: &SecretRotation, inputs: &RotationInputs<'_>, answers: &[PodAnswer]) -> SecretRotation {
    let updated = answers.iter().filter(|it| waits_for(&it.says).is_none()).count();
    if updated == answers.len() {
        return SecretRotation {
            used_hash: inputs.wanted.to_owned(),
            until_restart: until_restart(&before.secrets, inputs, answers),
            ..SecretRotation::default()
        };
    }
    let updated = i32::try_from(updated).unwrap_or(i32::MAX);
    let unreachable = answers.iter().any(|it| matches!(it.says, AgentSays::Unreachable { .. }));
    let mut record = before.clone();
    record.pods = i32::try_from(answers.len()).ok();
    record.updated_pods = Some(updated);
    if before.updated_pods.is_some_and(|before| before < updated) {
        record.since = inputs.now();
    }
    record.unreachable_since = before.unreachable_since.clone().or(inputs.now()).filter(|_| unreachable);
    record.problem = problem(&record, inputs, answers);
    record
}

/// Why a pod does not use the content yet; `None` where nothing is left to wait for in it.
fn waits_for(says: &AgentSays) -> Option<&str> {
    match says {
        AgentSays::Taken { .. } | AgentSays::NeedsRestart { .. } => None,
        AgentSays::OtherFiles => Some("the kubelet has not brought the new files"),
        AgentSays::Taking { reason } | AgentSays::Unreachable { reason } => Some(reason),
        AgentSays::AskLater => Some("its agent was asked too often to say why"),
        AgentSays::Refused { .. } => Some("its agent refuses it"),
    }
}

/// What a person has to look at, in the order in which it is said.
fn problem(
    record: &SecretRotation,
    inputs: &RotationInputs<'_>,
    answers: &[PodAnswer],
) -> Option<RotationProblem> {
    let is_over =
        |since: Option<&Time>, limit| since.is_some_and(|it| inputs.now.duration_since(it.0) >= limit);
    let secrets = in_words(&record.secrets);
    let said = |reason: RotationProblemReason, message: String| {
        let message = truncated(message, MAX_MESSAGE);
        Some(RotationProblem { reason: Reason::from(reason).as_str().to_owned(), message })
    };
    let refusals: BTreeSet<&RefusedKey> = answers.iter().flat_map(|it| refusals(&it.says)).collect();
    if !refusals.is_empty() {
        let what: Vec<_> = refusals.into_iter().map(|it| inputs.in_words(it)).collect();
        let end = "the pods keep what they have: correct the Secret";
        return said(RotationProblemReason::SecretInvalid, format!("{}; {end}", what.join("; ")));
    }
    if is_over(record.unreachable_since.as_ref(), UNREACHABLE_AFTER) {
        let silent = answers.iter().find_map(|it| match &it.says {
            AgentSays::Unreachable { reason } => Some((&it.pod, reason)),
            AgentSays::OtherFiles
            | AgentSays::AskLater
            | AgentSays::Taking { .. }
            | AgentSays::Taken { .. }
            | AgentSays::NeedsRestart { .. }
            | AgentSays::Refused { .. } => None,
        });
        let (pod, reason) = silent?;
        let start =
            format!("{secrets} changed, and the agent of pod {pod} does not say whether the pod uses it");
        // The reason may be another one each time.
        let same = record.problem.as_ref().filter(|it| it.message.starts_with(&start));
        return same.cloned().or_else(|| {
            let end = "no pod is restarted; let the operator reach port 9150 of the pods";
            said(RotationProblemReason::AgentUnreachable, format!("{start} ({reason}): {end}"))
        });
    }
    if is_over(record.since.as_ref(), NO_PROGRESS_AFTER) {
        let (pod, why) = answers.iter().find_map(|it| Some((&it.pod, waits_for(&it.says)?)))?;
        let start = format!("{secrets} changed, and pod {pod} does not use it yet");
        let same = record.problem.as_ref().filter(|it| it.message.starts_with(&start));
        return same.cloned().or_else(|| {
            said(RotationProblemReason::NoProgress, format!("{start}: {why}; no pod is restarted"))
        });
    }
    None
}

fn refusals(says: &AgentSays) -> &[RefusedKey] {
    match says {
        AgentSays::Refused { refusals } => refusals,
        AgentSays::OtherFiles
        | AgentSays::AskLater
        | AgentSays::Taking { .. }
        | AgentSays::Taken { .. }
        | AgentSays::NeedsRestart { .. }
        | AgentSays::Unreachable { .. } => &[],
    }
}

/// What the pods do until they restart, in words that are the same for each of them.
fn until_restart(
    secrets: &[String],
    inputs: &RotationInputs<'_>,
    answers: &[PodAnswer],
) -> Option<UntilRestart> {
    let words: BTreeSet<&str> = answers
        .iter()
        .flat_map(|it| match &it.says {
            AgentSays::Taken { until_restart } => until_restart.iter().map(String::as_str).collect(),
            AgentSays::NeedsRestart { reason } => vec![reason.as_str()],
            AgentSays::OtherFiles
            | AgentSays::AskLater
            | AgentSays::Taking { .. }
            | AgentSays::Refused { .. }
            | AgentSays::Unreachable { .. } => Vec::new(),
        })
        .collect();
    let words: Vec<_> = words.into_iter().collect();
    (!words.is_empty()).then(|| UntilRestart {
        message: truncated(
            format!("{}: until the pods restart: {}", in_words(secrets), words.join("; ")),
            MAX_MESSAGE,
        ),
        pod_template: inputs.pod_template.clone(),
    })
}

/// `Secret tls`, `Secrets login and tls`.
#[must_use]
pub fn in_words(secrets: &[String]) -> String {
    match secrets {
        [] => "a Secret".to_owned(),
        [one] => format!("Secret {one}"),
        all => format!("Secrets {}", all.join(" and ")),
    }
}

/// `Rotating Secret tls: 1/3 pods use the new content`; `None` while no rotation is under way. `expected` pods are said
/// before the agents were asked.
#[must_use]
pub fn progress(record: &SecretRotation, expected: i32) -> Option<String> {
    record.wanted_hash.as_ref()?;
    let (updated, pods) = (record.updated_pods.unwrap_or(0), record.pods.unwrap_or(expected));
    Some(format!("Rotating {}: {updated}/{pods} pods use the new content", in_words(&record.secrets)))
}

/// What came of a rotation between two records, where that is news.
#[must_use]
pub fn result(before: Option<&SecretRotation>, now: Option<&SecretRotation>) -> Option<RotationResult> {
    let now = now?;
    if let Some(problem) = &now.problem {
        let known = before.and_then(|before| before.problem.as_ref());
        let is_news = known.is_none_or(|known| known.reason != problem.reason);
        return is_news.then_some(match RotationProblemReason::from_problem(problem) {
            Some(RotationProblemReason::SecretInvalid) => RotationResult::Refused,
            Some(RotationProblemReason::AgentUnreachable) => RotationResult::Unreachable,
            Some(RotationProblemReason::NoProgress) | None => RotationResult::Stalled,
        });
    }
    let has_ended = now.wanted_hash.is_none() && before.is_some_and(|it| it.wanted_hash.is_some());
    has_ended.then_some(match now.until_restart {
        Some(_) => RotationResult::RestartNeeded,
        None => RotationResult::Taken,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock of the leader before is an hour ahead.
    #[test]
    fn a_silent_agent_is_told_of_in_time_whatever_the_clock_of_the_leader_before_says() {
        let inputs = |minutes| RotationInputs {
            now: Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes),
            wanted: "new",
            of_workload: Some("old"),
            changed: Vec::new(),
            mounted: Vec::new(),
            pod_template: String::new(),
        };
        let ahead = SecretRotation {
            used_hash: "old".to_owned(),
            wanted_hash: Some("new".to_owned()),
            since: inputs(60).now(),
            unreachable_since: inputs(60).now(),
            ..SecretRotation::default()
        };
        let says = AgentSays::Unreachable { reason: "no answer".to_owned() };
        let silent = [PodAnswer { pod: "x-0".into(), says }];
        let seen = next(Some(&ahead), &inputs(0), Some(&silent));
        assert_eq!((&seen.since, &seen.unreachable_since), (&inputs(0).now(), &inputs(0).now()));
        let told = next(Some(&seen), &inputs(3), Some(&silent));
        assert_eq!(told.problem.unwrap().reason, "AgentUnreachable");
    }
}
