//! The Go operator's entry in managedFields. Pure data; read from each object by [`crate::kernel::seen`].

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, OwnerReference};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::kernel::desired::meta;

/// The Go operator's field manager, which writes by update.
pub const FIELD_MANAGER: &str = "manager";

/// The Go operator's entry in managedFields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoOperatorEntry {
    /// The index of the entry in managedFields.
    pub index: usize,
    /// The `fieldsV1` of the entry.
    pub fields: Value,
}

impl GoOperatorEntry {
    /// Finds the entry of the Go operator: an update by [`FIELD_MANAGER`], the default name of such operators, that wrote
    /// the reference to the controller or, if an orphan lost that reference, the labels of a child. Another writer of the
    /// same name writes other fields and keeps them.
    #[must_use]
    pub fn find<'a>(
        entries: impl Iterator<Item = &'a ManagedFieldsEntry>,
        controller: Option<&OwnerReference>,
    ) -> Option<Self> {
        let reference = controller.map(|owner| format!("k:{}", json!({"uid": owner.uid})));
        let has_labels = |written: &Value| {
            meta::selector_labels("").keys().all(|name| written.get(format!("f:{name}")).is_some())
        };
        entries.enumerate().find_map(|(index, entry)| {
            let fields = &entry.fields_v1.as_ref()?.0;
            let by_update = entry.manager.as_deref() == Some(FIELD_MANAGER)
                && entry.operation.as_deref() == Some("Update")
                && entry.subresource.is_none();
            let made_it = match &reference {
                Some(reference) => fields.pointer("/f:metadata/f:ownerReferences")?.get(reference).is_some(),
                None => has_labels(fields.pointer("/f:metadata/f:labels")?),
            };
            (by_update && made_it).then(|| Self { index, fields: fields.clone() })
        })
    }
}
