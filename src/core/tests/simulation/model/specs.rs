//! What users ask for in a simulation. Pure; called by the model.

use memcached_operator_core::api::MemcachedSpec;
use memcached_operator_core::api::spec::{
    MemcachedConfig, NetworkPolicySpec, SaslSpec, SecretReference, SecuritySpec,
};
use memcached_operator_core::kernel::event::SeenResource;
use memcached_operator_core::kernel::object::ChildKind;
use serde_json::json;

use super::{Model, SECRET};

impl Model {
    /// The user edits one thing.
    pub(crate) fn change_spec(&mut self, change: impl FnOnce(&mut MemcachedSpec)) {
        let mut resource = self.resource().clone();
        change(resource.spec.as_mut().unwrap());
        resource.generation += 1;
        self.store_resource(resource);
    }
}

/// Which kinds of children a resource asks for, of those that the specs here ever ask for.
pub(super) fn wanted(resource: &SeenResource) -> [(ChildKind, bool); 4] {
    let spec = resource.spec.as_ref().unwrap();
    let guarded = spec.security.as_ref().is_some_and(|it| it.network_policy.is_some());
    [
        (ChildKind::Service, true),
        (ChildKind::Deployment, true),
        (ChildKind::NetworkPolicy, guarded),
        (ChildKind::HorizontalPodAutoscaler, spec.autoscaling.is_some()),
    ]
}

/// A few specs: two that differ in replicas only, two templates, one with authentication, one behind a policy, one under
/// an autoscaler, one with an empty string that no API server stores.
pub(super) fn spec(variant: u8) -> MemcachedSpec {
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
        security,
        autoscaling,
        resources,
        pod,
        ..MemcachedSpec::default()
    }
}
