//! The ports that answer outside of the pod, and how each object writes one. Pure; used by the pod's containers, the
//! Service, the NetworkPolicy and the ServiceMonitor.

use k8s_openapi::api::core::v1::{ContainerPort, ServicePort};
use k8s_openapi::api::networking::v1::NetworkPolicyPort;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::revision::Revision;
use crate::api::Validated;

/// One TCP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// The name, the same in every object.
    pub name: &'static str,
    /// The number, the same in every object.
    pub number: i32,
}

/// The port for clients; it exists in every mode, so probes use it.
pub const MEMCACHED: Port = Port { name: "memcached", number: 11211 };
/// The port for clients with TLS.
pub const MEMCACHED_TLS: Port = Port { name: "memcached-tls", number: 11212 };
/// The port of the exporter, for Prometheus; that of the agent too, which takes its place.
pub const METRICS: Port = Port { name: "metrics", number: 9150 };

/// Part of the key by which the API server merges ports: without it a second apply may conflict.
const PROTOCOL: &str = "TCP";

/// The ports of memcached.
#[must_use]
pub fn of_clients(spec: &Validated) -> Vec<Port> {
    std::iter::once(MEMCACHED).chain(spec.security.tls.as_ref().map(|_| MEMCACHED_TLS)).collect()
}

/// The port of the exporter.
#[must_use]
pub fn of_metrics(spec: &Validated) -> Option<Port> {
    spec.monitoring.as_ref().map(|_| METRICS)
}

/// The port that clients should use. With TLS it is the one that answers TLS whatever `plaintext` says: clients
/// follow it once, and nothing moves under them when plaintext is switched off. Pods of the Go operator do not listen there.
#[must_use]
pub fn to_use(spec: &Validated, revision: Option<Revision>) -> Port {
    let listens = revision.is_none_or(Revision::listens_for_tls);
    if spec.security.tls.is_some() && listens { MEMCACHED_TLS } else { MEMCACHED }
}

impl Port {
    /// The port as a container declares it.
    #[must_use]
    pub fn to_container_port(self) -> ContainerPort {
        ContainerPort {
            name: Some(self.name.to_owned()),
            container_port: self.number,
            protocol: Some(PROTOCOL.to_owned()),
            ..ContainerPort::default()
        }
    }

    /// The port as the Service offers it.
    #[must_use]
    pub fn to_service_port(self) -> ServicePort {
        ServicePort {
            name: Some(self.name.to_owned()),
            port: self.number,
            target_port: Some(IntOrString::String(self.name.to_owned())),
            protocol: Some(PROTOCOL.to_owned()),
            ..ServicePort::default()
        }
    }

    /// The port as a NetworkPolicy opens it: by number, which holds also for a pod that does not declare it.
    #[must_use]
    pub fn to_policy_port(self) -> NetworkPolicyPort {
        NetworkPolicyPort {
            port: Some(IntOrString::Int(self.number)),
            protocol: Some(PROTOCOL.to_owned()),
            ..NetworkPolicyPort::default()
        }
    }
}
