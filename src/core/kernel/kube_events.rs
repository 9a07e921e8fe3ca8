//! Kubernetes Events about a resource: which exist, and what they say. Pure; called by the pass and by the handling of
//! replies, which publish them.
//!
//! Nothing here remembers earlier Events: each is made from a change (a child created, a rollout started, a status that
//! differs from the one before), so that a settled resource publishes nothing twice.

use jiff::Timestamp;

use super::altered;
use super::field_managers::OtherManager;
use super::field_path::{Path, is_within};
use super::messages::{KubeEvent, Severity};
use super::object::{ChildKind, Key};
use super::request::Changes;
use super::rollout_cause::{ChangedSecret, RolloutCause, SecretChange};
use super::rotation_record::in_words;
use super::text::truncated;
use super::world::pods::FailingPod;
use crate::api::condition::Condition;
use crate::api::reason::{Meaning, Reason, Type};
use crate::api::status::{AlteredFields, OtherFieldManager};
use crate::api::{MemcachedSpec, MemcachedStatus};

/// The API's limit for an Event's note, in bytes.
const MAX_MESSAGE: usize = 1_024;

/// The reason of the warning that an autoscaler does not scale.
pub const AUTOSCALER_INACTIVE: &str = "AutoscalerInactive";

/// The reason of the warning that pods need a restart for a part of what they were to take.
pub const RESTART_NEEDED: &str = "RestartNeeded";

/// Pods begin to take new content of Secrets, have taken it, or need a restart for a part of it.
pub fn of_rotation(old: &MemcachedStatus, new: &MemcachedStatus) -> impl Iterator<Item = KubeEvent> {
    let wanted = |status: &MemcachedStatus| status.secret_rotation.as_ref()?.wanted_hash.clone();
    let until = |status: &MemcachedStatus| status.secret_rotation.as_ref()?.until_restart.clone();
    let named = |status: &MemcachedStatus| {
        in_words(status.secret_rotation.as_ref().map_or(&[][..], |record| &record.secrets))
    };
    let moved = match (wanted(old), wanted(new)) {
        (before, Some(now)) if before.as_ref() != Some(&now) => {
            let words = format!("{} changed: pods take the new content, and none is replaced", named(new));
            Some(normal("RotationStarted", "RotateSecret", words))
        }
        (Some(_), None) if new.secret_rotation.is_some() => {
            let left = until(new).map_or("", |_| ", but for what takes a restart");
            let words = format!("All pods took the new content of {}{left}", named(old));
            Some(normal("RotationComplete", "RotateSecret", words))
        }
        _ => None,
    };
    let left = until(new).filter(|now| until(old).as_ref() != Some(now));
    let left = left.map(|it| warning(RESTART_NEEDED, "RotateSecret", it.message));
    moved.into_iter().chain(left)
}

/// An autoscaler that scaled until now does not scale any more. All other warnings are sent with new pods.
#[must_use]
pub fn of_autoscaler(old: &MemcachedStatus, new: &MemcachedStatus) -> Option<KubeEvent> {
    let found = |status: &'_ MemcachedStatus| {
        status.warnings.iter().find(|it| it.reason == AUTOSCALER_INACTIVE).cloned()
    };
    let now = found(new).filter(|_| found(old).is_none())?;
    Some(warning(&now.reason, "Scale", now.message))
}

/// A child was created.
#[must_use]
pub fn created(kind: ChildKind, key: &Key) -> KubeEvent {
    let (kind, name) = (kind.name(), kind.name_of_child(&key.name));
    normal("Created", &format!("Create{kind}"), format!("Created {kind} {name}"))
}

/// Another kind is to run the pods, which begin empty. `cause`: why, where nobody edited the spec.
#[must_use]
pub fn workload_switched(kind: ChildKind, key: &Key, cause: Option<RolloutCause>) -> KubeEvent {
    let (kind, name) = (kind.name(), kind.name_of_child(&key.name));
    let words = format!("pods of {kind} {name} take the place of those that run, and the cache begins empty");
    let words = match cause {
        None => format!("The spec asks for another workload: {words}"),
        Some(_) => format!(
            "Without a new edit, {words}: another definition changed what the spec means, or somebody deleted the {kind}"
        ),
    };
    normal("WorkloadSwitched", &format!("Create{kind}"), words)
}

