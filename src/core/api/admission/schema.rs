//! A value against a structural schema: the part of JSON Schema that a CustomResourceDefinition may use, as the API server
//! reads it. Pure; called by [`super`] and by [`super::unchanged`].
//!
//! No library does this: `nullable`, `x-kubernetes-int-or-string` and the nulls that the API server drops are Kubernetes'
//! own. The words are the API server's; where those would puzzle a reader (types), they are ours.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use regex::Regex;
use serde_json::{Number, Value};

use crate::api::spec::Violation;

/// What is said of a field that does not exist.
pub(super) const UNKNOWN_FIELD: &str = "unknown field";

/// What is wrong with a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemaViolations {
    /// Fields that do not exist: the API server drops them, and tells a strict client.
    pub unknown: Vec<Violation>,
    /// Values that the schema does not take.
    pub wrong: Vec<Violation>,
}

impl SchemaViolations {
    /// Both, first the fields that do not exist.
    #[must_use]
    pub fn all(self) -> Vec<Violation> {
        let Self { unknown, wrong } = self;
        [unknown, wrong].concat()
    }

    fn refuse(&mut self, path: &str, message: String) {
        self.wrong.push(Violation { path: path.to_owned(), message });
    }
}

/// Judges the value at a path; nothing is wrong with a missing one.
#[must_use]
pub fn judge(value: Option<&Value>, schema: &JSONSchemaProps, path: &str) -> SchemaViolations {
    let mut violations = SchemaViolations::default();
    if let Some(value) = value {
        look(&mut violations, value, schema, path);
    }
    violations
}

fn look(violations: &mut SchemaViolations, value: &Value, schema: &JSONSchemaProps, path: &str) {
    if !has_type(value, schema) {
        let wanted = match &schema.type_ {
            Some(wanted) => wanted.as_str(),
            None => "integer or string",
        };
        violations.refuse(path, format!("must be of type {wanted}, not {}", type_of(value)));
        return;
    }
    match value {
        Value::String(text) => look_at_text(violations, text, schema, path),
        Value::Number(number) => look_at_number(violations, number, schema, path),
        Value::Array(items) => look_at_list(violations, items, schema, path),
        Value::Object(fields) => look_at_object(violations, fields, schema, path),
        Value::Null | Value::Bool(_) => {}
    }
}

/// The type of a value as a schema calls it.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if is_whole(number) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// `1.0` is one, as JSON has it; beyond 64 bits the API server reads a float.
fn is_whole(number: &Number) -> bool {
    number.is_i64() || number.as_f64().is_some_and(|float| number.is_f64() && float.fract() == 0.0)
}

fn has_type(value: &Value, schema: &JSONSchemaProps) -> bool {
    if schema.x_kubernetes_int_or_string == Some(true) {
        return matches!(type_of(value), "integer" | "string");
    }
    match schema.type_.as_deref() {
        None => true,
        Some("number") => matches!(type_of(value), "integer" | "number"),
        Some(wanted) => type_of(value) == wanted,
    }
}

fn look_at_text(violations: &mut SchemaViolations, text: &str, schema: &JSONSchemaProps, path: &str) {
    // The API server counts characters, and calls them bytes.
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(max) = schema.max_length.filter(|max| length > *max) {
        violations.refuse(path, format!("Too long: may not be more than {max} bytes"));
    }
    if let Some(min) = schema.min_length.filter(|min| length < *min) {
        violations.refuse(path, format!("should be at least {min} chars long"));
    }
    let misses = |pattern: &&String| Regex::new(pattern).is_ok_and(|pattern| !pattern.is_match(text));
    if let Some(pattern) = schema.pattern.as_ref().filter(misses) {
        violations.refuse(path, format!("should match '{pattern}'"));
    }
    let words: Vec<_> = schema.enum_.iter().flatten().map(|JSON(word)| word).collect();
    if !words.is_empty() && !words.iter().any(|word| word.as_str() == Some(text)) {
        let words: Vec<_> = words.iter().map(ToString::to_string).collect();
        violations
            .refuse(path, format!("Unsupported value: \"{text}\": supported values: {}", words.join(", ")));
    }
}

