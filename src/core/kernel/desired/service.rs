//! The headless Service: one DNS name that resolves to every ready pod. Pure; called by [`super::children`].

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use serde_json::{Value, json};

use super::intent::Intent;
use super::meta;
use super::ports::{self, Port};
use crate::kernel::object::ChildKind;

/// Renders the Service.
#[must_use]
pub fn service(intent: &Intent<'_>) -> Value {
    let of_clients = ports::open_to_clients(intent.spec, intent.listening);
    let ports = of_clients.into_iter().chain(ports::of_metrics(intent.spec));
    json!(Service {
        metadata: meta::object_meta(ChildKind::Service, intent, intent.spec.service_annotations.clone()),
        spec: Some(ServiceSpec {
            // The default, and written all the same: an ExternalName that somebody makes of it has no address, and an apply of
            // one would be refused beside that.
            type_: Some("ClusterIP".to_owned()),
            // Clients spread keys over the pods themselves, so they need the addresses of the pods and no virtual IP.
            cluster_ip: Some("None".to_owned()),
            selector: Some(meta::selector_labels(&intent.key.name)),
            ports: Some(ports.map(Port::to_service_port).collect()),
            ..ServiceSpec::default()
        }),
        status: None,
    })
}
