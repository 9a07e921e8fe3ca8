//! Changes to derived schemas that several sections need; the fields' attributes name them. Pure.

use schemars::Schema;
use schemars::transform::transform_subschemas;
use serde_json::Value;

/// For a field of a type that Kubernetes itself documents: drops the descriptions below it, which are most of it.
/// [`super::crd::leaves`] knows such a field by their absence.
pub(super) fn embedded(field: &mut Schema) {
    fn undocumented(schema: &mut Schema) {
        schema.remove("description");
        transform_subschemas(&mut undocumented, schema);
    }
    transform_subschemas(&mut undocumented, field);
}

/// Whether a value is a number or a text: a quantity, or a number of pods or a share of them.
pub(super) fn is_int_or_string(schema: &Schema) -> bool {
    schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true))
}
