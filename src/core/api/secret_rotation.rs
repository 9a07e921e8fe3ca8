//! `status.secretRotation`: how far pods are with the content of Secrets that they take in place. Pure data; the rules are in
//! `kernel::rotation_record`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far pods are with the content of Secrets that they take in place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretRotation {
    /// Hash of the content that every pod was seen to use last.
    pub used_hash: String,
    /// Hash of the content that the pods are to take; absent while no rotation is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted_hash: Option<String>,
    /// The Secrets that changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub secrets: Vec<String>,
    /// Pods that ran when their agents were asked last; absent before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<i32>,
    /// Those of them that use the new content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_pods: Option<i32>,
    /// When the rotation began, or the last pod took the new content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Since when the agent of some pod has not answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable_since: Option<Time>,
    /// What a person has to look at; the reason of the condition Stalled: SecretInvalid, AgentUnreachable or
    /// ProgressDeadlineExceeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<RotationProblem>,
    /// What memcached cannot take before the pods restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_restart: Option<UntilRestart>,
}

/// Why a rotation does not go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RotationProblem {
    /// One word.
    pub reason: String,
    /// What happened, and what to do.
    pub message: String,
}

/// What memcached cannot take before the pods restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UntilRestart {
    /// What it means until then.
    pub message: String,
    /// Hash of the pod template of those pods: pods of another template restarted.
    pub pod_template: String,
}
