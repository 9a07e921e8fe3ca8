//! A paused resource: changes wait and the status says so, and all of them are applied at once when it goes on.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::testing::Space;
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::requests::Requests;
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{at_once, await_ready, in_space, ready, reason, state};
use e2e::testing::kubelet::Kubelet;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kube::api::{DeleteParams, Patch, PatchParams};
use memcached_operator::api::Memcached;
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};

use crate::table::{self, Feature};
use crate::world;

fn paused(mut spec: Value) -> Value {
    spec["paused"] = json!(true);
    spec
}

/// Waits until the newest generation is known to be paused.
async fn await_paused(space: &Space, name: &str) -> Result<Memcached> {
    let is_paused = |it: &Memcached| {
        let observed = it.status.as_ref().map(|status| status.observed_generation);
        observed == it.metadata.generation && reason(it, "Paused").is_some()
    };
    let found = space.wait::<Memcached>(name, "it is paused", |it| it.is_some_and(is_paused)).await?;
    found.context("a resource that is paused is there")
}

async fn pause(space: &Space, name: &str, spec: Value) -> Result<Value> {
    world::apply(space, name, &paused(spec)).await?;
    await_paused(space, name).await?;
    Ok(world::of_children(&world::state(space, name).await?))
}

async fn go_on(space: &Space, name: &str, spec: &Value) -> Result<Value> {
    world::apply(space, name, spec).await?;
    await_ready(space, name).await?;
    Ok(world::of_children(&world::state(space, name).await?))
}

fn same(wanted: &Value, found: &Value) -> Result<()> {
    let differences = state::differences(wanted, found);
    ensure!(differences.is_empty(), "{}", differences.join("\n  "));
    Ok(())
}

/// Made, switched on and switched off while paused: nothing happens, and all of it when it goes on.
async fn wait_and_go_on(space: &Space, name: &str, feature: &Feature) -> Result<()> {
    let (without, with) = (table::with([]), table::with([feature]));
    let made = pause(space, name, with.clone()).await?;
    ensure!(ChildKind::ALL.iter().all(|kind| made[kind.name()].is_null()), "made while paused: {made}");
    let on = go_on(space, name, &with).await?;
    same(&on, &pause(space, name, without.clone()).await?).context("off while paused")?;
    let off = go_on(space, name, &without).await?;
    same(&off, &pause(space, name, with.clone()).await?).context("on while paused")?;
    same(&on, &go_on(space, name, &with).await?).context("on after all")?;
    space.api::<Memcached>().delete(name, &DeleteParams::background()).await?;
    Ok(())
}

#[tokio::test]
async fn every_feature_waits_while_paused_and_comes_afterwards() -> Result<()> {
    in_space("paused", async |space: &Space| {
        world::furnish(space).await?;
        let _kubelet = Kubelet::start(space);
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        let features = table::all();
        let lives = features.iter().enumerate().map(|(number, feature)| async move {
            wait_and_go_on(space, &format!("cache-{number:03}"), feature).await.context(feature.name)
        });
        at_once(16, lives).await?;
        println!("{} features waited", features.len());
        operator.end().await
    })
    .await
}

fn condition<'a>(resource: &'a Memcached, kind: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let conditions = resource.status.iter().flat_map(|status| &status.conditions);
    let mut of_kind = conditions.filter(|it| it.type_ == kind);
    of_kind.next().map(|it| (it.status.as_str(), it.reason.as_str(), it.message.as_str()))
}

#[tokio::test]
async fn what_waits_is_in_the_status_and_is_applied_with_one_write_a_child() -> Result<()> {
    in_space("waits", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        let name = "waiting";
        let before = go_on(space, name, &json!({"replicas": 1})).await?;

        let requests = Requests::from_now_on(space)?;
        let settled = pause(space, name, json!({"replicas": 1})).await?;
        same(&before, &settled)?;
        let resource = await_paused(space, name).await?;
        ensure!(ready(&resource), "nothing waits yet: {:?}", resource.status);
        ensure!(condition(&resource, "Reconciling").is_none(), "nothing waits yet: {:?}", resource.status);

        // An edit that reaches no pod waits too, and whoever waits for Ready has not got it.
        let annotated = json!({"replicas": 1, "service": {"annotations": {"a": "b"}}});
        world::apply(space, name, &paused(annotated)).await?;
        let waits = ("True", "Paused", "Changes to Service wait until spec.paused is false");
        let said = |it: &Memcached| condition(it, "Reconciling") == Some(waits);
        space.wait::<Memcached>(name, "it says that the Service waits", |it| it.is_some_and(said)).await?;
        let resource = await_paused(space, name).await?;
        let all_serve = ("False", "MemcachedNotReady", "1/1 replicas are ready; not as desired yet: Service");
        ensure!(condition(&resource, "Ready") == Some(all_serve), "{:?}", resource.status);

        // An edit, one by scale, drift, and a child that is deleted: all of it waits.
        let spec =
            json!({"replicas": 1, "memcached": {"threads": 2}, "service": {"annotations": {"a": "b"}}});
        world::apply(space, name, &paused(spec.clone())).await?;
        let scaled = Patch::Merge(json!({"spec": {"replicas": 3}}));
        space.api::<Memcached>().patch_scale(name, &PatchParams::default(), &scaled).await?;
        let drift = Patch::Merge(
            json!({"spec": {"revisionHistoryLimit": 5, "strategy": {"rollingUpdate": {"maxSurge": 5}}}}),
        );
        space.api::<Deployment>().patch(name, &PatchParams::default(), &drift).await?;
        space.api::<Service>().delete(name, &DeleteParams::default()).await?;
        let waits = ("True", "Paused", "Changes to Service, Deployment wait until spec.paused is false");
        let said =
            |it: &Memcached| ["Reconciling", "Paused"].map(|kind| condition(it, kind)) == [Some(waits); 2];
        space.wait::<Memcached>(name, "it says what waits", |it| it.is_some_and(said)).await?;
        let resource = await_paused(space, name).await?;
        let pods_serve = ("False", "MemcachedNotReady", "1/3 replicas are ready");
        ensure!(condition(&resource, "Ready") == Some(pods_serve), "{:?}", resource.status);
        ensure!(requests.of_children()? == BTreeMap::new(), "{:?}", requests.of_children()?);

        let mut spec = spec;
        spec["replicas"] = json!(3);
        go_on(space, name, &spec).await?;
        let once = ["deployments waiting", "services waiting"].map(|child| (child.to_owned(), 1)).into();
        ensure!(requests.of_children()? == once, "{:?}", requests.of_children()?);
        let deployment = space.api::<Deployment>().get(name).await?;
        let replicas = deployment.spec.and_then(|spec| spec.replicas);
        ensure!(replicas == Some(3), "{replicas:?} replicas");
        let scale = space.api::<Memcached>().get_scale(name).await?;
        let status = scale.status.context("a scale has a status")?;
        ensure!(status.replicas == 3, "{status:?}");
        ensure!(status.selector.as_deref().is_some_and(|it| it.contains("instance=waiting")), "{status:?}");
        operator.end().await
    })
    .await
}
