//! What Prometheus finds when it asks an API server for the endpoints of Services: takes a namespace, gives every address
//! and port with the labels by which rules choose among them. Called by `monitors` and by
//! the test of the page for a Prometheus without its operator.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

pub(super) const NAMESPACE: &str = "__meta_kubernetes_namespace";
pub(super) const SERVICE: &str = "__meta_kubernetes_service_name";
pub(super) const PORT: &str = "__meta_kubernetes_endpointslice_port_name";
pub(super) const POD: &str = "__meta_kubernetes_pod_name";
pub(super) const CONTAINER: &str = "__meta_kubernetes_pod_container_name";

/// What a Service's label is called.
pub(super) fn of_service(label: &str) -> String {
    let plain = |it: char| if it.is_ascii_alphanumeric() { it } else { '_' };
    let label: String = label.chars().map(plain).collect();
    format!("__meta_kubernetes_service_label_{label}")
}

/// Every address and port of the Services in a namespace, as groups of `static_configs`.
///
/// # Errors
/// What the API server answers, or when a slice is of no Service.
pub async fn targets(client: &Client, namespace: &str) -> Result<Vec<Value>> {
    let all = ListParams::default();
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    let services: BTreeMap<String, Service> =
        services.list(&all).await?.items.into_iter().map(|it| (it.name_any(), it)).collect();
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pods: BTreeMap<String, Pod> =
        pods.list(&all).await?.items.into_iter().map(|it| (it.name_any(), it)).collect();
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), namespace);
    let mut groups = Vec::new();
    for slice in slices.list(&all).await?.items {
        let name = slice.labels().get("kubernetes.io/service-name").context("a slice is of a Service")?;
        let Some(service) = services.get(name) else { continue };
        for port in slice.ports.iter().flatten() {
            let (Some(number), Some(port_name)) = (port.port, &port.name) else { continue };
            for endpoint in &slice.endpoints {
                let pod = endpoint.target_ref.as_ref().and_then(|it| it.name.as_ref());
                let pod = pod.and_then(|name| pods.get(name));
                let mut labels: BTreeMap<String, String> = service
                    .labels()
                    .iter()
                    .map(|(label, value)| (of_service(label), value.clone()))
                    .collect();
                let named = [(NAMESPACE, namespace), (SERVICE, name), (PORT, port_name)];
                labels.extend(named.map(|(label, value)| (label.to_owned(), value.to_owned())));
                labels.extend(pod.map(|pod| (POD.to_owned(), pod.name_any())));
                labels.extend(container(pod, number).map(|name| (CONTAINER.to_owned(), name)));
                let addresses: Vec<_> =
                    endpoint.addresses.iter().map(|address| format!("{address}:{number}")).collect();
                groups.push(json!({"targets": addresses, "labels": labels}));
            }
        }
    }
    Ok(groups)
}

/// The container that has the port.
fn container(pod: Option<&Pod>, port: i32) -> Option<String> {
    let containers = &pod?.spec.as_ref()?.containers;
    let has = |it: &&k8s_openapi::api::core::v1::Container| {
        it.ports.iter().flatten().any(|offered| offered.container_port == port)
    };
    containers.iter().find(has).map(|it| it.name.clone())
}
