//! `memcached-operator validate`: checks resources in files by the rules of the API server, without one.
//!
//! Other kinds in the same file are passed over. Unknown fields count as wrong, as they do for `kubectl apply`:
//! the API server drops them, which is how a misspelt setting gets lost.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde::Serialize;
use serde_json::Value;

use super::files::read;
use super::output::Output;
use super::yaml;
use crate::api::spec::{Violation, validate};
use crate::api::{GROUP, KIND, MemcachedSpec, VERSIONS, crd};

/// What to check, and how to say what is wrong.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// A file of YAML or JSON documents; - for standard input. Can be given more than once.
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// How to print what is wrong.
    #[arg(short, long, env = "MEMCACHED_OPERATOR_OUTPUT", value_enum, default_value_t)]
    output: Output,
}

/// One thing that is wrong with one resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{file}: {kind}/{name}: {path}: {message}")]
pub struct Finding {
    /// The file as it was named.
    pub file: String,
    /// The resource's kind.
    pub kind: String,
    /// The resource's name; empty when it has none.
    pub name: String,
    /// The field: `spec.memcached.threads`.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
}

/// Checks every file and prints on standard output what is wrong: exit code 0 when nothing is, 1 otherwise.
///
/// # Errors
/// A file that cannot be read, is not YAML, or holds no resource of ours: nobody should take that for valid.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut findings = Vec::new();
    for file in &args.files {
        let name = file.display().to_string();
        findings.append(&mut check(&name, &read(file)?)?);
    }
    let text = match args.output {
        Output::Json => format!("{}\n", serde_json::to_string_pretty(&findings)?),
        Output::Text => findings.iter().map(|finding| format!("{finding}\n")).collect(),
    };
    std::io::stdout().write_all(text.as_bytes()).context("cannot print what is wrong")?;
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Everything that is wrong with the resources in the text of a file.
///
/// # Errors
/// When it is not YAML, or holds no resource of ours.
pub fn check(file: &str, text: &str) -> Result<Vec<Finding>> {
    let objects = yaml::objects(text).with_context(|| file.to_owned())?;
    let ours: Vec<_> = objects.iter().filter(|object| is_ours(object)).collect();
    ensure!(!ours.is_empty(), "{file}: holds no {KIND} of {GROUP}");
    Ok(ours.into_iter().flat_map(|object| findings(file, object)).collect())
}

fn is_ours(object: &Value) -> bool {
    let group = string(object, "/apiVersion").and_then(|version| version.split_once('/'));
    group.is_some_and(|(group, _)| group == GROUP) && string(object, "/kind") == Some(KIND)
}

fn string<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str)
}

fn findings(file: &str, object: &Value) -> Vec<Finding> {
    // The API server completes a generateName with five characters.
    let generated = string(object, "/metadata/generateName").map(|prefix| format!("{prefix}xxxxx"));
    let name = string(object, "/metadata/name").map(str::to_owned).or(generated).unwrap_or_default();
    let mut violations = version(object).err().unwrap_or_default();
    match MemcachedSpec::parse(object.get("spec")) {
        Err(violation) => violations.push(violation),
        Ok(spec) => violations.append(&mut validate(&name, &spec).err().unwrap_or_default()),
    }
    let finding = |Violation { path, message }| Finding {
        file: file.to_owned(),
        kind: KIND.to_owned(),
        name: name.clone(),
        path,
        message,
    };
    violations.into_iter().map(finding).collect()
}

