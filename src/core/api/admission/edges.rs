//! Specs just inside and just outside of every bound that the schema of the definition has, made from that schema: a field
//! that is added has its edges by itself. Pure data; played by the tests here and by those of the API server
//! (`e2e/tests/validation`).

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use regex::Regex;
use serde_json::{Map, Value, json};

use super::RESOURCE;

/// A spec at one edge of the schema.
#[derive(Clone, Debug)]
pub struct Edge {
    /// `spec` as a user writes it.
    pub spec: Value,
    /// The field at its edge: `spec.memcached.threads`.
    pub path: String,
    /// The keyword of the schema that has the edge: `minimum`, or `unknown` for fields that do not exist.
    pub keyword: &'static str,
    /// On which side the value is.
    pub side: Side,
}

/// A side of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The schema takes the value. A rule in CEL may still refuse it.
    Inside,
    /// The schema refuses it.
    Outside,
    /// Newer API servers refuse it and older ones take it. No child can hold it, so the operator would call the spec invalid.
    Disputed,
}

impl Side {
    const fn new(is_inside: bool) -> Self {
        if is_inside { Self::Inside } else { Self::Outside }
    }
}

/// Every edge of `spec`.
#[must_use]
pub fn all() -> Vec<Edge> {
    let mut edges = Vec::new();
    if let Some(spec) = RESOURCE.properties.as_ref().and_then(|properties| properties.get("spec")) {
        let root = Spot { schema: spec, path: "spec".to_owned(), around: &|spec| spec };
        root.collect(&mut edges);
    }
    edges
}

/// A place in the schema.
struct Spot<'a> {
    schema: &'a JSONSchemaProps,
    path: String,
    /// The whole spec around a value of this place; it holds what is required beside it.
    around: &'a dyn Fn(Value) -> Value,
}

impl Spot<'_> {
    fn collect(&self, edges: &mut Vec<Edge>) {
        self.types(edges);
        self.bounds(edges);
        self.fields(edges);
        self.children(edges);
    }

    fn add(&self, edges: &mut Vec<Edge>, keyword: &'static str, side: Side, value: Value) {
        edges.push(Edge { spec: (self.around)(value), path: self.path.clone(), keyword, side });
    }

    /// Values of other types. A null is left to the items of lists: elsewhere it means that nothing is there.
    fn types(&self, edges: &mut Vec<Edge>) {
        let is_item = self.path.ends_with(']');
        let samples = [json!(true), json!(1.5), json!("a"), json!([]), json!({}), Value::Null];
        for value in samples.into_iter().filter(|value| is_item || !value.is_null()) {
            let fits = match self.schema.type_.as_deref() {
                Some("string") => value.is_string(),
                Some("boolean") => value.is_boolean(),
                Some("array") => value.is_array(),
                Some("object") => value.is_object(),
                Some(_) => false,
                None => value.is_string(),
            };
            // A value of the right type has its edges below.
            if !fits {
                self.add(edges, "type", Side::Outside, value);
            }
        }
        if !matches!(self.schema.type_.as_deref(), Some("object")) {
            self.add(edges, "type", Side::Inside, plain(self.schema));
        }
    }

    fn bounds(&self, edges: &mut Vec<Edge>) {
        let schema = self.schema;
        if let Some(min) = whole(schema.minimum) {
            self.add(edges, "minimum", Side::Inside, json!(min));
            self.add(edges, "minimum", Side::Outside, json!(min - 1));
        }
        if let Some(max) = whole(schema.maximum) {
            self.add(edges, "maximum", Side::Inside, json!(max));
            self.add(edges, "maximum", Side::Outside, json!(max + 1));
        }
        if schema.format.as_deref() == Some("int32") {
            let within = schema.maximum.is_none_or(|max| max >= f64::from(i32::MAX));
            let beyond = |bound: Option<f64>| if bound.is_some() { Side::Outside } else { Side::Disputed };
            self.add(edges, "format", Side::new(within), json!(i32::MAX));
            self.add(edges, "format", beyond(schema.maximum), json!(i64::from(i32::MAX) + 1));
            self.add(edges, "format", beyond(schema.minimum), json!(i64::from(i32::MIN) - 1));
        }
        if schema.format.as_deref() == Some("int64") {
            self.add(edges, "format", Side::Inside, json!(i64::MAX));
            self.add(edges, "format", Side::Disputed, json!(u64::MAX));
        }
        if let Some(max) = schema.max_length.and_then(|max| usize::try_from(max).ok()) {
            let end = plain(schema).as_str().and_then(|text| text.chars().last()).unwrap_or('a');
            let of_length = |count: usize| json!(format!("{}{end}", "0".repeat(count - 1)));
            self.add(edges, "maxLength", Side::Inside, of_length(max));
            self.add(edges, "maxLength", Side::Outside, of_length(max + 1));
        }
        if let Some(pattern) = schema.pattern.as_ref().and_then(|pattern| Regex::new(pattern).ok()) {
            for text in ["", " ", "\n", "-", "a b", "a\n"] {
                self.add(edges, "pattern", Side::new(pattern.is_match(text)), json!(text));
            }
        }
        for JSON(word) in schema.enum_.iter().flatten() {
            self.add(edges, "enum", Side::Inside, word.clone());
        }
        if schema.enum_.is_some() {
            self.add(edges, "enum", Side::Outside, json!(""));
            self.add(edges, "enum", Side::Outside, json!("neither"));
        }
    }

    /// What an object or a list may hold, and how much.
    fn fields(&self, edges: &mut Vec<Edge>) {
        let schema = self.schema;
        if let (Some(max), Some(items)) = (count(schema.max_items), items(schema)) {
            let numbered = |count: usize| (0..count).map(|number| distinct(items, number)).collect();
            self.add(edges, "maxItems", Side::Inside, numbered(max));
            self.add(edges, "maxItems", Side::Outside, numbered(max + 1));
        }
        if let (Some(max), Some(values)) = (count(schema.max_properties), values(schema)) {
            let numbered = |count: usize| {
                Value::Object((0..count).map(|number| (format!("k{number}"), plain(values))).collect())
            };
            self.add(edges, "maxProperties", Side::Inside, numbered(max));
            self.add(edges, "maxProperties", Side::Outside, numbered(max + 1));
        }
        for name in schema.required.iter().flatten() {
            let mut lacking = plain(schema);
            if let Value::Object(fields) = &mut lacking {
                fields.remove(name);
            }
            self.add(edges, "required", Side::Outside, lacking);
        }
        if schema.properties.is_some() {
            self.add(edges, "required", Side::Inside, plain(schema));
            let mut more = plain(schema);
            more["noSuchField"] = json!(1);
            self.add(edges, "unknown", Side::Outside, more);
        }
    }

    fn children(&self, edges: &mut Vec<Edge>) {
        for (name, schema) in self.schema.properties.iter().flatten() {
            let around = |value: Value| {
                let mut parent = plain(self.schema);
                parent[name] = value;
                (self.around)(parent)
            };
            Spot { schema, path: format!("{}.{name}", self.path), around: &around }.collect(edges);
        }
        if let Some(schema) = items(self.schema) {
            let around = |value: Value| (self.around)(json!([value]));
            Spot { schema, path: format!("{}[0]", self.path), around: &around }.collect(edges);
        }
        if let Some(schema) = values(self.schema) {
            let around = |value: Value| (self.around)(json!({"k": value}));
            Spot { schema, path: format!("{}.k", self.path), around: &around }.collect(edges);
        }
    }
}

