//! What the API server says to a resource that somebody wants to create, without an API server. Takes an object as a file
//! holds it, gives everything that is wrong with it. Pure; called by the command line.
//!
//! Three judges, as on the API server: the fields that exist (a strict client is told of others), the schema of the
//! definition ([`schema`]), and its rules in CEL, which [`super::spec`] repeats. The operator does not ask here: what is
//! stored already may be older than a rule, and a zero in it means the default.

#[cfg(any(test, feature = "cases"))]
pub mod edges;
pub mod schema;
pub mod unchanged;

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use self::schema::{SchemaViolations, UNKNOWN_FIELD};
use super::spec::{Judged, MemcachedSpec, Violation, validate_with, violations_of_metadata};
use super::{GROUP, KIND, VERSIONS, crd};

/// Fields of every resource.
const FIELDS: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];
/// The API server completes a `generateName` with five characters, and first cuts it so that 63 are not exceeded.
const GENERATED: &str = "xxxxx";
const GENERATED_FROM: usize = 58;

/// The schema of a resource: the same in all versions, which need no conversion.
static RESOURCE: LazyLock<JSONSchemaProps> = LazyLock::new(|| {
    let version = crd::crd().spec.versions.into_iter().next();
    version.and_then(|version| version.schema?.open_api_v3_schema).unwrap_or_default()
});

/// The schema of `metadata`, of which the definition says nothing: every kind has the same.
static METADATA: LazyLock<JSONSchemaProps> = LazyLock::new(|| {
    let inline = SchemaSettings::openapi3().with(|settings| settings.inline_subschemas = true);
    let schema = inline.into_generator().into_root_schema_for::<ObjectMeta>();
    serde_json::from_value(schema.to_value()).unwrap_or_default()
});

/// Whether an object is of our group, in whatever version and of whatever kind: the group has no kind but ours.
#[must_use]
pub fn is_ours(object: &Value) -> bool {
    let group = text(object, "/apiVersion").and_then(|version| version.split_once('/'));
    group.is_some_and(|(group, _)| group == GROUP)
}

/// The name that a resource would get; empty where it gets none.
#[must_use]
pub fn name(object: &Value) -> String {
    let named = text(object, "/metadata/name").filter(|name| !name.is_empty()).map(str::to_owned);
    let generated = || {
        let base = text(object, "/metadata/generateName")?;
        Some(base.chars().take(GENERATED_FROM).chain(GENERATED.chars()).collect::<String>())
    };
    named.or_else(generated).unwrap_or_default()
}

/// Everything for which the API server would refuse to create a resource of ours; nothing where it would not.
#[must_use]
pub fn refusals(object: &Value) -> Vec<Violation> {
    let unserved: Vec<_> = [unknown_version(object), unknown_kind(object)].into_iter().flatten().collect();
    if !unserved.is_empty() {
        return unserved;
    }
    let mut found = unknown_parts(object);
    found.extend(schema::judge(part(object, "metadata"), &METADATA, "metadata").all());
    found.extend(violations_of_metadata(part(object, "metadata")));
    // The API server drops the status of a new resource, whatever it says: only its fields have to exist.
    found.extend(judge(object, "status").unknown);
    let of_spec = judge(object, "spec").all();
    let rules = rules(object, &of_spec);
    found.extend(of_spec);
    found.extend(rules);
    found
}

/// What the rules say beyond the schema: of one field, the schema has the first word.
fn rules(object: &Value, of_schema: &[Violation]) -> Vec<Violation> {
    let broken = match MemcachedSpec::parse(object.get("spec")) {
        // The schema knows the types, and says which is wrong; of a spec that nobody can read, no rule is asked.
        Err(_) if !of_schema.is_empty() => Vec::new(),
        Err(violation) => vec![violation],
        Ok(spec) => validate_with(&name(object), &spec, Judged::New).err().unwrap_or_default(),
    };
    broken.into_iter().filter(|rule| of_schema.iter().all(|it| it.path != rule.path)).collect()
}

fn judge(object: &Value, name: &str) -> SchemaViolations {
    let schema = RESOURCE.properties.as_ref().and_then(|properties| properties.get(name));
    schema.map(|schema| schema::judge(part(object, name), schema, name)).unwrap_or_default()
}

/// Whether there is such a version of our group, and such a kind in it.
#[must_use]
pub fn is_served(object: &Value) -> bool {
    unknown_version(object).is_none() && unknown_kind(object).is_none()
}

fn unknown_version(object: &Value) -> Option<Violation> {
    let version = text(object, "/apiVersion").and_then(|version| version.split_once('/'));
    let is_known = version.is_some_and(|(_, name)| VERSIONS.contains(&name));
    (!is_known).then(|| Violation {
        path: "apiVersion".to_owned(),
        message: format!("no such version; there are {}", VERSIONS.join(" and ")),
    })
}

fn unknown_kind(object: &Value) -> Option<Violation> {
    let is_known = text(object, "/kind") == Some(KIND);
    (!is_known)
        .then(|| Violation { path: "kind".to_owned(), message: format!("no such kind; there is {KIND}") })
}

fn unknown_parts(object: &Value) -> Vec<Violation> {
    let names = object.as_object().into_iter().flat_map(|fields| fields.keys());
    let unknown = names.filter(|name| !FIELDS.contains(&name.as_str()));
    unknown.map(|path| Violation { path: path.clone(), message: UNKNOWN_FIELD.to_owned() }).collect()
}

/// A part of an object; a null is none.
fn part<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.get(name).filter(|part| !part.is_null())
}

fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str)
}

#[cfg(test)]
mod tests;
