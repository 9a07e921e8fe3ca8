//! Properties of the comparison: what is as desired is no drift, what others add is none, every change to ours is.

use std::collections::BTreeMap;

use memcached_operator_core::kernel::diff::{differences, drift, no_longer_desired, not_owned, owned_part};
use memcached_operator_core::kernel::object::ChildKind;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::generate::fixture;
use crate::merge::{REQUIRED_NODES, Shape, below, owned, shape, with_additions_of_others, without_identity};

fn both(fixture: &Fixture) -> BTreeMap<ChildKind, Value> {
    fixture.children().bodies
}

/// A value somewhere in a child.
#[derive(Clone, Debug, Default)]
struct Node {
    /// As `/spec/ports/0/name`.
    pointer: String,
    /// As `spec.ports`.
    fields: String,
    /// As `spec.ports[port=11211,protocol=TCP].name`; below a list that is replaced as a whole, the list's.
    path: String,
    /// Whether it is merged as a whole, and nothing above it is.
    leaf: bool,
    /// Whether it is one of the fields that tell items of a list apart.
    key: bool,
    /// Whether something above it is merged as a whole.
    inside: bool,
}

/// Every value of a child but what says which object it is.
fn nodes(child: &Value) -> Vec<Node> {
    let mut found = Vec::new();
    collect(&without_identity(child), Node::default(), &[], &mut found);
    found.retain(|node| !["", "metadata"].contains(&node.path.as_str()));
    found
}

fn collect(value: &Value, mut at: Node, keys: &[&str], found: &mut Vec<Node>) {
    let shape = shape(&at.fields, value);
    at.leaf = !at.inside && matches!(shape, Shape::Whole);
    found.push(at.clone());
    let inside = at.inside || at.leaf;
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                let node = Node {
                    pointer: format!("{}/{}", at.pointer, name.replace('/', "~1")),
                    fields: below(&at.fields, name),
                    path: if name.contains('/') {
                        format!("{}[{name}]", at.path)
                    } else {
                        below(&at.path, name)
                    },
                    key: keys.contains(&name.as_str()),
                    inside,
                    ..Node::default()
                };
                collect(value, node, &[], found);
            }
        }
        Value::Array(items) => {
            let keys = if let Shape::Items(keys) = shape { keys } else { &[] };
            for (index, item) in items.iter().enumerate() {
                let keyed: Vec<_> = keys.iter().map(|key| format!("{key}={}", plain(&item[key]))).collect();
                let path = if keys.is_empty() { String::new() } else { format!("[{}]", keyed.join(",")) };
                let node = Node {
                    pointer: format!("{}/{index}", at.pointer),
                    path: at.path.clone() + &path,
                    inside,
                    ..at.clone()
                };
                collect(item, node, keys, found);
            }
        }
        _ => {}
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn removed(pointer: &str, from: &Value) -> Value {
    let mut without = from.clone();
    let (parent, last) = pointer.rsplit_once('/').expect("a value below the root");
    match without.pointer_mut(parent).expect("a parent") {
        Value::Object(map) => drop(map.remove(&last.replace("~1", "/")).expect("the field")),
        Value::Array(items) => drop(items.remove(last.parse().expect("an index"))),
        _ => unreachable!("only maps and lists have values below them"),
    }
    without
}

/// Whether nothing else is in the map or list that this is in: without it, there would be nothing to own there.
fn is_alone(pointer: &str, within: &Value) -> bool {
    let (parent, _) = pointer.rsplit_once('/').expect("a value below the root");
    match within.pointer(parent).expect("a parent") {
        Value::Array(items) => items.len() == 1,
        map => map.as_object().expect("a map").len() == 1,
    }
}

/// With another scalar at `pointer`, or one thing more in the map or list there.
fn changed(pointer: &str, from: &Value) -> Value {
    let mut changed = from.clone();
    match changed.pointer_mut(pointer).expect("the value") {
        Value::Bool(set) => *set = !*set,
        Value::String(text) => text.push('x'),
        Value::Array(items) => items.push(json!("foreign")),
        Value::Object(map) => drop(map.insert("foreign".to_owned(), json!("foreign"))),
        // Far enough for no other port to be hit.
        number => *number = json!(number.as_i64().expect("a whole number") + 1000),
    }
    changed
}

