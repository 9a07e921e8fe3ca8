//! The committed manifests against the code that they come from.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use memcached_operator::cli::check::Report;
use memcached_operator::cli::crd::crd_yaml;
use rstest::rstest;
use serde_json::{Value, json};

fn manifest(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests").join(name)
}

fn crd() -> Value {
    serde_saphyr::from_str(&crd_yaml().unwrap()).unwrap()
}

fn schemas() -> [Value; 2] {
    [0, 1].map(|version| crd()["spec"]["versions"][version]["schema"]["openAPIV3Schema"].clone())
}

#[test]
fn the_committed_crd_is_what_the_crd_command_prints() {
    let committed = std::fs::read_to_string(manifest("crd.yaml")).unwrap_or_default();
    assert!(
        committed == crd_yaml().unwrap(),
        "manifests/crd.yaml is stale: run `make generate` and commit it"
    );
}

#[test]
fn the_committed_crd_says_the_same_to_every_reader_of_yaml() {
    let crd = memcached_operator::api::crd::crd();
    let mut expected = serde_json::to_value(crd).unwrap();
    let mut read = self::crd();
    for value in [&mut expected, &mut read] {
        visit(value, &mut |value| {
            if let Some(number) = value.as_f64() {
                *value = json!(number);
            }
        });
    }
    assert_eq!(read, expected);
}

/// Calls `act` on a value and everything in it.
fn visit(value: &mut Value, act: &mut dyn FnMut(&mut Value)) {
    act(value);
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|field| visit(field, act)),
        Value::Array(items) => items.iter_mut().for_each(|item| visit(item, act)),
        _ => {}
    }
}

#[test]
fn names_versions_columns_and_subresources_are_as_documented() {
    let mut crd = crd();
    let versions = crd["spec"]["versions"].as_array_mut().unwrap();
    let [stored, older] = &mut versions[..] else { panic!("two versions") };
    assert_eq!(stored["schema"].take(), older["schema"].take());
    let expected = |name: &str, storage: bool| {
        json!({
            "name": name,
            "served": true,
            "storage": storage,
            "schema": null,
            "subresources": {
                "status": {},
                "scale": {
                    "specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": ".status.selector",
                },
            },
            "additionalPrinterColumns": [
                {"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas"},
                {"name": "Replicas", "type": "integer", "jsonPath": ".status.replicas"},
                {"name": "Status", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].reason"},
                {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                {"name": "Image", "type": "string", "jsonPath": ".spec.image", "priority": 1},
                {"name": "Paused", "type": "boolean", "jsonPath": ".spec.paused", "priority": 1},
                {"name": "Template", "type": "integer", "jsonPath": ".status.templateRevision", "priority": 1},
            ],
        })
    };
    assert_eq!(*stored, expected("v1beta1", true));
    assert_eq!(*older, expected("v1alpha1", false));
    crd["spec"]["versions"].take();
    assert_eq!(
        crd,
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "memcacheds.memcached.c5c3.io"},
            "spec": {
                "group": "memcached.c5c3.io",
                "scope": "Namespaced",
                "names": {
                    "kind": "Memcached",
                    "plural": "memcacheds",
                    "singular": "memcached",
                    "shortNames": ["mcd"],
                    "categories": ["all"],
                },
                "conversion": {"strategy": "None"},
                "versions": null,
            },
        })
    );
}

