//! Fields of a child that the Go operator owns by update. Pure; found by [`crate::kernel::seen`], and turned into requests by
//! [`crate::kernel::pass::plan`].
//!
//! An apply removes only fields that its own manager applied before, so a field that the Go operator wrote and we do not
//! want would stay for ever. So its entry in managedFields becomes ours, once, before the first apply. This is one patch
//! of one version: it happens completely or not at all, and the next pass finds a child of ours that has to be applied.

use json_patch::jsonptr::PointerBuf;
use json_patch::{PatchOperation, RemoveOperation, ReplaceOperation};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, OwnerReference};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::entry::{self, GoOperatorEntry};
use crate::kernel::desired::meta::{self, SECRET_HASH, TEMPLATE_HASH, TEMPLATE_REVISION};
use crate::kernel::object::FIELD_MANAGER;

/// Finds the entry of the Go operator: an update by [`entry::FIELD_MANAGER`], the default name of such operators, that wrote
/// the reference to the controller or, if an orphan lost that reference, the labels of a child. Another writer of the
/// same name writes other fields and keeps them.
#[must_use]
pub fn find_entry<'a>(
    entries: impl Iterator<Item = &'a ManagedFieldsEntry>,
    controller: Option<&OwnerReference>,
) -> Option<GoOperatorEntry> {
    let reference = || controller.map(|owner| format!("k:{}", json!({"uid": owner.uid})));
    let has_labels = |labels: &Value| {
        meta::selector_labels("").keys().all(|name| labels.get(format!("f:{name}")).is_some())
    };
    entries.enumerate().find_map(|(index, written)| {
        let by_update = written.manager.as_deref() == Some(entry::FIELD_MANAGER)
            && written.operation.as_deref() == Some("Update")
            && written.subresource.is_none();
        if !by_update {
            return None;
        }
        let fields = &written.fields_v1.as_ref()?.0;
        let made_it = match reference() {
            Some(reference) => fields.pointer("/f:metadata/f:ownerReferences")?.get(&reference).is_some(),
            None => has_labels(fields.pointer("/f:metadata/f:labels")?),
        };
        made_it.then(|| GoOperatorEntry { index, fields: fields.clone() })
    })
}

/// Whether the Go operator wrote this entry of an object. Others write under the same name; our label shows that the object
/// is a child.
#[must_use]
pub fn wrote(entry: &ManagedFieldsEntry, has_our_label: impl FnOnce() -> bool) -> bool {
    entry.manager.as_deref() == Some(entry::FIELD_MANAGER) && has_our_label()
}

/// The fields to take over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoOperatorFields {
    /// The index of the Go operator's entry in managedFields.
    index: usize,
    /// All fields that the Go operator and we own, as `fieldsV1`.
    fields: Value,
    /// Our annotations about a template that the Go operator has replaced since: it was started again after us.
    stale: Vec<String>,
}

impl GoOperatorFields {
    /// `content` and `owned` as in [`crate::kernel::event::SeenChild`].
    #[must_use]
    pub fn from_entry(entry: GoOperatorEntry, content: &Value, owned: Option<&Value>) -> Self {
        let GoOperatorEntry { index, mut fields } = entry;
        if let Some(owned) = owned {
            unite(&mut fields, owned);
        }
        let annotations = content.pointer("/metadata/annotations");
        let stale = [TEMPLATE_REVISION, TEMPLATE_HASH, SECRET_HASH]
            .into_iter()
            .filter(|name| annotations.is_some_and(|all| all.get(name).is_some()));
        Self { index, fields, stale: stale.map(str::to_owned).collect() }
    }

    /// The fields of an object that count as ours: those of the Go operator too while they are `left` to us, otherwise what our
    /// own entry lists.
    #[must_use]
    pub fn with_ours<'a>(left: Option<&'a Self>, owned: Option<&'a Value>) -> Option<&'a Value> {
        left.map(|left| &left.fields).or(owned)
    }

    /// Whether our annotations speak of the template that is there. The Go operator knows nothing of them: where it wrote last,
    /// they speak of an earlier one.
    #[must_use]
    pub const fn annotations_hold(left: Option<&Self>) -> bool {
        left.is_none()
    }

    /// The edits that make these fields ours. `ours` is the index of our own entry, if there is one. If an autoscaler
    /// decides about the number of pods, nobody owns that field afterwards.
    #[must_use]
    pub fn edits_to_take_over(&self, ours: Option<usize>, leaves_replicas: bool) -> Vec<PatchOperation> {
        let mut fields = self.fields.clone();
        if leaves_replicas && let Some(spec) = fields.pointer_mut("/f:spec").and_then(Value::as_object_mut) {
            spec.remove("f:replicas");
        }
        let entry = |index: usize, field: &str, value: Value| {
            let path = PointerBuf::from_tokens(["metadata", "managedFields", &index.to_string(), field]);
            PatchOperation::Replace(ReplaceOperation { path, value })
        };
        let remove = |tokens: [&str; 3]| {
            PatchOperation::Remove(RemoveOperation { path: PointerBuf::from_tokens(tokens) })
        };
        let index = ours.unwrap_or(self.index);
        let mut edits = vec![
            entry(index, "manager", json!(FIELD_MANAGER)),
            entry(index, "operation", json!("Apply")),
            entry(index, "fieldsV1", fields),
        ];
        if ours.is_some() {
            edits.push(remove(["metadata", "managedFields", &self.index.to_string()]));
        }
        edits.extend(self.stale.iter().map(|name| remove(["metadata", "annotations", name])));
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
