//! Name conflicts: objects of another owner that have the name of a child, of every kind, and the Secret that a resource
//! names. The operator neither writes nor deletes them, whether the child is wanted, switched on or off, or the resource is
//! deleted.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::requests::Requests;
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{
    at_once, await_ready, children, everything, in_space, message, plain, reason,
};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::{Space, await_answer};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use memcached_operator::api::Memcached;
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};

use crate::support::features::Features;

pub(crate) fn name(kind: ChildKind) -> String {
    format!("conflict-{}", kind.name().to_lowercase())
}

/// An object of somebody else where the child of the resource of that name belongs.
pub(crate) fn theirs(kind: ChildKind) -> Value {
    let labels = json!({"app": "theirs"});
    let selector = json!({"matchLabels": labels});
    let spec = match kind {
        ChildKind::ConfigMap => Value::Null,
        ChildKind::NetworkPolicy => json!({"podSelector": selector}),
        ChildKind::Service => json!({"clusterIP": "None", "selector": labels}),
        ChildKind::Deployment | ChildKind::StatefulSet => {
            json!({"replicas": 0, "selector": selector, "template": {
                "metadata": {"labels": labels}, "spec": {"containers": [{"name": "memcached", "image": "theirs"}]},
            }})
        }
        ChildKind::PodDisruptionBudget => json!({"minAvailable": 1, "selector": selector}),
        ChildKind::HorizontalPodAutoscaler => {
            json!({"maxReplicas": 2, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "theirs"}})
        }
        ChildKind::ServiceMonitor => json!({"selector": selector, "endpoints": [{"port": "theirs"}]}),
    };
    let mut object = json!({
        "apiVersion": kind.api_version(), "kind": kind.name(),
        "metadata": {"name": kind.name_of_child(&name(kind)), "labels": labels},
    });
    match kind {
        ChildKind::ConfigMap => object["data"] = json!({"MEMCACHED_SERVERS": "theirs"}),
        _ => object["spec"] = spec,
    }
    object
}

/// A resource that asks for a child of this kind, or does not.
pub(crate) fn resource(kind: ChildKind, asks: bool) -> Result<Memcached> {
    let spec = match (kind, asks) {
        (ChildKind::Service | ChildKind::ConfigMap | ChildKind::Deployment, _) | (_, false) => {
            json!({"replicas": 2})
        }
        (ChildKind::StatefulSet, true) => json!({"replicas": 2, "workload": "StatefulSet"}),
        (ChildKind::NetworkPolicy, true) => {
            json!({"replicas": 2, "security": {"networkPolicy": {"enabled": true}}})
        }
        (ChildKind::PodDisruptionBudget, true) => {
            let budget = json!({"enabled": true, "maxUnavailable": 1});
            json!({"replicas": 2, "highAvailability": {"podDisruptionBudget": budget}})
        }
        (ChildKind::HorizontalPodAutoscaler, true) => json!({
            "replicas": 2, "resources": {"requests": {"cpu": "1"}},
            "autoscaling": {"enabled": true, "minReplicas": 2, "maxReplicas": 3},
        }),
        (ChildKind::ServiceMonitor, true) => {
            json!({"replicas": 2, "monitoring": {"enabled": true, "serviceMonitor": {}}})
        }
    };
    plain(&name(kind), &spec)
}

/// All of an object but what its own controllers report in it.
fn essence(object: &DynamicObject) -> Value {
    let mut essence = json!(object);
    essence["status"] = Value::Null;
    essence["metadata"]["resourceVersion"] = Value::Null;
    let reports = |entry: &Value| entry.get("subresource").is_some_and(|it| it == "status");
    if let Some(managed) = essence["metadata"]["managedFields"].as_array_mut() {
        managed.retain(|entry| !reports(entry) && entry["manager"] != "kube-controller-manager");
    }
    if let Some(metadata) = essence["metadata"].as_object_mut() {
        metadata.remove("annotations"); // its controller counts revisions there, and nobody else writes any
    }
    essence
}

/// An object of somebody else under the name of a child.
struct ForeignObject<'a> {
    space: &'a Space,
    kind: ChildKind,
    before: Value,
}

impl<'a> ForeignObject<'a> {
    async fn start(space: &'a Space, kind: ChildKind) -> Result<Self> {
        let api = children::api(space, kind);
        let object = api.create(&PostParams::default(), &serde_json::from_value(theirs(kind))?).await?;
        Ok(Self { space, kind, before: essence(&object) })
    }

