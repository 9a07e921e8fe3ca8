//! Labels and annotations, wherever they are.

use memcached_operator::api::rules::{self, LABEL_VALUE_PATTERN};
use serde_json::{Map, Value, json};

use super::{Case, case, unchecked};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = keys();
    cases.extend(our_own());
    cases.extend(values());
    cases
}

fn labels(map: &Value) -> Value {
    json!({"pod": {"labels": map}})
}

fn annotations(map: &Value) -> Value {
    json!({"pod": {"annotations": map}})
}

fn nodes(map: &Value) -> Value {
    json!({"pod": {"nodeSelector": map}})
}

fn service(map: &Value) -> Value {
    json!({"service": {"annotations": map}})
}

fn key(key: &str) -> Value {
    [(key.to_owned(), json!(""))].into_iter().collect::<Map<_, _>>().into()
}

fn refused(message: &str) -> String {
    format!("Invalid value: \"object\": {message}")
}

fn keys() -> Vec<Case> {
    let monitor = |map: &Value| json!({"monitoring": {"serviceMonitor": {"additionalLabels": map}}});
    let (no_label, no_annotation) = (refused(rules::LABEL_KEY), refused(rules::ANNOTATION_KEY));
    let long = |prefix: usize, name: usize| key(&format!("{}/{}", "a".repeat(prefix), "B".repeat(name)));
    let of_monitor = "spec.monitoring.serviceMonitor.additionalLabels";
    vec![
        case(labels(&long(253, 63)), labels(&long(254, 63)), "spec.pod.labels", no_label.clone()),
        case(labels(&key("a.b/C")), labels(&long(253, 64)), "spec.pod.labels", no_label.clone()),
        case(nodes(&key("a")), nodes(&key("A.com/a")), "spec.pod.nodeSelector", no_label.clone()),
        case(monitor(&key("a_b.c-D")), monitor(&key("a/b/c")), of_monitor, no_label),
        case(
            annotations(&key("A.com/a")),
            annotations(&key("a b")),
            "spec.pod.annotations",
            no_annotation.clone(),
        ),
        case(service(&long(253, 63)), service(&long(254, 1)), "spec.service.annotations", no_annotation),
    ]
}

fn our_own() -> Vec<Case> {
    let (label, annotation) = (refused(rules::LABELS_NOT_OURS), refused(rules::ANNOTATIONS_NOT_OURS));
    let theirs = key("c5c3.io/x");
    let ours = key("memcached.c5c3.io/x");
    let mut cases = vec![
        case(labels(&theirs), labels(&ours), "spec.pod.labels", label.clone()),
        case(annotations(&theirs), annotations(&ours), "spec.pod.annotations", annotation.clone()),
        case(service(&theirs), service(&ours), "spec.service.annotations", annotation),
    ];
    cases.extend(rules::OUR_LABELS.map(|ours| {
        let theirs = key("app.kubernetes.io/part-of");
        case(labels(&theirs), labels(&key(ours)), "spec.pod.labels", label.clone())
    }));
    cases
}

fn values() -> Vec<Case> {
    let value = |value: &str| json!({"k": value});
    let many = |count: usize| -> Value {
        (0..count).map(|at| (format!("k{at}"), json!(""))).collect::<Map<_, _>>().into()
    };
    let too_many = "Too many: 129: must have at most 128 items";
    vec![
        case(
            labels(&value("A_b.c-1")),
            labels(&value("a-")),
            "spec.pod.labels.k",
            format!("Invalid value: \"a-\": spec.pod.labels.k in body should match '{LABEL_VALUE_PATTERN}'"),
        ),
        unchecked(
            nodes(&value(&"a".repeat(63))),
            nodes(&value(&"a".repeat(64))),
            "spec.pod.nodeSelector.k",
            "Too long: may not be more than 63 bytes",
        ),
        unchecked(labels(&many(128)), labels(&many(129)), "spec.pod.labels", too_many),
        unchecked(annotations(&many(128)), annotations(&many(129)), "spec.pod.annotations", too_many),
    ]
}
