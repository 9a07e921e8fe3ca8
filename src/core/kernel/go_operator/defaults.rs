//! Defaults of a pod template, which the Go operator owns too because it writes by update. Pure; called where a template
//! is recognised by its content, and by `plan`, which foretells what an apply makes of it.

use serde_json::{Value, json};

use crate::kernel::diff;
use crate::kernel::object::ChildKind;

/// Whether the templates of two workloads of a kind are the same but for defaults, which the API server sets again.
#[must_use]
pub fn are_all_that_differs(kind: ChildKind, one: &Value, other: &Value) -> bool {
    let without = |content: &Value| {
        let mut template = content.pointer("/spec/template").cloned().unwrap_or_default();
        remove_defaults(&mut template);
        json!({"spec": {"template": template}})
    };
    let (one, other) = (without(one), without(other));
    diff::drift(kind, &one, &other).is_empty() && diff::drift(kind, &other, &one).is_empty()
}

/// Removes the fields that the API server set because nobody else did.
pub fn remove_defaults(value: &mut Value) {
    match value {
        Value::Object(map) => {
            let image = map.get("image").and_then(Value::as_str).map(str::to_owned);
            map.retain(|field, value| !is_default(field, value, image.as_deref()));
            map.values_mut().for_each(remove_defaults);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_defaults),
        _ => {}
    }
}

/// Whether a field has its default in Kubernetes 1.34, of the fields that the Go operator's pod template has. `image` is the
/// image in the same map.
fn is_default(field: &str, value: &Value, image: Option<&str>) -> bool {
    let default = match field {
        "dnsPolicy" => json!("ClusterFirst"),
        "restartPolicy" => json!("Always"),
        "schedulerName" => json!("default-scheduler"),
        "terminationGracePeriodSeconds" => json!(30),
        "terminationMessagePath" => json!("/dev/termination-log"),
        "terminationMessagePolicy" => json!("File"),
        "imagePullPolicy" => image.map_or(Value::Null, |image| json!(pull_policy(image))),
        "securityContext" | "resources" => json!({}),
        "timeoutSeconds" | "successThreshold" => json!(1),
        "failureThreshold" => json!(3),
        "defaultMode" => json!(0o644),
        // Of the go client, which writes a time that is none.
        "creationTimestamp" => Value::Null,
        _ => return false,
    };
    *value == default
}

/// An image without a tag, or with `latest`, may change at any time.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let tag = name.rsplit('/').next().and_then(|last| last.split_once(':')).map(|(_, tag)| tag);
    match (tag, digest) {
        (Some("latest"), _) | (None, None) => "Always",
        _ => "IfNotPresent",
    }
}
