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
    cases.extend(rotation());
    cases
}

/// The agent has to run as memcached does, where it has to signal it.
fn rotation() -> Vec<Case> {
    let with = |of_pod: Value, of_containers: Value| {
        json!({"security": {
            "rotation": "InPlace",
            "sasl": {"enabled": true, "credentialsSecretRef": {"name": "a"}},
            "podSecurityContext": of_pod,
            "containerSecurityContext": of_containers,
        }})
    };
    let path = "spec.security.podSecurityContext.runAsUser";
    let words = "podSecurityContext.runAsUser is required when rotation is InPlace and SASL is enabled";
    let mut without_password = with(json!({}), json!({}));
    without_password["security"]["sasl"]["enabled"] = json!(false);
    let mut by_default = with(json!({}), json!({}));
    by_default["security"].as_object_mut().map(|security| security.remove("podSecurityContext"));
    let mut restarts = with(json!({}), json!({}));
    restarts["security"]["rotation"] = json!("Restart");
    vec![
        lacks(with(json!({}), json!({})), path, words),
        lacks(with(json!({"runAsNonRoot": true}), json!({})), path, words),
        taken(with(json!({"runAsUser": 1000}), json!({}))),
        taken(with(json!({}), json!({"runAsUser": 1000}))),
        taken(without_password),
        taken(by_default),
        taken(restarts),
        breaks_limit(
            json!({"security": {"rotation": "Live"}}),
            "spec.security.rotation",
            "Unsupported value: \"Live\": supported values: \"Restart\", \"InPlace\"",
        ),
    ]
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
