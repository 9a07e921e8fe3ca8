//! `spec.monitoring` as users write it. Pure data.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::resources::Resources;
use crate::api::{cel, rules, schema};

/// The exporter beside memcached, which tells Prometheus how the cache does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Monitoring {
    /// Whether each pod has an exporter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Container image of the exporter. Unset, the operator takes one that works with the cache's encryption and
    /// authentication; `prom/memcached-exporter:v0.15.4`, which webhooks of the past filled in, counts as unset.
    // No default in the schema: which image can work differs from resource to resource and from release to release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = rules::IMAGE_LENGTH),
        extend("x-kubernetes-validations" = [cel::image("exporterImage")])
    )]
    pub exporter_image: Option<String>,
    /// Resource requests and limits of the exporter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exporter_resources: Option<Resources>,
    /// Where this section is present, a ServiceMonitor tells the Prometheus operator about the exporter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_monitor: Option<ServiceMonitor>,
}

/// How Prometheus finds and asks the exporter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [cel::monitoring::timeout_within_interval()]))]
pub struct ServiceMonitor {
    /// Labels of the ServiceMonitor, such as those that a Prometheus selects by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::labels, extend("x-kubernetes-validations" = [cel::labels::valid_labels()]))]
    pub additional_labels: Option<BTreeMap<String, String>>,
    /// Time between two scrapes, as Prometheus writes it: 30s, 1m30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = rules::DURATION_LENGTH),
        extend(
            "default" = rules::DEFAULT_INTERVAL,
            "x-kubernetes-validations" = [cel::monitoring::duration("interval")]
        )
    )]
    pub interval: Option<String>,
    /// Time until a scrape is given up, at most the interval. Unset: 10s, or the interval where that is shorter.
    // No default in the schema: a fixed one would refuse `interval: 5s` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = rules::DURATION_LENGTH),
        extend("x-kubernetes-validations" = [cel::monitoring::duration("scrapeTimeout")])
    )]
    pub scrape_timeout: Option<String>,
}
