//! What says nothing about memcached.

use serde_json::{Value, json};

use super::violations;

#[test]
fn two_references_that_the_api_server_takes_for_one_are_refused() {
    let path = "spec.pod.imagePullSecrets";
    let found = |names: &[&str]| {
        let items: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
        violations(&json!({"pod": {"imagePullSecrets": items}}))
    };
    let refusal = "imagePullSecrets must not have two items with the same name";
    assert_eq!(found(&["a", "b", ""]), [""; 0]);
    assert_eq!(found(&["a", "b", "a"]), [format!("{path}: {refusal}")]);
    assert_eq!(found(&["", ""]), [format!("{path}: {refusal}")]);
    let long = "a".repeat(254);
    assert_eq!(found(&[&long[1..]]), [""; 0]);
    assert_eq!(found(&["b", &long]), [format!("{path}[1].name: Too long: may not be more than 253 bytes")]);
    let many = |count: i32| {
        let items: Vec<Value> = (0..count).map(|at| json!({"name": at.to_string()})).collect();
        violations(&json!({"pod": {"imagePullSecrets": items}}))
    };
    assert_eq!(many(64), [""; 0]);
    assert_eq!(many(65), [format!("{path}: Too many: 65: must have at most 64 items")]);
}