/// A pod that does not serve was deleted, as it kept a rollout from going on.
#[must_use]
pub fn pod_deleted(pod: &Key, problem: Option<&str>) -> KubeEvent {
    let words = format!(
        "Deleted pod {}, which is of an older template, is not ready, and keeps the rollout from going on{}",
        pod.name,
        problem.map(|problem| format!(": {problem}")).unwrap_or_default()
    );
    warning("StuckPodDeleted", "ReplacePods", words)
}

/// A child was deleted.
#[must_use]
pub fn deleted(kind: ChildKind, key: &Key) -> KubeEvent {
    let (kind, name) = (kind.name(), kind.name_of_child(&key.name));
    normal(
        "Deleted",
        &format!("Delete{kind}"),
        format!("Deleted {kind} {name}: it is not asked for any more"),
    )
}

/// The most bytes that the names of fields may take in an Event: the rest is only counted.
const MAX_FIELDS: usize = 700;

/// The most bytes that the names of other field managers may take in an Event about a rollout: the rest is only counted. The Event
/// has three parts, and none may push out the end of another.
const MAX_MANAGERS: usize = 150;

/// What the names of fields may take beside the other parts, the words around them, and the count of those left out.
fn left_for_fields(why: &str, by: &str) -> usize {
    const AROUND: usize = 80;
    MAX_MESSAGE.saturating_sub(why.len() + by.len() + AROUND).min(MAX_FIELDS)
}

/// A rollout started for this cause. Names the edits of the spec where they are known, the fields of the pod template
/// where they are, and who changed what is put back.
#[must_use]
pub fn rollout_started(cause: RolloutCause, changes: &Changes) -> KubeEvent {
    let Changes { fields, edits, managers, is_repair: _ } = changes;
    let edited = edits.join(", ");
    let (action, words) = match cause {
        RolloutCause::Spec if !edits.is_empty() => ("RollOutSpec", edited.as_str()),
        RolloutCause::Spec => ("RollOutSpec", "the spec changed"),
        RolloutCause::Secret => ("RollOutSecret", "the content of a Secret changed"),
        RolloutCause::RestartTrigger => ("RollOutRestartTrigger", "the restart-trigger annotation changed"),
        // A rollout by others is no apply of ours: `replaced_by_others` reports it.
        RolloutCause::Drift | RolloutCause::Others => {
            ("RollOutDrift", "somebody else changed the pod template, and it is put back")
        }
        RolloutCause::Adoption => (
            "RollOutAdoption",
            "this operator renders pod templates by newer rules, and was told to adopt them",
        ),
        RolloutCause::Definition => (
            "RollOutDefinition",
            "what the stored spec means changed though nobody edited it (another definition, release or API server)",
        ),
    };
    let words = truncated(words.to_owned(), MAX_FIELDS);
    let by = by(managers);
    let changed = of_template(fields.as_deref(), left_for_fields(&words, &by));
    normal(
        "RolloutStarted",
        action,
        format!("Replacing pods, cause {}: {words} ({changed}{by})", cause.label()),
    )
}

/// The changed fields of the pod template, in at most so many bytes and the number of those left out.
fn of_template(fields: Option<&[Path]>, limit: usize) -> String {
    let of_template = fields.into_iter().flatten().filter(|path| is_within(path, "spec.template"));
    let of_template: Vec<Path> = of_template.cloned().collect();
    // None of the template, though pods roll: a webhook changed the template along with an apply of other fields.
    match of_template.is_empty() {
        true => "which fields of the template change is not known".to_owned(),
        false => listed_within(&of_template, limit),
    }
}

