//! Maps of labels and annotations, wherever they are. Pure.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use super::Findings;
use crate::api::rules;

static LABEL_KEY: LazyLock<Regex> = LazyLock::new(|| super::pattern(rules::LABEL_KEY_PATTERN));
static LABEL_VALUE: LazyLock<Regex> = LazyLock::new(|| super::pattern(rules::LABEL_VALUE_PATTERN));
static ANNOTATION_KEY: LazyLock<Regex> = LazyLock::new(|| super::pattern(rules::ANNOTATION_KEY_PATTERN));

type Map = BTreeMap<String, String>;

/// Labels that may be anybody's.
pub(super) fn labels(findings: &mut Findings, path: &str, raw: Option<&Map>) -> Map {
    let Some(labels) = raw else { return Map::new() };
    size(findings, path, labels);
    keys(findings, path, labels, (&LABEL_KEY, rules::LABEL_KEY));
    for (key, value) in labels {
        let path = format!("{path}.{key}");
        findings.length(&path, value, rules::LABEL_VALUE_LENGTH);
        findings.pattern(path, value, &LABEL_VALUE);
    }
    labels.clone()
}

/// Labels that are not the operator's own.
pub(super) fn others_labels(findings: &mut Findings, path: &str, raw: Option<&Map>) -> Map {
    let labels = labels(findings, path, raw);
    let ours = |key: &String| key.starts_with(rules::OUR_PREFIX) || rules::OUR_LABELS.contains(&key.as_str());
    findings.check(!labels.keys().any(ours), path, || rules::LABELS_NOT_OURS.to_owned());
    labels
}

/// Annotations that are not the operator's own.
pub(super) fn others_annotations(findings: &mut Findings, path: &str, raw: Option<&Map>) -> Map {
    let Some(annotations) = raw else { return Map::new() };
    size(findings, path, annotations);
    keys(findings, path, annotations, (&ANNOTATION_KEY, rules::ANNOTATION_KEY));
    let ours = annotations.keys().any(|key| key.starts_with(rules::OUR_PREFIX));
    findings.check(!ours, path, || rules::ANNOTATIONS_NOT_OURS.to_owned());
    annotations.clone()
}

fn size(findings: &mut Findings, path: &str, map: &Map) {
    let (count, max) = (map.len(), rules::LABELS);
    findings.check(count <= max, path, || format!("Too many: {count}: must have at most {max} items"));
}

fn keys(findings: &mut Findings, path: &str, map: &Map, (pattern, message): (&Regex, &str)) {
    let valid = |key: &String| {
        key.find('/').is_none_or(|length| length <= rules::KEY_PREFIX_LENGTH) && pattern.is_match(key)
    };
    findings.check(map.keys().all(valid), path, || message.to_owned());
}
