//! `docs/api.md`: type, default, bounds, meaning and an example of every field of the definition. The page is made from the
//! definition and from the rows of `docs/fields.md`, so that it cannot tell anything else.

#![expect(clippy::disallowed_methods, reason = "it compares a page with what is made here")]
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test ends where a field is not as it should be"
)]

mod fixture;
#[path = "fields/rows.rs"]
#[allow(dead_code, reason = "who plays the rows is the test beside this one")]
mod rows;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};
use memcached_operator_core::api::crd::{half, leaves};
use regex::Regex;
use serde_json::Value;

use fixture::Fixture;
use rows::rows;

const HEAD: &str = "# API
Every field of a `Memcached`: what it is, what it is when you leave it out, what it may be, and an example. The page is made
from the definition by `src/core/tests/api_reference.rs`. [fields.md](fields.md) says what each field changes in the children, and so
which of them replace pods. On a cluster that has the definition, kubectl says what each is and its default:

```sh
kubectl explain mcd.spec.memcached
```

```yaml
apiVersion: memcached.c5c3.io/v1beta1   # v1alpha1 means the same
kind: Memcached
metadata:
  name: cache                           # also the name of the Service: a DNS label, at most 63 letters
```

A type that ends with \"of Kubernetes\" is checked by Kubernetes when the children are written, not before. Only the bounds that
stand here are checked at once. Bounds after \"each item\" or \"each value\" are those of the items of a list or the values of a map. Bounds
after a name are those of the field of that name inside.
";

/// The fields of a section that are described: ours. Those of Kubernetes' own types are not.
fn fields(schema: &JSONSchemaProps) -> Vec<(&String, &JSONSchemaProps)> {
    let all = schema.properties.iter().flatten();
    all.filter(|(_, field)| field.description.is_some()).collect()
}

fn type_of(field: &JSONSchemaProps) -> String {
    if field.x_kubernetes_int_or_string == Some(true) {
        return "number or text".to_owned();
    }
    let of = |schema: &JSONSchemaProps| {
        if schema.type_.as_deref() == Some("object") {
            "objects of Kubernetes".to_owned()
        } else {
            format!("{}s", type_of(schema))
        }
    };
    match (field.type_.as_deref(), &field.items, &field.additional_properties) {
        (Some("array"), Some(JSONSchemaPropsOrArray::Schema(items)), _) => format!("list of {}", of(items)),
        (Some("object"), _, Some(JSONSchemaPropsOrBool::Schema(values))) => match type_of(values).as_str() {
            "number or text" => "map of quantities".to_owned(),
            values => format!("map of {values}s"),
        },
        (Some("object"), ..) => "object of Kubernetes".to_owned(),
        (Some("string"), ..) => "text".to_owned(),
        (Some(other), ..) => other.to_owned(),
        (None, ..) => "number or text".to_owned(),
    }
}

fn default_of(field: &JSONSchemaProps) -> String {
    match (&field.default, field.type_.as_deref()) {
        (Some(default), _) => format!("`{}`", shown(&default.0)),
        (None, Some("boolean")) => "`false`".to_owned(),
        (None, _) => unset(field).map_or_else(|| "none".to_owned(), |meaning| format!("unset: {meaning}")),
    }
}

/// What a field without a default in the schema means where it is left out, by its own description: a sentence.
fn unset(field: &JSONSchemaProps) -> Option<String> {
    let description = field.description.as_deref()?.replace('\n', " ");
    let (_, after) = description.split_once("nset: ")?;
    let sentence = after.split(". ").next()?;
    Some(sentence.trim_end_matches('.').to_owned())
}

/// A value as YAML has it on one line.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Of the field itself, then of what is in it.
fn bounds_of(field: &JSONSchemaProps) -> String {
    let mut inner = Vec::new();
    collect_inner(None, field, &mut inner);
    let inner = inner.into_iter().map(|(bounds, of)| format!("{}: {bounds}", of.join(", ")));
    own_bounds(field).into_iter().chain(inner).collect::<Vec<_>>().join("; ")
}

