//! The words for what the API server refuses. That both refuse the same: `e2e/tests/validation`.

use std::collections::BTreeSet;

use rstest::rstest;
use serde_json::json;

use super::edges::{self, Edge, Side};
use super::*;
use crate::api::spec::cases::{self, Case, Refusal};
use crate::api::spec::{NAME, STATEFUL_SET_NAME};

fn said(object: &Value) -> Vec<String> {
    refusals(object).iter().map(ToString::to_string).collect()
}

fn cache(spec: &Value) -> Value {
    json!({
        "apiVersion": "memcached.c5c3.io/v1beta1", "kind": "Memcached", "metadata": {"name": "cache"}, "spec": spec,
    })
}

#[rstest]
#[case(json!({"image": ""}), "spec.image: image must be a reference of the form [registry[:port]/]name[:tag][@digest]")]
#[case(json!({"memcached": {"threads": 0}}), "spec.memcached.threads: should be greater than or equal to 1")]
#[case(
    json!({"memcached": {"maxMemoryMB": 0}}),
    "spec.memcached.maxMemoryMB: should be greater than or equal to 16\n\
     spec.memcached.maxItemSize: maxItemSize must be at most half of maxMemoryMB (0Mi)"
)]
#[case(json!({"memcached": {"maxItemSize": ""}}), "spec.memcached.maxItemSize: should match '^[0-9]+(k|m)$'")]
#[case(json!({"autoscaling": {"minReplicas": 0}}), "spec.autoscaling.minReplicas: should be greater than or equal to 1")]
#[case(
    json!({"pod": {"imagePullPolicy": ""}}),
    "spec.pod.imagePullPolicy: Unsupported value: \"\": supported values: \"Always\", \"IfNotPresent\", \"Never\""
)]
#[case(
    json!({"highAvailability": {"podDisruptionBudget": {"minAvailable": ""}}}),
    "spec.highAvailability.podDisruptionBudget.minAvailable: should match '^([0-9]{1,2}|100)%$'"
)]
fn what_templates_leave_blank_is_refused(#[case] spec: Value, #[case] expected: &str) {
    assert_eq!(said(&cache(&spec)).join("\n"), expected);
}

/// The API server takes it, and the operator does not. No annotations that Kubernetes refuses in a pod come through either.
#[test]
fn a_spec_that_the_operator_does_not_read_for_its_size_is_refused() {
    let spec = json!({"pod": {"annotations": {"a": "x".repeat(256 * 1024)}}});
    assert_eq!(said(&cache(&spec)), ["spec: Too large: may not take more than 262144 bytes of memory"]);
}

/// The API server takes them: no name is a name that is left out.
#[test]
fn an_empty_name_of_another_object_is_none() {
    let spec = json!({
        "pod": {"priorityClassName": "", "serviceAccountName": ""},
        "security": {"sasl": {"credentialsSecretRef": {"name": ""}}},
    });
    assert_eq!(said(&cache(&spec)), [] as [String; 0]);
}

#[rstest]
#[case(json!({"replicas": "3"}), "spec.replicas: must be of type integer, not string")]
#[case(json!({"replicas": 1.5}), "spec.replicas: must be of type integer, not number")]
#[case(json!({"replicas": 3_000_000_000_u64}), "spec.replicas: must be of type integer with 32 bits, not 3000000000")]
#[case(json!({"paused": "yes"}), "spec.paused: must be of type boolean, not string")]
#[case(json!({"image": {"name": "x"}}), "spec.image: must be of type string, not object")]
#[case(json!({"memcached": []}), "spec.memcached: must be of type object, not array")]
#[case(json!("all defaults"), "spec: must be of type object, not string")]
#[case(json!({"memcached": {"extraArgs": ["-v", null]}}), "spec.memcached.extraArgs[1]: must be of type string, not null")]
#[case(
    json!({"resources": {"limits": {"cpu": 0.5}}}),
    "spec.resources.limits.cpu: must be of type integer or string, not number"
)]
#[case(json!({"pod": {"labels": {"a": 1}}}), "spec.pod.labels.a: must be of type string, not integer")]
#[case(json!({"pod": {"imagePullSecrets": [{}]}}), "spec.pod.imagePullSecrets[0].name: Required value")]
#[case(json!({"pod": {"tolerations": [{"keys": "a"}]}}), "spec.pod.tolerations[0].keys: unknown field")]
fn the_schema_of_every_part_counts(#[case] spec: Value, #[case] expected: &str) {
    assert_eq!(said(&cache(&spec)), [expected]);
}

#[test]
fn a_name_that_is_to_be_generated_is_cut_so_that_it_fits() {
    let mut object = cache(&json!({}));
    object["metadata"] = json!({"generateName": "c".repeat(70)});
    assert_eq!((name(&object), said(&object)), (format!("{}xxxxx", "c".repeat(58)), Vec::new()));
    object["spec"]["workload"] = json!("StatefulSet");
    assert_eq!(said(&object), [format!("spec.workload: {STATEFUL_SET_NAME}")]);
}

