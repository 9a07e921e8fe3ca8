//! `spec` of the resource as users write it: raw, every field optional. Pure data.
//!
//! Nothing but [`super::validate`] reads these fields: what passed there is a `Validated`, with every default
//! resolved. The schema in [`super::crd`] is generated from these types.

use k8s_openapi::api::core::v1::ResourceRequirements;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::MemcachedStatus;

/// A Memcached cache: pods that each run one memcached, behind a headless Service.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "memcached.c5c3.io",
    version = "v1beta1",
    kind = "Memcached",
    plural = "memcacheds",
    shortname = "mcd",
    category = "all",
    namespaced,
    status = "MemcachedStatus",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct MemcachedSpec {
    /// Number of memcached pods, 0 to 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Container image of memcached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Resource requests and limits of the memcached container. A memory limit has to leave room for
    /// maxMemoryMB plus 32Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Settings of the memcached process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memcached: Option<MemcachedConfig>,
    /// Authentication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security: Option<Security>,
}

/// Settings of the memcached process: each typed field is one command-line flag.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemcachedConfig {
    /// Memory for items in MiB (-m), 16 to 65536.
    #[serde(default, rename = "maxMemoryMB", skip_serializing_if = "Option::is_none")]
    pub max_memory_mb: Option<i32>,
    /// Simultaneous connections (-c), 1 to 65536.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<i32>,
    /// Worker threads (-t), 1 to 128.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<i32>,
    /// Largest item (-I): a number followed by k or m, a multiple of 512k, at most 1024m and at most half of
    /// maxMemoryMB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_item_size: Option<String>,
    /// Log verbosity: 0 is silent, 1 is -v, 2 is -vv.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verbosity: Option<i32>,
    /// Further arguments, passed verbatim after all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_args: Option<Vec<String>>,
}

/// Who may talk to memcached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Security {
    /// Authentication with user name and password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sasl: Option<Sasl>,
}

/// Authentication by a password file (memcached's -Y).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sasl {
    /// Whether clients have to authenticate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The Secret whose key password-file holds lines of user:password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<SecretReference>,
}

/// The name of a Secret in the resource's namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecretReference {
    /// Name of the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