/// Of one value, not of what is in it.
fn own_bounds(field: &JSONSchemaProps) -> Vec<String> {
    let unknown = (field.min_length, field.min_items, field.min_properties, field.multiple_of);
    assert_eq!(unknown, (None, None, None, None), "the page does not say such a bound");
    let mut bounds = Vec::new();
    // Only one of the two looks at a value that may be either.
    let may_be_both = field.x_kubernetes_int_or_string == Some(true);
    let [number, text] = if may_be_both { ["a number: ", "a text: "] } else { [""; 2] };
    match (field.minimum, field.maximum) {
        // An upper bound that is only the type's is none that a user would meet.
        (Some(least), Some(most)) if most < f64::from(i32::MAX) => {
            bounds.push(format!("{number}{least} to {most}"));
        }
        (Some(least), _) => bounds.push(format!("{number}at least {least}")),
        (None, Some(most)) => bounds.push(format!("{number}at most {most}")),
        (None, None) => {}
    }
    if let Some(words) = &field.enum_ {
        let words: Vec<_> = words.iter().map(|word| format!("`{}`", shown(&word.0))).collect();
        bounds.push(words.join(", "));
    }
    let most = |most: Option<i64>, of: &str| most.map(|most| format!("at most {most} {of}"));
    bounds.extend(most(field.max_length, "letters"));
    bounds.extend(field.pattern.as_ref().map(|pattern| format!("{text}matches `{pattern}`")));
    bounds.extend(most(field.max_items, "items"));
    bounds.extend(most(field.max_properties, "keys"));
    bounds.extend(field.x_kubernetes_validations.iter().flatten().map(words));
    bounds
}

/// The bounds of the items of a list, of the values of a map, and of what is in an object, each with what has them.
fn collect_inner(name: Option<&str>, field: &JSONSchemaProps, found: &mut Vec<(String, Vec<String>)>) {
    let mut add = |of: String, schema: &JSONSchemaProps| {
        let bounds = own_bounds(schema).join(", ");
        if bounds.is_empty() {
            return;
        }
        match found.iter_mut().find(|(others, _)| *others == bounds) {
            Some((_, all)) if all.contains(&of) => {}
            Some((_, all)) => all.push(of),
            None => found.push((bounds, vec![of])),
        }
    };
    let each = |what: &str| name.map_or(format!("each {what}"), |name| format!("each {what} of `{name}`"));
    let mut within = Vec::new();
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &field.items {
        add(each("item"), items);
        within.push((name, &**items));
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &field.additional_properties {
        add(each("value"), values);
        within.push((name, &**values));
    }
    for (name, property) in field.properties.iter().flatten() {
        add(format!("`{name}`"), property);
        within.push((Some(name), property));
    }
    within.into_iter().for_each(|(name, schema)| collect_inner(name, schema, found));
}

/// What a refused user reads, without the numbers of his own resource.
fn words(rule: &ValidationRule) -> String {
    if let Some(message) = &rule.message {
        return message.clone();
    }
    let expression = rule.message_expression.as_deref().unwrap();
    let text = Regex::new("^'([^']+)'").unwrap().captures(expression).unwrap()[1].to_owned();
    let text = Regex::new(r" \(%[ds](Mi|%%)?\)").unwrap().replace_all(&text, "").into_owned();
    Regex::new("%[ds](%[ds]|Mi)?").unwrap().replace_all(&text, "…").into_owned()
}

/// Without the default, which has a column of its own.
fn meaning_of(field: &JSONSchemaProps) -> String {
    let meaning = cell(field.description.as_deref().unwrap());
    meaning.split(" Default: ").next().unwrap().to_owned()
}

/// One line of a table: breaks and bars would end a cell.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn example(path: &str, examples: &BTreeMap<String, Value>) -> String {
    examples.get(path).map(|value| format!("`{}`", shown(value))).unwrap_or_default()
}

/// The section at this path with its fields, and then each section in it.
fn section(text: &mut String, path: &str, schema: &JSONSchemaProps, examples: &BTreeMap<String, Value>) {
    writeln!(text, "\n## {path}").unwrap();
    writeln!(text, "{}", schema.description.as_deref().unwrap_or_default()).unwrap();
    let (sections, leaves): (Vec<_>, Vec<_>) =
        fields(schema).into_iter().partition(|(_, field)| !fields(field).is_empty());
    for rule in schema.x_kubernetes_validations.iter().flatten() {
        writeln!(text, "- {}", cell(&words(rule))).unwrap();
    }
    if !leaves.is_empty() {
        text.push_str(
            "\n| field | type | default | bounds | meaning | example |\n|---|---|---|---|---|---|\n",
        );
    }
    for (name, field) in leaves {
        writeln!(
            text,
            "| `{name}` | {} | {} | {} | {} | {} |",
            type_of(field),
            default_of(field),
            cell(&bounds_of(field)),
            meaning_of(field),
            example(&format!("{path}.{name}"), examples),
        )
        .unwrap();
    }
    for (name, field) in sections {
        section(text, &format!("{path}.{name}"), field, examples);
    }
}

