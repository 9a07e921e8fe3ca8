//! YAML in and out, as `kubectl` understands it. Pure; called by the subcommands that read or print manifests.

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{Number, Value};

/// Every object in a text of one or more YAML (or JSON) documents. Lists are taken apart, empty documents left
/// out.
///
/// # Errors
/// Where the text stops being YAML.
pub fn objects(text: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).context("cannot be read as YAML")?;
    Ok(documents.into_iter().map(whole_numbers).flat_map(items).collect())
}

fn items(document: Value) -> Vec<Value> {
    let is_list = document.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    match document {
        Value::Null => Vec::new(),
        Value::Object(mut list) if is_list => match list.remove("items") {
            Some(Value::Array(items)) => items.into_iter().flat_map(self::items).collect(),
            _ => Vec::new(),
        },
        object => vec![object],
    }
}

/// One object as one YAML document: the same bytes for the same object.
///
/// # Errors
/// When the value does not serialise.
pub fn document(object: &impl Serialize) -> Result<String> {
    let value = serde_json::to_value(object).context("cannot be written as JSON")?;
    serde_saphyr::to_string(&whole_numbers(value)).context("cannot be written as YAML")
}

/// Writes `1.0` as `1`, as Kubernetes' own tools do on the way between YAML and JSON.
fn whole_numbers(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            fields.into_iter().map(|(name, field)| (name, whole_numbers(field))).collect()
        }
        Value::Array(items) => items.into_iter().map(whole_numbers).collect(),
        Value::Number(number) => Value::Number(whole_number(&number).unwrap_or(number)),
        other => other,
    }
}

pub(super) fn whole_number(number: &Number) -> Option<Number> {
    let float = number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0)?;
    // Beyond 2^53 a float does not say which whole number it is.
    (float.abs() < 9_007_199_254_740_992.0).then(|| Number::from(float as i64))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_lists_and_empty_documents_become_objects() {
        let text = "---\n# nothing\n---\na: 1\n---\nkind: List\nitems:\n- b: 2\n- kind: ThingList\n  items: [{c: 3}]\n";
        assert_eq!(objects(text).unwrap(), [json!({"a": 1}), json!({"b": 2}), json!({"c": 3})]);
        assert_eq!(objects("").unwrap(), [] as [Value; 0]);
        assert_eq!(objects(r#"{"a": "b"}"#).unwrap(), [json!({"a": "b"})]);
    }

    #[test]
    fn whole_numbers_are_written_without_a_point() {
        assert_eq!(objects("[1.0, 1e3, 0.5, 1e300]").unwrap(), [json!([1, 1000, 0.5, 1e300])]);
        assert_eq!(document(&json!({"minimum": 16.0})).unwrap(), "minimum: 16\n");
    }

    #[test]
    fn what_is_no_yaml_is_refused_with_its_place() {
        let error = format!("{:#}", objects("a: 1\nb: [\n").unwrap_err());
        assert!(
            error.starts_with("cannot be read as YAML: ") && error.contains("line 2 column 4"),
            "{error}"
        );
        assert!(objects("a: 1\na: 2\n").is_err(), "a key twice");
    }
}
