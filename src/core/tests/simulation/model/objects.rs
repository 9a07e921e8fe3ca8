//! What an API server makes of a body: contents, records of ownership, applies, patches. Pure; called by the model.

use json_patch::{AddOperation, PatchOperation, RemoveOperation};
use memcached_operator_core::api::MemcachedStatus;
use memcached_operator_core::kernel::diff;
use memcached_operator_core::kernel::event::{Reply, SeenChild};
use memcached_operator_core::kernel::failure::{Category, Failure};
use memcached_operator_core::kernel::json_text::JsonText;
use memcached_operator_core::kernel::object::{ChildKind, Controller, Uid};
use serde_json::{Map, Value, json};

/// Where an object says who owns it.
const OWNERS: &str = "/metadata/ownerReferences";
/// Where our entry in managedFields says that the number of pods is ours.
const REPLICAS: &str = "/metadata/managedFields/0/fieldsV1/f:spec/f:replicas";

/// What we own of a workload after its apply. A list without names counts as a whole. Of the others nobody keeps a record.
pub(super) fn owned(kind: ChildKind, body: &Value) -> Option<JsonText> {
    fn fields(value: &Value) -> Value {
        if let Some(items) = value.as_array() {
            let keyed = |item: &Value| Some((format!("k:{}", key(item)?), fields(item)));
            return items.iter().map(keyed).collect::<Option<Map<_, _>>>().unwrap_or_default().into();
        }
        let all = value.as_object().into_iter().flatten();
        all.map(|(name, value)| (format!("f:{name}"), fields(value))).collect()
    }
    kind.is_workload().then(|| fields(body).into())
}

/// By what the API server tells an item of a list from the others: mounts by their path, what else has a name by that.
fn key(item: &Value) -> Option<Value> {
    let name = ["mountPath", "name"].into_iter().find(|name| item.get(*name).is_some())?;
    Some(json!({name: item[name]}))
}

/// What an apply makes of a child: a number of pods that it no longer holds becomes 1 where it was ours, and stays where
/// it was somebody else's. So does all that somebody else owns in a template of which nothing is changed.
pub(super) fn applied(kind: ChildKind, body: &Value, before: &SeenChild) -> Value {
    let mut content = content(body);
    if kind.is_workload() && body["spec"].get("replicas").is_none() {
        let ours = before.owned.as_ref().is_some_and(|it| it.parse().pointer("/f:spec/f:replicas").is_some());
        assert!(!ours, "an apply that makes the number of pods 1");
        content["spec"]["replicas"] = before.content.parse()["spec"]["replicas"].clone();
    }
    let (live, owned) = (before.content.parse(), before.owned.as_ref().map(JsonText::parse));
    let changes = diff::differences(kind, body, &live, owned.as_ref());
    if kind.is_workload() && changes.of_template().next().is_none() {
        content["spec"]["template"] = live["spec"]["template"].clone();
    }
    // A field that we never set stays theirs.
    if let Some(network) = live.pointer("/spec/template/spec/hostNetwork") {
        content["spec"]["template"]["spec"]["hostNetwork"] = network.clone();
    }
    content
}

pub(super) fn edit(child: &mut SeenChild, edit: &PatchOperation) {
    let path = match edit {
        PatchOperation::Remove(RemoveOperation { path }) => path.as_str(),
        PatchOperation::Add(AddOperation { path, value }) if path.as_str() == OWNERS => {
            child.controller = Some(controller(&value[0]));
            child.content.edit(|it| it["metadata"]["ownerReferences"] = value.clone());
            return;
        }
        _ => panic!("{edit:?}: no Go operator was here"),
    };
    if path == REPLICAS {
        give_up_replicas(child);
        return;
    }
    let (within, at) = path.rsplit_once('/').unwrap();
    child.content.edit(|it| match it.pointer_mut(within).unwrap() {
        Value::Object(fields) => drop(fields.remove(at).unwrap()),
        list => drop(list.as_array_mut().unwrap().remove(at.parse().unwrap())),
    });
}

/// What becomes of a child that gets this content by an apply of this body.
pub(super) fn take_in(child: &mut SeenChild, content: Value, body: &Value) {
    (child.content, child.owned) = (content.into(), owned(child.kind, body));
    child.controller = Some(controller(&body["metadata"]["ownerReferences"][0]));
}