fn look_at_number(violations: &mut SchemaViolations, number: &Number, schema: &JSONSchemaProps, path: &str) {
    let Some(value) = number.as_f64() else { return };
    // Older API servers do not look at the format; but no child can hold the number, and the operator cannot read it.
    if schema.format.as_deref() == Some("int32")
        && !(f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&value)
    {
        violations.refuse(path, format!("must be of type integer with 32 bits, not {number}"));
        return;
    }
    if let Some(min) = schema.minimum.filter(|min| value < *min) {
        violations.refuse(path, format!("should be greater than or equal to {min}"));
    }
    if let Some(max) = schema.maximum.filter(|max| value > *max) {
        violations.refuse(path, format!("should be less than or equal to {max}"));
    }
}

fn look_at_list(violations: &mut SchemaViolations, items: &[Value], schema: &JSONSchemaProps, path: &str) {
    check_count(violations, items.len(), CountLimits { min: schema.min_items, max: schema.max_items }, path);
    let Some(JSONSchemaPropsOrArray::Schema(of_items)) = &schema.items else { return };
    for (index, item) in items.iter().enumerate() {
        look(violations, item, of_items, &format!("{path}[{index}]"));
    }
    let keys: Option<Vec<&str>> =
        match (schema.x_kubernetes_list_type.as_deref(), &schema.x_kubernetes_list_map_keys) {
            (Some("map"), Some(keys)) => Some(keys.iter().map(String::as_str).collect()),
            (Some("set"), _) => Some(Vec::new()),
            _ => None,
        };
    let Some(keys) = keys else { return };
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let key: Vec<_> = keys.iter().map(|key| item.get(key).unwrap_or(&Value::Null).to_string()).collect();
        let key = if keys.is_empty() { vec![item.to_string()] } else { key };
        if !seen.insert(key) {
            violations
                .refuse(&format!("{path}[{index}]"), "Duplicate value: another item is the same".to_owned());
        }
    }
}

fn look_at_object(
    violations: &mut SchemaViolations,
    fields: &serde_json::Map<String, Value>,
    schema: &JSONSchemaProps,
    path: &str,
) {
    let present = fields.values().filter(|field| !field.is_null()).count();
    let limits = CountLimits { min: schema.min_properties, max: schema.max_properties };
    check_count(violations, present, limits, path);
    for name in schema.required.iter().flatten() {
        if fields.get(name).is_none_or(Value::is_null) {
            violations.refuse(&format!("{path}.{name}"), "Required value".to_owned());
        }
    }
    for (name, field) in fields {
        let path = format!("{path}.{name}");
        match of_field(schema, name) {
            // A null is dropped, as if nothing were there.
            Known::As(_) if field.is_null() => {}
            Known::As(schema) => look(violations, field, schema, &path),
            Known::Free => {}
            Known::Nowhere => {
                violations.unknown.push(Violation { path, message: UNKNOWN_FIELD.to_owned() });
            }
        }
    }
}

/// What a schema says of a field.
pub(super) enum Known<'a> {
    /// It has a schema of its own.
    As(&'a JSONSchemaProps),
    /// It may be anything.
    Free,
    /// It does not exist.
    Nowhere,
}

pub(super) fn of_field<'a>(schema: &'a JSONSchemaProps, name: &str) -> Known<'a> {
    if let Some(field) = schema.properties.as_ref().and_then(|properties| properties.get(name)) {
        return Known::As(field);
    }
    match &schema.additional_properties {
        Some(JSONSchemaPropsOrBool::Schema(values)) => Known::As(values),
        Some(JSONSchemaPropsOrBool::Bool(true)) => Known::Free,
        // An object of which nothing is said may hold anything: the record of who owns which field.
        _ if schema.properties.is_none() && schema.type_.as_deref() == Some("object") => Known::Free,
        _ if schema.x_kubernetes_preserve_unknown_fields == Some(true) => Known::Free,
        _ => Known::Nowhere,
    }
}

/// How many items a list may have, or how many fields an object.
struct CountLimits {
    min: Option<i64>,
    max: Option<i64>,
}

fn check_count(
    violations: &mut SchemaViolations,
    count: usize,
    CountLimits { min, max }: CountLimits,
    path: &str,
) {
    let items = i64::try_from(count).unwrap_or(i64::MAX);
    if let Some(max) = max.filter(|max| items > *max) {
        violations.refuse(path, format!("Too many: {count}: must have at most {max} items"));
    }
    if let Some(min) = min.filter(|min| items < *min) {
        violations.refuse(path, format!("should have at least {min} items"));
    }
}
