//! `spec.security`.

use serde_json::{Value, json};

use super::case::{Case, breaks_limit, breaks_schema, lacks, taken};
use crate::api::spec::names::OBJECT_NAME_PATTERN;

/// A part of the section that asks for a Secret.
struct Part {
    field: &'static str,
    reference: &'static str,
    lacks: &'static str,
}

const PARTS: [Part; 2] = [
    Part {
        field: "sasl",
        reference: "credentialsSecretRef",
        lacks: "credentialsSecretRef.name is required when SASL is enabled",
    },
    Part {
        field: "tls",
        reference: "certificateSecretRef",
        lacks: "certificateSecretRef.name is required when TLS is enabled",
    },
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases: Vec<_> = PARTS.iter().flat_map(secrets).collect();
    cases.extend(PARTS.iter().flat_map(names));
    cases.extend(plaintext());
    cases
}

/// What is switched on has its Secret.
fn secrets(Part { field, reference, lacks: words }: &Part) -> [Case; 6] {
    let with = |value: Value| json!({"security": {*field: value}});
    let path = format!("spec.security.{field}.{reference}.name");
    let without = |value: Value| lacks(with(value), &path, *words);
    [
        taken(with(json!({}))),
        taken(with(json!({"enabled": false}))),
        without(json!({"enabled": true})),
        without(json!({"enabled": true, *reference: {}})),
        without(json!({"enabled": true, *reference: {"name": ""}})),
        taken(with(json!({"enabled": true, *reference: {"name": "a"}}))),
    ]
}

/// The name becomes part of a request's path.
fn names(Part { field, reference, .. }: &Part) -> Vec<Case> {
    let with = |name: &str| json!({"security": {*field: {"enabled": true, *reference: {"name": name}}}});
    let path = format!("spec.security.{field}.{reference}.name");
    let words = format!("should match '{OBJECT_NAME_PATTERN}'");
    let names = ["a.b-1", "0", &"a".repeat(253)];
    let others = ["a/b", "..", ".", "../secrets/other", "a?watch=true", "A", "a_b", "a.", "-a"];
    let mut cases: Vec<_> = names.iter().map(|name| taken(with(name))).collect();
    cases.extend(others.iter().map(|other| breaks_schema(with(other), &path, words.clone())));
    cases.push(breaks_limit(with(&"a".repeat(254)), &path, "Too long: may not be more than 253 bytes"));
    cases
}

fn plaintext() -> [Case; 2] {
    let with = |word: &str| json!({"security": {"tls": {"enabled": true, "certificateSecretRef": {"name": "a"}, "plaintext": word}}});
    let words =
        "Unsupported value: \"localhost\": supported values: \"Disabled\", \"Localhost\", \"Allowed\"";
    [taken(with("Localhost")), breaks_limit(with("localhost"), "spec.security.tls.plaintext", words)]
}
