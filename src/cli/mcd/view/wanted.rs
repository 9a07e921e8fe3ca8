//! What a resource asks for, and what it has. Takes the resource and what runs its pods; gives the few values that a person
//! looks for first. Pure; called by `cache` and `list`.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use serde::Serialize;

use super::answer::Answer;
use super::facts::WorkloadFacts;
use super::stateful_set::StatefulSetRevision;
use crate::api::spec::{self, Plaintext, Rotation, Violation};
use crate::api::{MemcachedSpec, Validated};
use crate::kernel::desired::meta::TEMPLATE_REVISION;
use crate::kernel::object::MEMCACHED;

/// What the spec asks for, every default resolved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wanted {
    /// The number of pods; under autoscaling the number to return to when that is switched off.
    pub replicas: i32,
    /// The numbers of pods between which an autoscaler decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<Bounds>,
    /// Memcached's image.
    pub image: String,
    /// MiB for items, in each pod.
    #[serde(rename = "maxMemoryMB")]
    pub max_memory_mb: i32,
    /// Connections, to each pod.
    pub max_connections: i32,
    /// Threads, in each pod.
    pub threads: i32,
    /// Encryption.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<WantedTls>,
    /// The Secret with the passwords of clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_secret: Option<String>,
    /// Whether pods take a changed Secret in place.
    pub rotates_in_place: bool,
    /// Whether there is an exporter beside memcached.
    pub monitoring: bool,
    /// Whether changes wait.
    pub paused: bool,
}

/// Numbers of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bounds {
    /// The smallest.
    pub min: i32,
    /// The largest.
    pub max: i32,
}

/// Encryption of clients' connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WantedTls {
    /// The Secret with the certificate.
    pub secret: String,
    /// Whether each client needs a certificate.
    pub client_certificates: bool,
    /// Who may do without: `Disabled` is nobody, `Localhost` the pod's own containers, `Allowed` everybody.
    pub plaintext: &'static str,
}

impl Wanted {
    /// What the spec of this resource asks for; unknown where it breaks a rule.
    #[must_use]
    pub fn from_resource(resource: &DynamicObject) -> Answer<Self> {
        let name = resource.metadata.name.as_deref().unwrap_or_default();
        let valid = MemcachedSpec::parse(resource.data.get("spec"))
            .map_err(|violation| vec![violation])
            .and_then(|spec| spec::validate(name, &spec));
        let wrong = |violations: Vec<Violation>| {
            let said: Vec<_> = violations.iter().map(ToString::to_string).collect();
            format!("the spec breaks a rule: {}", said.join("; "))
        };
        valid.map(|valid| Self::from_spec(&valid)).map_err(wrong).into()
    }

    fn from_spec(spec: &Validated) -> Self {
        Self {
            replicas: spec.replicas,
            autoscaling: spec
                .autoscaling
                .as_ref()
                .map(|it| Bounds { min: it.min_replicas, max: it.max_replicas }),
            image: spec.image.clone(),
            max_memory_mb: spec.memcached.max_memory_mb,
            max_connections: spec.memcached.max_connections,
            threads: spec.memcached.threads,
            tls: spec.security.tls.as_ref().map(|tls| WantedTls {
                secret: tls.secret.clone(),
                client_certificates: tls.client_certificates,
                plaintext: match tls.plaintext {
                    Plaintext::Disabled => "Disabled",
                    Plaintext::Localhost => "Localhost",
                    Plaintext::Allowed => "Allowed",
                },
            }),
            password_secret: spec.security.sasl_secret.clone(),
            rotates_in_place: spec.security.rotation == Rotation::InPlace,
            monitoring: spec.monitoring.is_some(),
            paused: spec.paused,
        }
    }
}

/// What the Deployment or StatefulSet has, and asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Running {
    /// Pods that it asks for.
    pub desired: i32,
    /// Pods that exist.
    pub replicas: i32,
    /// Pods that are ready.
    pub ready: i32,
    /// Pods of its current template.
    pub updated: i32,
    /// Memcached's image in the current template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// By which revision of the operator's rules the current template was rendered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_revision: Option<u32>,
}

impl Running {
    /// What runs the pods; `None` where there is nothing.
    #[must_use]
    pub fn from_workload(workload: &WorkloadFacts) -> Answer<Option<Self>> {
        match workload {
            WorkloadFacts::Deployment { deployment, replica_sets: _ } => {
                deployment.map(|it| it.as_ref().map(Self::from_deployment))
            }
            WorkloadFacts::StatefulSet(stateful_set) => {
                stateful_set.map(|it| it.as_ref().map(Self::from_stateful_set))
            }
        }
    }

    fn from_deployment(deployment: &Deployment) -> Self {
        let status = deployment.status.clone().unwrap_or_default();
        let spec = deployment.spec.as_ref();
        Self {
            desired: spec.and_then(|spec| spec.replicas).unwrap_or(1),
            replicas: status.replicas.unwrap_or_default(),
            ready: status.ready_replicas.unwrap_or_default(),
            updated: status.updated_replicas.unwrap_or_default(),
            image: spec.and_then(|spec| image(&spec.template)),
            template_revision: template_revision(&deployment.metadata),
        }
    }

    fn from_stateful_set(stateful_set: &StatefulSet) -> Self {
        let status = stateful_set.status.clone().unwrap_or_default();
        let spec = stateful_set.spec.as_ref();
        Self {
            desired: spec.and_then(|spec| spec.replicas).unwrap_or(1),
            replicas: status.replicas,
            ready: status.ready_replicas.unwrap_or_default(),
            updated: StatefulSetRevision::from_stateful_set(stateful_set).pods,
            image: spec.and_then(|spec| image(&spec.template)),
            template_revision: template_revision(&stateful_set.metadata),
        }
    }
}

fn image(template: &PodTemplateSpec) -> Option<String> {
    let containers = &template.spec.as_ref()?.containers;
    containers.iter().find(|it| it.name == MEMCACHED)?.image.clone()
}

fn template_revision(meta: &ObjectMeta) -> Option<u32> {
    meta.annotations.as_ref()?.get(TEMPLATE_REVISION)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resource(spec: &serde_json::Value) -> DynamicObject {
        serde_json::from_value(json!({"metadata": {"name": "carts"}, "spec": spec})).unwrap()
    }

    #[test]
    fn defaults_are_resolved_and_what_is_switched_off_is_absent() {
        let wanted = Wanted::from_resource(&resource(&json!({"replicas": 3}))).known().cloned().unwrap();
        let expected = json!({
            "replicas": 3, "image": "memcached:1.6", "maxMemoryMB": 64, "maxConnections": 1024, "threads": 4,
            "rotatesInPlace": false, "monitoring": false, "paused": false,
        });
        assert_eq!(serde_json::to_value(wanted).unwrap(), expected);
    }

    #[test]
    fn a_spec_that_breaks_rules_is_no_answer_and_says_which() {
        let said = Wanted::from_resource(&resource(&json!({"replicas": 65, "memcached": {"threads": 999}})));
        let Answer::Unknown { unknown } = said else { panic!("it is valid") };
        assert!(
            unknown.contains("spec.replicas: ") && unknown.contains("spec.memcached.threads: "),
            "{unknown}"
        );
    }
}
