//! `spec.highAvailability` as users write it. Pure data.

use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::rules::{self, GRACE_SECONDS, PRE_STOP_SECONDS};
use crate::api::{cel, schema};

/// Where pods run, and how they go. With this section, whatever it holds, pods keep off each other's nodes: the first field
/// in it replaces the pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HighAvailability {
    /// Whether pods keep off each other's nodes: soft where they can, hard always. Without highAvailability neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "enum" = rules::ANTI_AFFINITY_PRESETS,
        "default" = rules::DEFAULT_ANTI_AFFINITY_PRESET
    ))]
    pub anti_affinity_preset: Option<String>,
    /// How pods spread over zones and nodes, as in a pod. A constraint without a labelSelector counts the pods of
    /// this cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        transform = schema::spread,
        extend("x-kubernetes-validations" = [cel::availability::spread_differs()])
    )]
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,
    /// What a node's drain may take from the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_disruption_budget: Option<PodDisruptionBudget>,
    /// How a pod ends without failing requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graceful_shutdown: Option<GracefulShutdown>,
}

/// What a node's drain may take from the cache: exactly one of the two limits. It changes no pod; highAvailability
/// around it does, where that was not there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = cel::availability::budget()))]
pub struct PodDisruptionBudget {
    /// Whether drains are limited. Nothing limits them while there is at most one pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Pods that have to stay: a number less than replicas (minReplicas under autoscaling), or a percentage,
    /// rounded up, that leaves one to go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::pods)]
    pub min_available: Option<IntOrString>,
    /// Pods that may go: a number, or a percentage, rounded up; more than zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::pods)]
    pub max_unavailable: Option<IntOrString>,
}

/// How a pod ends without failing requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [cel::availability::grace()]))]
pub struct GracefulShutdown {
    /// Whether memcached goes on serving for a while after its pod was told to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Seconds between leaving the Service and the signal to end, 1 to 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        range(min = PRE_STOP_SECONDS.min, max = PRE_STOP_SECONDS.max),
        extend("default" = PRE_STOP_SECONDS.default)
    )]
    pub pre_stop_delay_seconds: Option<i32>,
    /// Seconds until the pod is killed, 1 to 600: more than preStopDelaySeconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        range(min = GRACE_SECONDS.min, max = GRACE_SECONDS.max),
        extend("default" = GRACE_SECONDS.default)
    )]
    pub termination_grace_period_seconds: Option<i32>,
}