/// The value of each field in its row of `docs/fields.md`.
fn examples() -> BTreeMap<String, Value> {
    let value = |spec: &Value, leaf: &str| spec.pointer(&format!("/{}", leaf.replace('.', "/"))).cloned();
    let all = rows().into_iter();
    all.map(|row| (format!("spec.{}", row.leaf), value(&row.to, row.leaf).unwrap())).collect()
}

fn page() -> String {
    let mut text = HEAD.to_owned();
    section(&mut text, "spec", &half("spec"), &examples());
    text.push_str("\n## status\nWhat the operator says of the resource: [conditions.md](conditions.md).\n");
    text.push_str("\n| field | type | meaning |\n|---|---|---|\n");
    for (name, field) in fields(&half("status")) {
        let meaning = cell(field.description.as_deref().unwrap());
        writeln!(text, "| `{name}` | {} | {meaning} |", type_of(field)).unwrap();
    }
    text
}

#[test]
fn the_page_says_what_the_definition_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md");
    let fresh = page();
    if std::fs::read_to_string(&path).ok().as_deref() != Some(&fresh) {
        let beside = path.with_extension("md.new");
        std::fs::write(&beside, fresh).unwrap();
        panic!("docs/api.md is stale: move {} there and commit it", beside.display());
    }
}

#[test]
fn the_page_has_an_example_of_every_field() {
    let examples = examples();
    let without: Vec<_> =
        leaves().into_iter().filter(|leaf| !examples.contains_key(&format!("spec.{leaf}"))).collect();
    assert_eq!(without, Vec::<String>::new());
}

/// The descriptions say that a switch is off by default; the schema has no default for it.
#[test]
fn a_switch_that_is_left_out_is_off() {
    let mut switches = 0;
    for row in rows() {
        let (section, name) = row.leaf.rsplit_once('.').unwrap_or(("", row.leaf));
        let section =
            if section.is_empty() { String::new() } else { format!("/{}", section.replace('.', "/")) };
        let [mut off, mut left_out] = [row.to.clone(), row.to.clone()];
        if row.to.pointer(&section).unwrap()[name] == true {
            switches += 1;
            off.pointer_mut(&section).unwrap()[name] = false.into();
            left_out.pointer_mut(&section).unwrap().as_object_mut().unwrap().remove(name);
            let [on, off, left_out] =
                [row.to.clone(), off, left_out].map(|spec| Fixture::new("cache", &spec).spec);
            assert_eq!(off, left_out, "{}", row.leaf);
            assert_ne!(off, on, "{}", row.leaf);
        }
    }
    assert_eq!(switches, 9);
}

/// A bound of the definition that the page leaves out is one that a user meets as a refusal.
#[test]
fn the_page_has_every_pattern_and_every_length_of_the_definition() {
    fn collect(schema: &JSONSchemaProps, bounds: &mut Vec<String>) {
        bounds.extend(schema.pattern.iter().map(|it| cell(&format!("matches `{it}`"))));
        bounds.extend(schema.max_length.iter().map(|it| format!("at most {it} letters")));
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
            collect(items, bounds);
        }
        if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
            collect(values, bounds);
        }
        schema.properties.iter().flatten().for_each(|(_, field)| collect(field, bounds));
    }
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md")).unwrap();
    let mut described = 0;
    for (name, section) in fields(&half("spec")) {
        let mut bounds = Vec::new();
        collect(section, &mut bounds);
        let of_section = format!("\n## spec.{name}");
        let rows: String = match page.contains(&of_section) {
            true => page.split("\n## ").filter(|it| it.starts_with(&format!("spec.{name}"))).collect(),
            false => page.lines().filter(|line| line.starts_with(&format!("| `{name}` "))).collect(),
        };
        // The words of a rule may hold those of a bound; between such signs only a bound stands alone.
        let words: Vec<_> =
            rows.split(" | ").flat_map(|it| it.split([';', ',', ':'])).map(str::trim).collect();
        let said = |bound: &String| match bound.starts_with("matches ") {
            true => rows.contains(bound),
            false => words.contains(&bound.as_str()),
        };
        let missing: Vec<_> = bounds.iter().filter(|bound| !said(bound)).collect();
        assert!(missing.is_empty(), "{name}: {missing:?}");
        described += bounds.len();
    }
    assert!(described > 30, "{described} bounds");
}