    async fn unchanged(&self, when: &str) -> Result<()> {
        let now = essence(&children::of(self.space, self.kind, &name(self.kind)).get().await?);
        ensure!(now == self.before, "{when}: {now:#}\ninstead of\n{:#}", self.before);
        Ok(())
    }

    async fn apply(&self, asks: bool) -> Result<()> {
        self.space.apply(&resource(self.kind, asks)?).await?;
        Ok(())
    }

    /// The resource names it and asks for it to go.
    async fn conflicts(&self, when: &str) -> Result<()> {
        let child = self.kind.name_of_child(&name(self.kind));
        let words = format!("{} {}/{child} exists and is not", self.kind.name(), self.space.name());
        let says = |it: &Memcached| {
            it.status.as_ref().map(|status| status.observed_generation) == it.metadata.generation
                && reason(it, "Stalled") == Some("NameConflict")
                && message(it, "Ready").is_some_and(|message| message.starts_with(&words))
        };
        let wanted = format!("{when}: it is stalled: {words}");
        self.space.wait::<Memcached>(&name(self.kind), &wanted, |it| it.is_some_and(says)).await?;
        self.unchanged(when).await
    }

    /// Deletes the resource and waits until its own children are collected.
    async fn delete_resource(&self) -> Result<()> {
        let name = name(self.kind);
        self.space.api::<Memcached>().delete(&name, &DeleteParams::background()).await?;
        let own = if self.kind == ChildKind::Service { ChildKind::Deployment } else { ChildKind::Service };
        await_answer("its own children are collected", async || {
            ensure!(
                children::of(self.space, own, &name).get_opt().await?.is_none(),
                "the {} is left",
                own.name()
            );
            Ok(())
        })
        .await
    }

    async fn run(self) -> Result<()> {
        let (requests, name) = (Requests::from_now_on(self.space)?, name(self.kind));
        if !children::is_of_every_resource(self.kind) {
            self.apply(false).await?;
            await_ready(self.space, &name).await?;
            self.unchanged("while nobody asks for a child of its kind").await?;
        }
        self.apply(true).await?;
        self.conflicts("switched on").await?;
        if !children::is_of_every_resource(self.kind) {
            self.apply(false).await?;
            await_ready(self.space, &name).await?;
            self.unchanged("switched off again").await?;
            self.apply(true).await?;
            self.conflicts("switched on again").await?;
        }
        self.delete_resource().await?;
        self.unchanged("after the resource was deleted").await?;
        self.apply(true).await?;
        self.conflicts("for a new resource").await?;
        let writes = requests.of_children()?;
        let touched = writes.get(&format!("{} {}", self.kind.plural(), self.kind.name_of_child(&name)));
        ensure!(touched.is_none(), "it was written {touched:?} times");

        children::of(self.space, self.kind, &name).delete(&DeleteParams::foreground()).await?;
        let resource = await_ready(self.space, &name).await?;
        let child = children::of(self.space, self.kind, &name).get().await?;
        let owners: Vec<_> = child.owner_references().iter().map(|owner| Some(owner.uid.clone())).collect();
        ensure!(owners == [resource.uid()], "{owners:?}");
        Ok(())
    }
}

/// The Secret that a resource names is somebody else's too.
async fn secret_is_only_read(space: &Space) -> Result<()> {
    let name = "secretive";
    space.apply(&everything(name)?).await?;
    let secret = async || Ok::<_, anyhow::Error>(json!(space.api::<Secret>().get(name).await?));
    let before = secret().await?;
    space.apply(&Features::Settings.resource(name)?).await?;
    await_ready(space, name).await?;
    ensure!(secret().await? == before, "named");
    space.apply(&plain(name, &json!({"replicas": 0}))?).await?;
    await_ready(space, name).await?;
    ensure!(secret().await? == before, "not named any more");
    space.api::<Memcached>().delete(name, &DeleteParams::foreground()).await?;
    space.wait::<Memcached>(name, "it is gone", |it| it.is_none()).await?;
    ensure!(secret().await? == before, "without a resource");
    Ok(())
}

#[tokio::test]
async fn objects_of_somebody_else_of_every_kind_are_neither_written_nor_deleted() -> Result<()> {
    in_space("name-conflicts", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        let conflict = async |kind: ChildKind| {
            ForeignObject::start(space, kind).await?.run().await.with_context(|| format!("{kind:?}"))
        };
        let (name_conflicts, secret) =
            tokio::join!(at_once(6, ChildKind::ALL.into_iter().map(conflict)), secret_is_only_read(space));
        name_conflicts?;
        secret?;
        operator.end().await
    })
    .await
}