/// Defaults are for ever: another default rolls the pods of everybody who relied on the old one.
#[test]
fn the_defaults_are_those_that_were_released() {
    fn defaults(schema: &Value, path: &str, found: &mut Vec<(String, Value)>) {
        if let Some(default) = schema.get("default") {
            found.push((path.to_owned(), default.clone()));
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            defaults(property, &format!("{path}.{name}"), found);
        }
    }
    for schema in schemas() {
        let mut found = Vec::new();
        defaults(&schema, "", &mut found);
        let expected = [
            (".spec", json!({})),
            (".spec.highAvailability.antiAffinityPreset", json!("soft")),
            (".spec.highAvailability.gracefulShutdown.preStopDelaySeconds", json!(10)),
            (".spec.highAvailability.gracefulShutdown.terminationGracePeriodSeconds", json!(30)),
            (".spec.image", json!("memcached:1.6")),
            (".spec.memcached", json!({})),
            (".spec.memcached.maxConnections", json!(1024)),
            (".spec.memcached.maxItemSize", json!("1m")),
            (".spec.memcached.maxMemoryMB", json!(64)),
            (".spec.memcached.threads", json!(4)),
            (".spec.memcached.verbosity", json!(0)),
            (".spec.monitoring.serviceMonitor.interval", json!("30s")),
            (".spec.replicas", json!(1)),
            (".spec.rollout.minReadySeconds", json!(0)),
            (".spec.rollout.warmth.percent", json!(80)),
            (".spec.rollout.warmth.timeoutSeconds", json!(300)),
            (".spec.security.rotation", json!("Restart")),
            (".spec.security.tls.plaintext", json!("Disabled")),
            (".spec.workload", json!("Deployment")),
            (".status", json!({"observedGeneration": -1})),
            (".status.observedGeneration", json!(-1)),
        ];
        assert_eq!(found, expected.map(|(path, default)| (path.to_owned(), default)));
    }
}

/// `kubectl explain` shows descriptions, and the default of no field.
#[test]
fn each_description_ends_with_the_default_of_its_field() {
    fn visit_fields(schema: &Value, said: &mut usize) {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let default = field.get("default").filter(|default| !default.is_object());
            let description = field["description"].as_str().unwrap_or_default();
            if let Some(default) = default {
                let default = default.as_str().map_or_else(|| default.to_string(), str::to_owned);
                assert!(description.ends_with(&format!(" Default: {default}.")), "{name}: {description}");
                *said += 1;
            } else if field["type"] == "boolean" && !description.is_empty() {
                // A switch: `api_reference` holds that it is off where it is left out.
                assert!(description.ends_with(" Default: false."), "{name}: {description}");
                *said += 1;
            }
            visit_fields(field, said);
        }
    }
    for schema in schemas() {
        let mut said = 0;
        visit_fields(&schema["properties"]["spec"], &mut said);
        assert!(said >= 22, "{said} defaults");
    }
}

/// The name of the field says something else.
#[test]
fn the_description_of_sasl_says_that_it_is_memcacheds_own_and_not_that_of_the_binary_protocol() {
    for schema in schemas() {
        let security = &schema["properties"]["spec"]["properties"]["security"];
        let described = security["properties"]["sasl"]["description"].as_str().unwrap();
        let described = described.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(described.contains("It is memcached's own, of the ASCII protocol (-Y):"), "{described}");
        assert!(described.contains("It is not the SASL of the binary protocol:"), "{described}");
    }
}

#[test]
fn neither_a_spec_nor_any_part_of_it_or_of_the_status_has_to_be_written() {
    for schema in schemas() {
        assert_eq!(schema["required"], Value::Null);
        assert_eq!(schema["properties"]["status"]["required"], Value::Null);
        ours(&schema["properties"]["spec"], &mut |value| assert_eq!(value.get("required"), None, "{value}"));
    }
}

/// Calls `act` on the schema of each of our own types: they describe their fields, Kubernetes' types do not.
fn ours(schema: &Value, act: &mut dyn FnMut(&Value)) {
    let fields = schema["properties"].as_object().into_iter().flatten();
    let described: Vec<_> = fields.filter(|(_, field)| field.get("description").is_some()).collect();
    if !described.is_empty() {
        act(schema);
    }
    described.iter().for_each(|(_, field)| ours(field, act));
}

#[test]
fn every_field_of_ours_is_described_and_none_of_kubernetes_own() {
    for schema in schemas() {
        ours(&schema["properties"]["spec"], &mut |ours| {
            let fields = ours["properties"].as_object().unwrap();
            for (name, field) in fields {
                assert!(field.get("description").is_some(), "{name}: {field}");
            }
        });
    }
}

/// `kubectl apply` keeps the whole definition in an annotation, and annotations have a limit.
#[test]
fn the_definition_is_small_enough_for_kubectl_apply() {
    let size = serde_json::to_vec(&memcached_operator::api::crd::crd()).unwrap().len();
    assert!(size < 200 * 1024, "{size} bytes of JSON");
}

