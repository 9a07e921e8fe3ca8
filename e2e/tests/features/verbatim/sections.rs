//! The sections that are passed on, and the specs that hold them: those that API servers are known to store otherwise, those that
//! are drawn from the definition's schema, and those with everything empty. Pure.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use memcached_operator::api::MemcachedSpec;
use memcached_operator::api::crd::{crd, leaves};
use memcached_operator::api::spec::{STATEFUL_SET, validate};
use serde_json::{Value, json};

use super::sample::{Dice, sample};

/// The sections that are passed on, as they are or as part of another.
pub(super) const SECTIONS: [&str; 17] = [
    "resources",
    "highAvailability.topologySpreadConstraints",
    "monitoring.exporterResources",
    "monitoring.serviceMonitor.additionalLabels",
    "security.podSecurityContext",
    "security.containerSecurityContext",
    "security.networkPolicy.allowedSources",
    "security.networkPolicy.metricsSources",
    "autoscaling.metrics",
    "autoscaling.behavior",
    "service.annotations",
    "pod.labels",
    "pod.annotations",
    "pod.nodeSelector",
    "pod.tolerations",
    "pod.affinity",
    "pod.imagePullSecrets",
];
/// Specs of each section.
pub(super) const EACH: usize = 8;
/// Where the dice of the first section begin. With others a section may have fewer that the API server takes.
const SEED: u64 = 4_514;

/// Sections that API servers are known to store otherwise than they are written.
pub(super) fn known() -> Vec<Value> {
    let scaled = |more: Value| {
        let mut scaling = json!({"enabled": true, "minReplicas": 1, "maxReplicas": 2});
        json_patch::merge(&mut scaling, &more);
        json!({"autoscaling": scaling, "resources": {"requests": {"cpu": "50m"}}})
    };
    let nothing = json!({"user": "", "role": "", "type": "", "level": ""});
    let memory = |target: Value| json!({"metrics": [{"type": "Resource", "resource": {"name": "memory", "target": target}}]});
    let of_pods = [
        json!({"pod": {"tolerations": [{"key": "a", "operator": "Exists", "value": "", "effect": ""}]}}),
        json!({"pod": {"tolerations": [{"key": "", "operator": "Exists", "tolerationSeconds": null}]}}),
        json!({"pod": {"imagePullSecrets": [{"name": ""}]}}),
        json!({"security": {"podSecurityContext": {"seLinuxOptions": nothing, "runAsUser": 0, "fsGroup": 0}}}),
        json!({"security": {"containerSecurityContext": {"seLinuxOptions": nothing, "runAsNonRoot": false}}}),
        json!({"pod": {"affinity": {"nodeAffinity": {}, "podAffinity": {}, "podAntiAffinity": {}}}}),
    ];
    let of_autoscalers = [
        scaled(json!({"behavior": {"scaleDown": {"tolerance": "0.05"}}})),
        scaled(
            json!({"behavior": {"scaleUp": {"tolerance": "0"}, "scaleDown": {"stabilizationWindowSeconds": 0}}}),
        ),
        scaled(memory(json!({"type": "AverageValue", "averageValue": "0.5Gi"}))),
        scaled(memory(json!({"type": "AverageValue", "averageValue": "1024Ki", "averageUtilization": null}))),
    ];
    let named = of_pods.clone().map(with_named_pods);
    [of_pods.as_slice(), named.as_slice(), of_autoscalers.as_slice()].concat()
}

fn with_named_pods(mut spec: Value) -> Value {
    spec["workload"] = json!(STATEFUL_SET);
    spec
}

/// A value of this section with everything empty that the API server takes there. A section that is no map of texts needs an arm.
fn accepted_empty(path: &str) -> Value {
    let labels = json!({"matchLabels": {"k0": ""}});
    let context = json!({"runAsUser": 0, "runAsGroup": null, "seLinuxOptions": {"level": ""}});
    let of_pods = json!({"topologyKey": "zone", "labelSelector": labels});
    match path {
        "resources" | "monitoring.exporterResources" => json!({"requests": {"cpu": "50m"}, "limits": null}),
        "highAvailability.topologySpreadConstraints" => json!([{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": null,
            "labelSelector": labels,
        }]),
        "security.podSecurityContext" | "security.containerSecurityContext" => context,
        "security.networkPolicy.allowedSources" | "security.networkPolicy.metricsSources" => {
            json!([{"podSelector": labels, "namespaceSelector": null}])
        }
        "autoscaling.metrics" => json!([{"type": "External", "external": {
            "metric": {"name": "hits", "selector": labels},
            "target": {"type": "AverageValue", "averageValue": "1", "averageUtilization": null},
        }}]),
        "autoscaling.behavior" => {
            json!({"scaleDown": {"stabilizationWindowSeconds": 0, "selectPolicy": null}})
        }
        "pod.tolerations" => json!([{
            "key": "", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0, "value": null,
        }]),
        "pod.affinity" => json!({"nodeAffinity": null, "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": of_pods}],
        }}),
        "pod.imagePullSecrets" => json!([{"name": ""}]),
        _ => json!({"k0": ""}),
    }
}

