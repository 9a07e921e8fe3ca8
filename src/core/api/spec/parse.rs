//! Reads a spec of any shape. Pure.

use serde_json::Value;

use super::MemcachedSpec;
use super::findings::Violation;

/// Bytes of memory that a spec may take: as many as Kubernetes lets the annotations of an object have. Without a bound, a few
/// dozen resources of somebody who may make them in one namespace end the operator for everybody.
const LARGEST: usize = 256 * 1024;
/// What an object takes when it is read, however short its text: `{}` is a toleration with five fields.
const OBJECT: usize = 256;
/// What any other value takes beside its text.
const VALUE: usize = 32;

impl MemcachedSpec {
    /// Reads a spec of any shape, `spec` of an object as the API server or a file holds it. Like the API server,
    /// it takes a null for a missing value and ignores unknown fields.
    ///
    /// # Errors
    /// The first value of a wrong type, with its path: only a CRD that is not ours lets that through. Or the whole spec, where
    /// it is larger than any that is of use: that the API server lets through.
    pub fn parse(raw: Option<&Value>) -> Result<Self, Violation> {
        let Some(raw) = raw.filter(|value| !value.is_null()) else { return Ok(Self::default()) };
        if memory(raw) > LARGEST {
            let message = format!("Too large: may not take more than {LARGEST} bytes of memory");
            return Err(Violation { path: "spec".to_owned(), message });
        }
        serde_path_to_error::deserialize(without_nulls(raw)).map_err(|error| {
            let path = error.path().to_string();
            let path = if path == "." { "spec".to_owned() } else { format!("spec.{path}") };
            Violation { path, message: error.into_inner().to_string() }
        })
    }
}

/// About how many bytes a value takes once it is read.
fn memory(value: &Value) -> usize {
    match value {
        Value::Object(fields) => {
            OBJECT + fields.iter().map(|(name, field)| name.len() + memory(field)).sum::<usize>()
        }
        Value::Array(items) => VALUE + items.iter().map(memory).sum::<usize>(),
        Value::String(text) => VALUE + text.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => VALUE,
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
    use serde_json::json;

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
    #[case::by_one_text(json!({"pod": {"annotations": {"a": "x".repeat(LARGEST)}}}))]
    #[case::by_many_texts(json!({"pod": {"annotations": (0..80)
        .map(|at| (format!("a{at}"), json!("x".repeat(4096))))
        .collect::<serde_json::Map<_, _>>()}}))]
    #[case::by_many_objects_of_two_bytes(json!({"pod": {"tolerations": vec![json!({}); 2_000]}}))]
    #[case::by_many_names(json!({"pod": {"affinity": {"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "namespaces": vec!["n"; 9_000]}],
    }}}}))]
    fn a_spec_that_is_too_large_is_refused_as_a_whole(#[case] raw: Value) {
        let expected = "spec: Too large: may not take more than 262144 bytes of memory";
        assert_eq!(MemcachedSpec::parse(Some(&raw)).unwrap_err().to_string(), expected);
    }

    #[test]
    fn a_large_spec_that_keeps_the_bound_is_read() {
        let raw = json!({"pod": {
            "annotations": {"a": "x".repeat(200 * 1024)},
            "tolerations": vec![json!({"key": "a"}); 100],
        }});
        assert!(MemcachedSpec::parse(Some(&raw)).is_ok());
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
