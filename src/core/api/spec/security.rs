//! `spec.security`: who may talk to memcached, and what its containers may do. Pure.

use k8s_openapi::api::core::v1::{PodSecurityContext, SecurityContext};
use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::findings::Findings;
use super::names;
use crate::api::schema;

/// Values of `tls.plaintext`.
const PLAINTEXT: [&str; 3] = ["Disabled", "Localhost", "Allowed"];
/// The value of `plaintext` where the section is present and does not name one.
const DEFAULT_PLAINTEXT: &str = "Disabled";
/// Values of `rotation`.
const ROTATIONS: [&str; 2] = ["Restart", IN_PLACE];
/// The value of `rotation` that stands for [`Rotation::InPlace`].
pub const IN_PLACE: &str = "InPlace";
/// The value of `rotation` where the section is present and does not name one.
const DEFAULT_ROTATION: &str = "Restart";
/// The message where the user of a container would be that of its image, which is another one for each of the two.
const ROTATION_USER: &str =
    "podSecurityContext.runAsUser is required when rotation is InPlace and SASL is enabled";
/// The message where authentication has no Secret.
const SASL_SECRET: &str = "credentialsSecretRef.name is required when SASL is enabled";
/// The message where encryption has no Secret.
const TLS_SECRET: &str = "certificateSecretRef.name is required when TLS is enabled";

/// Who may talk to memcached, and what its containers may do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rotation_rule()]))]
pub struct SecuritySpec {
    /// Security context of the pods. Unset: the restricted Pod Security profile, as user 11211. A value replaces it
    /// wholesale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::embedded)]
    pub pod_security_context: Option<Box<PodSecurityContext>>,
    /// Security context of each container. Unset: the restricted Pod Security profile. A value replaces it wholesale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::embedded)]
    pub container_security_context: Option<Box<SecurityContext>>,
    /// Authentication with user name and password. It is memcached's own, of the ASCII protocol (-Y): the first command
    /// of a connection is `set auth x 0 LENGTH`, its value `user password`. It is not the SASL of the binary protocol:
    /// client libraries that only know that one cannot log in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sasl: Option<SaslSpec>,
    /// Encryption of client connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSpec>,
    /// What happens when the content of a mounted Secret changes. Restart replaces the pods, and a replaced pod is empty.
    /// With InPlace a container agent in each pod has memcached take the new content: no pod is replaced, and no key is
    /// lost. The agent serves the metrics of the exporter too, in place of the exporter's container. A change of this
    /// field replaces the pods once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ROTATIONS, "default" = DEFAULT_ROTATION))]
    pub rotation: Option<String>,
    /// Who may connect at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<NetworkPolicySpec>,
}

/// Authentication by a password file (memcached's -Y).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [secret_rule("credentialsSecretRef", SASL_SECRET)]))]
pub struct SaslSpec {
    /// Whether clients have to authenticate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The Secret whose key password-file holds lines of user:password. End each line, also the last, with a
    /// newline: some versions of memcached drop the last character of a file without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<SecretReference>,
}

/// Encryption of client connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [secret_rule("certificateSecretRef", TLS_SECRET)]))]
pub struct TlsSpec {
    /// Whether memcached speaks TLS: on port 11212, and on port 11211 too unless plaintext is Allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The Secret with tls.crt and tls.key, and ca.crt where clients need a certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_secret_ref: Option<SecretReference>,
    /// Whether clients need a certificate that ca.crt signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_client_cert: Option<bool>,
    /// Who may do without encryption: Disabled is nobody, Localhost the pod's own containers (127.0.0.1:11213),
    /// Allowed everybody on port 11211, which speaks no TLS then. With rotation InPlace the pod's own containers may in
    /// any case, for the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = PLAINTEXT, "default" = DEFAULT_PLAINTEXT))]
    pub plaintext: Option<String>,
}

