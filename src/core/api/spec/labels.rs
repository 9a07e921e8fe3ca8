//! Fields that are maps of labels or annotations: their limits, words, schema, CEL and check. Pure; called by the
//! sections, and for the metadata of a new resource.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;
use regex::Regex;
use schemars::Schema;
use serde_json::json;

use super::findings::{self, Findings};

/// Labels, or annotations, of one map at most; CEL's cost budget needs a bound.
const ENTRIES: usize = 128;
/// Characters before a key's slash at most.
const KEY_PREFIX_LENGTH: usize = 253;
/// Value of a label.
const LABEL_VALUE_PATTERN: &str = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$";
/// Characters of a label's value at most.
const LABEL_VALUE_LENGTH: usize = 63;
/// Bytes of all annotations of an object at most, keys and values: the API server takes no more.
const ANNOTATION_BYTES: usize = 256 * 1024;
/// What keys of the operator's own labels and annotations start with.
pub const OUR_PREFIX: &str = "memcached.c5c3.io/";
/// Keys of the labels by which the operator finds its pods.
pub const OUR_LABELS: [&str; 3] =
    ["app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by"];
/// The message where somebody sets a label that only the operator may set.
pub(super) const LABELS_NOT_OURS: &str = "labels under memcached.c5c3.io/, and app.kubernetes.io/name, instance and \
                                   managed-by, are the operator's own";
/// The message where somebody sets an annotation that only the operator may set.
pub(super) const ANNOTATIONS_NOT_OURS: &str = "annotations under memcached.c5c3.io/ are the operator's own";

/// What becomes of a stored label or annotation that its child cannot carry.
const LEFT_OUT: &str = "it is left out";

/// Keys that Kubernetes takes.
struct Keys {
    pattern: &'static str,
    /// The message where Kubernetes refuses a key.
    message: &'static str,
}

const LABEL_KEYS: Keys = Keys {
    pattern: "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?\
              [A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
    message: "a label's key must be a name of at most 63 letters, digits, '-', '_' and '.', \
              alone or after a lower-case DNS name and '/'",
};
// Kubernetes takes capitals in the prefix of an annotation's key.
const ANNOTATION_KEYS: Keys = Keys {
    pattern: "^([A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?([.][A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*/)?\
              [A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
    message: "an annotation's key must be a name of at most 63 letters, digits, '-', '_' \
              and '.', alone or after a DNS name and '/'",
};

static LABEL_KEY: LazyLock<Regex> = LazyLock::new(|| findings::pattern(LABEL_KEYS.pattern));
static ANNOTATION_KEY: LazyLock<Regex> = LazyLock::new(|| findings::pattern(ANNOTATION_KEYS.pattern));
static LABEL_VALUE: LazyLock<Regex> = LazyLock::new(|| findings::pattern(LABEL_VALUE_PATTERN));

/// Schema of a map of labels.
pub(super) fn label_schema(field: &mut Schema) {
    let value = json!({"type": "string", "maxLength": LABEL_VALUE_LENGTH, "pattern": LABEL_VALUE_PATTERN});
    field.insert("additionalProperties".to_owned(), value);
    field.insert("maxProperties".to_owned(), json!(ENTRIES));
}

/// Schema of a map of annotations.
pub(super) fn annotation_schema(field: &mut Schema) {
    field.insert("maxProperties".to_owned(), json!(ENTRIES));
}

impl Keys {
    fn rule(&self) -> ValidationRule {
        let Self { pattern, message } = self;
        ValidationRule {
            rule: format!("self.all(k, k.indexOf('/') <= {KEY_PREFIX_LENGTH} && k.matches('{pattern}'))"),
            message: Some((*message).to_owned()),
            ..ValidationRule::default()
        }
    }
}

/// CEL for labels that Kubernetes takes: else the child that carries them is refused for ever.
pub(super) fn label_rule() -> ValidationRule {
    LABEL_KEYS.rule()
}

/// CEL for labels of others: none that only the operator may set.
pub(super) fn others_label_rules() -> [ValidationRule; 2] {
    let ours = OUR_LABELS.map(|key| format!("'{key}'")).join(", ");
    let not_ours = ValidationRule {
        rule: format!("self.all(k, !k.startsWith('{OUR_PREFIX}') && !(k in [{ours}]))"),
        message: Some(LABELS_NOT_OURS.to_owned()),
        ..ValidationRule::default()
    };
    [label_rule(), not_ours]
}

