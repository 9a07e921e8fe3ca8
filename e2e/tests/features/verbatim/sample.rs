//! Values that are drawn from a schema of the definition: mostly such that the API server takes, and some that are empty. Takes
//! dice and a schema. Pure.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::{Map, Value, json};

/// Numbers that look random and are the same each time.
pub(super) struct Dice(pub(super) u64);

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

/// A value of this schema, for a field of this name.
pub(super) fn sample(dice: &mut Dice, field: &str, schema: &JSONSchemaProps) -> Value {
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
