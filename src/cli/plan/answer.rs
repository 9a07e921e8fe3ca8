//! What the API server would most likely answer to a write. Pure; called by [`super::forecast`].
//!
//! Its defaults are not known here, and need not be: what the kernel compares is what it sent.

use json_patch::{AddOperation, PatchOperation, RemoveOperation, ReplaceOperation};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::DynamicObject;
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::api::MemcachedStatus;
use crate::kernel::diff;
use crate::kernel::event::{Reply, SeenChild, SeenResource};
use crate::kernel::go_operator::defaults;
use crate::kernel::json_text::JsonText;
use crate::kernel::object::{ChildKind, Controller, FIELD_MANAGER, Key};
use crate::kernel::seen;

/// The pods that a Deployment makes.
const TEMPLATE: &str = "/spec/template";
/// The JSON pointer below which edits change ownership.
const MANAGED_FIELDS: &str = "/metadata/managedFields/";

/// The resource with its status merged.
pub(super) fn to_status(seen: &SeenResource, patch: &Value) -> Reply {
    let mut status = json!(seen.status);
    json_patch::merge(&mut status, patch);
    let status = MemcachedStatus::deserialize(status).unwrap_or_default();
    Reply::Status(Box::new(SeenResource { status, ..seen.clone() }))
}

/// The child as created.
pub(super) fn to_create(kind: ChildKind, key: &Key, body: &Value) -> Option<SeenChild> {
    let mut object = body.clone();
    let meta = object.get_mut("metadata")?.as_object_mut()?;
    meta.extend([
        ("namespace".to_owned(), json!(key.namespace)),
        ("name".to_owned(), json!(key.name)),
        ("uid".to_owned(), json!(format!("planned-{}", kind.name()))),
        ("resourceVersion".to_owned(), json!("1")),
        ("generation".to_owned(), json!(1)),
        (
            "managedFields".to_owned(),
            json!([{"manager": FIELD_MANAGER, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": owned(body)}]),
        ),
    ]);
    seen::child(kind, &DynamicObject::deserialize(object).ok()?)
}

/// The child with what is applied in it, owned by us.
pub(super) fn to_apply(before: &SeenChild, body: &Value) -> SeenChild {
    let mut after = SeenChild { generation: before.generation + 1, ..before.clone() };
    let part = |name: &str| body["metadata"].get(name).cloned().unwrap_or_default();
    let field = before.kind.content_field();
    let wanted = json!({
        "metadata": {
            "labels": part("labels"), "annotations": part("annotations"), "ownerReferences": part("ownerReferences"),
        },
        field: body[field],
    });
    let live = before.content.parse();
    let mut merged = live.clone();
    json_patch::merge(&mut merged, &wanted);
    let found =
        diff::differences(before.kind, body, &live, before.owned.as_ref().map(JsonText::parse).as_ref());
    let keeps =
        found.of_template().next().is_none() || defaults::are_all_that_differs(before.kind, &live, &merged);
    if let Some(template) = live.pointer(TEMPLATE).filter(|_| keeps) {
        // A list that was merged as a whole lost its defaults: that would be another template, for which pods roll.
        merged["spec"]["template"] = template.clone();
    }
    after.content = merged.into();
    after.owned = Some(owned(body).into());
    after.entry = Some(0);
    after.controller = controller(&body["metadata"]["ownerReferences"]).or(after.controller);
    after
}

/// The controller among these owners, which may be a list or a single one.
fn controller(owners: &Value) -> Option<Controller> {
    let owners = owners.as_array().map_or(std::slice::from_ref(owners), Vec::as_slice);
    let read = |owner: &Value| OwnerReference::deserialize(owner).ok();
    let found = owners.iter().filter_map(read).find(|owner| owner.controller == Some(true))?;
    Some(Controller::from(&found))
}

/// The child after a patch of its fields, or of the record of who owns them.
pub(super) fn to_patch(before: &SeenChild, edits: &[PatchOperation]) -> SeenChild {
    let mut after = before.clone();
    for edit in edits {
        match edit {
            PatchOperation::Replace(ReplaceOperation { path, value })
                if path.as_str().ends_with("/fieldsV1") =>
            {
                after.owned = Some(JsonText::new(value));
                after.go_operator = None;
                after.entry = Some(0);
            }
            PatchOperation::Remove(RemoveOperation { path }) => {
                match path.as_str().strip_prefix(MANAGED_FIELDS) {
                    Some(entry) => {
                        let field = entry.split_once("/fieldsV1").map(|(_, field)| field);
                        if let Some((field, owned)) = field.zip(after.owned.as_mut()) {
                            owned.edit(|owned| remove(owned, field));
                        }
                    }
                    None => after.content.edit(|content| remove(content, path.as_str())),
                }
            }
            // An orphan gets its owner back, and nothing else is added.
            PatchOperation::Add(AddOperation { value, .. }) => after.controller = controller(value),
            // What else is replaced is of no interest here, and the kernel uses no other operation.
            _ => {}
        }
    }
    after
}

fn remove(value: &mut Value, pointer: &str) {
    let Some((parent, name)) = pointer.rsplit_once('/') else { return };
    match value.pointer_mut(parent) {
        Some(Value::Object(map)) => drop(map.remove(&name.replace("~1", "/").replace("~0", "~"))),
        Some(Value::Array(items)) => {
            if let Some(at) = name.parse().ok().filter(|at| *at < items.len()) {
                items.remove(at);
            }
        }
        _ => {}
    }
}

/// A record of ownership of all of this; a list counts as a whole.
fn owned(value: &Value) -> Value {
    let fields = value.as_object().into_iter().flatten();
    fields.map(|(name, value)| (format!("f:{name}"), owned(value))).collect()
}
