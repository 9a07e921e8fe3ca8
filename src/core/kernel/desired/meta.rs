//! What all children have in common: name, labels, owner, the names of annotations. Pure; used by
//! every file of [`super`], and by whoever reads these names back from a live object.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};

use super::intent::Intent;
use crate::api;
use crate::kernel::object::{ChildKind, Key, MEMCACHED, Uid};

/// On the pod template: the hash of the mounted Secret keys, so that new content rolls the pods.
/// At revision 0 that one is of the Go operator, and ours stands on the Deployment.
pub const SECRET_HASH: &str = "memcached.c5c3.io/secret-hash";
/// On the pod template: the value of the same annotation on the resource, so that a new value rolls the pods.
pub const RESTART_TRIGGER: &str = api::RESTART_TRIGGER;
/// On the Deployment: the [`super::Revision`] that rendered its pod template.
pub const TEMPLATE_REVISION: &str = "memcached.c5c3.io/template-revision";
/// On the Deployment: [`Intent::hash`] of what its pod template was rendered from.
pub const TEMPLATE_HASH: &str = "memcached.c5c3.io/template-hash";
/// On the Deployment: the [`super::DefaultImages`] that its pod template was rendered with; none for those that are built in.
pub const DEFAULT_IMAGES: &str = "memcached.c5c3.io/default-images";

/// Label that tells the pods of one resource from those of another: its value is the resource's name.
pub const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";
/// Label that all our objects carry, with the value [`MANAGED_BY`].
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// Label of the pods of a StatefulSet, with the name of that kind: a Deployment's pods of the same cache do not have it.
pub const WORKLOAD_LABEL: &str = "memcached.c5c3.io/workload";
/// Value of [`MANAGED_BY_LABEL`].
pub const MANAGED_BY: &str = "memcached-operator";

/// Label for the program in a pod, with the value [`MEMCACHED`].
const NAME_LABEL: &str = "app.kubernetes.io/name";

/// `apiVersion` in owner references: the older of the two served versions, because garbage collection then
/// also works while an older CRD is installed.
const OWNER_API_VERSION: &str = "memcached.c5c3.io/v1alpha1";

/// The labels by which the pods of the resource `name` are selected, sorted.
const fn sorted_labels(name: &str) -> [(&str, &str); 3] {
    [(INSTANCE_LABEL, name), (MANAGED_BY_LABEL, MANAGED_BY), (NAME_LABEL, MEMCACHED)]
}

/// The label that the pods of a workload have beside these, which comes after them.
fn label_of_workload(workload: ChildKind) -> Option<(&'static str, &'static str)> {
    (workload == ChildKind::StatefulSet).then(|| (WORKLOAD_LABEL, workload.name()))
}

/// The labels by which the pods of the resource `name` are selected; every child carries them too. They are the Deployment's
/// selector, which cannot change: a fourth label needs another place.
#[must_use]
pub fn selector_labels(name: &str) -> BTreeMap<String, String> {
    sorted_labels(name).map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// The selector of the pods of `name`, whatever runs them, as an object.
#[must_use]
pub fn label_selector(name: &str) -> LabelSelector {
    LabelSelector { match_labels: Some(selector_labels(name)), match_expressions: None }
}

/// Labels of the pods that a workload runs: while a StatefulSet takes the place of a Deployment there are both, and a budget
/// or an autoscaler has to see one set only.
#[must_use]
pub fn labels_of_pods(name: &str, workload: ChildKind) -> BTreeMap<String, String> {
    let more = label_of_workload(workload).map(|(key, value)| (key.to_owned(), value.to_owned()));
    selector_labels(name).into_iter().chain(more).collect()
}

/// The selector of the pods that a workload runs, as an object. It cannot change in a workload that exists.
#[must_use]
pub fn selector_of_pods(name: &str, workload: ChildKind) -> LabelSelector {
    LabelSelector { match_labels: Some(labels_of_pods(name, workload)), match_expressions: None }
}

/// The selector of all pods of `name`, as text: `key=value,key=value`, keys sorted.
#[must_use]
pub fn selector_text(name: &str) -> String {
    text(sorted_labels(name))
}

/// The selector of the pods that a workload runs, as text for the scale subresource.
#[must_use]
pub fn selector_text_of_pods(name: &str, workload: ChildKind) -> String {
    text(sorted_labels(name).into_iter().chain(label_of_workload(workload)))
}

/// Every status holds such a text, so that each pass makes one.
fn text<'a>(sorted: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let parts: Vec<&str> =
        sorted.into_iter().flat_map(|(key, value)| [",", key, "=", value]).skip(1).collect();
    parts.concat()
}

/// The pods of `name` whoever manages them, as the rules of scheduling know them.
#[must_use]
pub fn pods_of(name: &str) -> LabelSelector {
    let mut match_labels = selector_labels(name);
    match_labels.remove(MANAGED_BY_LABEL);
    LabelSelector { match_labels: Some(match_labels), match_expressions: None }
}

/// Metadata of a child. An empty map of annotations is left out.
#[must_use]
pub fn object_meta(
    kind: ChildKind,
    intent: &Intent<'_>,
    annotations: BTreeMap<String, String>,
) -> ObjectMeta {
    ObjectMeta {
        name: Some(kind.name_of_child(&intent.key.name)),
        namespace: Some(intent.key.namespace.clone()),
        labels: Some(selector_labels(&intent.key.name)),
        annotations: Some(annotations).filter(|all| !all.is_empty()),
        owner_references: Some(vec![owner_reference(intent.key, intent.uid)]),
        ..ObjectMeta::default()
    }
}

/// The reference by which the garbage collector deletes a child after its resource, and by which we know the
/// child for ours.
#[must_use]
pub fn owner_reference(key: &Key, uid: &Uid) -> OwnerReference {
    OwnerReference {
        api_version: OWNER_API_VERSION.to_owned(),
        kind: "Memcached".to_owned(),
        name: key.name.clone(),
        uid: uid.to_string(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::selector::Selector;

    #[test]
    fn a_selector_as_text_has_its_labels_sorted() {
        let joined = |labels: BTreeMap<String, String>| {
            labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
        };
        assert_eq!(selector_text("cache"), joined(selector_labels("cache")));
        for workload in ChildKind::WORKLOADS {
            let labels = labels_of_pods("cache", workload);
            let text = selector_text_of_pods("cache", workload);
            assert_eq!(text, joined(labels));
            assert!(Selector::from(text).is_ours(), "it is kept in short");
        }
    }
}
