//! Every pair of features on and off, in both orders: what comes of it is what a fresh resource gets.
//!
//! The life of a pair (A, B): made with both on, A off and on again, B off and on again. Each stop is compared: with what
//! it was made with, and with fresh resources of A and of B. The life of A alone, on, off and on again, does the rest:
//! from states that are the same in every field the ways on are the same too.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{at_once, await_ready, in_space, state};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::{Space, await_answer};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use memcached_operator::api::Memcached;
use memcached_operator::api::spec::STATEFUL_SET;
use memcached_operator::kernel::desired::meta::{INSTANCE_LABEL, WORKLOAD_LABEL};
use memcached_operator::kernel::object::ChildKind;
use serde_json::Value;

use crate::table::{self, Feature};
use crate::world;

/// Lives at a time: enough that none waits for another's autoscaler, and few enough that a request is answered at once.
const AT_ONCE: usize = 16;

/// What fresh resources come to, by the features that are on.
type Fresh = BTreeMap<Option<&'static str>, Value>;

async fn become_ready(space: &Space, name: &str, features: &[&Feature]) -> Result<()> {
    world::apply(space, name, &table::with(features.iter().copied())).await?;
    await_ready(space, name).await.map(|_| ())
}

/// Applies a spec, and gives what it comes to.
async fn come_to(space: &Space, name: &str, features: &[&Feature]) -> Result<Value> {
    become_ready(space, name, features).await?;
    world::state(space, name).await
}

async fn remove(space: &Space, name: &str) -> Result<()> {
    space.api::<Memcached>().delete(name, &DeleteParams::background()).await?;
    Ok(())
}

async fn fresh(space: &Space, features: &[Feature]) -> Result<Fresh> {
    let sets = std::iter::once(None).chain(features.iter().map(Some));
    let states = sets.enumerate().map(|(number, feature)| async move {
        let name = format!("fresh-{number:03}");
        let state = come_to(space, &name, feature.as_slice()).await?;
        remove(space, &name).await?;
        Ok((feature.map(|feature| feature.name), state))
    });
    Ok(at_once(AT_ONCE, states).await?.into_iter().collect())
}

fn same(wanted: &Value, found: &Value) -> Result<()> {
    let differences = state::differences(wanted, found);
    ensure!(differences.is_empty(), "{}", differences.join("\n  "));
    Ok(())
}

/// No pod is left of another workload than there is. While one of an earlier StatefulSet goes, Kubernetes makes none of its name,
/// and tries again less and less often.
async fn none_of_a_former_workload(space: &Space, name: &str) -> Result<()> {
    let of_resource = ListParams::default().labels(&format!("{INSTANCE_LABEL}={name}"));
    let named = world::children(space, ChildKind::StatefulSet).get_opt(name).await?.is_some();
    let pods = space.api::<Pod>().list(&of_resource).await?.items;
    let left = pods.iter().filter(|pod| pod.labels().contains_key(WORKLOAD_LABEL) != named).count();
    ensure!(left == 0, "{left} pods are left of the former workload");
    Ok(())
}

/// Plays a life through all its stops, the first of which is repeated as the last.
async fn live(space: &Space, name: &str, stops: &[(&[&Feature], &Value)]) -> Result<()> {
    let first = stops.iter().take(1);
    let is_named = |features: &[&Feature]| table::with(features.iter().copied())["workload"] == STATEFUL_SET;
    let changes_kind = stops.iter().any(|(features, _)| is_named(features));
    for (features, wanted) in stops.iter().chain(first) {
        let on: Vec<_> = features.iter().map(|feature| feature.name).collect();
        become_ready(space, name, features).await?;
        // An autoscaler that was taken away may have its last word after the resource was ready.
        await_answer("it is as wanted", async || {
            same(wanted, &world::state(space, name).await?)?;
            if changes_kind { none_of_a_former_workload(space, name).await } else { Ok(()) }
        })
        .await
        .with_context(|| format!("{on:?} on ({name})"))?;
    }
    remove(space, name).await
}

async fn live_alone(space: &Space, name: &str, feature: &Feature, fresh: &Fresh) -> Result<()> {
    live(space, name, &[(&[feature], &fresh[&Some(feature.name)]), (&[], &fresh[&None])]).await
}

async fn live_as_pair(space: &Space, name: &str, (a, b): (&Feature, &Feature), fresh: &Fresh) -> Result<()> {
    let made = come_to(space, name, &[a, b]).await?;
    let [only_a, only_b] = [a, b].map(|feature| &fresh[&Some(feature.name)]);
    let stops: [(&[&Feature], _); 4] = [(&[a, b], &made), (&[b], only_b), (&[a, b], &made), (&[a], only_a)];
    live(space, name, &stops).await.with_context(|| format!("{} and {}", a.name, b.name))
}

#[tokio::test]
async fn every_pair_of_features_on_and_off_in_both_orders_ends_as_a_fresh_resource() -> Result<()> {
    in_space("matrix", async |space: &Space| {
        world::furnish(space).await?;
        let _kubelet = Kubelet::start(space);
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        let features = table::all();
        let fresh = &fresh(space, &features).await?;
        let idle: Vec<_> = fresh.iter().filter(|(name, it)| name.is_some() && **it == fresh[&None]).collect();
        ensure!(idle.is_empty(), "features without an effect: {idle:?}");
        let alone = features.iter().enumerate().map(|(number, feature)| async move {
            live_alone(space, &format!("alone-{number:03}"), feature, fresh).await
        });
        at_once(AT_ONCE, alone).await?;
        let later = |place: usize| features.iter().skip(place + 1);
        let pairs = features.iter().enumerate().flat_map(|(place, a)| later(place).map(move |b| (a, b)));
        let pairs: Vec<_> = pairs.enumerate().collect();
        let count = pairs.len();
        let lives = pairs.into_iter().map(|(number, pair)| async move {
            live_as_pair(space, &format!("pair-{number:03}"), pair, fresh).await
        });
        at_once(AT_ONCE, lives).await?;
        println!(
            "{} features alone and in {count} pairs, on and off in both orders, all as fresh",
            features.len()
        );
        operator.end().await
    })
    .await
}
