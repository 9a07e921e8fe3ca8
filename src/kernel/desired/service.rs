//! The headless Service: one DNS name that resolves to every ready pod. Pure; called by [`super::children`].

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::{Intent, meta};

/// Renders the Service.
#[must_use]
pub fn service(intent: &Intent<'_>) -> Value {
    json!(Service {
        metadata: meta::object_meta(intent, BTreeMap::new()),
        spec: Some(ServiceSpec {
            // Clients spread keys over the pods by themselves, so they need the pods' addresses, not one of ours.
            cluster_ip: Some("None".to_owned()),
            selector: Some(meta::labels(&intent.key.name)),
            ports: Some(vec![ServicePort {
                name: Some(meta::MEMCACHED.to_owned()),
                port: meta::CLIENT_PORT,
                target_port: Some(IntOrString::String(meta::MEMCACHED.to_owned())),
                // Half of the key by which the API server merges ports: without it a second apply may collide.
                protocol: Some("TCP".to_owned()),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        status: None,
    })
}
