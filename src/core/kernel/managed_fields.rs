//! Reads managedFields: which fields of a child other field managers own. Pure; called by [`super::seen`] for each object.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::Value;

use super::diff;
use super::field_managers::OtherManager;
use super::go_operator::entry::GoOperatorEntry;
use super::object::FIELD_MANAGER;

/// The other field managers in `entries`, sorted by name. `ours` is the `fieldsV1` of our own entry. What controllers
/// report in the status is left out, and so is what the Go operator left to us.
#[must_use]
pub fn others(
    entries: &[ManagedFieldsEntry],
    ours: Option<&Value>,
    go_operator: Option<&GoOperatorEntry>,
) -> Vec<OtherManager> {
    let mut found: BTreeMap<&str, OtherManager> = BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        let (Some(name), Some(theirs)) = (entry.manager.as_deref(), entry.fields_v1.as_ref()) else {
            continue;
        };
        let is_theirs = name != FIELD_MANAGER
            && entry.subresource.as_deref() != Some("status")
            && go_operator.is_none_or(|it| it.index != index);
        let fields = if is_theirs { diff::owned_beside(&theirs.0, ours) } else { Vec::new() };
        if fields.is_empty() {
            continue;
        }
        let none_yet = || OtherManager { name: name.to_owned(), time: None, fields: Vec::new() };
        let other = found.entry(name).or_insert_with(none_yet);
        other.time = other.time.max(entry.time.as_ref().map(|time| time.0));
        other.fields.extend(fields);
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(name: &str, subresource: Option<&str>, fields: &Value) -> ManagedFieldsEntry {
        let raw = json!({
            "manager": name, "operation": "Update", "subresource": subresource, "time": "2026-11-22T10:00:00Z",
            "fieldsV1": fields,
        });
        serde_json::from_value(raw).unwrap()
    }

    fn other(name: &str, fields: &[&str]) -> OtherManager {
        let time = Some("2026-11-22T10:00:00Z".parse().unwrap());
        OtherManager { name: name.to_owned(), time, fields: fields.iter().map(ToString::to_string).collect() }
    }

    #[test]
    fn each_other_manager_has_the_fields_that_are_its_own_alone() {
        let container =
            |fields: Value| json!({"f:spec": {"f:template": {"f:spec": {"f:containers": fields}}}});
        let ours = container(json!({"k:{\"name\":\"memcached\"}": {".": {}, "f:name": {}, "f:image": {}}}));
        let theirs = container(json!({
            "k:{\"name\":\"memcached\"}": {
                "f:image": {},
                "f:env": {".": {}, "k:{\"name\":\"A\"}": {".": {}, "f:name": {}, "f:value": {}}},
            },
            "k:{\"name\":\"debug\"}": {".": {}, "f:name": {}, "f:image": {}},
        }));
        let restarted = json!({"f:spec": {"f:template": {"f:metadata": {"f:annotations": {".": {}, "f:example.com/at": {}}}}}});
        let found = others(
            &[
                entry("memcached-operator", None, &ours),
                entry("kubectl-set", None, &theirs),
                entry("kubectl-rollout", None, &restarted),
                entry("kube-controller-manager", Some("status"), &json!({"f:status": {"f:replicas": {}}})),
                entry("kubectl", Some("scale"), &json!({"f:spec": {"f:replicas": {}}})),
                entry("helm", None, &ours),
            ],
            Some(&ours),
            None,
        );
        let of_set = [
            "spec.template.spec.containers[name=debug]",
            "spec.template.spec.containers[name=memcached].env[name=A]",
        ];
        let expected = [
            other("kubectl", &["spec.replicas"]),
            other("kubectl-rollout", &["spec.template.metadata.annotations[example.com/at]"]),
            other("kubectl-set", &of_set),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_the_go_operator_left_is_nobody_elses() {
        let left = GoOperatorEntry { index: 0, fields: json!({}) };
        let entries = [entry("manager", None, &json!({"f:spec": {"f:replicas": {}}}))];
        assert_eq!(others(&entries, None, Some(&left)), []);
        assert_eq!(others(&entries, None, None), [other("manager", &["spec.replicas"])]);
    }
}