#[test]
fn everything_is_said_at_once_and_each_thing_once() {
    let object = json!({
        "apiVersion": "memcached.c5c3.io/v1alpha1",
        "kind": "Memcached",
        "metadata": {
            "generateName": "1-", "label": {}, "creationTimestamp": null,
            "labels": {"a b": "c", "d": "e f", "g": 1}, "annotations": {"h i": ""},
        },
        "spec": {"replicas": 65, "replica": 3, "memcached": {"threads": 129}, "image": "no image", "paused": null},
        "status": {"phase": "Ready", "readyReplicas": "one"},
        "data": {},
    });
    assert_eq!(
        said(&object),
        [
            "data: unknown field".to_owned(),
            "metadata.label: unknown field".to_owned(),
            "metadata.labels.g: must be of type string, not integer".to_owned(),
            "metadata.labels: a label's key must be a name of at most 63 letters, digits, '-', '_' and '.', alone or \
             after a lower-case DNS name and '/'"
                .to_owned(),
            "metadata.labels.d: should match '^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$'".to_owned(),
            "metadata.annotations: an annotation's key must be a name of at most 63 letters, digits, '-', '_' and '.', \
             alone or after a DNS name and '/'"
                .to_owned(),
            "status.phase: unknown field".to_owned(),
            "spec.replica: unknown field".to_owned(),
            "spec.memcached.threads: should be less than or equal to 128".to_owned(),
            "spec.replicas: should be less than or equal to 64".to_owned(),
            format!("metadata.name: {NAME}"),
            "spec.image: image must be a reference of the form [registry[:port]/]name[:tag][@digest]".to_owned(),
        ]
    );
}

#[test]
fn of_a_version_that_nobody_serves_nothing_else_is_said() {
    let mut object = cache(&json!({"image": ""}));
    object["apiVersion"] = json!("memcached.c5c3.io/v1");
    assert_eq!(said(&object), ["apiVersion: no such version; there are v1beta1 and v1alpha1"]);
}

#[test]
fn what_is_stored_as_valid_is_valid_when_it_is_written_back() {
    let stored = json!({
        "apiVersion": "memcached.c5c3.io/v1beta1", "kind": "Memcached",
        "metadata": {
            "name": "cache", "namespace": "shop", "uid": "u", "resourceVersion": "1", "generation": 1,
            "creationTimestamp": "2026-11-21T10:00:00Z", "finalizers": ["a/b"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b"}],
            "managedFields": [{"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}}],
        },
        "spec": {"replicas": 1},
        "status": {"observedGeneration": 1},
    });
    assert_eq!(said(&stored), [] as [String; 0]);
}

/// Keywords that [`schema`] does not know would be passed over in silence.
#[test]
fn the_definition_uses_no_keyword_that_is_not_judged() {
    const JUDGED: [&str; 18] = [
        "additionalProperties",
        "enum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minimum",
        "pattern",
        "properties",
        "required",
        "type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        // Judged by `spec::validate`.
        "x-kubernetes-validations",
        // No judgement: a value that is missing is valid, or `required`.
        "default",
    ];
    let mut keywords = BTreeSet::new();
    collect_keywords(&json!(*RESOURCE), &mut keywords);
    let unknown: Vec<_> = keywords.iter().filter(|it| !JUDGED.contains(&it.as_str())).collect();
    assert_eq!(unknown, ["description", "title"]);
}

fn collect_keywords(schema: &Value, found: &mut BTreeSet<String>) {
    for (keyword, value) in schema.as_object().into_iter().flatten() {
        found.insert(keyword.clone());
        match keyword.as_str() {
            "properties" => {
                value.as_object().into_iter().flatten().for_each(|(_, it)| collect_keywords(it, found));
            }
            "items" | "additionalProperties" => collect_keywords(value, found),
            _ => {}
        }
    }
}

#[test]
fn lists_of_keys_and_of_words_hold_each_once() {
    let schema = |kind: &str| {
        serde_json::from_value(json!({
            "type": "array", "x-kubernetes-list-type": kind, "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "string"}}},
        }))
        .unwrap()
    };
    let items = json!([{"name": "a"}, {"name": "b"}, {"name": "a", "value": "c"}]);
    let twice = Violation {
        path: "list[2]".to_owned(),
        message: "Duplicate value: another item is the same".to_owned(),
    };
    assert_eq!(schema::judge(Some(&items), &schema("set"), "list").wrong, []);
    let same = Violation { path: "list[1]".to_owned(), message: twice.message.clone() };
    let items_alike = json!([{"name": "a"}, {"name": "a"}]);
    assert_eq!(schema::judge(Some(&items_alike), &schema("set"), "list").wrong, [same]);
    assert_eq!(schema::judge(Some(&items), &schema("atomic"), "list").wrong, []);
    assert_eq!(schema::judge(Some(&items), &schema("map"), "list").wrong, [twice]);
}

#[test]
fn each_case_is_taken_or_refused_in_the_words_of_the_api_server() {
    let wrong = cases::all().into_iter().filter_map(|Case { name, spec, refusal }| {
        let expected: Vec<_> =
            refusal.iter().map(|Refusal { path, words, .. }| format!("{path}: {words}")).collect();
        let mut object = cache(&spec);
        object["metadata"]["name"] = json!(name);
        let found = said(&object);
        (found != expected).then(|| format!("{name}: {spec:.2000}\n  is {found:?},\n  not {expected:?}"))
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn beyond_every_edge_of_the_schema_a_spec_is_refused_where_it_stands() {
    let edges = edges::all();
    let wrong = edges.iter().filter_map(|Edge { spec, path, keyword, side }| {
        let found = schema::judge(Some(spec), &RESOURCE.properties.as_ref()?["spec"], "spec").all();
        let fits = match side {
            Side::Inside => found.is_empty(),
            Side::Outside | Side::Disputed => found.iter().any(|it| it.path.starts_with(path)),
        };
        (!fits).then(|| format!("{keyword} {side:?} of {path}: {found:?}\n  {spec:.300}"))
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), edges.len(), wrong.join("\n"));
}
