//! The ports that answer outside of the pod, and how each object writes one. Pure; used by the pod's containers, the
//! Service, the NetworkPolicy and the ServiceMonitor.

use k8s_openapi::api::core::v1::{ContainerPort, ServicePort};
use k8s_openapi::api::networking::v1::NetworkPolicyPort;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

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

/// How the pods that run answer clients. Another spec changes it with the pods, which may have to wait: for a Secret that is
/// missing, for the end of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listening {
    /// Without TLS.
    Plaintext,
    /// TLS on its own port.
    Tls,
    /// TLS on the port without TLS: pods of the Go operator, which say that they have the other one and do not listen there.
    TlsWithoutItsPort,
}

impl Listening {
    /// Of pods that are made for a spec.
    fn of_new_pods(spec: &Validated) -> Self {
        if spec.security.tls.is_some() { Self::Tls } else { Self::Plaintext }
    }
}

/// The ports of memcached.
#[must_use]
pub fn of_clients(spec: &Validated) -> Vec<Port> {
    std::iter::once(MEMCACHED).chain(spec.security.tls.as_ref().map(|_| MEMCACHED_TLS)).collect()
}

/// The ports of memcached, those of the pods that run included.
#[must_use]
pub fn to_open(spec: &Validated, listening: Option<Listening>) -> Vec<Port> {
    let runs = listening == Some(Listening::Tls);
    let with_tls = runs || spec.security.tls.is_some();
    std::iter::once(MEMCACHED).chain(with_tls.then_some(MEMCACHED_TLS)).collect()
}

/// The port of the exporter.
#[must_use]
pub fn of_metrics(spec: &Validated) -> Option<Port> {
    spec.monitoring.as_ref().map(|_| METRICS)
}

/// The port that clients should use, and whether it speaks TLS. With TLS it is the one that answers TLS whatever `plaintext`
/// says: clients follow it once, and nothing moves under them when plaintext is switched off.
#[must_use]
pub fn to_use(spec: &Validated, listening: Option<Listening>) -> (Port, bool) {
    match listening.unwrap_or_else(|| Listening::of_new_pods(spec)) {
        Listening::Plaintext => (MEMCACHED, false),
        Listening::Tls => (MEMCACHED_TLS, true),
        Listening::TlsWithoutItsPort => (MEMCACHED, true),
    }
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