pub(super) fn controller(owner: &Value) -> Controller {
    let text = |field: &str| owner[field].as_str().unwrap().to_owned();
    Controller {
        api_version: text("apiVersion").into(),
        kind: text("kind").into(),
        name: text("name"),
        uid: Uid::from(text("uid")),
    }
}

pub(super) fn give_up_owner(child: &mut SeenChild) {
    child.controller = None;
    child.content.edit(|it| it["metadata"]["ownerReferences"] = Value::Null);
    if let Some(owned) = &mut child.owned {
        owned.edit(|it| {
            let fields = it["f:metadata"].as_object_mut();
            fields.map(|fields| fields.remove("f:ownerReferences"));
        });
    }
}

pub(super) fn give_up_replicas(child: &mut SeenChild) {
    child.owned.as_mut().unwrap().edit(|it| {
        it["f:spec"].as_object_mut().unwrap().remove("f:replicas");
    });
}

pub(super) fn template(child: &SeenChild) -> Option<Value> {
    child.content.parse().pointer("/spec/template").cloned()
}

pub(super) fn content(body: &Value) -> Value {
    let meta = |field: &str| body["metadata"].get(field).cloned().unwrap_or_default();
    let rest = if body["data"].is_null() { "spec" } else { "data" };
    json!({
        "metadata": {
            "labels": meta("labels"),
            "annotations": meta("annotations"),
            "ownerReferences": meta("ownerReferences"),
        },
        rest: body[rest],
    })
}

/// The value by which a watch knows our objects.
pub(super) const LABEL: &str = "memcached-operator";

/// Whether a watch by our label shows it.
pub(super) fn is_labelled(child: &SeenChild) -> bool {
    child.content.parse()["metadata"]["labels"]["app.kubernetes.io/managed-by"] == LABEL
}

/// What a cluster makes of a pod template before it is stored: an API server drops empty strings, a webhook puts another
/// registry before the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Cluster {
    /// What was applied.
    #[default]
    Faithful,
    /// The image from a registry of its own.
    RewritesImages,
    /// Also another list of arguments.
    RewritesArguments,
    /// Policies let everybody in.
    OpensPolicies,
    /// Pods are asked in another way whether they live, whoever writes what.
    ReplacesProbes,
}

impl Cluster {
    /// The one that makes the same of pod templates, and nothing of anything else.
    pub(super) const fn of_templates(self) -> Self {
        match self {
            Self::OpensPolicies => Self::Faithful,
            Self::Faithful | Self::RewritesImages | Self::RewritesArguments | Self::ReplacesProbes => self,
        }
    }

    pub(super) fn stores(self, mut content: Value) -> Value {
        drop_empty_strings(&mut content);
        if self == Self::OpensPolicies && content["spec"].get("policyTypes").is_some() {
            content["spec"]["ingress"] = json!([{}]);
        }
        if let Some(container) = content.pointer_mut("/spec/template/spec/containers/0") {
            if matches!(self, Self::RewritesImages | Self::RewritesArguments) {
                let image = container["image"].as_str().unwrap().to_owned();
                container["image"] = json!(format!("mirror.example.com/{image}"));
            }
            if self == Self::RewritesArguments {
                container["args"].as_array_mut().unwrap().push(json!("-vv"));
            }
            if self == Self::ReplacesProbes {
                container["livenessProbe"] = json!({"exec": {"command": ["true"]}});
            }
        }
        content
    }
}

fn drop_empty_strings(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| value != "");
            fields.values_mut().for_each(drop_empty_strings);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty_strings),
        _ => {}
    }
}

pub(super) fn conflict(message: &str) -> Reply {
    Reply::Failed(Failure { category: Category::Conflict, message: message.into() })
}

/// JSON merge patch on the top level, where the operator's patches are.
pub(crate) fn merged(status: &MemcachedStatus, patch: &Value) -> MemcachedStatus {
    let mut fields = serde_json::to_value(status).unwrap();
    // As the API server merges: within the fields of an object too.
    json_patch::merge(&mut fields, patch);
    serde_json::from_value(fields).unwrap()
}
