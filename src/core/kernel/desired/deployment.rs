//! The Deployment, without its pod template. Pure; called by [`super::workload`].

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::intent::Intent;
use super::{meta, scheduling};
use crate::kernel::object::ChildKind;

/// Renders the Deployment.
#[must_use]
pub fn deployment(intent: &Intent<'_>, annotations: BTreeMap<String, String>) -> Deployment {
    Deployment {
        metadata: meta::object_meta(ChildKind::Deployment, intent, annotations),
        spec: Some(DeploymentSpec {
            replicas: intent.replicas,
            selector: meta::selector_of_pods(&intent.key.name, intent.spec.workload.into()),
            min_ready_seconds: Some(intent.spec.rollout.min_ready_seconds).filter(|seconds| *seconds > 0),
            strategy: Some(strategy(intent)),
            template: PodTemplateSpec::default(),
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

/// A new pod is ready before an old one, with its part of the cache, goes. Where a new pod may find no node while the
/// old ones are there, an old one goes first, or the rollout would never end; a lone pod is not given up for that.
fn strategy(intent: &Intent<'_>) -> DeploymentStrategy {
    let makes_room = intent.spec.max_replicas() > 1 && scheduling::needs_room_of_its_own(intent.spec);
    let (surge, unavailable) = if makes_room { (0, 1) } else { (1, 0) };
    DeploymentStrategy {
        type_: Some("RollingUpdate".to_owned()),
        rolling_update: Some(RollingUpdateDeployment {
            max_surge: Some(IntOrString::Int(surge)),
            max_unavailable: Some(IntOrString::Int(unavailable)),
        }),
    }
}
