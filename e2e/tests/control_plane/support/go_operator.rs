//! Stands in for the Go operator for the same API: takes a namespace and a file of `fixtures/go-operator`, leaves there what
//! that operator leaves behind, written as it writes it. Called by `go_operator`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use e2e::testing::control_plane::certificates;
use e2e::testing::{Space, await_answer};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use memcached_operator::api::Memcached;
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The name of everything in the files.
pub(crate) const NAME: &str = "cache";
/// Its field manager.
const MANAGER: &str = "manager";

/// What the Secret of the caches holds, a key that nobody mounts included.
fn content() -> Result<BTreeMap<String, String>> {
    let mut content: BTreeMap<String, String> = serde_json::from_value(certificates()?)?;
    content.insert("notes".to_owned(), "mounted nowhere, and hashed all the same".to_owned());
    content.insert("password-file".to_owned(), "user:password\n".to_owned());
    Ok(content)
}

/// The Secret, with another password.
pub(crate) fn secret(password_file: Option<&str>) -> Result<Secret> {
    let mut content = content()?;
    content.extend(password_file.map(|file| ("password-file".to_owned(), file.to_owned())));
    Ok(serde_json::from_value(json!({"metadata": {"name": NAME}, "stringData": content}))?)
}

fn secret_hash() -> Result<String> {
    let fed: Vec<u8> =
        content()?.iter().flat_map(|(key, value)| format!("{NAME}\0{key}\0{value}").into_bytes()).collect();
    Ok(Sha256::digest(fed).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The objects of one kind of child.
pub(crate) fn api(space: &Space, kind: ChildKind) -> Api<DynamicObject> {
    let (group, version) = kind.api_version().rsplit_once('/').unwrap_or(("", kind.api_version()));
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind.name()), kind.plural());
    Api::namespaced_with(space.client(), space.name(), &resource)
}

/// The resource of this file.
pub(crate) fn resource(space: &Space, file: &str) -> Result<Memcached> {
    let objects = serde_saphyr::from_multiple::<Value>(&file.replace("NAMESPACE", space.name()))?;
    Ok(serde_json::from_value(objects.into_iter().next().context("a resource")?)?)
}

/// Makes what the Go operator leaves behind, and waits until its pods are ready. Gives the kinds of its children.
pub(crate) async fn leave_behind(space: &Space, file: &str) -> Result<Vec<ChildKind>> {
    space.apply(&secret(None)?).await?;
    let resource = resource(space, file)?;
    let resource = space.api::<Memcached>().create(&PostParams::default(), &resource).await?;
    let mut kinds = Vec::new();
    for (kind, mut object) in children(space, file)? {
        object["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "memcached.c5c3.io/v1beta1",
            "kind": "Memcached",
            "name": NAME,
            "uid": resource.uid(),
            "controller": true,
            "blockOwnerDeletion": true,
        }]);
        reconcile(space, kind, object).await?;
        kinds.push(kind);
    }
    report(space, &resource).await?;
    Ok(kinds)
}

/// Creates an object, and updates it once more with the whole of what it should be, as the Go operator does at every turn.
async fn reconcile(space: &Space, kind: ChildKind, object: Value) -> Result<()> {
    let (api, params) =
        (api(space, kind), PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() });
    let wanted: DynamicObject = serde_json::from_value(object)?;
    let created = api.create(&params, &wanted).await;
    created.with_context(|| format!("cannot create the Go operator's {}", kind.name()))?;
    if kind != ChildKind::Deployment {
        return Ok(());
    }
    turn(&api, &wanted).await
}

/// What it does at every turn: the whole of what the object should be goes into the one that is there.
async fn turn(api: &Api<DynamicObject>, wanted: &DynamicObject) -> Result<()> {
    let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
    await_answer("the Go operator's turn meets nobody", async || {
        let mut live = api.get(NAME).await?;
        live.data["spec"] = wanted.data["spec"].clone();
        live.metadata.labels.clone_from(&wanted.metadata.labels);
        api.replace(NAME, &params, &live).await?;
        Ok(())
    })
    .await
}

/// The Go operator comes back to what it left behind in this file.
pub(crate) async fn take_back(space: &Space, file: &str) -> Result<()> {
    for (kind, object) in children(space, file)? {
        turn(&api(space, kind), &serde_json::from_value(object)?).await?;
    }
    Ok(())
}

/// The objects of this file, without the resource.
fn children(space: &Space, file: &str) -> Result<Vec<(ChildKind, Value)>> {
    let text = file.replace("SECRET_HASH", &secret_hash()?).replace("NAMESPACE", space.name());
    let objects = serde_saphyr::from_multiple::<Value>(&text)?.into_iter().skip(1);
    let of_kind = |object: Value| {
        let kind = ChildKind::ALL.into_iter().find(|kind| object["kind"] == kind.name());
        kind.map(|kind| (kind, object)).context("a kind of child")
    };
    objects.map(of_kind).collect()
}

/// Asks for a number of pods, and owns it from then on.
pub(crate) async fn scale(space: &Space, replicas: i32) -> Result<()> {
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    space.api::<Deployment>().patch(NAME, &params, &patch).await?;
    Ok(())
}

/// Waits until the pods are ready, and says so as the Go operator does.
async fn report(space: &Space, resource: &Memcached) -> Result<()> {
    let wanted = resource
        .spec
        .autoscaling
        .as_ref()
        .and_then(|it| it.min_replicas)
        .or(resource.spec.replicas)
        .unwrap_or(1);
    await_answer("the Go operator's pods are ready", async || {
        let deployment = space.api::<Deployment>().get(NAME).await?;
        let ready = deployment.status.and_then(|status| status.ready_replicas).unwrap_or_default();
        ensure!(ready == wanted, "{ready} are");
        Ok(())
    })
    .await?;
    let condition = |kind: &str, status: &str, reason: &str, message: String| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "observedGeneration": resource.metadata.generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let status = json!({
        "apiVersion": "memcached.c5c3.io/v1beta1",
        "kind": "Memcached",
        "status": {
            "observedGeneration": resource.metadata.generation,
            "readyReplicas": wanted,
            "serverList": [format!("{NAME}.{}:11211", space.name())],
            "conditions": [
                condition("Available", "True", "Available", format!("{wanted}/{wanted} replicas are ready")),
                condition("Progressing", "False", "ProgressingComplete", format!("All {wanted} replicas are updated")),
                condition("Degraded", "False", "NotDegraded", format!("All {wanted} desired replicas are ready")),
                condition("Ready", "True", "MemcachedReady", format!("All {wanted} replicas are ready")),
            ],
        },
    });
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    space.api::<Memcached>().patch_status(NAME, &params, &Patch::Merge(status)).await?;
    Ok(())
}
