//! Who owns a child: objects of other owners stay as they are, children of an earlier resource of the same name are waited
//! for, and nothing is written for a resource that is being deleted.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::requests::Requests;
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{
    at_once, await_ready, collector_is_at_work, in_space, message, plain, reason,
};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::{Space, await_answer};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, Patch, PatchParams, PropagationPolicy};
use kube::{Api, Resource, ResourceExt};
use memcached_operator::api::Memcached;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::support::record::Record;

const NAME: &str = "cache";
/// Its ConfigMap.
const SERVERS: &str = "cache-servers";
/// A finalizer of somebody else: what carries it stays, with a deletionTimestamp.
const HELD: &str = "example.com/held";

async fn operator(space: &Space) -> Result<Operator> {
    Operator::start(space, Arc::new(Straight), Kill::default()).await
}

/// Sets or removes the finalizer of an object that may be gone already.
async fn hold<K>(api: &Api<K>, name: &str, held: bool) -> Result<()>
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned,
{
    let finalizers = if held { json!([HELD]) } else { Value::Null };
    let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    match api.patch(name, &PatchParams::default(), &patch).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 && !held => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Waits until its children are controlled by this resource alone.
async fn await_children_of(space: &Space, resource: &Memcached) -> Result<()> {
    let name = resource.name_any();
    let uid = resource.uid();
    await_answer("its children are its own", async || {
        let deployment = space.api::<Deployment>().get(&name).await?.metadata.owner_references;
        let service = space.api::<Service>().get(&name).await?.metadata.owner_references;
        let servers =
            space.api::<ConfigMap>().get(&format!("{name}-servers")).await?.metadata.owner_references;
        for owners in [deployment, service, servers] {
            let owners: Vec<_> = owners.into_iter().flatten().map(|owner| owner.uid).collect();
            ensure!(owners == Vec::from_iter(uid.clone()), "{owners:?} instead of {uid:?}");
        }
        Ok(())
    })
    .await
}

/// An object that has the name of a child.
struct ForeignObject {
    name: &'static str,
    object: Object,
    /// Its controller: kind and name.
    controller: Option<(&'static str, &'static str)>,
    /// How the resource names it.
    message: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Object {
    Deployment,
    Service,
}

impl ForeignObject {
    fn all() -> [Self; 4] {
        let foreign = |name, object, controller, message| Self { name, object, controller, message };
        [
            foreign(
                "own-deployment",
                Object::Deployment,
                None,
                "exists and is not controlled by this resource",
            ),
            foreign("own-service", Object::Service, None, "exists and is not controlled by this resource"),
            foreign(
                "of-a-config-map",
                Object::Deployment,
                Some(("ConfigMap", "boss")),
                "is controlled by ConfigMap boss",
            ),
            foreign(
                "of-another",
                Object::Service,
                Some(("Memcached", "other")),
                "belongs to Memcached other",
            ),
        ]
    }

    /// Makes it, and waits until the controllers are done with it.
    async fn settle(&self, space: &Space) -> Result<Value> {
        let owners = match self.controller {
            None => json!(null),
            Some((kind, name)) => {
                let (api_version, uid) = match kind {
                    "ConfigMap" => ("v1", space.api::<ConfigMap>().get(name).await?.uid()),
                    _ => ("memcached.c5c3.io/v1beta1", space.api::<Memcached>().get(name).await?.uid()),
                };
                json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true}])
            }
        };
        let labels = json!({"app.kubernetes.io/name": "memcached", "app.kubernetes.io/instance": self.name});
        let metadata = json!({"name": self.name, "labels": labels, "ownerReferences": owners});
        if self.object == Object::Service {
            let spec = json!({"clusterIP": "None", "selector": labels});
            let service = serde_json::from_value(json!({"metadata": metadata, "spec": spec}))?;
            return Ok(json!(space.apply::<Service>(&service).await?));
        }
        let deployment = serde_json::from_value(json!({"metadata": metadata, "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "memcached", "image": "of-somebody-else"}]},
            },
        }}))?;
        space.apply::<Deployment>(&deployment).await?;
        let ready =
            |it: &Deployment| it.status.as_ref().and_then(|status| status.available_replicas) == Some(1);
        let settled = |it: &Deployment| {
            let conditions = it.status.iter().flat_map(|status| status.conditions.iter().flatten());
            ready(it)
                && conditions.into_iter().any(|it| it.reason.as_deref() == Some("NewReplicaSetAvailable"))
        };
        space.wait::<Deployment>(self.name, "it has a pod", |it| it.is_some_and(settled)).await?;
        self.now(space).await
    }

    async fn now(&self, space: &Space) -> Result<Value> {
        Ok(match self.object {
            Object::Deployment => json!(space.api::<Deployment>().get(self.name).await?),
            Object::Service => json!(space.api::<Service>().get(self.name).await?),
        })
    }

    async fn leave(&self, space: &Space) -> Result<()> {
        match self.object {
            Object::Deployment => {
                space.api::<Deployment>().delete(self.name, &DeleteParams::foreground()).await?;
            }
            Object::Service => {
                space.api::<Service>().delete(self.name, &DeleteParams::default()).await?;
            }
        }
        Ok(())
    }

    /// The status names the object, and the operator leaves it alone. Once the object is gone, the resource becomes ready.
    async fn conflict(&self, space: &Space) -> Result<()> {
        let before = self.settle(space).await?;
        space.apply(&plain(self.name, &json!({"replicas": 1}))?).await?;
        let stalled = |resource: &Memcached| {
            // A Service of somebody else does not keep our pods from coming up.
            let pods = resource.status.as_ref().map_or(0, |status| status.ready_replicas);
            reason(resource, "Stalled") == Some("NameConflict")
                && (self.object == Object::Deployment || pods == 1)
        };
        let found = space.wait(self.name, "it is stalled", |it| it.is_some_and(stalled)).await?;
        self.told(space, &found.context("it is there")?)?;

        // Neither does an edit change that.
        space.apply(&plain(self.name, &json!({"replicas": 1, "memcached": {"maxMemoryMB": 65}}))?).await?;
        let again = |it: &Memcached| {
            it.status.as_ref().is_some_and(|status| status.observed_generation == 2) && stalled(it)
        };
        space.wait(self.name, "it is stalled again", |it| it.is_some_and(again)).await?;
        let after = self.now(space).await?;
        ensure!(after == before, "{}: {after:#}\ninstead of\n{before:#}", self.name);

        self.leave(space).await?;
        let resource = await_ready(space, self.name).await?;
        await_children_of(space, &resource).await
    }

    /// What the resource says about it.
    fn told(&self, space: &Space, resource: &Memcached) -> Result<()> {
        let kind = if self.object == Object::Deployment { "Deployment" } else { "Service" };
        let wanted = format!(
            "{kind} {}/{} {}: delete or rename it, or give this Memcached another name",
            space.name(),
            self.name,
            self.message
        );
        for condition in ["Ready", "Stalled"] {
            ensure!(message(resource, condition) == Some(&wanted), "{:?}", message(resource, condition));
        }
        let status = resource.status.as_ref().context("it has a status")?;
        if self.object == Object::Service {
            ensure!(status.server_list.is_empty(), "it has no address: {status:?}");
            return Ok(());
        }
        ensure!((status.replicas, status.ready_replicas) == (0, 0), "the pods of others count: {status:?}");
        let waiting = Some("Waiting for deployment to be created");
        ensure!(message(resource, "Available") == Some("0/1 replicas are ready"), "{status:?}");
        ensure!(message(resource, "Progressing") == waiting, "{status:?}");
        ensure!(message(resource, "Degraded") == waiting, "{status:?}");
        Ok(())
    }
}

