//! Who may talk to memcached, and what its containers may do.

use rstest::rstest;
use serde_json::{Value, json};

use super::{valid, violations};
use crate::api::validated::{Plaintext, Security, Sources, Tls};

#[test]
fn the_section_arrives_unchanged() {
    let everywhere = json!([{"namespaceSelector": {}}]);
    let prometheus = json!([{"podSelector": {"matchLabels": {"app": "prometheus"}}}]);
    let raw = json!({"security": {
        "podSecurityContext": {},
        "containerSecurityContext": {"readOnlyRootFilesystem": true},
        "sasl": {"enabled": true, "credentialsSecretRef": {"name": "passwords"}},
        "tls": {
            "enabled": true, "certificateSecretRef": {"name": "certificate"}, "enableClientCert": true,
            "plaintext": "Localhost",
        },
        "networkPolicy": {"enabled": true, "allowedSources": everywhere, "metricsSources": prometheus},
    }});
    let expected = Security {
        pod_context: serde_json::from_value(json!({})).unwrap(),
        container_context: serde_json::from_value(json!({"readOnlyRootFilesystem": true})).unwrap(),
        sasl_secret: Some("passwords".to_owned()),
        tls: Some(Tls {
            secret: "certificate".to_owned(),
            client_certificates: true,
            plaintext: Plaintext::Localhost,
        }),
        network_policy: Some(Sources {
            clients: serde_json::from_value(everywhere.clone()).unwrap(),
            metrics: serde_json::from_value(prometheus).unwrap(),
        }),
    };
    let valid = valid(&raw).security;
    assert_eq!(valid, expected);
    // An empty selector selects everything, a missing one nothing.
    assert_eq!(serde_json::to_value(valid.network_policy.unwrap().clients).unwrap(), everywhere);
}

#[rstest]
#[case(None, Plaintext::Disabled)]
#[case(Some(""), Plaintext::Disabled)]
#[case(Some("Disabled"), Plaintext::Disabled)]
#[case(Some("Allowed"), Plaintext::Allowed)]
fn encryption_leaves_no_plaintext_unless_told(#[case] raw: Option<&str>, #[case] plaintext: Plaintext) {
    let tls = json!({"enabled": true, "certificateSecretRef": {"name": "certificate"}, "plaintext": raw});
    let expected = Tls { secret: "certificate".to_owned(), client_certificates: false, plaintext };
    assert_eq!(valid(&json!({"security": {"tls": tls}})).security.tls, Some(expected));
}

#[rstest]
#[case(json!({"enabled": true}), json!([]), json!([]))]
#[case(json!({"enabled": true, "allowedSources": [{"podSelector": {}}]}), json!([{"podSelector": {}}]), json!([{"podSelector": {}}]))]
#[case(
    json!({"enabled": true, "allowedSources": [{"podSelector": {}}], "metricsSources": []}),
    json!([{"podSelector": {}}]),
    json!([])
)]
fn whoever_may_ask_memcached_may_ask_the_exporter_unless_told(
    #[case] raw: Value,
    #[case] clients: Value,
    #[case] metrics: Value,
) {
    let [clients, metrics] = [clients, metrics].map(|peers| serde_json::from_value(peers).unwrap());
    let found = valid(&json!({"security": {"networkPolicy": raw}})).security.network_policy;
    assert_eq!(found, Some(Sources { clients, metrics }));
}

#[rstest]
#[case(json!({"enabled": true}))]
#[case(json!({"enabled": true, "certificateSecretRef": {}}))]
#[case(json!({"enabled": true, "certificateSecretRef": {"name": ""}}))]
fn encryption_needs_a_secret(#[case] tls: Value) {
    let message = "certificateSecretRef.name is required when TLS is enabled";
    assert_eq!(
        violations(&json!({"security": {"tls": tls}})),
        [format!("spec.security.tls.certificateSecretRef.name: {message}")]
    );
}

#[test]
fn an_unknown_word_for_plaintext_is_refused() {
    let message =
        "Unsupported value: \"allowed\": supported values: \"Disabled\", \"Localhost\", \"Allowed\"";
    assert_eq!(
        violations(&json!({"security": {"tls": {"plaintext": "allowed"}}})),
        [format!("spec.security.tls.plaintext: {message}")]
    );
}

/// The name becomes part of a request's path.
#[rstest]
#[case("a/b")]
#[case("..")]
#[case("../secrets/other")]
#[case("a?watch=true")]
#[case("A")]
#[case("a_b")]
#[case("a.")]
#[case("-a")]
fn a_secret_has_a_name_that_objects_can_have(#[case] name: &str) {
    let reference = json!({"name": name});
    let pattern = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$";
    let raw = json!({"security": {
        "sasl": {"enabled": true, "credentialsSecretRef": reference}, "tls": {"certificateSecretRef": reference},
    }});
    assert_eq!(
        violations(&raw),
        ["sasl.credentialsSecretRef", "tls.certificateSecretRef"]
            .map(|field| format!("spec.security.{field}.name: should match '{pattern}'"))
    );
}

#[test]
fn a_secrets_name_has_at_most_253_characters() {
    let raw =
        |length: usize| json!({"security": {"sasl": {"credentialsSecretRef": {"name": "a".repeat(length)}}}});
    assert_eq!(violations(&raw(253)), [""; 0]);
    let path = "spec.security.sasl.credentialsSecretRef.name";
    assert_eq!(violations(&raw(254)), [format!("{path}: Too long: may not be more than 253 bytes")]);
}
