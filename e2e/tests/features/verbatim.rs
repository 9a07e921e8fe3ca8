//! Sections of Kubernetes' own types that are passed on as the user wrote them, with empty strings, zeros and empty objects.
//! The operator comes to rest: the section is in place, or the API server refuses it. In both cases each child was written
//! once, and a restart writes nothing. Deployments and StatefulSets take turns.
//!
//! The sections are generated from the definition's schema, and held against it, so that no type that is passed on can be
//! forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::testing::audit::Request;
use e2e::testing::control_plane::due_warnings::DueWarnings;
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::requests::Requests;
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{at_once, in_space, message, ready, reason};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::{Space, await_answer};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use memcached_operator::api::crd::{crd, leaves};
use memcached_operator::api::spec::{STATEFUL_SET, Workload, validate};
use memcached_operator::api::{Memcached, MemcachedSpec};
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Map, Value, json};

use crate::world;

/// The sections that are passed on, as they are or as part of another.
const SECTIONS: [&str; 17] = [
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
const EACH: usize = 8;
/// So many of them the API server takes at least with each workload: what it refuses shows nothing of how a section is stored.
const LEAST: usize = 1;
/// Where the dice of the first section begin. With others a section may have fewer that the API server takes.
const SEED: u64 = 4_514;
/// The metric of templates that were put back.
const DRIFT: &str = "memcached_operator_rollouts_total{cause=\"drift\"}";
const AT_ONCE: usize = 10;

/// Sections that API servers are known to store otherwise than they are written.
fn known() -> Vec<Value> {
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

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or_default() % sides.max(1)
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.roll(all.len())].clone()
    }
}

/// Words that the API server takes in a field of that name, and the empty one.
fn words(field: &str) -> &'static [&'static str] {
    match field {
        "operator" => &["Exists", "In", "Equal", ""],
        "effect" => &["", "NoSchedule", "NoExecute"],
        "key" => &["a", "b"],
        "topologyKey" => &["zone", "node"],
        "whenUnsatisfiable" => &["DoNotSchedule", "ScheduleAnyway"],
        "nodeAffinityPolicy" | "nodeTaintsPolicy" => &["Honor", "Ignore"],
        "fsGroupChangePolicy" => &["Always", "OnRootMismatch"],
        "supplementalGroupsPolicy" => &["Merge", "Strict"],
        "selectPolicy" => &["Max", "Min", "Disabled"],
        "procMount" => &["Default"],
        "cidr" => &["10.0.0.0/8"],
        "except" => &["10.1.0.0/16"],
        "type" => &["RuntimeDefault", "Pods", "Resource", "AverageValue"],
        "name" => &["cpu", "memory", ""],
        _ => &["", "a"],
    }
}

fn sample(dice: &mut Dice, field: &str, schema: &JSONSchemaProps) -> Value {
    if schema.x_kubernetes_int_or_string == Some(true) {
        return dice.pick(&[
            json!("0"),
            json!("0.5"),
            json!("1500m"),
            json!("1Gi"),
            json!(1),
            json!("1024Ki"),
        ]);
    }
    match schema.type_.as_deref() {
        Some("array") => match &schema.items {
            Some(JSONSchemaPropsOrArray::Schema(items)) => {
                (0..dice.roll(3)).map(|_| sample(dice, field, items)).collect()
            }
            _ => json!([]),
        },
        Some("boolean") => dice.pick(&[json!(false), json!(true)]),
        Some("integer" | "number") => dice.pick(&[json!(0), json!(1), json!(1)]),
        Some("string") => json!(dice.pick(words(field))),
        _ => object(dice, field, schema),
    }
}

/// Keys that the API server takes in a map of that name.
fn keys(field: &str) -> [&'static str; 2] {
    match field {
        "limits" | "requests" => ["memory", "cpu"],
        _ => ["k0", "k1"],
    }
}

/// The sources of a metric, and the type that names each.
const SOURCES: [(&str, &str); 5] = [
    ("resource", "Resource"),
    ("pods", "Pods"),
    ("containerResource", "ContainerResource"),
    ("external", "External"),
    ("object", "Object"),
];

