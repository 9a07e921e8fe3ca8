//! A status as a merge patch, and what a stored status claims. Pure; called by the pass and the kernel.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::api::MemcachedStatus;
use crate::api::reason::Reason;
use crate::api::status::NEVER_OBSERVED;
use crate::kernel::json_text::JsonText;

/// The fields of an object, each as its text.
type Fields<'a> = BTreeMap<&'a str, &'a RawValue>;

/// The merge patch that turns `before` into `after`: the fields that differ; null for those that go. The first one
/// holds every field: of a status that nobody wrote yet it is not known which are there, and `kubectl get` shows a
/// number that is missing as nothing and not as 0.
///
/// Fields are compared as texts, and only those that differ become a tree: most do not, and trees are made of many small pieces.
#[must_use]
pub fn patch(before: &MemcachedStatus, after: &MemcachedStatus) -> Value {
    let is_first = before.observed_generation == NEVER_OBSERVED;
    let (before, after) = (JsonText::new(before), JsonText::new(after));
    let (before, after) = (fields(before.as_str()), fields(after.as_str()));
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    merged(&before, &after, |name, value| {
        is_first || before.get(name).is_none_or(|it| it.get() != value.get())
    })
}

/// The value that turns `before` into `after` when it is merged: an object keeps every field that is not named, so those that
/// go are null.
fn merging(before: Option<&RawValue>, after: &RawValue) -> Value {
    let both = before.and_then(|before| fields(before.get())).zip(fields(after.get()));
    match both {
        Some((before, after)) => merged(&before, &after, |_, _| true),
        None => serde_json::from_str(after.get()).unwrap_or_default(),
    }
}

/// What is merged into an object with the fields `before`: null for each that `after` lacks, and each of `after` that is
/// `named`.
fn merged(before: &Fields<'_>, after: &Fields<'_>, named: impl Fn(&str, &RawValue) -> bool) -> Value {
    let gone = before.keys().filter(|name| !after.contains_key(**name));
    let gone = gone.map(|name| ((*name).to_owned(), Value::Null));
    let there = after.iter().filter(|(name, value)| named(name, value));
    let there = there.map(|(name, value)| ((*name).to_owned(), merging(before.get(*name).copied(), value)));
    gone.chain(there).collect::<Map<_, _>>().into()
}

/// `None` for what is no object.
fn fields(text: &str) -> Option<Fields<'_>> {
    text.starts_with('{').then(|| serde_json::from_str(text).ok())?
}