/// Fields of a child that somebody else changed were put back, and no pod rolls for that.
#[must_use]
pub fn put_back(kind: ChildKind, key: &Key, changes: &Changes) -> Option<KubeEvent> {
    let Changes { fields, edits: _, managers, is_repair } = changes;
    let fields = fields.as_deref().filter(|fields| *is_repair && !fields.is_empty())?;
    let (kind, name) = (kind.name(), kind.name_of_child(&key.name));
    let words = format!(
        "Put back fields of {kind} {name} that somebody else changed: {}{}",
        listed(fields),
        by(managers)
    );
    Some(normal("FieldsPutBack", &format!("Apply{kind}"), words))
}

/// Who wrote, where that is known: `; by kubectl-edit at 2026-11-22T10:00:00Z`.
fn by(managers: &[OtherManager]) -> String {
    let names: Vec<_> = managers.iter().map(OtherManager::in_words).collect();
    if names.is_empty() { String::new() } else { format!("; by {}", listed_within(&names, MAX_MANAGERS)) }
}

/// Somebody else changed the pod template, and pods are replaced for that. Names each field manager whose fields differ
/// from those of the status before, and those fields: where only values changed, all that it sets. `since`: who wrote last
/// before this time is not named, such as in a first status, before which there is no other to compare with.
#[must_use]
pub fn replaced_by_others(
    old: &MemcachedStatus,
    new: &MemcachedStatus,
    since: Option<Timestamp>,
) -> Option<KubeEvent> {
    let (before, now) = (&old.other_field_managers, &new.other_field_managers);
    let is_older =
        |it: &OtherFieldManager| since.zip(it.time.as_ref()).is_some_and(|(since, time)| time.0 < since);
    let set = now.iter().filter(|it| !before.contains(it) && !is_older(it)).filter_map(|it| {
        let before = before.iter().find(|before| before.manager == it.manager);
        let fields = match before {
            Some(before) if before.fields != it.fields => fields_beside(it, before),
            _ => it.fields.clone(),
        };
        let time = it.time.as_ref().map(|time| format!(" at {}", time.0)).unwrap_or_default();
        (!fields.is_empty()).then(|| format!("{}{time}: {}", it.manager, listed(&fields)))
    });
    let gone = before.iter().filter_map(|it| {
        let fields = match now.iter().find(|now| now.manager == it.manager) {
            Some(now) => fields_beside(it, now),
            None => it.fields.clone(),
        };
        // The managed fields name who set a field. They do not say who removed it.
        (!fields.is_empty()).then(|| format!("no longer there of {}: {}", it.manager, listed(&fields)))
    });
    let what: Vec<String> = set.chain(gone).collect();
    if what.is_empty() {
        return None;
    }
    let what = what.join("; ");
    let words = truncated(
        format!("Somebody else changed the pod template, so pods are replaced ({what})"),
        MAX_FIELDS,
    );
    Some(match new.weakened_by_others.as_slice() {
        [] => normal("PodsReplacedByOthers", "ReplacePods", words),
        weakened => {
            let weakened = weakened.join(", ");
            warning(
                "PodsReplacedByOthers",
                "ReplacePods",
                format!("{words}. This weakens the pods: {weakened}"),
            )
        }
    })
}

/// The fields of `one` that `other` does not have.
fn fields_beside(one: &OtherFieldManager, other: &OtherFieldManager) -> Vec<Path> {
    one.fields.iter().filter(|path| !other.fields.contains(path)).cloned().collect()
}

/// The number of pods in the spec of an autoscaled cache was edited, which changes nothing.
#[must_use]
pub fn replicas_not_used(before: &MemcachedSpec, after: &MemcachedSpec) -> Option<KubeEvent> {
    let autoscaling = after.autoscaling.as_ref().filter(|it| it.enabled == Some(true))?;
    let number = |number: Option<i32>| number.map_or_else(|| "unset".to_owned(), |number| number.to_string());
    (before.replicas != after.replicas).then(|| {
        let words = format!(
            "spec.replicas is {} now, and changes nothing: the HorizontalPodAutoscaler decides about the number of pods; \
             edit spec.autoscaling.minReplicas ({}) or maxReplicas ({})",
            number(after.replicas),
            number(autoscaling.min_replicas),
            number(autoscaling.max_replicas),
        );
        normal("ReplicasNotUsed", "Scale", words)
    })
}

