//! `spec` of the resource as users write it: raw, every field optional. Pure data.
//!
//! Nothing but [`super::validate`] reads these fields: what passed there is a `Validated`, with every default
//! resolved. The schema in [`super::crd`] is generated from these types. So a new field is: the field here with
//! its bounds and default, its words in [`super::rules`], its rule in [`super::cel`] where plain schema cannot
//! say it, and its check in [`super::validate`]. A field of one of Kubernetes' own types has that type's schema; what
//! is written there goes into the children verbatim, and what the schema lets through is for them to refuse.

mod autoscaling;
mod availability;
mod monitoring;
mod pod;
mod security;

pub use autoscaling::Autoscaling;
pub use availability::{GracefulShutdown, HighAvailability, PodDisruptionBudget};
pub use monitoring::{Monitoring, ServiceMonitor};
pub use pod::{Pod, Service};
pub use security::{NetworkPolicy, Sasl, SecretReference, Security, Tls};

use kube_derive::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::cel;
use super::resources::Resources;
use super::rules::{self, MAX_CONNECTIONS, MAX_MEMORY_MB, REPLICAS, THREADS, VERBOSITY};
use super::status::MemcachedStatus;
use super::validate::Violation;

/// A Memcached cache: pods that each run one memcached, behind a headless Service.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "memcached.c5c3.io",
    version = "v1beta1",
    kind = "Memcached",
    plural = "memcacheds",
    singular = "memcached",
    shortname = "mcd",
    category = "all",
    namespaced,
    doc = "A Memcached cache: pods that each run one memcached, behind a headless Service.",
    status = "MemcachedStatus",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn = r#"{"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas"}"#,
    printcolumn = r#"{"name": "Replicas", "type": "integer", "jsonPath": ".status.replicas"}"#,
    printcolumn = r#"{"name": "Status", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Image", "type": "string", "jsonPath": ".spec.image", "priority": 1}"#,
    printcolumn = r#"{"name": "Template", "type": "integer", "jsonPath": ".status.templateRevision", "priority": 1}"#,
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = cel::whole_spec()))]
pub struct MemcachedSpec {
    /// Number of memcached pods, 0 to 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = REPLICAS.min, max = REPLICAS.max), extend("default" = REPLICAS.default))]
    pub replicas: Option<i32>,
    /// Container image of memcached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = rules::IMAGE_LENGTH),
        extend("default" = rules::DEFAULT_IMAGE, "x-kubernetes-validations" = [cel::image("image")])
    )]
    pub image: Option<String>,
    /// Resource requests and limits of the memcached container. A memory limit has to leave room for
    /// maxMemoryMB plus 32Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Whether the operator changes nothing, and only goes on reporting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Settings of the memcached process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = json!({})))]
    pub memcached: Option<MemcachedConfig>,
    /// Where pods run, and how they go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_availability: Option<Box<HighAvailability>>,
    /// The exporter beside memcached, which tells Prometheus how the cache does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitoring: Option<Box<Monitoring>>,
    /// Who may talk to memcached, and what its containers may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security: Option<Security>,
    /// A HorizontalPodAutoscaler that decides on the number of pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<Box<Autoscaling>>,
    /// Settings of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Service>,
    /// Settings of the pods that say nothing about memcached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Box<Pod>>,
}

/// Settings of the memcached process: each typed field is one command-line flag.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [cel::item_size_of_memory()]))]
pub struct MemcachedConfig {
    /// Memory for items in MiB (-m), 16 to 65536.
    #[serde(default, rename = "maxMemoryMB", skip_serializing_if = "Option::is_none")]
    #[schemars(
        range(min = MAX_MEMORY_MB.min, max = MAX_MEMORY_MB.max),
        extend("default" = MAX_MEMORY_MB.default)
    )]
    pub max_memory_mb: Option<i32>,
    /// Simultaneous connections (-c), 1 to 65536.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        range(min = MAX_CONNECTIONS.min, max = MAX_CONNECTIONS.max),
        extend("default" = MAX_CONNECTIONS.default)
    )]
    pub max_connections: Option<i32>,
    /// Worker threads (-t), 1 to 128.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = THREADS.min, max = THREADS.max), extend("default" = THREADS.default))]
    pub threads: Option<i32>,
    /// Largest item (-I): a number followed by k or m, a multiple of 512k, at most 1024m and at most half of
    /// maxMemoryMB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = rules::ITEM_SIZE_LENGTH),
        extend(
            "pattern" = rules::ITEM_SIZE_PATTERN,
            "default" = rules::DEFAULT_ITEM_SIZE,
            "x-kubernetes-validations" = [cel::item_size()]
        )
    )]
    pub max_item_size: Option<String>,
    /// Log verbosity: 0 is silent, 1 is -v, 2 is -vv.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = VERBOSITY.min, max = VERBOSITY.max), extend("default" = VERBOSITY.default))]
    pub verbosity: Option<i32>,
    /// Further arguments, passed verbatim after all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "arguments")]
    pub extra_args: Option<Vec<String>>,
}

fn arguments(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": rules::ARGUMENTS,
        "items": {
            "type": "string",
            "maxLength": rules::ARGUMENT_LENGTH,
            "x-kubernetes-validations": [cel::argument()],
        },
    })
}

