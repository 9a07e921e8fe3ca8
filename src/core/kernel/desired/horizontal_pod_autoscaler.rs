//! The HorizontalPodAutoscaler. Pure; called by [`super::children`].

use std::collections::BTreeMap;

use k8s_openapi::api::autoscaling::v2::{
    CrossVersionObjectReference, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec,
};
use serde_json::{Value, json};

use super::intent::Intent;
use super::meta;
use crate::api::spec::Autoscaling;
use crate::kernel::object::ChildKind;

/// Renders the HorizontalPodAutoscaler; `None` if the spec does not ask for one.
#[must_use]
pub fn horizontal_pod_autoscaler(intent: &Intent<'_>) -> Option<Value> {
    let Autoscaling { min_replicas, max_replicas, metrics, behavior } = intent.spec.autoscaling.as_ref()?;
    let target = intent.counted;
    Some(json!(HorizontalPodAutoscaler {
        metadata: meta::object_meta(ChildKind::HorizontalPodAutoscaler, intent, BTreeMap::new()),
        spec: Some(HorizontalPodAutoscalerSpec {
            scale_target_ref: CrossVersionObjectReference {
                api_version: Some(target.api_version().to_owned()),
                kind: target.name().to_owned(),
                name: intent.key.name.clone(),
            },
            min_replicas: Some(*min_replicas),
            max_replicas: *max_replicas,
            metrics: Some(metrics.clone()),
            behavior: Some(behavior.clone()),
        }),
        status: None,
    }))
}
