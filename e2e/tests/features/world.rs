//! What the tests of this program begin with and compare: the Secrets and the definition that features need, and the
//! state of a resource and its children. Called by all of them.

use anyhow::{Context, Result};
use e2e::testing::Space;
use e2e::testing::control_plane::{certificates, plain, secret};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, ResourceExt};
use memcached_operator::api::Memcached;
use memcached_operator::kernel::object::{ChildKind, FIELD_MANAGER};
use serde_json::{Map, Value, json};

/// Fields that differ from one object to the next, or count what happened to it. A template's hash stands for the
/// resource's name too.
const MASKED: [&str; 12] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "lastTransitionTime",
    "lastUpdateTime",
    "time",
    "generation",
    "observedGeneration",
    "reconciledGeneration",
    "templateGeneration",
    "deployment.kubernetes.io/revision",
    "memcached.c5c3.io/template-hash",
];

/// Gives a namespace the Secrets that features name.
pub(crate) async fn furnish(space: &Space) -> Result<()> {
    space.apply(&secret("passwords", "first")?).await?;
    let certificates = json!({
        "metadata": {"name": "certificates"},
        "stringData": certificates()?,
    });
    space.apply(&serde_json::from_value::<k8s_openapi::api::core::v1::Secret>(certificates)?).await?;
    Ok(())
}

/// The children of a kind.
pub(crate) fn children(space: &Space, kind: ChildKind) -> Api<DynamicObject> {
    let (group, version) = kind.api_version().split_once('/').unwrap_or(("", kind.api_version()));
    let kind =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind.name()), kind.plural());
    Api::namespaced_with(space.client(), space.name(), &kind)
}

/// Applies a resource with this spec, as its user.
pub(crate) async fn apply(space: &Space, name: &str, spec: &Value) -> Result<Memcached> {
    space.apply(&plain(name, spec)?).await
}

/// The state of a resource and its children: every field, without those that differ between any two objects, without fields
/// of other managers, and without what controllers report in children, except for a workload's numbers.
pub(crate) async fn state(space: &Space, name: &str) -> Result<Value> {
    let mut objects = Map::new();
    for kind in ChildKind::ALL {
        let child = children(space, kind).get_opt(&kind.name_of_child(name)).await?;
        objects.insert(kind.name().to_owned(), json!(child));
    }
    let resource = space.api::<Memcached>().get(name).await?;
    let uid = resource.uid().context("a stored object has a uid")?;
    objects.insert("Memcached".to_owned(), json!(resource));
    for (kind, object) in &mut objects {
        reduce(kind, object);
    }
    let text = Value::from(objects).to_string().replace(name, "some-name").replace(&uid, "some-uid");
    let mut state: Value = serde_json::from_str(&text)?;
    mask(&mut state);
    leave_out_late_warning(&mut state);
    Ok(state)
}

/// No cluster here has figures of pods. When an autoscaler says so depends on the time, not on the spec.
fn leave_out_late_warning(state: &mut Value) {
    let Some(status) = state.pointer_mut("/Memcached/status").and_then(Value::as_object_mut) else { return };
    if let Some(warnings) = status.get_mut("warnings").and_then(Value::as_array_mut) {
        warnings.retain(|warning| warning["reason"] != "AutoscalerInactive");
        if warnings.is_empty() {
            status.remove("warnings");
        }
    }
}

/// The children of a state.
pub(crate) fn of_children(state: &Value) -> Value {
    let mut children = state.clone();
    if let Some(objects) = children.as_object_mut() {
        objects.remove("Memcached");
    }
    children
}

fn reduce(kind: &str, object: &mut Value) {
    if let Some(managed) = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut) {
        // A status is written by merge-patch, which says nothing of fields that keep their value.
        managed.retain(|entry| entry["manager"] == FIELD_MANAGER && kind != "Memcached");
        managed.sort_by_key(|entry| entry["operation"].to_string());
    }
    match (kind, object.get_mut("status").and_then(Value::as_object_mut)) {
        ("Memcached", _) | (_, None) => {}
        ("Deployment" | "StatefulSet", Some(status)) => status.retain(|_, value| value.is_number()),
        (_, Some(status)) => status.clear(),
    }
}

fn mask(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !MASKED.contains(&name.as_str()));
            fields.values_mut().for_each(mask);
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        _ => {}
    }
}
