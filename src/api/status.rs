//! `status` of the resource as the operator writes it and reads it back. Pure data.
//!
//! It is also the operator's only memory across restarts: what was applied last, which Secrets were hashed,
//! since when something fails. The rules for every field are in `kernel::status`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `observedGeneration` of a resource that no operator has seen: kstatus calls an object without any status
/// ready, so the schema defaults to this.
pub const NEVER_OBSERVED: i64 = -1;

/// What the operator reports about a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemcachedStatus {
    /// The generation that the operator saw last; -1 until it saw any.
    #[serde(default = "never_observed")]
    pub observed_generation: i64,
    /// The last generation that was fully reached or ended stalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconciled_generation: Option<i64>,
    /// Available, Progressing, Degraded, Ready; Reconciling or Stalled only while true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Pods that exist, as the Deployment counts them.
    #[serde(default)]
    pub replicas: i32,
    /// Pods that are ready.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Pods that run the current template.
    #[serde(default)]
    pub updated_replicas: i32,
    /// Label selector of the pods, for the scale subresource.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub selector: String,
    /// Revision of the rules by which the live pod template was rendered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_revision: Option<u32>,
    /// Addresses for clients, host:port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub server_list: Vec<String>,
    /// The Secrets that went into the pod template's hash, in the version that was hashed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretVersion>,
    /// Since when the operator has been refused what it needs; after 10 minutes the resource is stalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Time>,
}

/// One version of one Secret: enough to know after a restart that nothing has to be read again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretVersion {
    /// Name of the Secret.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its resourceVersion.
    pub resource_version: String,
}

impl Default for MemcachedStatus {
    fn default() -> Self {
        Self {
            observed_generation: NEVER_OBSERVED,
            reconciled_generation: None,
            conditions: Vec::new(),
            replicas: 0,
            ready_replicas: 0,
            updated_replicas: 0,
            selector: String::new(),
            template_revision: None,
            server_list: Vec::new(),
            secrets: Vec::new(),
            failing_since: None,
        }
    }
}

fn never_observed() -> i64 {
    NEVER_OBSERVED
}
