//! `spec.service` and `spec.pod` as users write them: what says nothing about memcached. Pure data.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, LocalObjectReference, Toleration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{cel, rules, schema};

/// Settings of the Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Service {
    /// Annotations of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        transform = schema::annotations,
        extend("x-kubernetes-validations" = [cel::labels::valid_annotations(), cel::labels::annotations_not_ours()])
    )]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// Settings of the pods that say nothing about memcached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pod {
    /// Labels of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        transform = schema::labels,
        extend("x-kubernetes-validations" = [cel::labels::valid_labels(), cel::labels::labels_not_ours()])
    )]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        transform = schema::annotations,
        extend("x-kubernetes-validations" = [cel::labels::valid_annotations(), cel::labels::annotations_not_ours()])
    )]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Labels of the nodes that pods may run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::labels, extend("x-kubernetes-validations" = [cel::labels::valid_labels()]))]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Taints of nodes that pods put up with, as in a pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::embedded)]
    pub tolerations: Option<Vec<Toleration>>,
    /// Where pods run, as in a pod. Its podAntiAffinity replaces highAvailability.antiAffinityPreset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::embedded)]
    pub affinity: Option<Box<Affinity>>,
    /// PriorityClass of the pods: who goes first when room is short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = rules::OBJECT_NAME_LENGTH), extend("pattern" = rules::OBJECT_NAME_PATTERN))]
    pub priority_class_name: Option<String>,
    /// Secrets with credentials for the registry, as in a pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        transform = schema::pull_secrets,
        extend("x-kubernetes-validations" = [cel::pull_secrets_differ()])
    )]
    pub image_pull_secrets: Option<Vec<LocalObjectReference>>,
    /// When the images of all containers are pulled. Unset: as Kubernetes decides from the image's tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = rules::PULL_POLICIES))]
    pub image_pull_policy: Option<String>,
    /// ServiceAccount that the pods run as. No token of it is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = rules::OBJECT_NAME_LENGTH), extend("pattern" = rules::OBJECT_NAME_PATTERN))]
    pub service_account_name: Option<String>,
}