/// Who may connect at all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPolicySpec {
    /// Whether a NetworkPolicy closes all ports but those of memcached and its exporter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Who may connect to memcached, as in a NetworkPolicy. Empty or unset: everybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::embedded)]
    pub allowed_sources: Option<Vec<NetworkPolicyPeer>>,
    /// Who may connect to the exporter, which is Prometheus, as in a NetworkPolicy. Empty: everybody. Unset: the same as
    /// to memcached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::embedded)]
    pub metrics_sources: Option<Vec<NetworkPolicyPeer>>,
}

/// The name of a Secret in the resource's namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecretReference {
    /// Name of the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = names::OBJECT_NAME_LENGTH), extend("pattern" = names::OBJECT_NAME_PATTERN))]
    pub name: Option<String>,
}

/// Who may talk to memcached, and what its containers may do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Security {
    /// Replaces the pods' default security context wholesale.
    pub pod_context: Option<PodSecurityContext>,
    /// Replaces the containers' default security context wholesale.
    pub container_context: Option<SecurityContext>,
    /// The Secret with the password file, when clients have to authenticate.
    pub sasl_secret: Option<String>,
    /// Encryption.
    pub tls: Option<Tls>,
    /// What happens when a mounted Secret changes; [`Rotation::Restart`] where none is mounted.
    pub rotation: Rotation,
    /// Who may connect.
    pub network_policy: Option<Sources>,
}

/// What happens when the content of a mounted Secret changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rotation {
    /// Pods are replaced.
    #[default]
    Restart,
    /// An agent in each pod has memcached take it.
    InPlace,
}

/// Encryption of client connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The Secret with `tls.crt`, `tls.key` and, for client certificates, `ca.crt`.
    pub secret: String,
    /// Whether clients need a certificate.
    pub client_certificates: bool,
    /// Who may do without encryption.
    pub plaintext: Plaintext,
}

/// Who may talk to memcached without encryption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plaintext {
    /// Nobody.
    #[default]
    Disabled,
    /// The pod's own containers.
    Localhost,
    /// Everybody, on the client port.
    Allowed,
}

/// Who may connect. An empty list means everybody.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sources {
    /// Who may connect to the client ports, verbatim.
    pub clients: Vec<NetworkPolicyPeer>,
    /// Who may connect to the exporter, verbatim: the same as clients where the user said nothing.
    pub metrics: Vec<NetworkPolicyPeer>,
}

/// CEL for `sasl` and `tls`: what is switched on has its Secret.
fn secret_rule(reference: &str, message: &str) -> ValidationRule {
    ValidationRule {
        rule: format!("!self.?enabled.orValue(false) || self.?{reference}.?name.orValue('') != ''"),
        reason: Some("FieldValueRequired".to_owned()),
        field_path: Some(format!(".{reference}.name")),
        message: Some(message.to_owned()),
        ..ValidationRule::default()
    }
}

/// Whether pods are asked to have an agent, also where the Secrets are not named: that is another rule's matter.
pub(super) fn asks_for_agent(raw: Option<&SecuritySpec>) -> bool {
    raw.is_some_and(|raw| {
        let has_tls = raw.tls.as_ref().is_some_and(|tls| tls.enabled == Some(true));
        let has_sasl = raw.sasl.as_ref().is_some_and(|sasl| sasl.enabled == Some(true));
        raw.rotation.as_deref() == Some(IN_PLACE) && (has_tls || has_sasl)
    })
}

/// CEL: the agent may signal memcached only as the same user.
fn rotation_rule() -> ValidationRule {
    ValidationRule {
        rule: "!has(self.rotation) || self.rotation != 'InPlace' || !self.?sasl.?enabled.orValue(false) || \
               !has(self.podSecurityContext) || has(self.podSecurityContext.runAsUser) || \
               (has(self.containerSecurityContext) && has(self.containerSecurityContext.runAsUser))"
            .to_owned(),
        reason: Some("FieldValueRequired".to_owned()),
        field_path: Some(".podSecurityContext.runAsUser".to_owned()),
        message: Some(ROTATION_USER.to_owned()),
        ..ValidationRule::default()
    }
}