/// A metric with the one source that its type names: drawn field by field, it would hardly ever be one. `None` where the
/// schema is of something else.
fn metric(dice: &mut Dice, schema: &JSONSchemaProps) -> Option<Value> {
    let sources = schema.properties.as_ref().filter(|it| it.contains_key("containerResource"))?;
    let (source, kind) = dice.pick(&SOURCES);
    let mut drawn = sample(dice, source, sources.get(source)?);
    let amount = dice.pick(&[json!("0.5"), json!("1500m"), json!("1Gi"), json!(1), json!("1024Ki")]);
    drawn["target"] = json!({"type": "AverageValue", "averageValue": amount});
    Some(json!({"type": kind, source: drawn}))
}

/// Makes fields agree of which the API server takes only some together.
fn agree(fields: &mut Map<String, Value>, schema: &JSONSchemaProps) {
    let has = |field: &str| schema.properties.as_ref().is_some_and(|all| all.contains_key(field));
    if has("localhostProfile") {
        fields.insert("type".to_owned(), json!("RuntimeDefault"));
    }
    if has("operator") && has("values") {
        let values = fields.get("values").and_then(Value::as_array);
        let operator = if values.is_some_and(|it| !it.is_empty()) { "In" } else { "Exists" };
        fields.insert("operator".to_owned(), json!(operator));
    }
}

fn object(dice: &mut Dice, field: &str, schema: &JSONSchemaProps) -> Value {
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
        let keys = keys(field).into_iter().take(dice.roll(3));
        return keys.map(|key| (key.to_owned(), sample(dice, "", values))).collect();
    }
    if let Some(metric) = metric(dice, schema) {
        return metric;
    }
    let required = schema.required.as_deref().unwrap_or_default();
    let mut fields = Map::new();
    for (name, schema) in schema.properties.iter().flatten() {
        match dice.roll(6) {
            _ if required.contains(name) => drop(fields.insert(name.clone(), sample(dice, name, schema))),
            0 | 1 => drop(fields.insert(name.clone(), sample(dice, name, schema))),
            2 => drop(fields.insert(name.clone(), Value::Null)),
            _ => {}
        }
    }
    agree(&mut fields, schema);
    fields.into()
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
const NEVER_TAKEN: [(&str, &str, &str); 4] = [
    ("highAvailability.topologySpreadConstraints", ZERO, "`maxSkew` and `minDomains` are 1 or more"),
    ("autoscaling.metrics", ZERO, "`averageUtilization` is 1 or more"),
    ("autoscaling.behavior", EMPTY_STRING, "`selectPolicy` and `type` are one of a few words each"),
    ("pod.affinity", ZERO, "a `weight` is from 1 to 100"),
];

/// What may be empty in this section, for the API server too.
fn has_to_be_taken(path: &str) -> Result<BTreeSet<&'static str>> {
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
fn empty_at<'a>(path: &str, specs: impl IntoIterator<Item = &'a Value>) -> BTreeSet<&'static str> {
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
fn specs() -> Result<Vec<Value>> {
    let Drawn { of_sections, more } = drawn()?;
    let taken = SECTIONS.map(|path| with(path, accepted_empty(path)));
    let others = [of_sections, more, taken.to_vec()].concat().into_iter().enumerate();
    let others = others.map(|(at, spec)| if at % 2 == 1 { with_named_pods(spec) } else { spec });
    Ok(known().into_iter().chain(others).collect())
}

/// What runs the pods of this spec.
fn workload(spec: &Value) -> Workload {
    Workload::from_raw(spec["workload"].as_str())
}

fn count(all: &[bool]) -> usize {
    all.iter().filter(|it| **it).count()
}

/// Sections of which too few are in place without and with named pods, and how many.
fn rarely_in_place(ends: &[bool]) -> Vec<(&'static str, [usize; 2])> {
    let in_place =
        |ends: &[bool]| [0, 1].map(|first| ends.iter().skip(first).step_by(2).filter(|it| **it).count());
    let of_sections = SECTIONS.into_iter().zip(ends[known().len()..].chunks(EACH).map(in_place));
    of_sections.filter(|(_, in_place)| in_place.iter().any(|it| *it < LEAST)).collect()
}

