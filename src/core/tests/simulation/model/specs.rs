//! What users ask for in a simulation. Pure; called by the model.

use std::collections::BTreeMap;

use memcached_operator_core::api::MemcachedSpec;
use memcached_operator_core::api::spec::{
    MemcachedConfig, MonitoringSpec, NetworkPolicySpec, RolloutSpec, STATEFUL_SET, SaslSpec, SecretReference,
    SecuritySpec, WarmthSpec, Workload,
};
use memcached_operator_core::kernel::event::SeenResource;
use memcached_operator_core::kernel::object::ChildKind;
use serde_json::json;

use super::stateful_sets::BROKEN;
use super::{Model, SECRET};

impl Model {
    /// Whoever asked for pods that never serve asks for others.
    pub(crate) fn mend_image(&mut self) {
        if self.resource.as_ref().is_some_and(|it| it.spec == Ok(spec(NEVER_SERVES))) {
            self.edit(DEPLOYMENTS + 1);
        }
    }

    /// The user edits one thing.
    pub(crate) fn change_spec(&mut self, change: impl FnOnce(&mut MemcachedSpec)) {
        let mut resource = self.resource().clone();
        change(resource.spec.as_mut().unwrap());
        resource.generation += 1;
        self.store_resource(resource);
    }
}

/// What runs the pods, as a resource asks for it.
pub(super) fn workload(resource: &SeenResource) -> ChildKind {
    let spec = resource.spec.as_ref().unwrap();
    Workload::from_raw(spec.workload.as_deref()).into()
}

/// Which kinds of children a resource asks for.
pub(super) fn wanted(resource: &SeenResource) -> BTreeMap<ChildKind, bool> {
    let spec = resource.spec.as_ref().unwrap();
    let wanted = |kind: ChildKind| match kind {
        ChildKind::Service | ChildKind::ConfigMap => true,
        ChildKind::Deployment | ChildKind::StatefulSet => workload(resource) == kind,
        ChildKind::NetworkPolicy => spec.security.as_ref().is_some_and(|it| it.network_policy.is_some()),
        ChildKind::HorizontalPodAutoscaler => spec.autoscaling.is_some(),
        ChildKind::PodDisruptionBudget => {
            let autoscaled = spec.autoscaling.as_ref().map(|it| it.max_replicas.unwrap_or(1));
            autoscaled.or(spec.replicas).unwrap_or(1) > 1
                && spec.high_availability.as_ref().is_some_and(|it| it.pod_disruption_budget.is_some())
        }
        ChildKind::ServiceMonitor => spec
            .monitoring
            .as_ref()
            .is_some_and(|it| it.enabled == Some(true) && it.service_monitor.is_some()),
    };
    ChildKind::ALL.into_iter().map(|kind| (kind, wanted(kind))).collect()
}

/// How many variants ask for a Deployment.
const DEPLOYMENTS: u8 = 8;
/// The variant of a Deployment whose number of pods an autoscaler decides on.
pub(crate) const SCALED: u8 = 6;
/// The first variant that asks for a StatefulSet.
pub(crate) const NAMED: u8 = DEPLOYMENTS;
/// Two pods with names.
pub(crate) const TWO_NAMED: u8 = DEPLOYMENTS + 3;
/// The variant of a StatefulSet whose pods mount the Secret.
pub(crate) const NAMED_WITH_SECRET: u8 = DEPLOYMENTS + 4;
/// The variant of a StatefulSet whose number of pods an autoscaler decides on.
pub(crate) const NAMED_AND_SCALED: u8 = DEPLOYMENTS + 5;
/// The variant whose pods never become ready.
pub(crate) const NEVER_SERVES: u8 = DEPLOYMENTS + 2;
/// The first of two variants whose rollouts wait for warm pods.
pub(crate) const WARM: u8 = DEPLOYMENTS + 6;
/// How many variants there are.
pub(crate) const VARIANTS: u8 = WARM + 2;

/// A few specs: two that differ in replicas only, two templates, one with authentication, one behind a policy, one under
/// an autoscaler, one with an empty string that no API server stores; then StatefulSets: of three pods, of another template,
/// one that never serves, of two pods, with authentication, and under an autoscaler; two with other templates that wait
/// for warm pods.
pub(super) fn spec(variant: u8) -> MemcachedSpec {
    if variant >= DEPLOYMENTS {
        let replicas = if variant == TWO_NAMED { 2 } else { 3 };
        let like = match variant - DEPLOYMENTS {
            1 | 7 => 2,
            4 => 3,
            5 => 6,
            _ => 0,
        };
        let is_warm = variant >= WARM;
        let rollout =
            is_warm.then(|| RolloutSpec { warmth: Some(WarmthSpec::default()), ..RolloutSpec::default() });
        let monitoring =
            is_warm.then(|| Box::new(MonitoringSpec { enabled: Some(true), ..MonitoringSpec::default() }));
        return MemcachedSpec {
            rollout: rollout.map(Box::new),
            monitoring,
            workload: Some(STATEFUL_SET.to_owned()),
            image: (variant == NEVER_SERVES).then(|| BROKEN.to_owned()),
            replicas: Some(replicas),
            ..spec(like)
        };
    }
    let replicas = Some(if variant == 1 { 3 } else { 1 });
    let memcached =
        (variant == 2).then(|| MemcachedConfig { max_memory_mb: Some(128), ..MemcachedConfig::default() });
    let security = (variant == 3 || variant == 4).then(|| SecuritySpec {
        sasl: Some(SaslSpec {
            enabled: Some(true),
            credentials_secret_ref: Some(SecretReference { name: Some(SECRET.into()) }),
        }),
        ..SecuritySpec::default()
    });
    let security = if variant == 5 {
        let network_policy = NetworkPolicySpec { enabled: Some(true), ..NetworkPolicySpec::default() };
        Some(SecuritySpec { network_policy: Some(network_policy), ..SecuritySpec::default() })
    } else {
        security
    };
    let autoscaling = (variant == 6).then(|| {
        let bounds = json!({"enabled": true, "minReplicas": 2, "maxReplicas": 4});
        serde_json::from_value(bounds).unwrap()
    });
    let resources =
        (variant == 6).then(|| serde_json::from_value(json!({"requests": {"cpu": "100m"}})).unwrap());
    let image = (variant == 4).then(|| "memcached:1.6.38".to_owned());
    let tolerations = json!({"tolerations": [{"key": "dedicated", "operator": "Exists", "effect": ""}]});
    let pod = (variant == 7).then(|| serde_json::from_value(tolerations).unwrap());
    MemcachedSpec {
        replicas,
        image,
        memcached,
        security: security.map(Box::new),
        autoscaling,
        resources,
        pod,
        ..MemcachedSpec::default()
    }
}
