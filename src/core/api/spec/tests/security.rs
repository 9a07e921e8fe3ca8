//! Who may talk to memcached, and what its containers may do.

use rstest::rstest;
use serde_json::{Value, json};

use super::valid;
use crate::api::spec::{Plaintext, Rotation, Security, Sources, Tls};

#[test]
fn the_section_arrives_unchanged() {
    let everywhere = json!([{"namespaceSelector": {}}]);
    let prometheus = json!([{"podSelector": {"matchLabels": {"app": "prometheus"}}}]);
    let raw = json!({"security": {
        "podSecurityContext": {"runAsUser": 1000},
        "containerSecurityContext": {"readOnlyRootFilesystem": true},
        "sasl": {"enabled": true, "credentialsSecretRef": {"name": "passwords"}},
        "tls": {
            "enabled": true, "certificateSecretRef": {"name": "certificate"}, "enableClientCert": true,
            "plaintext": "Localhost",
        },
        "rotation": "InPlace",
        "networkPolicy": {"enabled": true, "allowedSources": everywhere, "metricsSources": prometheus},
    }});
    let expected = Security {
        pod_context: serde_json::from_value(json!({"runAsUser": 1000})).unwrap(),
        container_context: serde_json::from_value(json!({"readOnlyRootFilesystem": true})).unwrap(),
        sasl_secret: Some("passwords".to_owned()),
        tls: Some(Tls {
            secret: "certificate".to_owned(),
            client_certificates: true,
            plaintext: Plaintext::Localhost,
        }),
        rotation: Rotation::InPlace,
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