/// A rollout started because these Secrets came or their content changed. Names their keys, and the fields of the pod template.
#[must_use]
pub fn rollout_by_secrets(changed: &[ChangedSecret], fields: Option<&[Path]>) -> KubeEvent {
    let named = |ChangedSecret { name, change }: &ChangedSecret| match change {
        SecretChange::Came => format!("Secret {name}"),
        SecretChange::Keys(keys) => format!("Secret {name} ({})", keys.join(", ")),
        SecretChange::Content => format!("Secret {name} (which keys is not known)"),
    };
    let names = changed.iter().map(named).collect::<Vec<_>>().join(" and ");
    let what = match changed.iter().all(|it| it.change == SecretChange::Came) {
        true => format!("the pods waited for {names}"),
        false => format!("the content changed of {names}"),
    };
    let what = truncated(what, MAX_FIELDS);
    let (cause, fields) = (RolloutCause::Secret.label(), of_template(fields, left_for_fields(&what, "")));
    let words = format!("Replacing pods, cause {cause}: {what}: {fields}");
    normal("RolloutStarted", "RollOutSecret", words)
}

/// The first field and as many more as fit, then the number of those left out.
pub(super) fn listed(fields: &[Path]) -> String {
    listed_within(fields, MAX_FIELDS)
}

fn listed_within(names: &[String], limit: usize) -> String {
    let mut text = String::new();
    for (at, name) in names.iter().enumerate() {
        if at > 0 && text.len() + name.len() > limit {
            return format!("{text} and {} more", names.len() - at);
        }
        text.extend([if at > 0 { ", " } else { "" }, truncated(name.clone(), limit).as_str()]);
    }
    text
}

/// A pod does not run, the first by its name, and the new status is the first that says so. The deadline of a rollout
/// passes ten minutes later.
#[must_use]
pub fn of_pod_problem(
    old: &MemcachedStatus,
    new: &MemcachedStatus,
    FailingPod { name, problem }: FailingPod<'_>,
) -> Option<KubeEvent> {
    let says = |status| ready(status).is_some_and(|ready| ready.message.contains(problem));
    let is_news =
        says(new) && !says(old) && !of_ready(old, new).is_some_and(|it| it.message.contains(problem));
    is_news.then(|| warning("PodFailing", "RunPods", format!("Pod {name} does not run: {problem}")))
}

/// What a new status says of the cluster: a kind that is not served, fields that are stored otherwise.
pub fn of_cluster<'a>(
    old: &'a MemcachedStatus,
    new: &'a MemcachedStatus,
) -> impl Iterator<Item = KubeEvent> + use<'a> {
    of_unserved(old, new).chain(of_altered(old, new))
}

/// The resource became ready, or has a new problem.
#[must_use]
pub fn of_ready(old: &MemcachedStatus, new: &MemcachedStatus) -> Option<KubeEvent> {
    let (before, now) = (ready(old), ready(new)?);
    let same_status = before.is_some_and(|before| before.status == now.status);
    if now.status == "True" {
        return (!same_status).then(|| normal(&now.reason, "Reconcile", now.message.clone()));
    }
    let same = same_status
        && before.is_some_and(|before| before.reason == now.reason && before.message == now.message);
    (is_bad(&now.reason) && !same).then(|| warning(&now.reason, "Reconcile", now.message.clone()))
}

/// Whether somebody has to look when Ready is false for this reason.
pub(super) fn is_bad(reason: &str) -> bool {
    Reason::ALL.iter().any(|it| it.meaning() == Meaning::Problem && it.as_str() == reason)
}

fn of_unserved(old: &MemcachedStatus, new: &MemcachedStatus) -> impl Iterator<Item = KubeEvent> {
    let is_news = |kind: &&String| !old.unserved_kinds.contains(kind);
    new.unserved_kinds.iter().filter(is_news).map(|kind| {
        let words =
            format!("No {kind} was made: the API server does not serve this kind; it is made when it does");
        warning("NotServed", &format!("Create{kind}"), words)
    })
}