/// Whether there is a value in it: an empty list is in place whatever becomes of the others.
fn says_something(section: &Value) -> bool {
    match section {
        Value::Array(items) => items.iter().any(says_something),
        Value::Object(fields) => fields.values().any(says_something),
        value => !value.is_null(),
    }
}

/// The schema of a section, found by its dotted path.
fn schema(path: &str) -> Result<JSONSchemaProps> {
    let version = crd().spec.versions.into_iter().next().and_then(|version| version.schema);
    let mut schema = version.and_then(|it| it.open_api_v3_schema).context("the definition has a schema")?;
    for field in std::iter::once("spec").chain(path.split('.')) {
        schema = schema.properties.unwrap_or_default().remove(field).with_context(|| path.to_owned())?;
    }
    Ok(schema)
}

/// A spec whose children hold this section.
fn with(path: &str, section: Value) -> Value {
    let mut spec = path.rsplit('.').fold(section, |value, field| json!({field: value}));
    let needed = match path.split('.').next() {
        Some("monitoring") => json!({"monitoring": {"enabled": true}}),
        Some("security") if path.contains("networkPolicy") => {
            json!({"security": {"networkPolicy": {"enabled": true}}, "monitoring": {"enabled": true}})
        }
        Some("autoscaling") => json!({
            "autoscaling": {"enabled": true, "maxReplicas": 2}, "resources": {"requests": {"cpu": "50m"}},
        }),
        _ => json!({}),
    };
    json_patch::merge(&mut spec, &needed);
    spec
}

/// Lists of the spec that are not passed on: memcached's own arguments.
const OURS: [&str; 1] = ["memcached.extraArgs"];

/// A map, a list and an object without fields of ours have only the API server's meaning.
#[test]
fn every_map_list_and_foreign_object_of_the_definition_is_in_a_section() -> Result<()> {
    let mut missing = Vec::new();
    for leaf in leaves().into_iter().filter(|leaf| !OURS.contains(&leaf.as_str())) {
        let schema = schema(&leaf)?;
        let is_passed_on = matches!(schema.type_.as_deref(), Some("array" | "object") | None)
            && schema.x_kubernetes_int_or_string != Some(true);
        let is_within = |section: &&str| {
            leaf.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if is_passed_on && !SECTIONS.iter().any(is_within) {
            missing.push(leaf);
        }
    }
    ensure!(missing.is_empty(), "no section has {missing:?}");
    ensure!(drawn()?.of_sections.len() == EACH * SECTIONS.len(), "some sections have too few valid specs");
    Ok(())
}

#[test]
fn each_section_is_written_with_an_empty_string_a_zero_and_a_null_where_its_schema_has_a_place_for_one()
-> Result<()> {
    let specs = specs()?;
    for path in SECTIONS {
        let missing = &may_be_empty(&schema(path)?) - &empty_at(path, &specs);
        ensure!(missing.is_empty(), "no spec of {path} has {missing:?}");
    }
    let invalid: Vec<_> = specs.iter().filter(|spec| !is_valid(spec)).collect();
    ensure!(invalid.is_empty(), "not valid: {invalid:?}");
    Ok(())
}

fn is_valid(spec: &Value) -> bool {
    MemcachedSpec::parse(Some(spec)).is_ok_and(|spec| validate("cache", &spec).is_ok())
}

const EMPTY_STRING: &str = "an empty string";
const ZERO: &str = "a zero";
const NULL: &str = "a null";

/// Sections, what may be empty there by their schema and is always refused, and why.
pub(super) const NEVER_TAKEN: [(&str, &str, &str); 4] = [
    ("highAvailability.topologySpreadConstraints", ZERO, "`maxSkew` and `minDomains` are 1 or more"),
    ("autoscaling.metrics", ZERO, "`averageUtilization` is 1 or more"),
    ("autoscaling.behavior", EMPTY_STRING, "`selectPolicy` and `type` are one of a few words each"),
    ("pod.affinity", ZERO, "a `weight` is from 1 to 100"),
];

/// What may be empty in this section, for the API server too.
pub(super) fn has_to_be_taken(path: &str) -> Result<BTreeSet<&'static str>> {
    let never = NEVER_TAKEN.into_iter().filter(|(section, ..)| *section == path);
    let never: BTreeSet<_> = never.map(|(_, what, _)| what).collect();
    Ok(&may_be_empty(&schema(path)?) - &never)
}

