//! What is wrong with a resource in a file, and stored so already: the API server takes it as long as nobody changes the part in
//! which the broken rule sits. Pure; called by [`super::survey`].

use serde_json::Value;

use crate::api::admission::unchanged::is_unchanged;
use crate::api::spec::{Violation, validate};
use crate::api::{MemcachedSpec, admission};

/// Where violations begin that may be about a stored value.
const BELOW_SPEC: &str = "spec.";

/// Whether what is wrong at a path may be stored so.
pub(super) fn may_be_stored(path: &str) -> bool {
    path.starts_with(BELOW_SPEC)
}

/// Whether the API server takes a resource although this is wrong with it: the operator works with the stored spec, the same is
/// wrong there, and the resource, as it is once its file is applied, leaves alone what the broken rule is about.
pub(super) fn is_stored(violation: &Violation, applied: &Value, stored: &Value) -> bool {
    let spec = MemcachedSpec::parse(Some(stored));
    let works = spec.is_ok_and(|spec| validate(&admission::name(applied), &spec).is_ok());
    let mut object = applied.clone();
    object["spec"] = stored.clone();
    works
        && admission::refusals(&object).contains(violation)
        && is_unchanged(violation, &applied["spec"], stored)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn monitor(fields: &Value) -> Value {
        json!({"monitoring": {"enabled": true, "serviceMonitor": fields}})
    }

    fn budget(min_available: &Value, replicas: u32) -> Value {
        let budget = json!({"enabled": true, "minAvailable": min_available});
        json!({"replicas": replicas, "highAvailability": {"podDisruptionBudget": budget}})
    }

    fn budget_of_two(memcached: &Value) -> Value {
        let mut spec = budget(&json!(2), 2);
        spec["memcached"] = memcached.clone();
        spec
    }

    fn annotations(annotations: &Value) -> Value {
        json!({"service": {"annotations": annotations}})
    }

    #[rstest]
    #[case::unchanged(monitor(&json!({"interval": "30"})), monitor(&json!({"interval": "30"})), true)]
    #[case::beside_a_field_that_goes(
        monitor(&json!({"interval": "30"})),
        monitor(&json!({"interval": "30", "scrapeTimeout": "5s"})),
        true
    )]
    #[case::new(monitor(&json!({"interval": "30"})), json!({}), false)]
    #[case::another(monitor(&json!({"interval": "30"})), monitor(&json!({"interval": "31"})), false)]
    #[case::beside_an_edit(
        json!({"replicas": 3, "monitoring": {"serviceMonitor": {"interval": "30"}}}),
        json!({"replicas": 2, "monitoring": {"enabled": true, "serviceMonitor": {"interval": "30"}}}),
        true
    )]
    #[case::beside_a_field_that_comes(
        monitor(&json!({"interval": "30", "additionalLabels": {"a": "b"}})),
        monitor(&json!({"interval": "30"})),
        true
    )]
    #[case::two_fields_together(
        monitor(&json!({"scrapeTimeout": "31s"})),
        monitor(&json!({"scrapeTimeout": "31s", "interval": "30s"})),
        true
    )]
    #[case::two_fields_together_beside_an_edit(
        monitor(&json!({"scrapeTimeout": "31s", "additionalLabels": {"a": "b"}})),
        monitor(&json!({"scrapeTimeout": "31s"})),
        false
    )]
    #[case::a_key(annotations(&json!({"a b": ""})), annotations(&json!({"a b": ""})), true)]
    #[case::a_key_beside_one_that_goes(
        annotations(&json!({"a b": ""})),
        annotations(&json!({"a b": "", "team": "x"})),
        false
    )]
    #[case::a_value_beside_a_key_that_goes(
        monitor(&json!({"additionalLabels": {"a.b": "-"}})),
        monitor(&json!({"additionalLabels": {"a.b": "-", "a": "x"}})),
        true
    )]
    #[case::a_blank(json!({"image": "", "replicas": 3}), json!({"image": "", "replicas": 2}), true)]
    #[case::an_item(
        json!({"memcached": {"extraArgs": ["-o", "a\nb"]}}),
        json!({"memcached": {"extraArgs": ["-o", "a\nb"], "threads": 2}}),
        true
    )]
    #[case::the_whole_spec_with_what_the_api_server_filled_in(
        budget_of_two(&json!({"threads": 2})),
        budget_of_two(&json!({"threads": 2, "maxConnections": 1024})),
        true
    )]
    #[case::the_whole_spec_beside_a_field_that_goes(
        budget_of_two(&json!({"threads": 2})),
        budget_of_two(&json!({"threads": 2, "maxConnections": 2048})),
        false
    )]
    #[case::the_whole_spec_beside_an_edit(
        budget_of_two(&json!({"threads": 3})),
        budget_of_two(&json!({"threads": 2})),
        false
    )]
    #[case::a_rule_of_the_budget_about_the_same_field(
        budget(&json!("100%"), 3),
        budget(&json!("100%"), 2),
        true
    )]
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
