//! What is wrong with an edited spec, and stored so: the API server takes it as long as the part in which the broken rule sits
//! stays as it is. Takes both specs, gives whether that part is the same. Pure; called by the command line.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSON, JSONSchemaProps, ValidationRule,
};
use serde_json::{Map, Value};

use super::RESOURCE;
use super::schema::{self, Known};
use crate::api::spec::Violation;

/// Where a path begins.
const SPEC: &str = "spec";

/// A part of a stored spec on the way to a field.
struct Part<'a> {
    /// Its name in the part that holds it.
    key: &'a str,
    schema: &'a JSONSchemaProps,
    value: &'a Value,
    /// The way that is left: `.podDisruptionBudget.minAvailable`.
    path: &'a str,
}

impl<'a> Part<'a> {
    /// The next part on the way. There is none in a list, which the API server takes for one value.
    fn inner(&self) -> Option<Self> {
        let path = self.path.strip_prefix('.')?;
        let fields = self.value.as_object()?.iter();
        let ahead = fields.filter_map(|(key, value)| {
            let path = path.strip_prefix(key.as_str())?;
            (path.is_empty() || path.starts_with(['.', '['])).then_some((key.as_str(), value, path))
        });
        // The key of a label has dots too.
        let (key, value, path) = ahead.max_by_key(|(key, ..)| key.len())?;
        match schema::of_field(self.schema, key) {
            Known::As(schema) => Some(Self { key, schema, value, path }),
            Known::Free | Known::Nowhere => None,
        }
    }

    fn has_rule(&self, is_it: impl Fn(&ValidationRule) -> bool) -> bool {
        self.schema.x_kubernetes_validations.iter().flatten().any(is_it)
    }
}

/// Whether a spec is the stored one in the part that has the broken rule, once the defaults are filled in.
#[must_use]
pub fn is_unchanged(violation: &Violation, edited: &Value, stored: &Value) -> bool {
    let schema = RESOURCE.properties.as_ref().and_then(|properties| properties.get(SPEC));
    let Some((schema, path)) = schema.zip(violation.path.strip_prefix(SPEC)) else { return false };
    let of_value = schema::judge(Some(stored), schema, SPEC).all().contains(violation);
    let [edited, stored] = [edited, stored].map(|spec| completed(spec, schema));
    let whole = Part { key: "", schema, value: &stored, path };
    let parts: Vec<_> = std::iter::successors(Some(whole), Part::inner).collect();
    let depth = if of_value { None } else { depth_of_rule(&parts, violation) };
    let mut keys = parts.iter().skip(1).take(depth.unwrap_or(parts.len())).map(|part| part.key);
    let both =
        keys.try_fold((&edited, &stored), |(edited, stored), key| edited.get(key).zip(stored.get(key)));
    both.is_some_and(|(edited, stored)| edited == stored)
}

/// Which of the parts has the broken rule in CEL. Without one the field itself is meant: the rule on the name of a
/// `StatefulSet` sits above the spec, and takes the workload that is stored.
fn depth_of_rule(parts: &[Part<'_>], violation: &Violation) -> Option<usize> {
    let words = |rule: &ValidationRule| rule.message.as_ref() == Some(&violation.message);
    // Where the words are made from values, the rule is known by the field that it names.
    let names = |rule: &ValidationRule, path: &str| {
        rule.message_expression.is_some() && rule.field_path.as_deref() == Some(path)
    };
    let by_words = parts.iter().position(|part| part.has_rule(words));
    by_words.or_else(|| parts.iter().position(|part| part.has_rule(|rule| names(rule, part.path))))
}

/// A value as the API server has it when it asks the rules: without nulls, and with the defaults.
fn completed(value: &Value, schema: &JSONSchemaProps) -> Value {
    let Value::Object(fields) = value else { return value.clone() };
    let written = fields.iter().filter(|(_, field)| !field.is_null());
    let mut fields: Map<_, _> = written.map(|(name, field)| (name.clone(), field.clone())).collect();
    for (name, of_field) in schema.properties.iter().flatten() {
        if let Some(JSON(default)) = &of_field.default {
            fields.entry(name.as_str()).or_insert_with(|| default.clone());
        }
    }
    for (name, field) in &mut fields {
        if let Known::As(schema) = schema::of_field(schema, name) {
            *field = completed(field, schema);
        }
    }
    Value::Object(fields)
}
