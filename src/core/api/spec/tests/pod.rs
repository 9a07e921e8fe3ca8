//! `spec.pod` and `spec.service`.

use std::collections::BTreeMap;

use serde_json::json;

use super::valid;
use crate::api::spec::PodSettings;

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