/// Whether `path` is all that is reported for `node`: its own, or that of something above it.
fn names(paths: &[String], node: &Node) -> bool {
    let [path] = paths else { return false };
    node.path.strip_prefix(path.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

proptest! {
    // One takes as long as many of the others.
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 10))]

    #[test]
    fn what_is_as_desired_is_no_drift_and_neither_is_what_others_add(fixture in fixture()) {
        for (kind, body) in both(&fixture) {
            for live in [body.clone(), without_identity(&body), with_additions_of_others(&body)] {
                prop_assert_eq!(drift(kind, &body, &live), Vec::<String>::new(), "{}", live);
            }
        }
    }

    #[test]
    fn every_value_of_ours_that_is_gone_is_drift_and_named_once(fixture in fixture()) {
        for (kind, body) in both(&fixture) {
            let live = with_additions_of_others(&body);
            for node in nodes(&body) {
                let paths = drift(kind, &body, &removed(&node.pointer, &live));
                prop_assert!(names(&paths, &node), "{node:?}: {paths:?}");
            }
        }
    }

    #[test]
    fn every_changed_value_of_ours_is_drift_and_named_once(fixture in fixture()) {
        for (kind, body) in both(&fixture) {
            let live = with_additions_of_others(&body);
            for node in nodes(&body) {
                let scalar = body.pointer(&node.pointer).is_some_and(|value| !value.is_object() && !value.is_array());
                let whole = node.fields.contains("selector") || node.fields.contains(REQUIRED_NODES);
                let replaced = whole || (node.leaf && !scalar);
                // A key that somebody adds to an owner reference does not get past the API server.
                if (scalar || replaced) && node.fields != "metadata.ownerReferences" {
                    let paths = drift(kind, &body, &changed(&node.pointer, &live));
                    prop_assert!(names(&paths, &node), "{node:?}: {paths:?}");
                }
            }
        }
    }

    #[test]
    fn what_we_own_and_still_desire_is_not_reported(fixture in fixture()) {
        for (_, body) in both(&fixture) {
            prop_assert_eq!(no_longer_desired(&body, &owned(&body)), Vec::<String>::new());
        }
    }

    #[test]
    fn what_we_own_and_desire_no_more_is_named(fixture in fixture()) {
        for (_, body) in both(&fixture) {
            let owned = owned(&body);
            for node in nodes(&body).into_iter().filter(|node| node.leaf) {
                let paths = no_longer_desired(&removed(&node.pointer, &body), &owned);
                // Without one of its keys an item is another item: all of the old one goes, this field too.
                prop_assert!(paths.contains(&node.path), "{node:?}: {paths:?}");
                prop_assert!(node.key || paths.len() == 1, "{node:?}: {paths:?}");
            }
        }
    }

    #[test]
    fn what_we_desire_and_somebody_else_has_taken_is_named_though_its_value_is_the_same(fixture in fixture()) {
        for (_, body) in both(&fixture) {
            prop_assert_eq!(not_owned(&body, &owned(&body)), Vec::<String>::new());
            for node in nodes(&body).into_iter().filter(|node| node.leaf && !is_alone(&node.pointer, &body)) {
                let paths = not_owned(&body, &owned(&removed(&node.pointer, &body)));
                prop_assert!(names(&paths, &node), "{node:?}: {paths:?}");
            }
        }
    }

    #[test]
    fn what_somebody_else_has_taken_and_not_changed_differs_in_nothing_but_its_owner(fixture in fixture()) {
        for (kind, body) in both(&fixture) {
            let told_apart = |node: &Node| node.leaf && !node.key && !is_alone(&node.pointer, &body);
            for node in nodes(&body).into_iter().filter(told_apart) {
                let owned = owned(&removed(&node.pointer, &body));
                let found = differences(kind, &body, &body, Some(&owned));
                prop_assert_eq!(&found.paths, &Vec::<String>::new());
                prop_assert!(names(&found.unowned, &node), "{node:?}: {:?}", found.unowned);
            }
        }
    }

    #[test]
    fn the_owned_part_of_what_others_added_to_is_what_we_applied(fixture in fixture()) {
        for (_, body) in both(&fixture) {
            let part = owned_part(&with_additions_of_others(&body), &owned(&body));
            prop_assert_eq!(part, Some(without_identity(&body)));
        }
    }
}

/// The port that a NetworkPolicy opens is in there still, but with all others: whoever added them has taken the list.
#[test]
fn what_somebody_adds_within_a_list_that_is_replaced_as_a_whole_is_a_difference() {
    let policy = |port: Value| json!({"spec": {"ingress": [{"ports": [port]}], "policyTypes": ["Ingress"]}});
    let (ours, theirs) = (json!({"port": 11211}), json!({"port": 11211, "endPort": 65535}));
    let found = |live: Value, owned: Value| {
        differences(ChildKind::NetworkPolicy, &policy(ours.clone()), &live, Some(&owned)).paths
    };
    let all = json!({"f:spec": {"f:ingress": {}, "f:policyTypes": {}}});
    assert_eq!(found(policy(ours.clone()), all), [""; 0]);
    assert_eq!(found(policy(theirs), json!({"f:spec": {"f:policyTypes": {}}})), ["spec.ingress"]);
}

/// The list is ours before and after, so only its content tells of the edit.
#[test]
fn what_an_item_of_a_list_that_is_replaced_as_a_whole_has_no_more_is_a_difference() {
    let policy = |from: Value| json!({"spec": {"ingress": [{"from": from, "ports": [{"port": 11211}]}]}});
    let (narrow, wide) = (json!({"podSelector": {}, "namespaceSelector": {}}), json!({"podSelector": {}}));
    let all = json!({"f:spec": {"f:ingress": {}}});
    for desired in [json!([wide]), json!([{}])] {
        let live = policy(json!([narrow]));
        let found = differences(ChildKind::NetworkPolicy, &policy(desired), &live, Some(&all));
        assert_eq!(found.paths, ["spec.ingress"]);
    }
    let everybody = json!({"spec": {"ingress": [{"ports": [{"port": 11211}]}]}});
    let found = differences(ChildKind::NetworkPolicy, &everybody, &policy(json!([narrow])), Some(&all));
    assert_eq!(found.paths, ["spec.ingress"]);
}

/// The API server stores each in its shortest spelling.
#[test]
fn a_quantity_of_an_autoscaler_in_another_spelling_is_no_difference() {
    let scaler = |amount: &str, tolerance: &str| {
        let target = json!({"type": "AverageValue", "averageValue": amount});
        json!({"spec": {
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
            "behavior": {"scaleUp": {"tolerance": tolerance}},
        }})
    };
    let found = |live: Value| drift(ChildKind::HorizontalPodAutoscaler, &scaler("0.5", "0.05"), &live);
    assert_eq!(found(scaler("500m", "50m")), [""; 0]);
    assert_eq!(found(scaler("500m", "60m")), ["spec.behavior.scaleUp.tolerance"]);
}
