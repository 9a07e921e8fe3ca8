//! A status as a merge patch, and what a stored status claims. Pure; called by the pass and the kernel.

use serde_json::{Map, Value};

use crate::api::MemcachedStatus;
use crate::api::reason::Reason;
use crate::api::status::NEVER_OBSERVED;

/// The merge patch that turns `before` into `after`: the fields that differ; null for those that go. The first one
/// holds every field: of a status that nobody wrote yet it is not known which are there, and `kubectl get` shows a
/// number that is missing as nothing and not as 0.
#[must_use]
pub fn patch(before: &MemcachedStatus, after: &MemcachedStatus) -> Value {
    let is_first = before.observed_generation == NEVER_OBSERVED;
    let (before, after) = (fields(before), fields(after));
    let gone = before.keys().filter(|key| !after.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let changed = after.iter().filter(|(key, value)| is_first || before.get(*key) != Some(value));
    let change = |(key, value): (&String, &Value)| (key.clone(), merging(before.get(key), value));
    gone.chain(changed.map(change)).collect::<Map<_, _>>().into()
}

/// The value that turns `before` into `after` when it is merged: an object keeps every field that is not named, so those that
/// go are null.
fn merging(before: Option<&Value>, after: &Value) -> Value {
    let (Some(Value::Object(before)), Value::Object(after)) = (before, after) else { return after.clone() };
    let gone = before.keys().filter(|key| !after.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let there = after.iter().map(|(key, value)| (key.clone(), merging(before.get(key), value)));
    gone.chain(there).collect::<Map<_, _>>().into()
}

fn fields(status: &MemcachedStatus) -> Map<String, Value> {
    match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// Whether a stored status tells readers that the resource is ready.
#[must_use]
pub fn says_ready(status: &MemcachedStatus) -> bool {
    status.conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Whether a status tells readers that its spec is not reached until a person changes something: it is stalled, or a write
/// of a child or the start of a pod is refused, which counts as stalled only after a while. A Secret that is missing or
/// unreadable and a pause count too: they hide whether the pods are well.
#[must_use]
pub fn says_harm(status: &MemcachedStatus) -> bool {
    let unknown = [Reason::SecretNotFound, Reason::SecretUnreadable].map(Reason::as_str);
    if status.conditions.iter().any(|it| it.type_ == "Ready" && unknown.contains(&it.reason.as_str())) {
        return true;
    }
    let is_ready = says_ready(status);
    let refusals =
        [Reason::Forbidden, Reason::QuotaExceeded, Reason::AdmissionDenied, Reason::ReplicaFailure]
            .map(Reason::as_str);
    status.conditions.iter().filter(|it| it.status == "True").any(|it| match it.type_.as_str() {
        "Stalled" => true,
        "Paused" => !is_ready,
        "Reconciling" => refusals.contains(&it.reason.as_str()),
        _ => false,
    })
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

    #[test]
    fn the_first_patch_says_every_number_also_where_it_is_zero() {
        let first = MemcachedStatus { observed_generation: 1, ..MemcachedStatus::default() };
        assert_eq!(
            patch(&MemcachedStatus::default(), &first),
            json!({"observedGeneration": 1, "replicas": 0, "readyReplicas": 0, "updatedReplicas": 0})
        );
    }
}
