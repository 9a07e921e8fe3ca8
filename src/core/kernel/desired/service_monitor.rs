//! The ServiceMonitor: how Prometheus finds and asks the exporter. Pure; called by [`super::children`].

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::intent::Intent;
use super::{meta, ports};
use crate::api::spec::ServiceMonitor;
use crate::kernel::object::ChildKind;

/// Renders the ServiceMonitor; `None` if the spec does not ask for one. The kind is not part of Kubernetes, so there is
/// no Rust type for it.
#[must_use]
pub fn service_monitor(intent: &Intent<'_>) -> Option<Value> {
    let monitoring = intent.spec.monitoring.as_ref()?;
    let ServiceMonitor { additional_labels, interval, scrape_timeout } =
        monitoring.service_monitor.as_ref()?;
    let mut metadata = meta::object_meta(ChildKind::ServiceMonitor, intent, BTreeMap::new());
    let mut labels = additional_labels.clone();
    labels.extend(metadata.labels.take().unwrap_or_default());
    metadata.labels = Some(labels);
    Some(json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": metadata,
        "spec": {
            "selector": meta::label_selector(&intent.key.name),
            "namespaceSelector": {"matchNames": [intent.key.namespace]},
            "endpoints": [
                {"port": ports::METRICS.name, "interval": interval, "scrapeTimeout": scrape_timeout},
            ],
        },
    }))
}
