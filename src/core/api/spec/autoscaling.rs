//! `spec.autoscaling` as users write it. Pure data.

use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscalerBehavior, MetricSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{cel, rules, schema};

/// A HorizontalPodAutoscaler that decides on the number of pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = cel::autoscaling::bounds()))]
pub struct Autoscaling {
    /// Whether load decides on the number of pods. spec.replicas is then the number to return to when it no longer
    /// does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Fewest pods, at least 1. Unset: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = rules::SCALED_REPLICAS.min, max = rules::SCALED_REPLICAS.max))]
    pub min_replicas: Option<i32>,
    /// Most pods, at least minReplicas. Required when enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = rules::SCALED_REPLICAS.min, max = rules::SCALED_REPLICAS.max))]
    pub max_replicas: Option<i32>,
    /// What the load is measured by, as in a HorizontalPodAutoscaler. Empty or unset: 80 % of the CPU request.
    /// Where an exporter that requests nothing runs beside memcached, the utilisation of the pod (type Resource)
    /// cannot be told and that of container memcached (type ContainerResource) is taken in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::measured)]
    pub metrics: Option<Vec<MetricSpec>>,
    /// How fast it scales, as in a HorizontalPodAutoscaler. Empty or unset: down only after five quiet minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::measured)]
    pub behavior: Option<Box<HorizontalPodAutoscalerBehavior>>,
}