#[test]
fn the_leaves_are_what_a_user_can_set() {
    let expected = [
        "autoscaling.behavior",
        "autoscaling.enabled",
        "autoscaling.maxReplicas",
        "autoscaling.metrics",
        "autoscaling.minReplicas",
        "highAvailability.antiAffinityPreset",
        "highAvailability.gracefulShutdown.enabled",
        "highAvailability.gracefulShutdown.preStopDelaySeconds",
        "highAvailability.gracefulShutdown.terminationGracePeriodSeconds",
        "highAvailability.podDisruptionBudget.enabled",
        "highAvailability.podDisruptionBudget.maxUnavailable",
        "highAvailability.podDisruptionBudget.minAvailable",
        "highAvailability.topologySpreadConstraints",
        "image",
        "memcached.extraArgs",
        "memcached.maxConnections",
        "memcached.maxItemSize",
        "memcached.maxMemoryMB",
        "memcached.threads",
        "memcached.verbosity",
        "monitoring.enabled",
        "monitoring.exporterImage",
        "monitoring.exporterResources.limits",
        "monitoring.exporterResources.requests",
        "monitoring.serviceMonitor.additionalLabels",
        "monitoring.serviceMonitor.interval",
        "monitoring.serviceMonitor.scrapeTimeout",
        "paused",
        "pod.affinity",
        "pod.annotations",
        "pod.imagePullPolicy",
        "pod.imagePullSecrets",
        "pod.labels",
        "pod.nodeSelector",
        "pod.priorityClassName",
        "pod.serviceAccountName",
        "pod.tolerations",
        "replicas",
        "resources.limits",
        "resources.requests",
        "rollout.minReadySeconds",
        "rollout.warmth.percent",
        "rollout.warmth.timeoutSeconds",
        "security.containerSecurityContext",
        "security.networkPolicy.allowedSources",
        "security.networkPolicy.enabled",
        "security.networkPolicy.metricsSources",
        "security.podSecurityContext",
        "security.rotation",
        "security.sasl.credentialsSecretRef.name",
        "security.sasl.enabled",
        "security.tls.certificateSecretRef.name",
        "security.tls.enableClientCert",
        "security.tls.enabled",
        "security.tls.plaintext",
        "service.annotations",
        "workload",
    ];
    assert_eq!(memcached_operator::api::crd::leaves(), expected);
}

#[test]
fn no_part_of_the_schema_lets_unknown_fields_or_nulls_through() {
    for mut schema in schemas() {
        visit(&mut schema, &mut |value| {
            assert_eq!(value.get("x-kubernetes-preserve-unknown-fields"), None, "{value}");
            assert_eq!(value.get("nullable"), None, "{value}");
            let is_list = value.get("type") == Some(&json!("array"));
            assert_eq!(value.get("x-kubernetes-list-type").is_some(), is_list, "{value}");
        });
    }
}

#[rstest]
fn every_sample_is_valid(#[files("manifests/samples/*.yaml")] sample: PathBuf) {
    let text = std::fs::read_to_string(&sample).unwrap();
    let mut report = Report::default();
    report.check("sample", &text);
    let Report { findings, warnings, resources, refused: _, skipped: _ } = report;
    assert_eq!((findings, resources.len()), (Vec::new(), 1));
    assert!(warnings.is_empty(), "{warnings:?}");
}

/// A pod of which no container requests anything is BestEffort: the first to go where memory is short.
#[rstest]
fn every_sample_has_requests_and_a_memory_limit(#[files("manifests/samples/*.yaml")] sample: PathBuf) {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&std::fs::read_to_string(&sample).unwrap()).unwrap();
    let spec = &documents.last().unwrap()["spec"];
    let resources = |path: &str| -> Vec<bool> {
        let given = |it: &str| spec.pointer(&format!("{path}/{it}")).is_some();
        ["requests/cpu", "requests/memory", "limits/memory"].map(given).to_vec()
    };
    assert_eq!(resources("/resources"), [true; 3]);
    if spec.pointer("/monitoring/enabled") == Some(&json!(true)) {
        assert_eq!(resources("/monitoring/exporterResources"), [true; 3]);
    }
}

#[test]
fn the_password_file_of_the_sample_ends_with_a_newline() {
    let text = std::fs::read_to_string(manifest("samples/sasl.yaml")).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    assert_eq!(documents[0]["stringData"], json!({"password-file": "cache-user:REPLACE-ME\n"}));
}
