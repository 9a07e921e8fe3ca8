//! ServiceMonitors without the Prometheus operator: their definition, as much of its own as is used here, with its rules
//! of merging; and what that operator makes of a ServiceMonitor. Takes a client, installs or removes the definition;
//! takes a ServiceMonitor, gives Prometheus' scrape configuration. Called by tests.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use memcached_operator::kernel::object::{ChildKind, Watched};
use memcached_operator::shell::kinds;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{await_answer, discovery};

const NAME: &str = "servicemonitors.monitoring.coreos.com";

/// A ServiceMonitor's `spec`: a field that is not known here would be a promise that nobody keeps.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Monitor {
    selector: Selector,
    namespace_selector: Option<Namespaces>,
    endpoints: Vec<Endpoint>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Selector {
    match_labels: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Namespaces {
    match_names: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Endpoint {
    port: String,
    interval: Option<String>,
    scrape_timeout: Option<String>,
    path: Option<String>,
    honor_labels: Option<bool>,
}

/// The scrape configurations that the Prometheus operator makes of a ServiceMonitor, one for each endpoint, with the
/// targets that there are now: Debian's Prometheus cannot ask an API server for them. What becomes of them, and of their
/// labels, is up to Prometheus.
///
/// # Errors
/// When it has no namespace or says something that is not understood here, or what the API server answers.
pub async fn scrape_configs(client: &Client, monitor: &DynamicObject) -> Result<Vec<Value>> {
    let name = monitor.metadata.name.as_deref().context("a ServiceMonitor has a name")?;
    let own = monitor.metadata.namespace.clone().context("a ServiceMonitor has a namespace")?;
    let spec = monitor.data.get("spec").context("a ServiceMonitor has a spec")?;
    let Monitor { selector, namespace_selector, endpoints } =
        Monitor::deserialize(spec).with_context(|| format!("the ServiceMonitor {name}"))?;
    let mut targets = Vec::new();
    for namespace in namespace_selector.map_or_else(|| vec![own.clone()], |it| it.match_names) {
        targets.extend(discovery::targets(client, &namespace).await?);
    }
    let config = |(index, endpoint)| {
        let job = format!("serviceMonitor/{own}/{name}/{index}");
        scrape_config(&job, &selector, endpoint, &targets)
    };
    Ok(endpoints.into_iter().enumerate().map(config).collect())
}

fn scrape_config(job: &str, selector: &Selector, endpoint: Endpoint, targets: &[Value]) -> Value {
    let Endpoint { port, interval, scrape_timeout, path, honor_labels } = endpoint;
    let keep =
        |source: &str, value: &str| json!({"action": "keep", "source_labels": [source], "regex": value});
    let copy = |source: &str, label: &str| json!({"source_labels": [source], "target_label": label});
    let labels =
        selector.match_labels.iter().map(|(label, value)| keep(&discovery::of_service(label), value));
    let mut relabelings: Vec<Value> = labels.collect();
    relabelings.extend([
        keep(discovery::PORT, &port),
        copy(discovery::NAMESPACE, "namespace"),
        copy(discovery::SERVICE, "service"),
        copy(discovery::POD, "pod"),
        copy(discovery::CONTAINER, "container"),
        copy(discovery::SERVICE, "job"),
        json!({"target_label": "endpoint", "replacement": port}),
    ]);
    let mut config = json!({
        "job_name": job,
        "honor_labels": honor_labels.unwrap_or(false),
        "metrics_path": path.as_deref().unwrap_or("/metrics"),
        "static_configs": targets,
        "relabel_configs": relabelings,
    });
    for (field, value) in [("scrape_interval", interval), ("scrape_timeout", scrape_timeout)] {
        if let Some(value) = value {
            config[field] = json!(value);
        }
    }
    config
}

/// ServiceMonitors in all namespaces.
fn everywhere(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &kinds::api_resource(Watched::Child(ChildKind::ServiceMonitor)))
}

/// Installs the definition and waits until ServiceMonitors are served.
///
/// # Errors
/// What the API server answers, or when they are not served within a minute.
pub async fn install(client: &Client) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("e2e-test").force();
    definitions.patch(NAME, &params, &Patch::Apply(definition())).await?;
    await_answer("ServiceMonitors are served", async || {
        Ok(everywhere(client).list(&ListParams::default()).await.map(|_| ())?)
    })
    .await
}

/// Removes the definition, and every ServiceMonitor with it, and waits until none is served.
///
/// # Errors
/// What the API server answers, or when they are still served after a minute.
pub async fn remove(client: &Client) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.delete(NAME, &DeleteParams::default()).await?;
    await_answer("ServiceMonitors are not served", async || {
        match everywhere(client).list(&ListParams::default()).await {
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
    let endpoint = object(json!({
        "port": text, "interval": text, "scrapeTimeout": text, "path": text, "honorLabels": {"type": "boolean"},
    }));
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