fn of_altered(old: &MemcachedStatus, new: &MemcachedStatus) -> impl Iterator<Item = KubeEvent> {
    let said = |it: &AlteredFields| {
        let before = old.altered_fields.iter().find(|before| before.kind == it.kind);
        before.is_some_and(|before| altered::paths(before) == altered::paths(it))
    };
    new.altered_fields.iter().filter(move |it| !said(it)).map(|it| {
        let words = format!(
            "The cluster holds fields of {} otherwise than this operator applies them, and they are left so: {}",
            it.kind,
            altered::paths(it)
        );
        normal("FieldsAltered", &format!("Apply{}", it.kind), words)
    })
}

/// The condition Ready.
pub(super) fn ready(status: &MemcachedStatus) -> Option<&Condition> {
    status.conditions.iter().find(|it| it.type_ == Type::Ready.as_str())
}

/// An Event of type Warning: somebody should look.
#[must_use]
pub fn warning(reason: &str, action: &str, message: String) -> KubeEvent {
    KubeEvent { severity: Severity::Warning, ..normal(reason, action, message) }
}

fn normal(reason: &str, action: &str, message: String) -> KubeEvent {
    KubeEvent {
        severity: Severity::Normal,
        reason: reason.to_owned(),
        action: action.to_owned(),
        message: truncated(message, MAX_MESSAGE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use proptest::prelude::*;
    use rstest::rstest;

    use crate::api::secret_rotation::{SecretRotation, UntilRestart};

    #[test]
    fn a_rollout_by_secrets_names_their_keys_where_they_are_known() {
        let secret = |name: &str, change| ChangedSecret { name: name.to_owned(), change };
        let changed = [
            secret("login", SecretChange::Keys(vec!["password-file".to_owned()])),
            secret("tls", SecretChange::Content),
        ];
        let fields = ["metadata.annotations", "spec.template.metadata.annotations"].map(Path::from);
        let words = "Replacing pods, cause secret: the content changed of Secret login (password-file) and Secret tls (which keys \
                     is not known)";
        let told = |fields| rollout_by_secrets(&changed, fields).message;
        assert_eq!(told(Some(&fields[..])), format!("{words}: spec.template.metadata.annotations"));
        assert_eq!(told(None), format!("{words}: which fields of the template change is not known"));
        let came = ["login", "tls"].map(|name| secret(name, SecretChange::Came));
        let words = "Replacing pods, cause secret: the pods waited for Secret login and Secret tls: \
                     which fields of the template change is not known";
        assert_eq!(rollout_by_secrets(&came, None).message, words);
    }

    #[test]
    fn a_rotation_that_is_complete_but_for_a_restart_says_so() {
        let record = |wanted: Option<&str>, until: Option<&str>| {
            let until = until.map(|it| UntilRestart { message: it.to_owned(), pod_template: String::new() });
            let rotation = SecretRotation {
                wanted_hash: wanted.map(str::to_owned),
                secrets: vec!["tls".to_owned()],
                until_restart: until,
                ..SecretRotation::default()
            };
            MemcachedStatus { secret_rotation: Some(Box::new(rotation)), ..MemcachedStatus::default() }
        };
        let said = |old: &MemcachedStatus, new: &MemcachedStatus| -> Vec<String> {
            of_rotation(old, new).map(|it| it.message).collect()
        };
        let under_way = record(Some("b"), None);
        assert_eq!(said(&under_way, &record(None, None)), ["All pods took the new content of Secret tls"]);
        assert_eq!(
            said(&under_way, &record(None, Some("another kind of key"))),
            [
                "All pods took the new content of Secret tls, but for what takes a restart",
                "another kind of key"
            ],
        );
    }

    /// A status with Ready as given, or without conditions.
    fn with_ready(ready: Option<(&str, &str, &str)>) -> MemcachedStatus {
        let condition = ready.map(|(status, reason, message)| Condition {
            type_: "Ready".into(),
            status: status.into(),
            reason: reason.into(),
            message: message.to_owned(),
            observed_generation: None,
            last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
        });
        MemcachedStatus { conditions: condition.into_iter().collect(), ..MemcachedStatus::default() }
    }

    const NEW: Option<(&str, &str, &str)> = None;
    const WELL: Option<(&str, &str, &str)> = Some(("True", "MemcachedReady", "All 1 replicas are ready"));
    const ROLLING: Option<(&str, &str, &str)> =
        Some(("False", "MemcachedNotReady", "0/1 replicas are ready"));
    const NO_SECRET: Option<(&str, &str, &str)> =
        Some(("False", "SecretNotFound", "Referenced Secrets not found: a"));
    const NO_SECRETS: Option<(&str, &str, &str)> =
        Some(("False", "SecretNotFound", "Referenced Secrets not found: a, b"));

    #[rstest]
    #[case::finished(ROLLING, WELL, Some((Severity::Normal, "MemcachedReady")))]
    #[case::finished_at_once(NEW, WELL, Some((Severity::Normal, "MemcachedReady")))]
    #[case::still_well(WELL, WELL, None)]
    #[case::at_work(WELL, ROLLING, None)]
    #[case::at_work_for_the_first_time(NEW, ROLLING, None)]
    #[case::wrong(WELL, NO_SECRET, Some((Severity::Warning, "SecretNotFound")))]
    #[case::wrong_from_the_start(NEW, NO_SECRET, Some((Severity::Warning, "SecretNotFound")))]
    #[case::still_wrong(NO_SECRET, NO_SECRET, None)]
    #[case::wrong_in_another_way(NO_SECRET, NO_SECRETS, Some((Severity::Warning, "SecretNotFound")))]
    #[case::better_but_not_well(NO_SECRET, ROLLING, None)]
    #[case::no_status_at_all(WELL, NEW, None)]
    fn an_event_tells_what_changed(
        #[case] before: Option<(&str, &str, &str)>,
        #[case] now: Option<(&str, &str, &str)>,
        #[case] expected: Option<(Severity, &str)>,
    ) {
        let expected = expected.map(|(severity, reason)| KubeEvent {
            severity,
            reason: reason.to_owned(),
            action: "Reconcile".to_owned(),
            message: now.map(|(_, _, message)| message.to_owned()).unwrap_or_default(),
        });
        assert_eq!(of_ready(&with_ready(before), &with_ready(now)), expected);
    }

    #[test]
    fn a_pod_that_does_not_run_is_told_of_once_and_not_beside_a_warning_with_the_same_words() {
        const PULL: &str = "container exporter cannot pull i: not found";
        let failing =
            |reason| with_ready(Some(("False", reason, &format!("0/1 replicas are ready: {PULL}"))));
        let (rolling, expired) = (failing("MemcachedNotReady"), failing("ProgressDeadlineExceeded"));
        let said = |old: &MemcachedStatus, new: &MemcachedStatus| {
            of_pod_problem(old, new, FailingPod { name: "x-0", problem: PULL })
                .map(|it| (it.severity, it.reason, it.message))
        };
        let words = format!("Pod x-0 does not run: {PULL}");
        let expected = (Severity::Warning, "PodFailing".to_owned(), words);
        assert_eq!(said(&with_ready(ROLLING), &rolling), Some(expected));
        assert_eq!(said(&rolling, &rolling), None);
        assert_eq!(said(&rolling, &expired), None);
        assert_eq!(said(&with_ready(ROLLING), &expired), None, "the Warning about the deadline says it");
        assert_eq!(said(&with_ready(ROLLING), &with_ready(WELL)), None, "enough other pods serve");
    }

    #[test]
    fn every_bad_reason_is_a_warning() {
        for reason in Reason::ALL.iter().filter(|it| it.meaning() == Meaning::Problem) {
            let now = with_ready(Some(("False", reason.as_str(), "no")));
            let said = of_ready(&with_ready(WELL), &now);
            assert_eq!(said.map(|it| it.severity), Some(Severity::Warning), "{}", reason.as_str());
        }
    }

    #[test]
    fn a_created_child_is_named() {
        let key = Key { namespace: "shop".to_owned(), name: "cache".to_owned() };
        let said = |kind| {
            let KubeEvent { action, message, .. } = created(kind, &key);
            (action, message)
        };
        let expected = |action: &str, message: &str| (action.to_owned(), message.to_owned());
        assert_eq!(said(ChildKind::Service), expected("CreateService", "Created Service cache"));
        assert_eq!(said(ChildKind::Deployment), expected("CreateDeployment", "Created Deployment cache"));
    }

    #[rstest]
    #[case(RolloutCause::Spec, "Replacing pods, cause spec: the spec changed")]
    #[case(RolloutCause::Secret, "Replacing pods, cause secret: the content of a Secret changed")]
    #[case(
        RolloutCause::RestartTrigger,
        "Replacing pods, cause restart_trigger: the restart-trigger annotation changed"
    )]
    #[case(
        RolloutCause::Drift,
        "Replacing pods, cause drift: somebody else changed the pod template, and it is put back"
    )]
    #[case(
        RolloutCause::Definition,
        "Replacing pods, cause definition: what the stored spec means changed though nobody edited it (another \
         definition, release or API server)"
    )]
    fn a_rollout_has_a_cause_and_names_the_fields(#[case] cause: RolloutCause, #[case] message: &str) {
        let said = |fields: Option<&[&str]>| {
            let of_template = |name: &&str| format!("spec.template.{name}");
            let fields = fields.map(|all| all.iter().map(of_template).collect());
            rollout_started(cause, &Changes { fields, ..Changes::default() }).message
        };
        assert_eq!(said(Some(&["a"])), format!("{message} (spec.template.a)"));
        assert_eq!(said(Some(&["a", "b"])), format!("{message} (spec.template.a, spec.template.b)"));
        for unknown in [None, Some(&[][..])] {
            let expected = format!("{message} (which fields of the template change is not known)");
            assert_eq!(said(unknown), expected);
        }
        let many = said(Some(&["metadata.annotations[example.com/of-many]"; 40]));
        assert!(many.len() < MAX_MESSAGE && many.ends_with(" and 28 more)"), "{many}");
        let long = "x".repeat(2_000);
        assert!(said(Some(&[long.as_str(), "b"])).ends_with("… and 1 more)"));
    }

    #[test]
    fn however_much_changes_a_rollout_is_told_to_its_end() {
        let manager = |number: i32| OtherManager {
            name: format!("{}-{number}", "m".repeat(120)),
            time: None,
            fields: Vec::new(),
        };
        let changes = Changes {
            fields: Some(
                (0..60).map(|it| format!("spec.template.spec.containers[name={it}].args")).collect(),
            ),
            edits: (0..60)
                .map(|it| format!("pod.nodeSelector.example.com/{it} unset -> {}", "y".repeat(60)))
                .collect(),
            managers: (0..8).map(manager).collect(),
            ..Changes::default()
        };
        let said = rollout_started(RolloutCause::Spec, &changes).message;
        assert!(said.len() <= MAX_MESSAGE, "{} bytes: {said}", said.len());
        assert!(said.contains("[name=1].args and 58 more; by mmm"), "{said}");
        assert!(said.ends_with(" and 7 more)"), "{said}");
    }

    proptest! {
        #[test]
        fn a_message_is_cut_at_the_end_of_a_character(message in "\\PC{0,1200}") {
            let kube_event = of_ready(&with_ready(NEW), &with_ready(Some(("False", "InvalidSpec", &message))));
            let said = kube_event.map(|it| it.message).unwrap_or_default();
            prop_assert!(said.len() <= MAX_MESSAGE);
            prop_assert!(message.len() > MAX_MESSAGE || said == message);
            prop_assert!(message.starts_with(said.trim_end_matches('…')));
        }

        #[test]
        fn nothing_is_said_twice(reason in "InvalidSpec|MemcachedReady|Other", status in "True|False", message: String) {
            let now = with_ready(Some((&status, &reason, &message)));
            prop_assert_eq!(of_ready(&now, &now), None);
            prop_assert_eq!(of_cluster(&now, &now).count(), 0);
        }
    }
}