#[tokio::test]
async fn an_object_of_somebody_else_is_named_counted_as_none_and_left_alone_to_the_byte() -> Result<()> {
    in_space("foreign-objects", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        let operator = operator(space).await?;
        space.apply::<ConfigMap>(&serde_json::from_value(json!({"metadata": {"name": "boss"}}))?).await?;
        space.apply(&plain("other", &json!({"replicas": 0}))?).await?;
        at_once(4, ForeignObject::all().iter().map(|object| object.conflict(space))).await?;
        operator.end().await
    })
    .await
}

/// Deletes the resource and makes it anew, at once.
async fn replace(space: &Space) -> Result<Memcached> {
    space.api::<Memcached>().delete(NAME, &DeleteParams::background()).await?;
    space.apply(&plain(NAME, &json!({"replicas": 1}))?).await
}

#[tokio::test]
async fn a_resource_made_anew_ends_with_children_of_its_own_and_never_takes_the_old_ones_for_a_strangers()
-> Result<()> {
    in_space("recreated", async |space: &Space| {
        collector_is_at_work(space).await?;
        let _kubelet = Kubelet::start(space);
        let record = Record::start(space).await?;
        let mut operator = operator(space).await?;
        space.apply(&plain(NAME, &json!({"replicas": 1}))?).await?;
        await_ready(space, NAME).await?;
        for _ in 0..5 {
            let new = replace(space).await?;
            await_children_of(space, &new).await?;
        }
        await_ready(space, NAME).await?;

        // While no operator runs.
        operator.kill().await?;
        let new = replace(space).await?;
        operator = self::operator(space).await?;
        await_children_of(space, &new).await?;
        await_ready(space, NAME).await?;
        let stalled = record.stalled(NAME)?;
        ensure!(stalled.is_empty(), "it was {stalled:?} in between");
        operator.end().await
    })
    .await
}

