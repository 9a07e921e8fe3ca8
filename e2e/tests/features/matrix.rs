//! Every pair of features on and off, in both orders: what comes of it is what a fresh resource gets.
//!
//! The life of a pair (A, B): made with both on, A off and on again, B off and on again. Each stop is compared: with what
//! it was made with, and with fresh resources of A and of B. The life of A alone, on, off and on again, does the rest:
//! from states that are the same in every field the ways on are the same too.
//!
//! What the API server makes of an edit, it makes of each value alone. So a life is played only as far as it takes some value
//! a way that no life before it took ([`Ways`]): a pair of features that meet in no value is two lives alone.

use std::collections::{BTreeMap, BTreeSet};
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
use memcached_operator::kernel::desired::Desired;
use memcached_operator::kernel::desired::meta::{INSTANCE_LABEL, TEMPLATE_HASH, WORKLOAD_LABEL};
use memcached_operator::kernel::object::ChildKind;
use serde_json::Value;

use crate::fixture::Fixture;
use crate::table::{self, Feature};
use crate::world;

/// Lives at a time: enough that none waits for another's autoscaler, and few enough that a request is answered at once.
const AT_ONCE: usize = 16;

/// What fresh resources come to, by the features that are on.
type Fresh = BTreeMap<Option<&'static str>, Value>;

/// The features that are on at a stop of a life.
type Stop<'a> = Vec<&'a Feature>;

fn wanted(features: &[&Feature]) -> Desired {
    Fixture::new("cache", &table::with(features.iter().copied())).children()
}

/// The ways that values of children have gone: of which kind, where in it, from what is wanted at one stop to what is wanted at
/// the next.
#[derive(Default)]
struct Ways(BTreeSet<(ChildKind, String, Change)>);

/// What a value was and becomes; `None` where there is none.
type Change = [Option<String>; 2];

impl Ways {
    /// Adds the ways of a life. Gives its stops up to the last one to which a new way leads; none where none is new.
    fn add<'a>(&mut self, mut stops: Vec<Stop<'a>>) -> Vec<Stop<'a>> {
        let mut played = 0;
        for (place, (from, to)) in stops.iter().zip(stops.iter().skip(1)).enumerate() {
            let [from, to] = [from, to].map(|features| wanted(features));
            for kind in ChildKind::ALL {
                let [from, to] = [&from, &to].map(|children| values(children.body(kind)));
                let paths: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
                for path in paths {
                    let change = [from.get(path).cloned(), to.get(path).cloned()];
                    if change[0] != change[1] && self.0.insert((kind, path.clone(), change)) {
                        played = place + 2;
                    }
                }
            }
        }
        stops.truncate(played);
        stops
    }
}

/// The values of a child by their paths. A list is one value, because its items may be told apart by what another feature sets;
/// but containers are told apart by their names. Without the hash, which is another one for each pair.
fn values(body: Option<&Value>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut left: Vec<(String, &Value)> = body.map(|body| (String::new(), body)).into_iter().collect();
    while let Some((path, value)) = left.pop() {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                let all = fields.iter().filter(|(name, _)| *name != TEMPLATE_HASH);
                left.extend(all.map(|(name, field)| (format!("{path}/{name}"), field)));
            }
            Value::Array(items) if path.ends_with("/containers") => {
                left.extend(items.iter().map(|item| (format!("{path}/{}", item["name"]), item)));
            }
            _ => {
                found.insert(path, value.to_string());
            }
        }
    }
    found
}

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

/// Makes a resource with the features of the first stop, and plays its life. With the features of a pair on, it comes to
/// what it was made with.
async fn live(space: &Space, name: &str, stops: &[Stop<'_>], fresh: &Fresh) -> Result<()> {
    let Some((first, others)) = stops.split_first() else { return Ok(()) };
    let made = &come_to(space, name, first).await?;
    let is_named = |features: &Stop<'_>| table::with(features.iter().copied())["workload"] == STATEFUL_SET;
    let changes_kind = stops.iter().any(is_named);
    for features in others {
        let wanted = match features[..] {
            [] => &fresh[&None],
            [feature] => &fresh[&Some(feature.name)],
            _ => made,
        };
        become_ready(space, name, features).await?;
        // An autoscaler that was taken away may have its last word after the resource was ready.
        await_answer("it is as wanted", async || {
            same(wanted, &world::state(space, name).await?)?;
            if changes_kind { none_of_a_former_workload(space, name).await } else { Ok(()) }
        })
        .await
        .with_context(|| {
            let on: Vec<_> = features.iter().map(|feature| feature.name).collect();
            format!("{on:?} on ({name}), made with {:?}", first.iter().map(|it| it.name).collect::<Vec<_>>())
        })?;
    }
    remove(space, name).await
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
        let alone = features.iter().map(|a| vec![vec![a], vec![], vec![a]]);
        let later = |place: usize| features.iter().skip(place + 1);
        let pairs = features.iter().enumerate().flat_map(|(place, a)| later(place).map(move |b| (a, b)));
        let pairs = pairs.map(|(a, b)| vec![vec![a, b], vec![b], vec![a, b], vec![a], vec![a, b]]);
        let mut ways = Ways::default();
        let lives: Vec<_> = alone.chain(pairs).map(|stops| ways.add(stops)).collect();
        let all = lives.len();
        let played: Vec<_> = lives.iter().filter(|stops| !stops.is_empty()).collect();
        println!(
            "{} features alone and in pairs, on and off in both orders: {all} lives, {} of them with a way that no other goes, {} stops",
            features.len(),
            played.len(),
            played.iter().map(|stops| stops.len()).sum::<usize>(),
        );
        let lives = played.iter().enumerate().map(|(number, stops)| async move {
            live(space, &format!("life-{number:03}"), stops, fresh).await
        });
        at_once(AT_ONCE, lives).await?;
        operator.end().await
    })
    .await
}
