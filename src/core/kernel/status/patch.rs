//! A status as a merge patch, and what a stored status claims. Pure; called by the pass and the kernel.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::api::MemcachedStatus;
use crate::api::reason::Reason;
use crate::api::status::NEVER_OBSERVED;

/// The merge patch that turns `before` into `after`: the fields that differ; null for those that go. The first one
/// holds every field: of a status that nobody wrote yet it is not known which are there, and `kubectl get` shows a
/// number that is missing as nothing and not as 0.
///
/// Fields are compared as they are, and only those that differ become a tree: most do not, and trees are made of many small pieces.
#[must_use]
pub fn patch(before: &MemcachedStatus, after: &MemcachedStatus) -> Value {
    let MemcachedStatus {
        observed_generation,
        reconciled_generation,
        template_generation,
        conditions,
        replicas,
        ready_replicas,
        updated_replicas,
        selector,
        template_revision,
        server_list,
        unserved_kinds,
        secrets,
        secret_rotation,
        warnings,
        budgeted_rollout,
        budgeted_rollout_cause,
        budgeted_rollout_stalled,
        altered_fields,
        other_field_managers,
        weakened_by_others,
        failing_since,
        progressing_since,
        warming,
    } = after;
    let mut patch = Patch { is_first: before.observed_generation == NEVER_OBSERVED, fields: Map::new() };
    patch.number("observedGeneration", before.observed_generation, *observed_generation);
    patch.field("reconciledGeneration", &before.reconciled_generation, reconciled_generation);
    patch.field("templateGeneration", &before.template_generation, template_generation);
    patch.field("conditions", &before.conditions, conditions);
    patch.number("replicas", before.replicas.into(), (*replicas).into());
    patch.number("readyReplicas", before.ready_replicas.into(), (*ready_replicas).into());
    patch.number("updatedReplicas", before.updated_replicas.into(), (*updated_replicas).into());
    patch.field("selector", &before.selector, selector);
    patch.field("templateRevision", &before.template_revision, template_revision);
    patch.field("serverList", &before.server_list, server_list);
    patch.field("unservedKinds", &before.unserved_kinds, unserved_kinds);
    patch.field("secrets", &before.secrets, secrets);
    patch.field("secretRotation", &before.secret_rotation, secret_rotation);
    patch.field("warnings", &before.warnings, warnings);
    patch.field("budgetedRollout", &before.budgeted_rollout, budgeted_rollout);
    patch.field("budgetedRolloutCause", &before.budgeted_rollout_cause, budgeted_rollout_cause);
    patch.field("budgetedRolloutStalled", &before.budgeted_rollout_stalled, budgeted_rollout_stalled);
    patch.field("alteredFields", &before.altered_fields, altered_fields);
    patch.field("otherFieldManagers", &before.other_field_managers, other_field_managers);
    patch.field("weakenedByOthers", &before.weakened_by_others, weakened_by_others);
    patch.field("failingSince", &before.failing_since, failing_since);
    patch.field("progressingSince", &before.progressing_since, progressing_since);
    patch.field("warming", &before.warming, warming);
    patch.fields.into()
}

/// The fields that are named so far.
struct Patch {
    is_first: bool,
    fields: Map<String, Value>,
}

impl Patch {
    /// A field that every status has.
    fn number(&mut self, name: &str, before: i64, after: i64) {
        if self.is_first || before != after {
            self.fields.insert(name.to_owned(), after.into());
        }
    }

    /// A field that is absent where it has its default.
    fn field<T: Default + PartialEq + Serialize>(&mut self, name: &str, before: &T, after: &T) {
        let (was_there, is_there) = (*before != T::default(), *after != T::default());
        if (self.is_first && is_there) || before != after {
            let value = match (to_value(after, is_there), was_there) {
                (Value::Object(after), true) => merging(&to_value(before, was_there), after),
                (after, _) => after,
            };
            self.fields.insert(name.to_owned(), value);
        }
    }
}

fn to_value(field: &impl Serialize, is_there: bool) -> Value {
    if is_there { serde_json::to_value(field).unwrap_or_default() } else { Value::Null }
}

/// What turns `before` into an object with the fields `after` when it is merged. An object keeps every field that is not named,
/// so those that go are null, within a field too.
fn merging(before: &Value, after: Map<String, Value>) -> Value {
    let names = before.as_object().into_iter().flat_map(Map::keys);
    let gone = names.filter(|name| !after.contains_key(*name)).map(|name| (name.clone(), Value::Null));
    let gone: Vec<(String, Value)> = gone.collect();
    let there = after.into_iter().map(|(name, value)| match (before.get(&name), value) {
        (Some(before), Value::Object(after)) => (name, merging(before, after)),
        (_, value) => (name, value),
    });
    there.chain(gone).collect::<Map<_, _>>().into()
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
    fn a_patch_names_each_field_that_comes_changes_or_goes_and_no_other() {
        let status = |of: &Value| serde_json::from_value::<MemcachedStatus>(of.clone()).unwrap();
        let full: Value = serde_json::from_str(include_str!("../../tests/golden/status.json")).unwrap();
        for (name, value) in full.as_object().unwrap() {
            let mut without = full.clone();
            without.as_object_mut().unwrap().remove(name);
            let absent = match name.as_str() {
                // A status that was observed.
                "observedGeneration" => continue,
                "replicas" | "readyReplicas" | "updatedReplicas" => json!(0),
                _ => Value::Null,
            };
            let (full, without) = (status(&full), status(&without));
            assert_eq!(patch(&full, &without), json!({name.as_str(): absent}));
            assert_eq!(patch(&without, &full), json!({name.as_str(): value}));
            assert_eq!(patch(&full, &full), json!({}));
        }
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
