//! What is wrong with a resource in a file, and stored so already: the API server takes such a value as long as nobody changes
//! it, or what holds it. Pure; called by [`super::survey`].

use serde_json::Value;

use crate::api::spec::{Violation, validate};
use crate::api::{MemcachedSpec, admission};

/// The one field that a stored value may break a rule about, and whose rule sits at `spec`: any edit has it asked again.
const OF_WHOLE_SPEC: &str = "spec.highAvailability.podDisruptionBudget.minAvailable";
/// Where violations begin that may be about a stored value.
const BELOW_SPEC: &str = "spec.";

/// Whether what is wrong at a path may be stored so.
pub(super) fn may_be_stored(path: &str) -> bool {
    path.starts_with(BELOW_SPEC)
}

/// Whether the API server takes a file although this is wrong with it: the operator works with the stored spec, the same is
/// wrong there, and the file changes neither the value nor the section that it is in.
pub(super) fn is_stored(violation: &Violation, file: &Value, stored: &Value) -> bool {
    let spec = MemcachedSpec::parse(Some(stored));
    let works = spec.is_ok_and(|spec| validate(&admission::name(file), &spec).is_ok());
    let mut object = file.clone();
    object["spec"] = stored.clone();
    works
        && admission::refusals(&object).contains(violation)
        && is_kept(&violation.path, &file["spec"], stored)
}

fn is_kept(path: &str, file: &Value, stored: &Value) -> bool {
    let Some(below) = path.strip_prefix(BELOW_SPEC) else { return false };
    match file.get(below) {
        _ if path == OF_WHOLE_SPEC => adds_nothing(file, stored),
        // A field of the spec itself, which nothing holds but the spec.
        Some(value) => stored.get(below) == Some(value),
        None => keeps_section(below, file, stored),
    }
}

/// Whether a file adds nothing to the section in which a path ends.
fn keeps_section(path: &str, file: &Value, stored: &Value) -> bool {
    let fields = file.as_object().into_iter().flatten();
    let below = fields.filter_map(|(name, value)| {
        let rest = path.strip_prefix(name.as_str())?;
        let rest = rest.strip_prefix('.').or_else(|| rest.starts_with('[').then_some(rest))?;
        Some((name, value, rest))
    });
    // The name of a label has dots too.
    match below.max_by_key(|(name, ..)| name.len()) {
        Some((name, value, rest)) => {
            stored.get(name).is_some_and(|stored| keeps_section(rest, value, stored))
        }
        None => adds_nothing(file, stored),
    }
}

/// Whether a value is the stored one, or less: the API server has filled in defaults.
fn adds_nothing(file: &Value, stored: &Value) -> bool {
    match (file, stored) {
        (Value::Object(file), Value::Object(stored)) => {
            file.iter().all(|(name, value)| stored.get(name).is_some_and(|it| adds_nothing(value, it)))
        }
        _ => file == stored,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn monitor(fields: &Value) -> Value {
        json!({"monitoring": {"enabled": true, "serviceMonitor": fields}})
    }

    fn budget(threads: u32) -> Value {
        let budget = json!({"enabled": true, "minAvailable": 2});
        json!({
            "replicas": 2, "memcached": {"threads": threads}, "highAvailability": {"podDisruptionBudget": budget},
        })
    }

    #[rstest]
    #[case::unchanged(monitor(&json!({"interval": "30"})), monitor(&json!({"interval": "30"})), true)]
    #[case::with_a_default(monitor(&json!({"interval": "30"})), monitor(&json!({"interval": "30", "scrapeTimeout": "5s"})), true)]
    #[case::new(monitor(&json!({"interval": "30"})), json!({}), false)]
    #[case::another(monitor(&json!({"interval": "30"})), monitor(&json!({"interval": "31"})), false)]
    #[case::beside_an_edit(
        json!({"replicas": 3, "monitoring": {"serviceMonitor": {"interval": "30"}}}),
        json!({"replicas": 2, "monitoring": {"enabled": true, "serviceMonitor": {"interval": "30"}}}),
        true
    )]
    #[case::in_an_edited_section(
        monitor(&json!({"interval": "30", "additionalLabels": {"a": "b"}})),
        monitor(&json!({"interval": "30"})),
        false
    )]
    #[case::a_blank(json!({"image": "", "replicas": 3}), json!({"image": "", "replicas": 2}), true)]
    #[case::an_item(
        json!({"memcached": {"extraArgs": ["-o", "a\nb"]}}),
        json!({"memcached": {"extraArgs": ["-o", "a\nb"], "threads": 2}}),
        true
    )]
    #[case::the_whole_spec_unchanged(budget(2), budget(2), true)]
    #[case::a_rule_of_the_whole_spec_beside_an_edit(budget(3), budget(2), false)]
    #[case::what_the_operator_refuses(json!({"replicas": 65}), json!({"replicas": 65}), false)]
    fn the_api_server_takes_what_is_stored_so(
        #[case] file: Value,
        #[case] stored: Value,
        #[case] expected: bool,
    ) {
        let object = |spec: &Value| {
            json!({
                "apiVersion": "memcached.c5c3.io/v1beta1", "kind": "Memcached", "metadata": {"name": "cache"},
                "spec": spec,
            })
        };
        let file = object(&file);
        let refusals = admission::refusals(&file);
        assert!(!refusals.is_empty());
        assert!(refusals.iter().all(|it| is_stored(it, &file, &stored) == expected), "{refusals:?}");
    }
}