impl MemcachedSpec {
    /// Reads a spec of any shape, `spec` of an object as the API server or a file holds it. Like the API server,
    /// it takes a null for a missing value and ignores unknown fields.
    ///
    /// # Errors
    /// The first value of a wrong type, with its path: only a CRD that is not ours lets that through.
    pub fn parse(raw: Option<&Value>) -> Result<Self, Violation> {
        let Some(raw) = raw.filter(|value| !value.is_null()) else { return Ok(Self::default()) };
        serde_path_to_error::deserialize(without_nulls(raw)).map_err(|error| {
            let path = error.path().to_string();
            let path = if path == "." { "spec".to_owned() } else { format!("spec.{path}") };
            Violation { path, message: error.into_inner().to_string() }
        })
    }
}

/// The value without any null that is an object's field; in a list a null is an item and stays.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, field)| !field.is_null())
            .map(|(name, field)| (name.clone(), without_nulls(field)))
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn a_spec_is_read_as_it_was_written() {
        let raw = json!({
            "replicas": 3,
            "image": "memcached:1.6.29",
            "resources": {"requests": {"cpu": 1, "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            "paused": true,
            "memcached": {
                "maxMemoryMB": 128, "maxConnections": 2048, "threads": 8, "maxItemSize": "2m", "verbosity": 1,
                "extraArgs": ["-o", "modern"],
            },
            "highAvailability": {
                "antiAffinityPreset": "hard",
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}},
                ],
                "podDisruptionBudget": {"enabled": true, "minAvailable": 1, "maxUnavailable": "50%"},
                "gracefulShutdown": {
                    "enabled": true, "preStopDelaySeconds": 5, "terminationGracePeriodSeconds": 60,
                },
            },
            "monitoring": {
                "enabled": true, "exporterImage": "exporter", "exporterResources": {"limits": {}},
                "serviceMonitor": {"additionalLabels": {"a": "b"}, "interval": "5s", "scrapeTimeout": "1s"},
            },
            "security": {
                "podSecurityContext": {}, "containerSecurityContext": {"capabilities": {"drop": []}},
                "sasl": {"enabled": true, "credentialsSecretRef": {"name": "passwords"}},
                "tls": {
                    "enabled": true, "certificateSecretRef": {"name": "certificate"}, "enableClientCert": false,
                    "plaintext": "Allowed",
                },
                "networkPolicy": {
                    "enabled": true, "allowedSources": [{"namespaceSelector": {}}], "metricsSources": [],
                },
            },
            "autoscaling": {
                "enabled": true, "minReplicas": 2, "maxReplicas": 5, "behavior": {"scaleUp": {}},
                "metrics": [{"type": "Pods", "pods": {"metric": {"name": "x"}, "target": {"type": "Value", "value": "1"}}}],
            },
            "service": {"annotations": {"a": "b"}},
            "pod": {
                "labels": {"a": "b"}, "annotations": {}, "nodeSelector": {"a": ""}, "tolerations": [{}],
                "affinity": {"podAntiAffinity": {}}, "priorityClassName": "high", "imagePullSecrets": [{"name": "a"}],
                "imagePullPolicy": "Never", "serviceAccountName": "cache",
            },
        });
        let read = MemcachedSpec::parse(Some(&raw)).unwrap();
        let written = serde_json::to_value(&read).unwrap();
        assert_eq!(written, raw);
    }

    /// The API server takes a whole number for a quantity; what it becomes in a child means the same.
    #[test]
    fn a_quantity_without_quotes_is_read() {
        let raw = |amount: Value| {
            let target = json!({"type": "AverageValue", "averageValue": amount});
            json!({"autoscaling": {"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]}})
        };
        let read = |amount: Value| MemcachedSpec::parse(Some(&raw(amount))).unwrap();
        assert_eq!(read(json!(2)), read(json!("2")));
    }

    #[rstest]
    #[case(None)]
    #[case(Some(json!(null)))]
    #[case(Some(json!({})))]
    #[case(Some(json!({"replicas": null, "sharding": {"by": "hope"}})))]
    fn missing_null_and_unknown_fields_leave_a_default_spec(#[case] raw: Option<Value>) {
        assert_eq!(MemcachedSpec::parse(raw.as_ref()), Ok(MemcachedSpec::default()));
    }

    #[test]
    fn a_null_among_amounts_counts_as_absent() {
        let raw = json!({"resources": {"limits": {"cpu": null, "memory": "96Mi"}}});
        let expected = json!({"resources": {"limits": {"memory": "96Mi"}}});
        assert_eq!(serde_json::to_value(MemcachedSpec::parse(Some(&raw)).unwrap()).unwrap(), expected);
    }

    #[rstest]
    #[case(json!("all defaults"), r#"spec: invalid type: string "all defaults", expected struct MemcachedSpec"#)]
    #[case(json!({"replicas": "3"}), r#"spec.replicas: invalid type: string "3", expected i32"#)]
    #[case(
        json!({"memcached": {"extraArgs": ["-o", 1]}}),
        "spec.memcached.extraArgs[1]: invalid type: integer `1`, expected a string"
    )]
    #[case(
        json!({"resources": {"limits": {"cpu": 0.5}}}),
        "spec.resources.limits.cpu: expected a string or a whole number"
    )]
    fn a_value_of_the_wrong_type_is_named_with_its_path(#[case] raw: Value, #[case] expected: &str) {
        assert_eq!(MemcachedSpec::parse(Some(&raw)).unwrap_err().to_string(), expected);
    }
}
