//! Maps of labels and annotations, at the dotted path of a field below `spec`. Called by the sections that hold such maps.

use serde_json::{Map, Value, json};

use super::case::{Case, breaks_limit, breaks_rule, breaks_schema, taken};
use crate::api::spec::labels::{ANNOTATIONS_NOT_OURS, LABELS_NOT_OURS, OUR_LABELS};

/// A spec with that map at a dotted path.
fn with(path: &str, map: Value) -> Value {
    path.rsplit('.').fold(map, |value, field| json!({field: value}))
}

fn with_key(path: &str, key: &str) -> Value {
    with(path, json!({key: ""}))
}

fn many(count: usize) -> Value {
    (0..count).map(|at| (format!("k{at}"), json!(""))).collect::<Map<_, _>>().into()
}

pub(super) fn of_labels(path: &str) -> Vec<Case> {
    let words = "a label's key must be a name of at most 63 letters, digits, '-', '_' and '.', \
                 alone or after a lower-case DNS name and '/'";
    let mut cases = keys(path, words);
    cases.push(breaks_rule(with_key(path, "A.com/a"), &format!("spec.{path}"), words));
    cases.extend(sizes(path));
    cases.extend(values(path));
    cases
}

pub(super) fn of_annotations(path: &str) -> Vec<Case> {
    let words = "an annotation's key must be a name of at most 63 letters, digits, '-', '_' \
                 and '.', alone or after a DNS name and '/'";
    let mut cases = keys(path, words);
    cases.extend([
        taken(with_key(path, "A.com/a")),
        taken(with(path, json!({"k": "any: [thing]\n".repeat(99)}))),
        taken(with_key(path, "c5c3.io/a")),
        taken(with_key(path, "app.kubernetes.io/instance")),
        breaks_rule(
            with_key(path, "memcached.c5c3.io/secret-hash"),
            &format!("spec.{path}"),
            ANNOTATIONS_NOT_OURS,
        ),
    ]);
    cases.extend(sizes(path));
    cases
}

fn keys(path: &str, words: &str) -> Vec<Case> {
    let long = |prefix: usize, name: usize| format!("{}/{}", "a".repeat(prefix), "b".repeat(name));
    let keys = ["a", "A_b.c-D1", "example.com/a", "a.b/C", &long(253, 63)];
    let others = [&long(254, 1), &long(253, 64), "", "-a", "a.", "/a", "a/", "a/b/c", "a b", "é"];
    let mut cases: Vec<_> = keys.iter().map(|key| taken(with_key(path, key))).collect();
    let place = format!("spec.{path}");
    cases.extend(others.iter().map(|other| breaks_rule(with_key(path, other), &place, words)));
    cases
}

fn sizes(path: &str) -> [Case; 2] {
    let words = "Too many: 129: must have at most 128 items";
    [taken(with(path, many(128))), breaks_limit(with(path, many(129)), &format!("spec.{path}"), words)]
}

fn values(path: &str) -> Vec<Case> {
    let with = |value: &str| with(path, json!({"k": value}));
    let path = format!("spec.{path}.k");
    let no_value = |value: &str| {
        breaks_schema(with(value), &path, "should match '^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$'")
    };
    vec![
        taken(with("")),
        taken(with("A_b.c-1")),
        taken(with(&"a".repeat(63))),
        breaks_limit(with(&"a".repeat(64)), &path, "Too long: may not be more than 63 bytes"),
        no_value("-a"),
        no_value("a-"),
        no_value("a b"),
    ]
}

/// The operator finds its pods by its own labels: nobody else may set them.
pub(super) fn of_our_labels(path: &str) -> Vec<Case> {
    let place = format!("spec.{path}");
    let mut cases =
        vec![taken(with_key(path, "app.kubernetes.io/part-of")), taken(with_key(path, "c5c3.io/a"))];
    // By name: a label that is taken out of the constant is missed here.
    let known = ["app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/name"];
    let ours = OUR_LABELS.into_iter().chain(known).chain(["memcached.c5c3.io/secret-hash"]);
    cases.extend(ours.map(|ours| breaks_rule(with_key(path, ours), &place, LABELS_NOT_OURS)));
    cases
}
