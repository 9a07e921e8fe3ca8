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

/// How the pods that there are listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Listening {
    /// The rules of their template.
    pub revision: Revision,
    /// Whether their template has the port for clients with TLS.
    pub for_tls: bool,
}

/// The ports of memcached, in pods of this spec.
#[must_use]
pub fn of_clients(spec: &Validated) -> Vec<Port> {
    with_tls(spec.security.tls.is_some())
}

/// The ports on which clients are let in: those of the pods that there are, and those of the pods to come.
#[must_use]
pub fn open_to_clients(spec: &Validated, pods: Option<Listening>) -> Vec<Port> {
    with_tls(spec.security.tls.is_some() || speaks_tls(spec, pods))
}

fn with_tls(tls: bool) -> Vec<Port> {
    std::iter::once(MEMCACHED).chain(tls.then_some(MEMCACHED_TLS)).collect()
}

/// The port of the exporter.
#[must_use]
pub fn of_metrics(spec: &Validated) -> Option<Port> {
    spec.monitoring.as_ref().map(|_| METRICS)
}

/// Whether clients should speak TLS. The pods that there are decide: an edit of the spec may have to wait.
#[must_use]
pub fn speaks_tls(spec: &Validated, pods: Option<Listening>) -> bool {
    pods.map_or(spec.security.tls.is_some(), |pods| pods.for_tls)
}

/// The port that clients should use. With TLS it is the one that answers TLS whatever `plaintext` says: clients
/// follow it once, and nothing moves under them when plaintext is switched off. Pods of the Go operator do not listen there.
#[must_use]
pub fn to_use(spec: &Validated, pods: Option<Listening>) -> Port {
    let listens = pods.is_none_or(|pods| pods.revision.listens_for_tls());
    if speaks_tls(spec, pods) && listens { MEMCACHED_TLS } else { MEMCACHED }
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