/// Finds the resource's version, and in it every field that it does not have.
fn version(object: &Value) -> Result<(), Vec<Violation>> {
    let asked =
        string(object, "/apiVersion").and_then(|version| version.split_once('/')).map(|(_, name)| name);
    let known = crd::crd().spec.versions.into_iter().find(|version| Some(version.name.as_str()) == asked);
    let Some(schema) = known.and_then(|version| version.schema).and_then(|it| it.open_api_v3_schema) else {
        let message = format!("no such version; there are {}", VERSIONS.join(" and "));
        return Err(vec![Violation { path: "apiVersion".to_owned(), message }]);
    };
    let mut unknown = Vec::new();
    for part in ["spec", "status"] {
        if let (Some(value), Some(schema)) = (object.get(part), property(&schema, part)) {
            unknown_fields(value, schema, part, &mut unknown);
        }
    }
    let top = object.as_object().into_iter().flat_map(|fields| fields.keys());
    let foreign =
        top.filter(|name| !["apiVersion", "kind", "metadata", "spec", "status"].contains(&name.as_str()));
    unknown.extend(foreign.cloned());
    if unknown.is_empty() {
        return Ok(());
    }
    Err(unknown.into_iter().map(|path| Violation { path, message: "unknown field".to_owned() }).collect())
}

fn property<'a>(schema: &'a JSONSchemaProps, name: &str) -> Option<&'a JSONSchemaProps> {
    schema.properties.as_ref().and_then(|properties| properties.get(name))
}

/// Collects the paths of what the API server would drop.
fn unknown_fields(value: &Value, schema: &JSONSchemaProps, path: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let any = match &schema.additional_properties {
                Some(JSONSchemaPropsOrBool::Schema(values)) => Some(values.as_ref()),
                _ => None,
            };
            for (name, field) in fields {
                let path = format!("{path}.{name}");
                match property(schema, name).or(any) {
                    Some(schema) => unknown_fields(field, schema, &path, unknown),
                    // A value of the wrong type has no fields to know; its type is what is wrong.
                    None if schema.type_.as_deref() != Some("object") => {}
                    None => unknown.push(path),
                }
            }
        }
        Value::Array(items) => {
            if let Some(JSONSchemaPropsOrArray::Schema(schema)) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    unknown_fields(item, schema, &format!("{path}[{index}]"), unknown);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        let findings = check("caches.yaml", text).unwrap();
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_resource_of_every_document_is_checked_and_other_kinds_are_not() {
        let text = "
apiVersion: memcached.c5c3.io/v1beta1
kind: Memcached
metadata: {name: good}
---
apiVersion: v1
kind: Secret
metadata: {name: 1NVALID}
---
apiVersion: v1
kind: List
items:
- apiVersion: memcached.c5c3.io/v1alpha1
  kind: Memcached
  metadata: {name: 1bad}
  spec: {replicas: 65}
";
        assert_eq!(
            lines(text),
            [
                format!("caches.yaml: Memcached/1bad: metadata.name: {}", crate::api::spec::NAME),
                "caches.yaml: Memcached/1bad: spec.replicas: should be less than or equal to 64".to_owned(),
            ]
        );
    }

    #[test]
    fn unknown_fields_versions_and_wrong_types_are_wrong() {
        let text = "
apiVersion: memcached.c5c3.io/v1beta1
kind: Memcached
metadata: {generateName: cache-, labels: {any: thing}}
spec:
  replica: 3
  memcached: {maxMemoryMb: 64, extraArgs: [-v]}
  resources: {limits: {cpu: 1, example.com/gpu: 1}, claims: []}
data: {}
---
apiVersion: memcached.c5c3.io/v1
kind: Memcached
metadata: {name: cache}
spec: {image: {name: memcached}}
";
        assert_eq!(
            lines(text),
            [
                "caches.yaml: Memcached/cache-xxxxx: spec.memcached.maxMemoryMb: unknown field",
                "caches.yaml: Memcached/cache-xxxxx: spec.replica: unknown field",
                "caches.yaml: Memcached/cache-xxxxx: spec.resources.claims: unknown field",
                "caches.yaml: Memcached/cache-xxxxx: data: unknown field",
                "caches.yaml: Memcached/cache: apiVersion: no such version; there are v1beta1 and v1alpha1",
                "caches.yaml: Memcached/cache: spec.image: invalid type: map, expected a string",
            ]
        );
    }

    #[test]
    fn a_file_without_a_resource_of_ours_is_an_error() {
        let error = check("service.yaml", "apiVersion: v1\nkind: Service\n").unwrap_err();
        assert_eq!(error.to_string(), "service.yaml: holds no Memcached of memcached.c5c3.io");
    }
}
