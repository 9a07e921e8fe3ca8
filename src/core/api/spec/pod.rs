//! `spec.pod`: what says nothing about memcached. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, LocalObjectReference, Toleration};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::findings::Findings;
use super::keyed_list::{self, MergeKey};
use super::{labels, names};
use crate::api::schema;

/// Values of `pod.imagePullPolicy`.
const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
/// By these the API server tells `pod.imagePullSecrets` apart.
const PULL_SECRET_KEYS: [MergeKey; 1] = [MergeKey { field: "name", length: names::OBJECT_NAME_LENGTH }];
/// The message where two references have the same name: the API server takes them for one.
const PULL_SECRETS_DIFFER: &str = "imagePullSecrets must not have two items with the same name";

/// Settings of the pods that say nothing about memcached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSettingsSpec {
    /// Labels of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        transform = labels::label_schema,
        extend("x-kubernetes-validations" = labels::others_label_rules())
    )]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        transform = labels::annotation_schema,
        extend("x-kubernetes-validations" = labels::others_annotation_rules())
    )]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Labels of the nodes that pods may run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = labels::label_schema, extend("x-kubernetes-validations" = [labels::label_rule()]))]
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
    #[schemars(length(max = names::OBJECT_NAME_LENGTH), extend("pattern" = names::OBJECT_NAME_PATTERN))]
    pub priority_class_name: Option<String>,
    /// Secrets with credentials for the registry, as in a pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        transform = pull_secrets_schema,
        extend("x-kubernetes-validations" = [keyed_list::rule(&PULL_SECRET_KEYS, PULL_SECRETS_DIFFER)])
    )]
    pub image_pull_secrets: Option<Vec<LocalObjectReference>>,
    /// When the images of all containers are pulled. Unset: as Kubernetes decides from the image's tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = PULL_POLICIES))]
    pub image_pull_policy: Option<String>,
    /// ServiceAccount that the pods run as. No token of it is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = names::OBJECT_NAME_LENGTH), extend("pattern" = names::OBJECT_NAME_PATTERN))]
    pub service_account_name: Option<String>,
}

/// Settings of the pods that say nothing about memcached, verbatim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSettings {
    /// Beside ours, which nobody may replace.
    pub labels: BTreeMap<String, String>,
    /// Beside ours, which nobody may replace.
    pub annotations: BTreeMap<String, String>,
    /// Nodes to run on.
    pub node_selector: BTreeMap<String, String>,
    /// Taints to put up with.
    pub tolerations: Vec<Toleration>,
    /// Its `podAntiAffinity` replaces that of `highAvailability.antiAffinityPreset`.
    pub affinity: Option<Affinity>,
    /// Who goes first when room is short.
    pub priority_class_name: Option<String>,
    /// Credentials for the registry.
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// When images are pulled, for all containers.
    pub image_pull_policy: Option<String>,
    /// Whom the pods run as.
    pub service_account_name: Option<String>,
}

fn pull_secrets_schema(field: &mut Schema) {
    keyed_list::schema(field, &PULL_SECRET_KEYS);
}

pub(super) fn validate(findings: &mut Findings, raw: Option<&PodSettingsSpec>) -> PodSettings {
    let Some(raw) = raw else { return PodSettings::default() };
    let PodSettingsSpec {
        labels,
        annotations,
        node_selector,
        tolerations,
        affinity,
        priority_class_name,
        image_pull_secrets,
        image_pull_policy,
        service_account_name,
    } = raw;
    let (priority_class, policy, account) =
        (priority_class_name.as_deref(), image_pull_policy.as_deref(), service_account_name.as_deref());
    PodSettings {
        labels: labels::validate_others_labels(findings, "spec.pod.labels", labels.as_ref()),
        annotations: labels::validate_others_annotations(
            findings,
            "spec.pod.annotations",
            annotations.as_ref(),
        ),
        node_selector: labels::validate_labels(findings, "spec.pod.nodeSelector", node_selector.as_ref()),
        tolerations: tolerations.clone().unwrap_or_default(),
        affinity: affinity.as_deref().cloned(),
        priority_class_name: names::validate_object(findings, "spec.pod.priorityClassName", priority_class),
        image_pull_secrets: pull_secrets(findings, image_pull_secrets.as_deref().unwrap_or_default()),
        image_pull_policy: findings
            .word("spec.pod.imagePullPolicy", policy, &PULL_POLICIES)
            .map(str::to_owned),
        service_account_name: names::validate_object(findings, "spec.pod.serviceAccountName", account),
    }
}

fn pull_secrets(findings: &mut Findings, raw: &[LocalObjectReference]) -> Vec<LocalObjectReference> {
    let path = "spec.pod.imagePullSecrets";
    for (at, LocalObjectReference { name }) in raw.iter().enumerate() {
        findings.length(format!("{path}[{at}].name"), name, names::OBJECT_NAME_LENGTH);
    }
    let names: Vec<_> = raw.iter().map(|it| &it.name).collect();
    keyed_list::validate(findings, path, &names, PULL_SECRETS_DIFFER);
    raw.to_vec()
}