#[tokio::test]
async fn while_the_children_of_an_earlier_resource_are_collected_the_new_one_says_so_and_waits() -> Result<()>
{
    in_space("collected", async |space: &Space| {
        collector_is_at_work(space).await?;
        let _kubelet = Kubelet::start(space);
        let record = Record::start(space).await?;
        let mut operator = operator(space).await?;
        space.apply(&plain(NAME, &json!({"replicas": 1}))?).await?;
        await_ready(space, NAME).await?;
        hold(&space.api::<Deployment>(), NAME, true).await?;
        hold(&space.api::<Service>(), NAME, true).await?;
        hold(&space.api::<ConfigMap>(), SERVERS, true).await?;
        let new = replace(space).await?;
        let waits = |it: &Memcached| reason(it, "Reconciling") == Some("WaitingForGarbageCollection");
        space.wait(NAME, "it says that it waits", |it| it.is_some_and(waits)).await?;

        operator.kill().await?;
        let requests = Requests::from_now_on(space)?;
        operator = self::operator(space).await?;
        space.wait(NAME, "it still says so", |it| it.is_some_and(waits)).await?;
        ensure!(requests.of_children()?.is_empty(), "{:?}", requests.of_children()?);

        hold(&space.api::<Deployment>(), NAME, false).await?;
        hold(&space.api::<Service>(), NAME, false).await?;
        hold(&space.api::<ConfigMap>(), SERVERS, false).await?;
        await_children_of(space, &new).await?;
        await_ready(space, NAME).await?;
        let stalled = record.stalled(NAME)?;
        ensure!(stalled.is_empty(), "it was {stalled:?} in between");
        operator.end().await
    })
    .await
}

#[tokio::test]
async fn a_child_that_somebody_deletes_comes_back_once_it_is_gone() -> Result<()> {
    in_space("deleted", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        let operator = operator(space).await?;
        let resource = space.apply(&plain(NAME, &json!({"replicas": 1}))?).await?;
        await_ready(space, NAME).await?;
        let requests = Requests::from_now_on(space)?;
        hold(&space.api::<Deployment>(), NAME, true).await?;
        space.api::<Deployment>().delete(NAME, &DeleteParams::background()).await?;
        space.api::<Service>().delete(NAME, &DeleteParams::background()).await?;
        let waits = |it: &Memcached| reason(it, "Reconciling") == Some("WaitingForGarbageCollection");
        space.wait(NAME, "it says that it waits", |it| it.is_some_and(waits)).await?;
        hold(&space.api::<Deployment>(), NAME, false).await?;
        await_children_of(space, &resource).await?;
        await_ready(space, NAME).await?;
        let wanted = [("deployments cache".to_owned(), 1), ("services cache".to_owned(), 1)];
        let found = requests.of_children()?;
        ensure!(found == wanted.into(), "each is created once, not {found:?}");
        operator.end().await
    })
    .await
}

/// What is to become of orphans: their uids, and the generation of the Deployment, which moves with its template.
async fn identities(space: &Space) -> Result<[Option<String>; 3]> {
    let deployment = space.api::<Deployment>().get(NAME).await?;
    let service = space.api::<Service>().get(NAME).await?;
    Ok([deployment.uid(), deployment.metadata.generation.map(|it| it.to_string()), service.uid()])
}