/// Sections of which everything with, say, an empty string was refused, so that nothing was shown of how that is stored; and rows of
/// [`NEVER_TAKEN`] that are not true.
fn surprises(specs: &[Value], ends: &[bool]) -> Result<Vec<String>> {
    let in_place = || specs.iter().zip(ends).filter_map(|(spec, in_place)| in_place.then_some(spec));
    let mut found = Vec::new();
    for path in SECTIONS {
        let shown = empty_at(path, in_place());
        let lacking = &has_to_be_taken(path)? - &shown;
        found.extend(lacking.iter().map(|what| format!("no value of {path} with {what} was accepted")));
        let stale =
            NEVER_TAKEN.into_iter().filter(|(section, what, _)| *section == path && shown.contains(what));
        found.extend(stale.map(|(_, what, why)| {
            format!("{path} with {what} was accepted, and NEVER_TAKEN says that it never is: {why}")
        }));
    }
    Ok(found)
}

/// How many of the specs with this workload are in place.
fn in_place_with(of: Workload, specs: &[Value], ends: &[bool]) -> usize {
    specs.iter().zip(ends).filter(|(spec, in_place)| **in_place && workload(spec) == of).count()
}

/// The name of the resource with the spec of this number.
fn name(number: usize) -> String {
    format!("cache-{number:03}")
}

/// Holds that the operator fought with nobody: it has put no template back, and written no child again that the API server
/// took.
async fn no_fight(operator: &Operator, requests: &Requests, specs: &[Value]) -> Result<()> {
    let page = operator.page("/metrics").await?;
    let put_back: Vec<_> = page.lines().filter(|line| line.starts_with(DRIFT)).collect();
    ensure!(put_back == [format!("{DRIFT} 0")], "templates were put back: {put_back:?}");
    let written = requests.of_children()?;
    ensure!(written.len() >= specs.len(), "{} children say little", written.len());
    for (number, spec) in specs.iter().enumerate() {
        for kind in ChildKind::ALL {
            let child = format!("{} {}", kind.plural(), kind.name_of_child(&name(number)));
            // A second write leaves the number of pods to the autoscaler.
            let handed_over = kind == ChildKind::from(workload(spec)) && spec["autoscaling"].is_object();
            let times = written.get(&child).copied().unwrap_or_default();
            ensure!(times <= 1 + usize::from(handed_over), "{child} was written {times} times: {spec}");
        }
    }
    Ok(())
}

/// The resource of which the API server refused a child; `None` if the request tells of no refusal.
fn refused(request: &Request) -> Option<String> {
    let kind = ChildKind::ALL.into_iter().find(|kind| kind.plural() == request.resource)?;
    let is_refused = request.is_write() && [400, 422].contains(&request.code);
    kind.name_of_resource(&request.name).filter(|_| is_refused).map(str::to_owned)
}

/// Waits until the API server's own account says of each resource that is not in place that it refused a child. It logs a
/// request a little after it has answered.
async fn await_refusals(requests: &Requests, ends: &[(usize, bool)]) -> Result<()> {
    await_answer("the API server refused what is not in place", async || {
        let refused: BTreeSet<_> = requests.all()?.iter().filter_map(refused).collect();
        let left_out = ends.iter().filter(|(_, in_place)| !in_place).map(|(number, _)| name(*number));
        let unexplained: Vec<_> = left_out.filter(|it| !refused.contains(it)).collect();
        ensure!(unexplained.is_empty(), "it took all children of {unexplained:?}");
        Ok(())
    })
    .await
}

/// Whether all pods of a resource with a refused child serve, or nothing runs any. Otherwise the next operator has news to write.
fn pods_rest(resource: &Memcached) -> bool {
    let kind = ChildKind::from(Workload::from_raw(resource.spec.workload.as_deref())).name().to_lowercase();
    let waits = message(resource, "Progressing") == Some(&*format!("Waiting for {kind} to be created"));
    waits
        || resource
            .status
            .as_ref()
            .is_some_and(|it| it.ready_replicas > 0 && it.ready_replicas == it.replicas)
}

/// What became of a resource: whether it is in place, or else refused.
async fn await_end(space: &Space, name: &str, spec: &Value) -> Result<bool> {
    world::apply(space, name, spec).await?;
    let ended = |it: &Memcached| {
        let seen = it.status.as_ref().map(|status| status.observed_generation) == it.metadata.generation;
        ready(it) || (seen && reason(it, "Stalled") == Some("InvalidSpec") && pods_rest(it))
    };
    let found = space.wait::<Memcached>(name, "it comes to rest", |it| it.is_some_and(ended)).await;
    Ok(ready(&found.with_context(|| spec.to_string())?.context("it is there")?))
}

