//! `spec.service` and `spec.pod`. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::LocalObjectReference;

use super::{Findings, labels};
use crate::api::rules;
use crate::api::spec::{Pod, Service};
use crate::api::validated::PodSettings;

pub(super) fn service_annotations(
    findings: &mut Findings,
    raw: Option<&Service>,
) -> BTreeMap<String, String> {
    let annotations = raw.and_then(|service| service.annotations.as_ref());
    labels::others_annotations(findings, "spec.service.annotations", annotations)
}

pub(super) fn pod(findings: &mut Findings, raw: Option<&Pod>) -> PodSettings {
    let Some(raw) = raw else { return PodSettings::default() };
    let Pod {
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
    PodSettings {
        labels: labels::others_labels(findings, "spec.pod.labels", labels.as_ref()),
        annotations: labels::others_annotations(findings, "spec.pod.annotations", annotations.as_ref()),
        node_selector: labels::labels(findings, "spec.pod.nodeSelector", node_selector.as_ref()),
        tolerations: tolerations.clone().unwrap_or_default(),
        affinity: affinity.as_deref().cloned(),
        priority_class_name: findings
            .object_name("spec.pod.priorityClassName", priority_class_name.as_deref()),
        image_pull_secrets: pull_secrets(findings, image_pull_secrets.as_deref().unwrap_or_default()),
        image_pull_policy: findings
            .word("spec.pod.imagePullPolicy", image_pull_policy.as_deref(), &rules::PULL_POLICIES)
            .map(str::to_owned),
        service_account_name: findings
            .object_name("spec.pod.serviceAccountName", service_account_name.as_deref()),
    }
}

fn pull_secrets(findings: &mut Findings, raw: &[LocalObjectReference]) -> Vec<LocalObjectReference> {
    let path = "spec.pod.imagePullSecrets";
    for (at, LocalObjectReference { name }) in raw.iter().enumerate() {
        findings.length(format!("{path}[{at}].name"), name, rules::OBJECT_NAME_LENGTH);
    }
    let names: Vec<_> = raw.iter().map(|it| &it.name).collect();
    findings.differ(path, &names, rules::PULL_SECRETS_DIFFER);
    raw.to_vec()
}
