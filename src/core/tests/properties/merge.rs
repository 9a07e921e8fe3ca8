//! How the API server merges our children, as the tests know it: they never ask the code under test. From this,
//! what it would record as ours, and what others may add.

use serde_json::{Map, Value, json};

/// How a value is merged.
pub(crate) enum Shape {
    /// Field by field.
    Fields,
    /// Item by item, told apart by these fields.
    Items(&'static [&'static str]),
    /// As a whole.
    Whole,
}

/// A selector of nodes, whose name does not say so.
pub(crate) const REQUIRED_NODES: &str = "nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution";

/// `fields` is where the value is, without items of lists: `spec.ports`, also for each port.
pub(crate) fn shape(fields: &str, value: &Value) -> Shape {
    match (value, fields) {
        (Value::Object(_), "spec.selector" | "metadata.ownerReferences") => Shape::Whole,
        // The Prometheus operator calls a plain struct so.
        (Value::Object(_), "spec.namespaceSelector") => Shape::Fields,
        (Value::Object(_), _) if fields.ends_with("Selector") || fields.ends_with(REQUIRED_NODES) => {
            Shape::Whole
        }
        (Value::Object(_), _) => Shape::Fields,
        (Value::Array(_), "metadata.ownerReferences") => Shape::Items(&["uid"]),
        (Value::Array(_), "spec.ports") => Shape::Items(&["port", "protocol"]),
        (
            Value::Array(_),
            "spec.template.spec.containers"
            | "spec.template.spec.imagePullSecrets"
            | "spec.template.spec.volumes",
        ) => Shape::Items(&["name"]),
        (Value::Array(_), "spec.template.spec.topologySpreadConstraints") => {
            Shape::Items(&["topologyKey", "whenUnsatisfiable"])
        }
        (Value::Array(_), "spec.template.spec.containers.ports") => {
            Shape::Items(&["containerPort", "protocol"])
        }
        (Value::Array(_), "spec.template.spec.containers.volumeMounts") => Shape::Items(&["mountPath"]),
        _ => Shape::Whole,
    }
}

/// `spec` and `ports` give `spec.ports`.
pub(crate) fn below(fields: &str, field: &str) -> String {
    if fields.is_empty() { field.to_owned() } else { format!("{fields}.{field}") }
}

/// The child without what says which object it is.
pub(crate) fn without_identity(child: &Value) -> Value {
    let mut child = child.clone();
    for (parent, field) in
        [("", "apiVersion"), ("", "kind"), ("/metadata", "name"), ("/metadata", "namespace")]
    {
        child.pointer_mut(parent).and_then(Value::as_object_mut).expect("a map").remove(field).expect(field);
    }
    child
}

/// `fieldsV1` of whoever applied `child`.
pub(crate) fn owned(child: &Value) -> Value {
    owned_at(&without_identity(child), "")
}

fn owned_at(value: &Value, fields: &str) -> Value {
    match (shape(fields, value), value) {
        (Shape::Fields, Value::Object(map)) => map
            .iter()
            .map(|(name, value)| (format!("f:{name}"), owned_at(value, &below(fields, name))))
            .collect(),
        (Shape::Items(keys), Value::Array(items)) => items
            .iter()
            .map(|item| {
                let mut owned = owned_at(item, fields);
                if matches!(shape(fields, item), Shape::Fields) {
                    owned["."] = json!({});
                }
                (format!("k:{}", keyed(keys, |key| item[key].clone())), owned)
            })
            .collect(),
        _ => json!({}),
    }
}

/// The child after others added what they can: fields to every map and items to every list that is merged. A map that
/// we applied empty stays so: the API server records it like a value, and who reads that takes all below it for ours.
pub(crate) fn with_additions_of_others(child: &Value) -> Value {
    added_at(child, "")
}

fn added_at(value: &Value, fields: &str) -> Value {
    match (shape(fields, value), value) {
        (Shape::Fields, Value::Object(map)) if !map.is_empty() => {
            let ours = map.iter().map(|(name, value)| (name.clone(), added_at(value, &below(fields, name))));
            ours.chain([("foreign".to_owned(), json!({"x": [1]}))]).collect()
        }
        (Shape::Items(keys), Value::Array(items)) => {
            let foreign = keyed(keys, |_| json!("foreign"));
            items.iter().map(|item| added_at(item, fields)).chain([foreign]).collect()
        }
        _ => value.clone(),
    }
}

fn keyed(keys: &[&str], value: impl Fn(&str) -> Value) -> Value {
    keys.iter().map(|key| ((*key).to_owned(), value(key))).collect::<Map<_, _>>().into()
}