async fn start(space: &Space, resources: usize) -> Result<Operator> {
    let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
    await_answer("every resource has been looked at", async || {
        let page = operator.page("/metrics").await?;
        let sum = |name: &str| -> usize {
            let lines = page.lines().filter(|line| line.starts_with(name));
            lines.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum()
        };
        let (passes, waiting) =
            (sum("memcached_operator_reconcile_total{"), sum("memcached_operator_queue_depth "));
        ensure!(passes >= resources && waiting == 0, "{passes} passes, {waiting} waiting");
        Ok(())
    })
    .await?;
    Ok(operator)
}

/// Writes that the API server took, by verb and resource: one of a child that it refuses is tried again after a restart. Also gives
/// a line for each write, with its time and object.
fn taken(requests: &Requests) -> Result<(BTreeMap<String, usize>, Vec<String>)> {
    let (mut counted, mut told) = (BTreeMap::new(), Vec::new());
    for write in requests.all()?.into_iter().filter(|it| it.is_write() && it.code < 300) {
        *counted.entry(format!("{} {}", write.verb, write.resource)).or_default() += 1;
        told.push(format!("{} {} {} {}", write.at, write.verb, write.resource, write.name));
    }
    Ok((counted, told))
}

#[tokio::test]
async fn what_is_passed_on_word_for_word_comes_to_rest_and_a_restart_writes_nothing() -> Result<()> {
    in_space("verbatim", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        let specs = specs()?;
        let requests = Requests::from_now_on(space)?;
        let operator = start(space, 0).await?;
        let ends = specs
            .iter()
            .enumerate()
            .map(|(number, spec)| async move { Ok((number, await_end(space, &name(number), spec).await?)) });
        let mut ends = at_once(AT_ONCE, ends).await?;
        ends.sort_unstable(); // they come as they end, and belong to sections by their number
        let altered = async |number| {
            let resource = space.api::<Memcached>().get(&name(number)).await?;
            anyhow::Ok(resource.status.is_some_and(|status| !status.altered_fields.is_empty()))
        };
        let altered = at_once(AT_ONCE, (0..specs.len()).map(altered)).await?;
        no_fight(&operator, &requests, &specs).await?;
        await_refusals(&requests, &ends).await?;
        operator.end().await?;

        let (requests, due) = (Requests::from_now_on(space)?, DueWarnings::from_now_on(space).await?);
        let operator = start(space, specs.len()).await?;
        await_answer("each write of a restart is a warning that was due", async || {
            let ((taken, told), due) = (taken(&requests)?, due.writes().await?);
            ensure!(taken == due, "a restart cost {taken:?}, and due was {due:?}: {told:#?}");
            Ok(())
        })
        .await?;
        // What the API server stores otherwise it does not refuse.
        let is_refused = |(number, in_place): &(usize, bool)| *number < known().len() && !in_place;
        let refused: Vec<_> =
            ends.iter().filter(|it| is_refused(it)).map(|(number, _)| &specs[*number]).collect();
        ensure!(refused.is_empty(), "not in place: {refused:?}");
        let ends: Vec<bool> = ends.into_iter().map(|(_, in_place)| in_place).collect();
        let (in_place, altered) = (count(&ends), count(&altered));
        let named = in_place_with(Workload::StatefulSet, &specs, &ends);
        println!(
            "{} sections: {in_place} in place, {named} of them with a StatefulSet, of which the cluster alters {altered}",
            specs.len()
        );
        let each_kind = [named, in_place - named];
        ensure!(each_kind.iter().all(|it| *it >= SECTIONS.len()), "each workload has its share: {each_kind:?}");
        ensure!(rarely_in_place(&ends).is_empty(), "rarely in place: {:?}", rarely_in_place(&ends));
        let surprises = surprises(&specs, &ends)?;
        ensure!(surprises.is_empty(), "{}", surprises.join("\n  "));
        ensure!(altered > 4, "{altered} altered say little");
        operator.end().await
    })
    .await
}
