//! `spec.security`. Pure.

use super::Findings;
use crate::api::rules;
use crate::api::spec::{self, SecretReference};
use crate::api::validated::{Plaintext, Security, Sources, Tls};

pub(super) fn security(findings: &mut Findings, raw: Option<&spec::Security>) -> Security {
    let Some(raw) = raw else { return Security::default() };
    Security {
        pod_context: raw.pod_security_context.as_deref().cloned(),
        container_context: raw.container_security_context.as_deref().cloned(),
        sasl_secret: raw.sasl.as_ref().and_then(|raw| sasl(findings, raw)),
        tls: raw.tls.as_ref().and_then(|raw| tls(findings, raw)),
        network_policy: raw.network_policy.as_ref().and_then(sources),
    }
}

fn sasl(findings: &mut Findings, raw: &spec::Sasl) -> Option<String> {
    let path = "spec.security.sasl.credentialsSecretRef.name";
    let secret = secret(findings, path, raw.credentials_secret_ref.as_ref());
    let enabled = raw.enabled == Some(true);
    findings.check(!enabled || secret.is_some(), path, || rules::SASL_SECRET.to_owned());
    secret.filter(|_| enabled)
}

fn tls(findings: &mut Findings, raw: &spec::Tls) -> Option<Tls> {
    let path = "spec.security.tls.certificateSecretRef.name";
    let secret = secret(findings, path, raw.certificate_secret_ref.as_ref());
    let enabled = raw.enabled == Some(true);
    findings.check(!enabled || secret.is_some(), path, || rules::TLS_SECRET.to_owned());
    let plaintext = findings.word("spec.security.tls.plaintext", raw.plaintext.as_deref(), &rules::PLAINTEXT);
    secret.filter(|_| enabled).map(|secret| Tls {
        secret,
        client_certificates: raw.enable_client_cert.unwrap_or_default(),
        plaintext: match plaintext.unwrap_or(rules::DEFAULT_PLAINTEXT) {
            "Allowed" => Plaintext::Allowed,
            "Localhost" => Plaintext::Localhost,
            _ => Plaintext::Disabled,
        },
    })
}

fn secret(findings: &mut Findings, path: &str, raw: Option<&SecretReference>) -> Option<String> {
    findings.object_name(path, raw.and_then(|reference| reference.name.as_deref()))
}

fn sources(raw: &spec::NetworkPolicy) -> Option<Sources> {
    let clients = raw.allowed_sources.clone().unwrap_or_default();
    (raw.enabled == Some(true)).then(|| Sources {
        // An empty list means everybody, so only a missing one is the clients'.
        metrics: raw.metrics_sources.clone().unwrap_or_else(|| clients.clone()),
        clients,
    })
}
