//! `spec.security` as users write it. Pure data.

use k8s_openapi::api::core::v1::{PodSecurityContext, SecurityContext};
use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{cel, rules, schema};

/// Who may talk to memcached, and what its containers may do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Security {
    /// Security context of the pods. It replaces the default, the restricted Pod Security profile as user 11211,
    /// wholesale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::embedded)]
    pub pod_security_context: Option<Box<PodSecurityContext>>,
    /// Security context of each container. It replaces the default, the restricted Pod Security profile, wholesale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::embedded)]
    pub container_security_context: Option<Box<SecurityContext>>,
    /// Authentication with user name and password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sasl: Option<Sasl>,
    /// Encryption of client connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Who may connect at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<NetworkPolicy>,
}

/// Authentication by a password file (memcached's -Y).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [cel::security::sasl_secret()]))]
pub struct Sasl {
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
#[schemars(extend("x-kubernetes-validations" = [cel::security::tls_secret()]))]
pub struct Tls {
    /// Whether memcached speaks TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The Secret with tls.crt and tls.key, and ca.crt where clients need a certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_secret_ref: Option<SecretReference>,
    /// Whether clients need a certificate that ca.crt signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_client_cert: Option<bool>,
    /// Who may do without encryption: Disabled is nobody, Localhost the pod's own containers (127.0.0.1:11213),
    /// Allowed everybody on port 11211.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = rules::PLAINTEXT, "default" = rules::DEFAULT_PLAINTEXT))]
    pub plaintext: Option<String>,
}

/// Who may connect at all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPolicy {
    /// Whether a NetworkPolicy closes all ports but those of memcached and its exporter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Who may connect to memcached, as in a NetworkPolicy; everybody where it is empty or unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::embedded)]
    pub allowed_sources: Option<Vec<NetworkPolicyPeer>>,
    /// Who may connect to the exporter, as in a NetworkPolicy; everybody where it is empty, the same as to
    /// memcached where it is unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::embedded)]
    pub metrics_sources: Option<Vec<NetworkPolicyPeer>>,
}

/// The name of a Secret in the resource's namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecretReference {
    /// Name of the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = rules::OBJECT_NAME_LENGTH), extend("pattern" = rules::OBJECT_NAME_PATTERN))]
    pub name: Option<String>,
}