/// Whether a stored status tells readers that the resource is ready.
#[must_use]
pub fn says_ready(status: &MemcachedStatus) -> bool {
    status.conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Whether a status tells readers that its spec is not reached until a person changes something: it is stalled, or a write
/// of a child or the start of a pod is refused, which counts as stalled only after a while. A Secret that is missing or
/// unreadable counts too, and a pause beside pods that are not well: they hide what becomes of the pods.
#[must_use]
pub fn says_harm(status: &MemcachedStatus) -> bool {
    let unknown = [Reason::SecretNotFound, Reason::SecretUnreadable].map(Reason::as_str);
    if status.conditions.iter().any(|it| it.type_ == "Ready" && unknown.contains(&it.reason.as_str())) {
        return true;
    }
    let pods_are_well = says_ready(status) || says_pods_well(status);
    let refusals =
        [Reason::Forbidden, Reason::QuotaExceeded, Reason::AdmissionDenied, Reason::ReplicaFailure]
            .map(Reason::as_str);
    status.conditions.iter().filter(|it| it.status == "True").any(|it| match it.type_.as_str() {
        "Stalled" => true,
        "Paused" => !pods_are_well,
        "Reconciling" => refusals.contains(&it.reason.as_str()),
        _ => false,
    })
}

/// Whether a status tells readers that all pods are there, run what the spec asks for and serve. While a pause holds other
/// changes back, Ready is false all the same.
fn says_pods_well(status: &MemcachedStatus) -> bool {
    let says_of = |reason: Reason| status.conditions.iter().any(|it| it.reason == reason.as_str());
    let has_template = status.template_generation == Some(status.observed_generation);
    has_template && says_of(Reason::ProgressingComplete) && says_of(Reason::NotDegraded)
}

/// Whether a status tells readers that something may keep the operator from deleting a child.
#[must_use]
pub fn says_hindered(status: &MemcachedStatus) -> bool {
    let hindered = [Reason::Paused, Reason::Forbidden, Reason::AdmissionDenied, Reason::RetryingAfterError]
        .map(Reason::as_str);
    status.conditions.iter().any(|condition| {
        matches!(condition.type_.as_str(), "Reconciling" | "Stalled")
            && condition.status == "True"
            && hindered.contains(&condition.reason.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::secret_rotation::SecretRotation;
    use serde_json::json;

    #[test]
    fn a_patch_names_what_differs_and_nulls_what_goes() {
        let before = MemcachedStatus {
            observed_generation: 1,
            reconciled_generation: Some(1),
            server_list: vec!["a.n:11211".into()],
            replicas: 1,
            ..MemcachedStatus::default()
        };
        let after = MemcachedStatus { observed_generation: 2, replicas: 1, ..MemcachedStatus::default() };
        assert_eq!(
            patch(&before, &after),
            json!({"observedGeneration": 2, "reconciledGeneration": null, "serverList": null})
        );
        assert_eq!(patch(&after, &after), json!({}));
    }

    #[test]
    fn a_patch_nulls_what_goes_from_within_a_field() {
        let of = |wanted_hash: Option<&str>| MemcachedStatus {
            observed_generation: 1,
            secret_rotation: Some(Box::new(SecretRotation {
                used_hash: "a".into(),
                wanted_hash: wanted_hash.map(str::to_owned),
                ..SecretRotation::default()
            })),
            ..MemcachedStatus::default()
        };
        assert_eq!(
            patch(&of(Some("b")), &of(None)),
            json!({"secretRotation": {"usedHash": "a", "wantedHash": null}})
        );
    }

    /// While a change waits, Ready is false in any case.
    #[test]
    fn a_pause_is_harm_only_where_the_pods_are_not_well() {
        let of = |progressing: &str, degraded: &str, template: i64| {
            let condition = |of: &str, status: &str, reason: &str| {
                let condition = json!({
                    "type": of, "status": status, "reason": reason, "message": "",
                    "lastTransitionTime": "2027-01-15T08:00:00Z",
                });
                serde_json::from_value(condition).unwrap()
            };
            MemcachedStatus {
                observed_generation: 2,
                template_generation: Some(template),
                conditions: vec![
                    condition("Progressing", "False", progressing),
                    condition("Degraded", if degraded == "Degraded" { "True" } else { "False" }, degraded),
                    condition("Ready", "False", "MemcachedNotReady"),
                    condition("Reconciling", "True", "Paused"),
                    condition("Paused", "True", "Paused"),
                ],
                ..MemcachedStatus::default()
            }
        };
        assert!(!says_harm(&of("ProgressingComplete", "NotDegraded", 2)));
        assert!(says_harm(&of("Paused", "NotDegraded", 2)), "pods of an older template are left");
        assert!(says_harm(&of("ProgressingComplete", "Degraded", 2)), "a pod is lost");
        assert!(says_harm(&of("ProgressingComplete", "NotDegraded", 1)), "pods of a former workload serve");
    }

    #[test]
    fn the_first_patch_says_every_number_also_where_it_is_zero() {
        let first = MemcachedStatus { observed_generation: 1, ..MemcachedStatus::default() };
        assert_eq!(
            patch(&MemcachedStatus::default(), &first),
            json!({"observedGeneration": 1, "replicas": 0, "readyReplicas": 0, "updatedReplicas": 0})
        );
    }
}
