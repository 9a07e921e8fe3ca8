//! The StatefulSet, without its pod template: pods with names, which the operator replaces one at a time. Pure; called by
//! [`super::workload`].

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{
    RollingUpdateStatefulSetStrategy, StatefulSet, StatefulSetSpec, StatefulSetUpdateStrategy,
};
use k8s_openapi::api::core::v1::PodTemplateSpec;

use super::intent::Intent;
use super::meta;
use crate::kernel::object::ChildKind;

/// Renders the StatefulSet; `partition` goes with its template.
#[must_use]
pub fn stateful_set(
    intent: &Intent<'_>,
    annotations: BTreeMap<String, String>,
    partition: i32,
) -> StatefulSet {
    StatefulSet {
        metadata: meta::object_meta(ChildKind::StatefulSet, intent, annotations),
        spec: Some(StatefulSetSpec {
            replicas: intent.replicas,
            selector: meta::selector_of_pods(&intent.key.name, intent.spec.workload.into()),
            service_name: Some(ChildKind::Service.name_of_child(&intent.key.name)),
            // No pod waits for another one: each is a cache of its own.
            pod_management_policy: Some("Parallel".to_owned()),
            min_ready_seconds: Some(intent.spec.rollout.min_ready_seconds).filter(|seconds| *seconds > 0),
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(RollingUpdateStatefulSetStrategy {
                    partition: Some(partition),
                    max_unavailable: None,
                }),
            }),
            template: PodTemplateSpec::default(),
            ..StatefulSetSpec::default()
        }),
        status: None,
    }
}
