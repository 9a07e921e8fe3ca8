//! The CustomResourceDefinition: the schema generated from the Rust types, brought into the form that the API
//! server wants. Pure; called by `memcached-operator crd` and by tests.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, CustomResourceDefinitionVersion, JSON,
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube_core::CustomResourceExt;
use serde_json::{Value, json};

use super::VERSIONS;
use super::spec::{self, Memcached};
use super::status::NEVER_OBSERVED;

/// The definition with every version of [`VERSIONS`], all of one schema: they need no conversion.
#[must_use]
pub fn crd() -> CustomResourceDefinition {
    let mut crd = Memcached::crd();
    let generated = std::mem::take(&mut crd.spec.versions);
    crd.spec.versions = VERSIONS
        .iter()
        .flat_map(|name| generated.iter().cloned().map(|version| finished(version, name)))
        .collect();
    crd.spec.conversion = Some(CustomResourceConversion { strategy: "None".to_owned(), webhook: None });
    crd
}

fn finished(mut version: CustomResourceDefinitionVersion, name: &str) -> CustomResourceDefinitionVersion {
    name.clone_into(&mut version.name);
    version.storage = name == VERSIONS[0];
    if let Some(schema) =
        version.schema.as_mut().and_then(|validation| validation.open_api_v3_schema.as_mut())
    {
        root(schema);
        structural(schema);
        say_defaults(schema);
    }
    version
}

/// What is said about the whole object rather than about one of our types.
fn root(schema: &mut JSONSchemaProps) {
    // A rule on the name needs the name in the schema.
    let name = JSONSchemaProps { type_: Some("string".to_owned()), ..JSONSchemaProps::default() };
    let metadata = JSONSchemaProps {
        type_: Some("object".to_owned()),
        properties: Some([("name".to_owned(), name)].into()),
        ..JSONSchemaProps::default()
    };
    let properties = schema.properties.get_or_insert_default();
    properties.insert("metadata".to_owned(), metadata);
    // A resource without a spec means all defaults, and `scale` needs its replicas.
    if let Some(spec) = properties.get_mut("spec") {
        spec.default = Some(JSON(json!({})));
    }
    // The property too: the default of the whole does not reach a status that somebody wrote without it.
    if let Some(status) = properties.get_mut("status") {
        status.default = Some(JSON(json!({"observedGeneration": NEVER_OBSERVED})));
        status.required = None;
        if let Some(observed) = status.properties.get_or_insert_default().get_mut("observedGeneration") {
            observed.default = Some(JSON(json!(NEVER_OBSERVED)));
        }
    }
    schema.required = None;
    schema.x_kubernetes_validations = Some(vec![spec::name_rule(), spec::workload_name_rule()]);
}

/// Adds to the description of each field its default, or for a switch that it is off: `kubectl explain` shows
/// descriptions only. Whoever reads a schema with defaults needs no other list of them.
fn say_defaults(schema: &mut JSONSchemaProps) {
    let default = match &schema.default {
        // A section that is made by itself is empty: its fields say their own defaults.
        Some(JSON(Value::Object(_))) => None,
        Some(JSON(Value::String(text))) => Some(text.clone()),
        Some(JSON(value)) => Some(value.to_string()),
        None => (schema.type_.as_deref() == Some("boolean")).then(|| "false".to_owned()),
    };
    if let (Some(default), Some(description)) = (default, &mut schema.description) {
        description.push_str(&format!(" Default: {default}."));
    }
    each_child(schema, &mut say_defaults);
}

/// Schema of one half of the resource: `spec` or `status`. Empty where the definition has no such half.
#[must_use]
pub fn half(name: &str) -> JSONSchemaProps {
    let version = crd().spec.versions.into_iter().next().and_then(|version| version.schema);
    let root = version.and_then(|schema| schema.open_api_v3_schema).unwrap_or_default();
    root.properties.unwrap_or_default().remove(name).unwrap_or_default()
}

/// Dotted paths of everything that a user can set below `spec`, in the order of the alphabet: `memcached.threads`,
/// `pod.affinity`. A list, a map and a value of one of Kubernetes' own types are one leaf each.
#[must_use]
pub fn leaves() -> Vec<String> {
    let mut found = Vec::new();
    collect_leaves(&half("spec"), "", &mut found);
    found
}

fn collect_leaves(schema: &JSONSchemaProps, path: &str, found: &mut Vec<String>) {
    // Only our own types describe their fields: `super::schema` takes the descriptions out of the others.
    let fields = schema.properties.iter().flatten().filter(|(_, field)| field.description.is_some());
    let mut leaf = true;
    for (name, field) in fields {
        leaf = false;
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        collect_leaves(field, &path, found);
    }
    if leaf {
        found.push(path.to_owned());
    }
}

/// Brings a schema and all below it into the form that the API server takes.
fn structural(schema: &mut JSONSchemaProps) {
    // A null that is allowed is kept, and is not replaced by the default.
    schema.nullable = None;
    // It does not know the formats of unsigned numbers.
    if schema.format.as_deref().is_some_and(|format| format.starts_with("uint")) {
        schema.format = None;
    }
    // Kubernetes' own types say nothing here: a list of theirs is owned as a whole, like ours.
    if schema.type_.as_deref() == Some("array") && schema.x_kubernetes_list_type.is_none() {
        schema.x_kubernetes_list_type = Some("atomic".to_owned());
    }
    each_child(schema, &mut structural);
}

fn each_child(schema: &mut JSONSchemaProps, visit: &mut dyn FnMut(&mut JSONSchemaProps)) {
    schema.properties.iter_mut().flat_map(|all| all.values_mut()).for_each(&mut *visit);
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        visit(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        visit(values);
    }
}
