//! `spec.pod` and `spec.service`: maps, names and words.

use std::collections::BTreeMap;

use rstest::rstest;
use serde_json::{Map, Value, json};

use super::{valid, violations};
use crate::api::rules;
use crate::api::validated::PodSettings;

fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[test]
fn the_sections_arrive_unchanged() {
    let affinity = json!({"podAntiAffinity": {}});
    let raw = json!({
        "service": {"annotations": {"example.com/a": "1"}},
        "pod": {
            "labels": {"team": "cache"}, "annotations": {"Example.com/b": ""}, "nodeSelector": {"disk": "none"},
            "tolerations": [{"operator": "Exists"}], "affinity": affinity, "priorityClassName": "high",
            "imagePullSecrets": [{"name": "registry"}], "imagePullPolicy": "Always", "serviceAccountName": "cache",
        },
    });
    let expected = PodSettings {
        labels: map(&[("team", "cache")]),
        annotations: map(&[("Example.com/b", "")]),
        node_selector: map(&[("disk", "none")]),
        tolerations: serde_json::from_value(json!([{"operator": "Exists"}])).unwrap(),
        affinity: serde_json::from_value(affinity).unwrap(),
        priority_class_name: Some("high".to_owned()),
        image_pull_secrets: serde_json::from_value(json!([{"name": "registry"}])).unwrap(),
        image_pull_policy: Some("Always".to_owned()),
        service_account_name: Some("cache".to_owned()),
    };
    let valid = valid(&raw);
    assert_eq!(valid.pod, expected);
    assert_eq!(valid.service_annotations, map(&[("example.com/a", "1")]));
}

#[test]
fn a_paused_resource_says_so() {
    assert!(valid(&json!({"paused": true})).paused);
}

const LABELS: [&str; 3] = ["pod.labels", "pod.nodeSelector", "monitoring.serviceMonitor.additionalLabels"];
const ANNOTATIONS: [&str; 2] = ["pod.annotations", "service.annotations"];

/// A spec with that map at a dotted path.
fn with(path: &str, map: Value) -> Value {
    path.rsplit('.').fold(map, |value, field| json!({field: value}))
}

#[rstest]
#[case("a", true, true)]
#[case("A_b.c-D1", true, true)]
#[case("example.com/a", true, true)]
#[case(&format!("{}/{}", "a".repeat(253), "b".repeat(63)), true, true)]
#[case("A.com/a", false, true)]
#[case(&format!("{}/b", "a".repeat(254)), false, false)]
#[case(&"a".repeat(64), false, false)]
#[case("", false, false)]
#[case("-a", false, false)]
#[case("a.", false, false)]
#[case("/a", false, false)]
#[case("a/", false, false)]
#[case("a/b/c", false, false)]
#[case("a b", false, false)]
#[case("é", false, false)]
fn a_key_is_what_kubernetes_takes(#[case] key: &str, #[case] label: bool, #[case] annotation: bool) {
    let check = |paths: &[&str], valid: bool, message: &str| {
        for path in paths {
            let expected = if valid { vec![] } else { vec![format!("spec.{path}: {message}")] };
            assert_eq!(violations(&with(path, json!({key: ""}))), expected);
        }
    };
    check(&LABELS, label, rules::LABEL_KEY);
    check(&ANNOTATIONS, annotation, rules::ANNOTATION_KEY);
}

#[rstest]
#[case("", None)]
#[case("A_b.c-1", None)]
#[case(&"a".repeat(63), None)]
#[case(&"a".repeat(64), Some("Too long: may not be more than 63 bytes"))]
#[case("-a", Some("should match '^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$'"))]
#[case("a b", Some("should match '^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$'"))]
fn a_labels_value_is_what_kubernetes_takes(#[case] value: &str, #[case] refusal: Option<&str>) {
    for path in LABELS {
        let expected: Vec<_> = refusal.iter().map(|it| format!("spec.{path}.k: {it}")).collect();
        assert_eq!(violations(&with(path, json!({"k": value}))), expected);
    }
}

#[test]
fn an_annotations_value_is_anything() {
    for path in ANNOTATIONS {
        assert_eq!(violations(&with(path, json!({"k": "any: [thing]\n".repeat(99)}))), [""; 0]);
    }
}

#[rstest]
#[case("memcached.c5c3.io/secret-hash", true, true)]
#[case("app.kubernetes.io/name", true, false)]
#[case("app.kubernetes.io/instance", true, false)]
#[case("app.kubernetes.io/managed-by", true, false)]
#[case("app.kubernetes.io/part-of", false, false)]
#[case("c5c3.io/a", false, false)]
fn the_operators_own_stay_its_own(#[case] key: &str, #[case] label: bool, #[case] annotation: bool) {
    let label_refusal = format!("spec.pod.labels: {}", rules::LABELS_NOT_OURS);
    let expected = if label { vec![label_refusal] } else { vec![] };
    assert_eq!(violations(&with("pod.labels", json!({key: ""}))), expected);
    for path in ANNOTATIONS {
        let refusal = format!("spec.{path}: {}", rules::ANNOTATIONS_NOT_OURS);
        let expected = if annotation { vec![refusal] } else { vec![] };
        assert_eq!(violations(&with(path, json!({key: ""}))), expected);
    }
}

#[test]
fn a_map_has_at_most_128_entries() {
    let many = |count: usize| {
        let entries = (0..count).map(|at| (format!("k{at}"), json!("")));
        Value::Object(entries.collect::<Map<_, _>>())
    };
    for path in LABELS.iter().chain(&ANNOTATIONS) {
        assert_eq!(violations(&with(path, many(128))), [""; 0]);
        let expected = format!("spec.{path}: Too many: 129: must have at most 128 items");
        assert_eq!(violations(&with(path, many(129))), [expected]);
    }
}

#[test]
fn names_and_words_are_checked() {
    let raw = json!({
        "pod": {"priorityClassName": "High", "imagePullPolicy": "always", "serviceAccountName": "a/b"},
    });
    let policy = "Unsupported value: \"always\": supported values: \"Always\", \"IfNotPresent\", \"Never\"";
    let name = format!("should match '{}'", rules::OBJECT_NAME_PATTERN);
    assert_eq!(
        violations(&raw),
        [
            format!("spec.pod.priorityClassName: {name}"),
            format!("spec.pod.imagePullPolicy: {policy}"),
            format!("spec.pod.serviceAccountName: {name}"),
        ]
    );
}
