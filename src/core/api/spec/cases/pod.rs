//! `spec.pod`.

use serde_json::{Value, json};

use super::case::{Case, breaks_limit, breaks_rule, breaks_schema, taken};
use super::labels::{of_annotations, of_labels, of_our_labels};
use crate::api::spec::names::OBJECT_NAME_PATTERN;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = names_and_words();
    cases.extend(pull_secrets());
    cases.extend(of_labels("pod.labels"));
    cases.extend(of_our_labels("pod.labels"));
    cases.extend(of_labels("pod.nodeSelector"));
    cases.extend(of_annotations("pod.annotations"));
    cases
}

fn names_and_words() -> Vec<Case> {
    let with = |field: &str, text: &str| json!({"pod": {field: text}});
    let no_name = format!("should match '{OBJECT_NAME_PATTERN}'");
    let policies = "Unsupported value: \"always\": supported values: \"Always\", \"IfNotPresent\", \"Never\"";
    vec![
        taken(with("priorityClassName", "a")),
        breaks_schema(with("priorityClassName", "High"), "spec.pod.priorityClassName", no_name.clone()),
        taken(with("serviceAccountName", "")),
        breaks_schema(with("serviceAccountName", "a/b"), "spec.pod.serviceAccountName", no_name),
        taken(with("imagePullPolicy", "Always")),
        breaks_limit(with("imagePullPolicy", "always"), "spec.pod.imagePullPolicy", policies),
    ]
}

fn pull_secrets() -> Vec<Case> {
    let path = "spec.pod.imagePullSecrets";
    let with = |names: &[&str]| {
        let items: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"pod": {"imagePullSecrets": items}})
    };
    let many = |count: i32| {
        let items: Vec<Value> = (0..count).map(|at| json!({"name": at.to_string()})).collect();
        json!({"pod": {"imagePullSecrets": items}})
    };
    let twice = "imagePullSecrets must not have two items with the same name";
    vec![
        taken(with(&["a", "b", ""])),
        breaks_rule(with(&["a", "b", "a"]), path, twice),
        taken(with(&[""])),
        breaks_rule(with(&["", ""]), path, twice),
        taken(many(64)),
        breaks_limit(many(65), path, "Too many: 65: must have at most 64 items"),
        taken(with(&[&"a".repeat(253)])),
        breaks_limit(
            with(&["b", &"a".repeat(254)]),
            &format!("{path}[1].name"),
            "Too long: may not be more than 253 bytes",
        ),
    ]
}
