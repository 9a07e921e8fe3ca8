//! Lists that the API server merges by keys of their items: their limits, schema, CEL and check. Pure; called by the
//! sections.
//!
//! Two items of the same keys are one item to the API server: it refuses the Deployment that holds both.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;
use schemars::Schema;
use serde_json::{Value, json};

use super::findings::Findings;
use crate::api::schema;

/// Items at most; CEL's cost budget needs a bound.
const ITEMS: usize = 64;

/// A text by which the items of a list are told apart.
pub(super) struct MergeKey {
    /// The field of the item.
    pub(super) field: &'static str,
    /// Characters at most; CEL's cost budget needs a bound.
    pub(super) length: usize,
}

/// Schema of such a list, of items of one of Kubernetes' own types.
pub(super) fn schema(list: &mut Schema, keys: &[MergeKey]) {
    schema::embedded(list);
    list.insert("maxItems".to_owned(), json!(ITEMS));
    for MergeKey { field, length } in keys {
        if let Some(Value::Object(text)) = list.pointer_mut(&format!("/items/properties/{field}")) {
            text.insert("maxLength".to_owned(), json!(length));
        }
    }
}

/// CEL: no two items have the same keys.
pub(super) fn rule(keys: &[MergeKey], message: &str) -> ValidationRule {
    let same =
        keys.iter().map(|MergeKey { field, .. }| format!("a.{field} == b.{field}")).collect::<Vec<_>>();
    ValidationRule {
        rule: format!("self.all(a, self.exists_one(b, {}))", same.join(" && ")),
        message: Some(message.to_owned()),
        ..ValidationRule::default()
    }
}

/// Checks that no two items have the same keys.
pub(super) fn validate<K: Ord>(findings: &mut Findings, path: &str, keys: &[K], message: &str) {
    let count = keys.len();
    findings.count(path, count, ITEMS);
    let distinct: BTreeSet<_> = keys.iter().collect();
    findings.check(distinct.len() == count, path, || message.to_owned());
}