pub(super) fn validate(findings: &mut Findings, raw: Option<&SecuritySpec>) -> Security {
    let Some(raw) = raw else { return Security::default() };
    let SecuritySpec {
        pod_security_context,
        container_security_context,
        sasl,
        tls,
        rotation,
        network_policy,
    } = raw;
    let rotation = findings.word("spec.security.rotation", rotation.as_deref(), &ROTATIONS);
    let rotation = match rotation.unwrap_or(DEFAULT_ROTATION) {
        IN_PLACE => Rotation::InPlace,
        _ => Rotation::Restart,
    };
    let of_pod = pod_security_context.as_deref();
    let of_containers = container_security_context.as_deref();
    let has_user = of_pod.is_none_or(|context| context.run_as_user.is_some())
        || of_containers.is_some_and(|context| context.run_as_user.is_some());
    let authenticates = sasl.as_ref().is_some_and(|sasl| sasl.enabled == Some(true));
    let needs_user = rotation == Rotation::InPlace && authenticates;
    findings.check(!needs_user || has_user, "spec.security.podSecurityContext.runAsUser", || {
        ROTATION_USER.to_owned()
    });
    let sasl_secret = sasl.as_ref().and_then(|raw| validate_sasl(findings, raw));
    let tls = tls.as_ref().and_then(|raw| validate_tls(findings, raw));
    Security {
        pod_context: of_pod.cloned(),
        container_context: of_containers.cloned(),
        // Without a Secret there is nothing to take.
        rotation: if sasl_secret.is_some() || tls.is_some() { rotation } else { Rotation::Restart },
        sasl_secret,
        tls,
        network_policy: network_policy.as_ref().and_then(sources),
    }
}

fn validate_sasl(findings: &mut Findings, raw: &SaslSpec) -> Option<String> {
    let SaslSpec { enabled, credentials_secret_ref } = raw;
    if findings.passes_over(*enabled) {
        return None;
    }
    let path = "spec.security.sasl.credentialsSecretRef.name";
    let secret = secret(findings, path, credentials_secret_ref.as_ref());
    let enabled = *enabled == Some(true);
    findings.check(!enabled || secret.is_some(), path, || SASL_SECRET.to_owned());
    secret.filter(|_| enabled)
}

fn validate_tls(findings: &mut Findings, raw: &TlsSpec) -> Option<Tls> {
    let TlsSpec { enabled, certificate_secret_ref, enable_client_cert, plaintext } = raw;
    if findings.passes_over(*enabled) {
        return None;
    }
    let path = "spec.security.tls.certificateSecretRef.name";
    let secret = secret(findings, path, certificate_secret_ref.as_ref());
    let enabled = *enabled == Some(true);
    findings.check(!enabled || secret.is_some(), path, || TLS_SECRET.to_owned());
    let plaintext = findings.word("spec.security.tls.plaintext", plaintext.as_deref(), &PLAINTEXT);
    secret.filter(|_| enabled).map(|secret| Tls {
        secret,
        client_certificates: enable_client_cert.unwrap_or_default(),
        plaintext: match plaintext.unwrap_or(DEFAULT_PLAINTEXT) {
            "Allowed" => Plaintext::Allowed,
            "Localhost" => Plaintext::Localhost,
            _ => Plaintext::Disabled,
        },
    })
}

fn secret(findings: &mut Findings, path: &str, raw: Option<&SecretReference>) -> Option<String> {
    names::validate_object(findings, path, raw.and_then(|reference| reference.name.as_deref()))
}

fn sources(raw: &NetworkPolicySpec) -> Option<Sources> {
    let NetworkPolicySpec { enabled, allowed_sources, metrics_sources } = raw;
    let clients = allowed_sources.clone().unwrap_or_default();
    (*enabled == Some(true)).then(|| Sources {
        // An empty list means everybody, so only a missing one is the clients'.
        metrics: metrics_sources.clone().unwrap_or_else(|| clients.clone()),
        clients,
    })
}