/// CEL for annotations of others.
pub(super) fn others_annotation_rules() -> [ValidationRule; 2] {
    let not_ours = ValidationRule {
        rule: format!("self.all(k, !k.startsWith('{OUR_PREFIX}'))"),
        message: Some(ANNOTATIONS_NOT_OURS.to_owned()),
        ..ValidationRule::default()
    };
    [ANNOTATION_KEYS.rule(), not_ours]
}

type Map = BTreeMap<String, String>;

/// Labels of the resource itself: Kubernetes has no limit to their number.
pub(super) fn validate_own_labels(findings: &mut Findings, labels: &Map) {
    check_labels(findings, "metadata.labels", labels);
}

/// Annotations of the resource itself.
pub(super) fn validate_own_annotations(findings: &mut Findings, annotations: &Map) {
    let path = "metadata.annotations";
    check_annotation_keys(findings, path, annotations);
    let bytes: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    findings.check(bytes <= ANNOTATION_BYTES, path, || {
        format!("Too long: may not be more than {ANNOTATION_BYTES} bytes")
    });
}

/// Labels of a ServiceMonitor.
pub(super) fn validate_monitor_labels(findings: &mut Findings, path: &str, raw: Option<&Map>) -> Map {
    let Some(labels) = raw else { return Map::new() };
    findings.count(path, labels.len(), ENTRIES);
    findings.entries(labels, LEFT_OUT, |findings, labels| check_labels(findings, path, labels))
}

/// Labels that anybody may set.
pub(super) fn validate_labels(findings: &mut Findings, path: &str, raw: Option<&Map>) -> Map {
    let Some(labels) = raw else { return Map::new() };
    findings.count(path, labels.len(), ENTRIES);
    check_labels(findings, path, labels);
    labels.clone()
}

fn check_labels(findings: &mut Findings, path: &str, labels: &Map) {
    let keys = labels.keys().all(|key| is_key(key, &LABEL_KEY));
    findings.check(keys, path, || LABEL_KEYS.message.to_owned());
    for (key, value) in labels {
        let path = format!("{path}.{key}");
        findings.length(&path, value, LABEL_VALUE_LENGTH);
        findings.pattern(path, value, &LABEL_VALUE);
    }
}

/// Labels of others: none that only the operator may set.
pub(super) fn validate_others_labels(findings: &mut Findings, path: &str, raw: Option<&Map>) -> Map {
    let labels = validate_labels(findings, path, raw);
    let ours = |key: &String| key.starts_with(OUR_PREFIX) || OUR_LABELS.contains(&key.as_str());
    findings.check(!labels.keys().any(ours), path, || LABELS_NOT_OURS.to_owned());
    labels
}

/// Annotations of a Service: none that only the operator may set.
pub(super) fn validate_service_annotations(findings: &mut Findings, path: &str, raw: Option<&Map>) -> Map {
    let Some(annotations) = raw else { return Map::new() };
    findings.count(path, annotations.len(), ENTRIES);
    findings.entries(annotations, LEFT_OUT, |findings, map| check_others_annotations(findings, path, map))
}

/// Annotations of others: none that only the operator may set.
pub(super) fn validate_others_annotations(findings: &mut Findings, path: &str, raw: Option<&Map>) -> Map {
    let Some(annotations) = raw else { return Map::new() };
    findings.count(path, annotations.len(), ENTRIES);
    check_others_annotations(findings, path, annotations);
    annotations.clone()
}

fn check_others_annotations(findings: &mut Findings, path: &str, annotations: &Map) {
    check_annotation_keys(findings, path, annotations);
    let ours = annotations.keys().any(|key| key.starts_with(OUR_PREFIX));
    findings.check(!ours, path, || ANNOTATIONS_NOT_OURS.to_owned());
}

fn check_annotation_keys(findings: &mut Findings, path: &str, annotations: &Map) {
    let keys = annotations.keys().all(|key| is_key(key, &ANNOTATION_KEY));
    findings.check(keys, path, || ANNOTATION_KEYS.message.to_owned());
}

fn is_key(key: &str, pattern: &Regex) -> bool {
    key.find('/').is_none_or(|length| length <= KEY_PREFIX_LENGTH) && pattern.is_match(key)
}