#[test]
fn each_section_has_a_value_with_everything_empty_that_the_api_server_takes() -> Result<()> {
    for path in SECTIONS {
        let (wanted, found) = (has_to_be_taken(path)?, empty_in(&accepted_empty(path)));
        ensure!(found == wanted, "{path} has {found:?} and not {wanted:?}");
    }
    for (path, what, _) in NEVER_TAKEN {
        ensure!(may_be_empty(&schema(path)?).contains(what), "{path} has no place for {what}");
    }
    Ok(())
}

/// What may be empty in a value of this schema.
fn may_be_empty(schema: &JSONSchemaProps) -> BTreeSet<&'static str> {
    match schema.type_.as_deref() {
        _ if schema.x_kubernetes_int_or_string == Some(true) => return BTreeSet::new(),
        Some("string") => return BTreeSet::from([EMPTY_STRING]),
        Some("integer" | "number") => return BTreeSet::from([ZERO]),
        _ => {}
    }
    let required = schema.required.as_deref().unwrap_or_default();
    let mut found = BTreeSet::<&'static str>::new();
    for (name, field) in schema.properties.iter().flatten() {
        found.extend((!required.contains(name)).then_some(NULL));
        found.extend(may_be_empty(field));
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        found.extend(may_be_empty(items));
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
        found.extend(may_be_empty(values));
    }
    found
}

/// What is empty in a value.
fn empty_in(value: &Value) -> BTreeSet<&'static str> {
    match value {
        Value::Null => BTreeSet::from([NULL]),
        Value::String(text) if text.is_empty() => BTreeSet::from([EMPTY_STRING]),
        Value::Number(number) if number.as_i64() == Some(0) => BTreeSet::from([ZERO]),
        Value::Array(items) => items.iter().flat_map(empty_in).collect(),
        Value::Object(fields) => fields.values().flat_map(empty_in).collect(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => BTreeSet::new(),
    }
}

/// What is empty in the section of this path in some of these specs.
pub(super) fn empty_at<'a>(path: &str, specs: impl IntoIterator<Item = &'a Value>) -> BTreeSet<&'static str> {
    let pointer = format!("/{}", path.replace('.', "/"));
    specs.into_iter().filter_map(|spec| spec.pointer(&pointer)).flat_map(empty_in).collect()
}

/// Values that the generator never makes. The API server refuses them wherever the schema allows them.
fn never_drawn() -> Vec<Value> {
    let share = json!({"name": "memory", "target": {"type": "Utilization", "averageUtilization": 0}});
    vec![
        with("autoscaling.metrics", json!([{"type": "Resource", "resource": share}])),
        with("autoscaling.behavior", json!({"scaleUp": {"selectPolicy": ""}})),
    ]
}

/// Specs that are made from the definition's schema.
struct Drawn {
    /// As many of each section, in the order of the sections.
    of_sections: Vec<Value>,
    /// Those that show what may be empty and is not in the others.
    more: Vec<Value>,
}

fn drawn() -> Result<Drawn> {
    let (mut of_sections, mut more) = (Vec::new(), never_drawn());
    for (path, mut dice) in SECTIONS.into_iter().zip((SEED..).map(Dice)) {
        let schema = schema(path)?;
        let drawn = std::iter::repeat_with(|| sample(&mut dice, "", &schema)).take(40 * EACH);
        let specs_of_it = drawn.filter(says_something).map(|section| with(path, section));
        let mut valid = specs_of_it.filter(is_valid);
        of_sections.extend(valid.by_ref().take(EACH));
        let shown = empty_at(path, known().iter().chain(&of_sections).chain(&more));
        let mut lacking = &may_be_empty(&schema) - &shown;
        for spec in valid {
            let shown = empty_at(path, [&spec]);
            if !lacking.is_disjoint(&shown) {
                lacking = &lacking - &shown;
                more.push(spec);
            }
        }
    }
    Ok(Drawn { of_sections, more })
}

/// The known specs, those of each section, and then the others. Every other one after the known has named pods: half of each
/// section's are passed on to a StatefulSet.
pub(super) fn specs() -> Result<Vec<Value>> {
    let Drawn { of_sections, more } = drawn()?;
    let taken = SECTIONS.map(|path| with(path, accepted_empty(path)));
    let others = [of_sections, more, taken.to_vec()].concat().into_iter().enumerate();
    let others = others.map(|(at, spec)| if at % 2 == 1 { with_named_pods(spec) } else { spec });
    Ok(known().into_iter().chain(others).collect())
}
