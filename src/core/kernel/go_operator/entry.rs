//! The Go operator's entry in managedFields. Pure data; found in each object by [`super::managed_fields::find_entry`].

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
