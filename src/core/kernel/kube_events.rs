//! Kubernetes Events about a resource: which exist, and what they say. Pure; called by the pass and by the handling of
//! replies, which publish them.
//!
//! Nothing here remembers earlier Events: each is made from a change (a child created, a rollout started, a status that
//! differs from the one before), so that a settled resource publishes nothing twice.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::altered;
use super::condition::{Reason, Type};
use super::diff::Path;
use super::effect::{KubeEvent, RolloutCause, Severity};
use super::object::{ChildKind, Key};
use super::text::truncated;
use crate::api::MemcachedStatus;
use crate::api::status::AlteredFields;

/// The API's limit for an Event's note, in bytes.
const MAX_MESSAGE: usize = 1_024;

/// Reasons of Ready for which a Warning is published. The other reasons are stages of ordinary work.
const WARNINGS: [Reason; 10] = [
    Reason::InvalidSpec,
    Reason::NameConflict,
    Reason::ImmutableField,
    Reason::SecretNotFound,
    Reason::SecretUnreadable,
    Reason::Forbidden,
    Reason::QuotaExceeded,
    Reason::AdmissionDenied,
    Reason::ReplicaFailure,
    Reason::ProgressDeadlineExceeded,
];

/// A child was created.
#[must_use]
pub fn created(kind: ChildKind, key: &Key) -> KubeEvent {
    let kind = kind.name();
    normal("Created", &format!("Create{kind}"), format!("Created {kind} {}", key.name))
}

/// A child was deleted.
#[must_use]
pub fn deleted(kind: ChildKind, key: &Key) -> KubeEvent {
    let kind = kind.name();
    normal(
        "Deleted",
        &format!("Delete{kind}"),
        format!("Deleted {kind} {}: it is not asked for any more", key.name),
    )
}

/// The most bytes that the names of fields may take in an Event: the rest is only counted.
const MAX_FIELDS: usize = 700;

/// A rollout started for this cause, and changes these fields of the pod template, if they are known.
#[must_use]
pub fn rollout_started(cause: RolloutCause, fields: Option<&[Path]>) -> KubeEvent {
    let (action, words) = match cause {
        RolloutCause::Spec => ("RollOutSpec", "the spec changed"),
        RolloutCause::Secret => ("RollOutSecret", "the content of a Secret changed"),
        RolloutCause::RestartTrigger => ("RollOutRestartTrigger", "the restart-trigger annotation changed"),
        RolloutCause::Drift => ("RollOutDrift", "somebody else changed the pod template, and it is put back"),
        RolloutCause::Adoption => (
            "RollOutAdoption",
            "this operator renders pod templates by newer rules, and was told to adopt them",
        ),
        RolloutCause::Definition => (
            "RollOutDefinition",
            "what the stored spec means changed though nobody edited it (another definition, release or API server)",
        ),
    };
    let changed =
        fields.map_or_else(|| "which fields of the template change is not known".to_owned(), listed);
    normal("RolloutStarted", action, format!("Replacing pods, cause {}: {words} ({changed})", cause.label()))
}

/// The first field and as many more as fit, then the number of those left out.
fn listed(fields: &[Path]) -> String {
    let mut text = String::new();
    for (at, field) in fields.iter().enumerate() {
        if at > 0 && text.len() + field.len() > MAX_FIELDS {
            return format!("{text} and {} more", fields.len() - at);
        }
        text.extend([if at > 0 { ", " } else { "" }, truncated(field.clone(), MAX_FIELDS).as_str()]);
    }
    text
}

/// The Events for a new status: the resource became ready, a new problem, a kind that is not served, fields that the
/// cluster stores otherwise.
#[must_use]
pub fn of_status(old: &MemcachedStatus, new: &MemcachedStatus) -> Vec<KubeEvent> {
    of_ready(old, new).into_iter().chain(of_unserved(old, new)).chain(of_altered(old, new)).collect()
}

fn of_ready(old: &MemcachedStatus, new: &MemcachedStatus) -> Option<KubeEvent> {
    let (before, now) = (ready(old), ready(new)?);
    let same_status = before.is_some_and(|before| before.status == now.status);
    if now.status == "True" {
        return (!same_status).then(|| normal(&now.reason, "Reconcile", now.message.clone()));
    }
    let same = same_status
        && before.is_some_and(|before| before.reason == now.reason && before.message == now.message);
    let bad = WARNINGS.iter().any(|reason| reason.as_str() == now.reason);
    (bad && !same).then(|| warning(&now.reason, "Reconcile", now.message.clone()))
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

fn ready(status: &MemcachedStatus) -> Option<&Condition> {
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

    /// A status with Ready as given, or without conditions.
    fn with_ready(ready: Option<(&str, &str, &str)>) -> MemcachedStatus {
        let condition = ready.map(|(status, reason, message)| Condition {
            type_: "Ready".to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
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
    fn a_notice_tells_what_changed(
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
        assert_eq!(of_status(&with_ready(before), &with_ready(now)), Vec::from_iter(expected));
    }

    #[test]
    fn every_bad_reason_is_a_warning() {
        for reason in WARNINGS {
            let now = with_ready(Some(("False", reason.as_str(), "no")));
            let said = of_status(&with_ready(WELL), &now);
            let severities: Vec<_> = said.iter().map(|kube_event| kube_event.severity).collect();
            assert_eq!(severities, [Severity::Warning], "{}", reason.as_str());
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
            let fields: Option<Vec<Path>> = fields.map(|all| all.iter().map(ToString::to_string).collect());
            rollout_started(cause, fields.as_deref()).message
        };
        assert_eq!(said(Some(&["spec.template.a"])), format!("{message} (spec.template.a)"));
        assert_eq!(said(Some(&["a", "b"])), format!("{message} (a, b)"));
        assert_eq!(said(None), format!("{message} (which fields of the template change is not known)"));
        let many = said(Some(&["spec.template.metadata.annotations[example.com/of-many]"; 40]));
        assert!(many.len() < MAX_MESSAGE && many.ends_with(" and 28 more)"), "{many}");
        let long = "x".repeat(2_000);
        assert!(said(Some(&[long.as_str(), "b"])).ends_with("… and 1 more)"));
    }

    proptest! {
        #[test]
        fn a_message_is_cut_at_the_end_of_a_character(message in "\\PC{0,1200}") {
            let kube_event = of_status(&with_ready(NEW), &with_ready(Some(("False", "InvalidSpec", &message))));
            let said = kube_event.first().map(|it| it.message.clone()).unwrap_or_default();
            prop_assert!(said.len() <= MAX_MESSAGE);
            prop_assert!(message.len() > MAX_MESSAGE || said == message);
            prop_assert!(message.starts_with(said.trim_end_matches('…')));
        }

        #[test]
        fn nothing_is_said_twice(reason in "InvalidSpec|MemcachedReady|Other", status in "True|False", message: String) {
            let now = with_ready(Some((&status, &reason, &message)));
            prop_assert_eq!(of_status(&now, &now), Vec::new());
        }
    }
}
