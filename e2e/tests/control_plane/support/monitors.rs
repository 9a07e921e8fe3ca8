//! The definition of ServiceMonitors, which is not part of Kubernetes: as much of the Prometheus operator's as children
//! touch, with its rules of merging. Takes a client, installs or removes it. Called by [`super::in_space`] and by the
//! test of its coming and going.

use anyhow::{Result, bail, ensure};
use e2e::testing::await_answer;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};

use super::SOON;
use super::children::everywhere;

const NAME: &str = "servicemonitors.monitoring.coreos.com";

/// Installs it and waits until ServiceMonitors are served.
pub(crate) async fn install(client: &Client) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("e2e-test").force();
    definitions.patch(NAME, &params, &Patch::Apply(definition())).await?;
    await_answer(("ServiceMonitors are served", SOON), async || {
        let monitors = everywhere(client, ChildKind::ServiceMonitor);
        Ok(monitors.list(&ListParams::default()).await.map(|_| ())?)
    })
    .await
}

/// Removes it, and every ServiceMonitor with it, and waits until none is served.
pub(crate) async fn remove(client: &Client) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.delete(NAME, &DeleteParams::default()).await?;
    await_answer(("ServiceMonitors are not served", SOON), async || {
        match everywhere(client, ChildKind::ServiceMonitor).list(&ListParams::default()).await {
            Err(kube::Error::Api(status)) => ensure!(status.code == 404, "{status:?}"),
            other => bail!("{other:?}"),
        }
        Ok(())
    })
    .await
}

fn definition() -> Value {
    let text = json!({"type": "string"});
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let labels = json!({"type": "object", "additionalProperties": text});
    let mut selector = object(json!({"matchLabels": labels, "matchExpressions": {
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "items": object(json!({"key": text, "operator": text, "values": {"type": "array", "items": text}})),
    }}));
    selector["x-kubernetes-map-type"] = json!("atomic");
    let endpoint = object(json!({"port": text, "interval": text, "scrapeTimeout": text, "path": text}));
    let names = json!({"type": "array", "items": text});
    let mut spec = object(json!({
        "selector": selector,
        "namespaceSelector": object(json!({"any": {"type": "boolean"}, "matchNames": names})),
        "endpoints": {"type": "array", "items": endpoint},
        "jobLabel": text,
    }));
    spec["required"] = json!(["endpoints", "selector"]);
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {
                "kind": "ServiceMonitor", "listKind": "ServiceMonitorList",
                "plural": "servicemonitors", "singular": "servicemonitor",
            },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": object(json!({"spec": spec, "status": status}))},
            }],
        },
    })
}