fn items(schema: &JSONSchemaProps) -> Option<&JSONSchemaProps> {
    match &schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => Some(items),
        _ => None,
    }
}

fn values(schema: &JSONSchemaProps) -> Option<&JSONSchemaProps> {
    match &schema.additional_properties {
        Some(JSONSchemaPropsOrBool::Schema(values)) => Some(values),
        _ => None,
    }
}

fn count(bound: Option<i64>) -> Option<usize> {
    bound.and_then(|bound| usize::try_from(bound).ok())
}

/// The bounds of the definition are whole numbers.
fn whole(bound: Option<f64>) -> Option<i64> {
    bound.filter(|bound| bound.fract() == 0.0).map(|bound| bound as i64)
}

/// A value that the schema takes, with nothing but what is required.
fn plain(schema: &JSONSchemaProps) -> Value {
    if let Some(JSON(word)) = schema.enum_.iter().flatten().next() {
        return word.clone();
    }
    match schema.type_.as_deref() {
        Some("object") => {
            let required = schema.required.iter().flatten();
            let fields = required
                .filter_map(|name| Some((name.clone(), plain(schema.properties.as_ref()?.get(name)?))));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Some("array") => json!([]),
        Some("boolean") => json!(true),
        Some("string") if schema.pattern.as_deref().is_some_and(|pattern| pattern.contains("k|m")) => {
            json!("1m")
        }
        Some("string") => json!("a"),
        _ => json!(whole(schema.minimum).unwrap_or(1).max(1)),
    }
}

/// One of many values that the schema takes; lists that have keys hold each once.
fn distinct(schema: &JSONSchemaProps, number: usize) -> Value {
    let mut value = plain(schema);
    match &mut value {
        Value::Object(fields) => {
            for field in fields.values_mut().filter(|field| field.is_string()) {
                *field = json!(format!("a{number}"));
            }
        }
        Value::String(text) => *text = format!("a{number}"),
        _ => {}
    }
    value
}
