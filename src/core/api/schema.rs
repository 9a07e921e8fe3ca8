//! What the derived schema of a field lacks: changes to it, named by the fields' attributes. Pure.

use schemars::Schema;
use schemars::transform::transform_subschemas;
use serde_json::{Value, json};

use super::rules;

/// For a field of a type that Kubernetes itself documents: drops the descriptions below it, which are most of it.
/// By their absence [`super::crd::leaves`] knows such a field.
pub(super) fn embedded(field: &mut Schema) {
    fn undocumented(schema: &mut Schema) {
        schema.remove("description");
        transform_subschemas(&mut undocumented, schema);
    }
    transform_subschemas(&mut undocumented, field);
}

/// The same for a type whose only numbers or strings are quantities: without a pattern, an amount that is none would
/// be found out no sooner than by the child that holds it.
pub(super) fn measured(field: &mut Schema) {
    fn quantities(schema: &mut Schema) {
        if is_int_or_string(schema) {
            schema.insert("pattern".to_owned(), json!(rules::QUANTITY_PATTERN));
            schema.insert("minimum".to_owned(), json!(0));
        }
        transform_subschemas(&mut quantities, schema);
    }
    embedded(field);
    quantities(field);
}

/// For a number of pods or a share of them. The maximum is the type's own.
pub(super) fn pods(field: &mut Schema) {
    fn bounded(schema: &mut Schema) {
        schema.remove("description");
        if is_int_or_string(schema) {
            schema.insert("minimum".to_owned(), json!(0));
            schema.insert("maximum".to_owned(), json!(i32::MAX));
            schema.insert("pattern".to_owned(), json!(rules::PERCENT_PATTERN));
        }
        transform_subschemas(&mut bounded, schema);
    }
    let description = field.get("description").cloned();
    bounded(field);
    if let Some(description) = description {
        field.insert("description".to_owned(), description);
    }
}

/// For a map of labels; CEL's cost budget needs a bound.
pub(super) fn labels(field: &mut Schema) {
    let value = json!({
        "type": "string", "maxLength": rules::LABEL_VALUE_LENGTH, "pattern": rules::LABEL_VALUE_PATTERN,
    });
    field.insert("additionalProperties".to_owned(), value);
    field.insert("maxProperties".to_owned(), json!(rules::LABELS));
}

/// For a map of annotations; CEL's cost budget needs a bound.
pub(super) fn annotations(field: &mut Schema) {
    field.insert("maxProperties".to_owned(), json!(rules::LABELS));
}

/// For a list of one of Kubernetes' own types, and texts by which its items are told apart, with the characters of each
/// at most; CEL's cost budget needs bounds.
fn keyed(field: &mut Schema, keys: &[(&str, usize)]) {
    embedded(field);
    field.insert("maxItems".to_owned(), json!(rules::KEYED_ITEMS));
    for (key, length) in keys {
        if let Some(Value::Object(key)) = field.pointer_mut(&format!("/items/properties/{key}")) {
            key.insert("maxLength".to_owned(), json!(length));
        }
    }
}

/// For `imagePullSecrets`.
pub(super) fn pull_secrets(field: &mut Schema) {
    keyed(field, &[("name", rules::OBJECT_NAME_LENGTH)]);
}

/// For `topologySpreadConstraints`.
pub(super) fn spread(field: &mut Schema) {
    let lengths = [
        ("topologyKey", rules::TOPOLOGY_KEY_LENGTH),
        ("whenUnsatisfiable", rules::WHEN_UNSATISFIABLE_LENGTH),
    ];
    keyed(field, &lengths);
}

fn is_int_or_string(schema: &Schema) -> bool {
    schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true))
}