/// Times of creation have whole seconds, and only what is older than a resource may be left behind by another.
#[expect(clippy::disallowed_methods, reason = "the API server reads the same clock")]
pub(crate) async fn await_a_later_second(than: &impl ResourceExt) -> Result<()> {
    let created = than.creation_timestamp().context("when it was made")?.0;
    await_answer("another second", async || {
        ensure!(Timestamp::now().as_second() > created.as_second(), "it is still the same");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_a_resource_left_behind_is_taken_back_whole_and_a_copy_of_it_is_not() -> Result<()> {
    in_space("orphans", async |space: &Space| {
        collector_is_at_work(space).await?;
        let _kubelet = Kubelet::start(space);
        let operator = operator(space).await?;
        let guarded = json!({"replicas": 2, "security": {"networkPolicy": {"enabled": true}}});
        space.apply(&plain(NAME, &guarded)?).await?;
        await_ready(space, NAME).await?;
        let before = identities(space).await?;
        let orphan =
            DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
        space.api::<Memcached>().delete(NAME, &orphan).await?;
        space.wait::<Memcached>(NAME, "it is gone", |it| it.is_none()).await?;
        let left = space.api::<Deployment>().get(NAME).await?;
        ensure!(left.owner_references().is_empty(), "{left:#?}");
        // Its labels, but nothing that says that we wrote it.
        let copy = json!({"metadata": {"name": "copy", "labels": memcached_operator::kernel::desired::meta::selector_labels("copy")},
            "spec": {"clusterIP": "None", "ports": [{"port": 1}]}});
        space.apply::<Service>(&serde_json::from_value(copy)?).await?;

        let requests = Requests::from_now_on(space)?;
        await_a_later_second(&left).await?;
        let recreated = space.apply(&plain(NAME, &json!({"replicas": 2}))?).await?;
        await_children_of(space, &recreated).await?;
        await_ready(space, NAME).await?;
        ensure!(identities(space).await? == before, "{:?} instead of {before:?}", identities(space).await?);
        await_answer("what nobody asks for any more is gone", async || {
            let policy = space.api::<NetworkPolicy>().get_opt(NAME).await?;
            ensure!(policy.is_none(), "{policy:?}");
            Ok(())
        })
        .await?;
        // The policy is taken back before it is deleted: nothing is deleted that nobody controls.
        let wanted = [
            ("configmaps cache-servers", 1),
            ("deployments cache", 1),
            ("networkpolicies cache", 2),
            ("services cache", 1),
        ];
        let found = requests.of_children()?;
        ensure!(found == wanted.map(|(child, times)| (child.to_owned(), times)).into(), "{found:?}");

        space.apply(&plain("copy", &json!({"replicas": 0}))?).await?;
        let conflict = |it: &Memcached| reason(it, "Stalled") == Some("NameConflict");
        space.wait("copy", "it says whose it is", |it| it.is_some_and(conflict)).await?;
        operator.end().await
    })
    .await
}

#[tokio::test]
async fn nothing_is_written_for_a_resource_that_waits_for_its_children_to_be_deleted() -> Result<()> {
    in_space("foreground", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        let mut operator = operator(space).await?;
        space.apply(&plain(NAME, &json!({"replicas": 1}))?).await?;
        await_ready(space, NAME).await?;
        hold(&space.api::<Deployment>(), NAME, true).await?;
        await_ready(space, NAME).await?;
        let requests = Requests::from_now_on(space)?;
        space.api::<Memcached>().delete(NAME, &DeleteParams::foreground()).await?;
        space.wait::<Service>(NAME, "its Service is gone", |it| it.is_none()).await?;
        operator.kill().await?;
        operator = self::operator(space).await?;

        hold(&space.api::<Deployment>(), NAME, false).await?;
        space.wait::<Deployment>(NAME, "its Deployment is gone", |it| it.is_none()).await?;
        space.wait::<Memcached>(NAME, "it is gone itself", |it| it.is_none()).await?;
        operator.end().await?;
        // What there was to tell before is told a little later.
        let mut writes = requests.writes()?;
        writes.remove("create events");
        ensure!(writes.is_empty(), "{writes:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_cache_that_is_named_as_the_list_of_another_has_a_list_of_its_own() -> Result<()> {
    in_space("lists", async |space| {
        let _kubelet = Kubelet::start(space);
        let operator = operator(space).await?;
        // Ours by its label, and no child of anybody: it is in nobody's way.
        let labels = json!({"app.kubernetes.io/managed-by": "memcached-operator"});
        let other: ConfigMap =
            serde_json::from_value(json!({"metadata": {"name": "settings", "labels": labels}}))?;
        space.apply(&other).await?;
        for name in ["cache", "cache-servers"] {
            space.apply(&plain(name, &json!({"replicas": 1}))?).await?;
        }
        for name in ["cache", "cache-servers"] {
            let resource = await_ready(space, name).await?;
            let list = space.api::<ConfigMap>().get(&format!("{name}-servers")).await?;
            let owners: Vec<_> =
                list.owner_references().iter().map(|owner| Some(owner.uid.clone())).collect();
            ensure!(owners == [resource.uid()], "{owners:?}");
            let servers = list.data.context("it holds the servers")?.remove("MEMCACHED_SERVERS");
            let told = resource.status.context("it has a status")?.server_list.join(",");
            ensure!(servers.as_ref() == Some(&told), "{servers:?}, and the status says {told}");
        }
        space.api::<Memcached>().delete("cache", &DeleteParams::foreground()).await?;
        space.wait::<Memcached>("cache", "it is gone", |it| it.is_none()).await?;
        space.api::<ConfigMap>().get("cache-servers-servers").await.context("the list of the other one")?;
        await_ready(space, "cache-servers").await?;
        space.api::<ConfigMap>().get("settings").await.context("what is nobody's")?;
        operator.end().await
    })
    .await
}
