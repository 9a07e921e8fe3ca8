//! What an edit changed in the spec of a resource, in words: `memcached.maxMemoryMB 64 -> 96`. Pure; called by the pass for
//! Kubernetes Events and the log.

use serde_json::{Map, Value};

use super::field_path::plain;
use super::text::truncated;
use crate::api::MemcachedSpec;

/// The most bytes of one value.
const MAX_VALUE: usize = 80;

/// Each field that differs with the value before and after, in the order of their names.
#[must_use]
pub fn spec_edit_words(before: &MemcachedSpec, after: &MemcachedSpec) -> Vec<String> {
    let json = |spec| serde_json::to_value(spec).unwrap_or_default();
    let mut found = Vec::new();
    compare("", &json(before), &json(after), &mut found);
    found
}

fn compare(path: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    let none = Map::new();
    // A section that appears is compared with an empty one, so that each of its fields is named.
    let fields = |value: &Value| match value {
        Value::Object(fields) => Some(fields.clone()),
        Value::Null => Some(none.clone()),
        _ => None,
    };
    match (fields(before), fields(after)) {
        (Some(old), Some(new)) => {
            let mut names: Vec<_> = old.keys().chain(new.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let of = |fields: &Map<String, Value>| fields.get(name).cloned().unwrap_or_default();
                compare(&path, &of(&old), &of(&new), found);
            }
        }
        _ if before == after => {}
        _ => found.push(format!("{path} {} -> {}", brief(before), brief(after))),
    }
}

fn brief(value: &Value) -> String {
    if value.is_null() { "unset".to_owned() } else { truncated(plain(value), MAX_VALUE) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(raw: Value) -> MemcachedSpec {
        serde_json::from_value(raw).unwrap()
    }

    #[test]
    fn an_edit_is_told_field_by_field_with_both_values() {
        let before = spec(json!({"replicas": 2, "memcached": {"maxMemoryMB": 64, "threads": 4}}));
        let after = spec(json!({
            "replicas": 2,
            "memcached": {"maxMemoryMB": 96, "extraArgs": ["-o", "x".repeat(200)]},
            "monitoring": {"enabled": true},
        }));
        let edits = spec_edit_words(&before, &after);
        assert_eq!(edits.len(), 4, "{edits:?}");
        assert!(edits[0].starts_with("memcached.extraArgs unset -> [\"-o\",\"xxx") && edits[0].len() < 120);
        assert_eq!(
            edits[1..],
            [
                "memcached.maxMemoryMB 64 -> 96",
                "memcached.threads 4 -> unset",
                "monitoring.enabled unset -> true"
            ]
        );
        assert_eq!(spec_edit_words(&after, &after), Vec::<String>::new());
    }
}
