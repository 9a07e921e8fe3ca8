//! What the Go peer left behind on a child: fields that it owns by update, as `manager`. Pure; read from each child,
//! and turned into requests by [`super::plan`].
//!
//! An apply removes only what its own manager applied before, so that what the peer wrote and we do not want would
//! stay for ever. So its entry in managedFields becomes ours, once, before the first apply. That is one patch of one
//! version: it happens whole or not at all, and whoever comes after it finds a child of ours that has to be applied.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::desired::meta::{SECRET_HASH, TEMPLATE_HASH, TEMPLATE_REVISION};
use super::effect::Edit;
use super::event::PeersEntry;
use super::object::FIELD_MANAGER;

/// What is to be taken over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Legacy {
    /// The place of the peer's entry in managedFields.
    place: usize,
    /// What the peer and we own together, as `fieldsV1`.
    pub fields: Value,
    /// Our annotations about a template that the peer has since replaced: it was started again after us.
    stale: Vec<String>,
}

impl Legacy {
    /// `content` and `owned` as in [`super::event::SeenChild`].
    #[must_use]
    pub fn of(entry: PeersEntry, content: &Value, owned: Option<&Value>) -> Self {
        let PeersEntry { place, mut fields } = entry;
        if let Some(owned) = owned {
            unite(&mut fields, owned);
        }
        let annotations = content.pointer("/metadata/annotations");
        let stale = [TEMPLATE_REVISION, TEMPLATE_HASH, SECRET_HASH]
            .into_iter()
            .filter(|name| annotations.is_some_and(|all| all.get(name).is_some()));
        Self { place, fields, stale: stale.map(str::to_owned).collect() }
    }

    /// Makes the peer's part ours. `ours` is the place of our own entry, where there is one; a number of pods that is an
    /// autoscaler's to decide is given up with it.
    #[must_use]
    pub fn taken_over(&self, ours: Option<usize>, leaves_replicas: bool) -> Vec<Edit> {
        let mut fields = self.fields.clone();
        if leaves_replicas && let Some(spec) = fields.pointer_mut("/f:spec").and_then(Value::as_object_mut) {
            spec.remove("f:replicas");
        }
        let entry = |place: usize, field: &str, value: Value| Edit::Replace {
            path: format!("/metadata/managedFields/{place}/{field}"),
            value,
        };
        let place = ours.unwrap_or(self.place);
        let mut edits = vec![
            entry(place, "manager", json!(FIELD_MANAGER)),
            entry(place, "operation", json!("Apply")),
            entry(place, "fieldsV1", fields),
        ];
        if ours.is_some() {
            edits.push(Edit::Remove { path: format!("/metadata/managedFields/{}", self.place) });
        }
        let removed = |name: &String| Edit::Remove {
            path: format!("/metadata/annotations/{}", name.replace('~', "~0").replace('/', "~1")),
        };
        edits.extend(self.stale.iter().map(removed));
        edits
    }
}

/// Adds to one `fieldsV1` what another lists. A field that one lists as a whole and the other by its parts is both.
fn unite(fields: &mut Value, other: &Value) {
    let (Value::Object(fields), Value::Object(other)) = (fields, other) else { return };
    if fields.is_empty() != other.is_empty() {
        fields.insert(".".to_owned(), Value::Object(Map::new()));
    }
    for (entry, below) in other {
        match fields.get_mut(entry) {
            Some(ours) => unite(ours, below),
            None => drop(fields.insert(entry.clone(), below.clone())),
        }
    }
}
