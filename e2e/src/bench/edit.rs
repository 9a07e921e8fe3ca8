//! How soon an edit of a resource reaches its Deployment while many other resources idle: takes a [`Fleet`] that an operator
//! watches, gives the times from the patch of a resource to the new generation of its Deployment, and the times of a bare
//! apply of a Deployment. The same watcher sees both. Called by [`super::run`].

use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use memcached_operator::api::Memcached;
use memcached_operator::kernel::object::{ChildKind, FIELD_MANAGER, Watched};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::fleet::{self, Fleet, NAMESPACE};
use crate::testing::await_object_within;

/// Edits and applies that are not counted: the first ones open connections.
const WARM_UP: usize = 5;
/// Far more than the operator or a client takes to report one edit.
const EDIT_REPORTED_WITHIN: Duration = Duration::from_secs(30);
/// The Deployment of the bare applies, which belongs to no resource.
const BARE: &str = "bare";

/// What the rounds gave, in their order.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Edits {
    /// The times from the patch of a resource to its Deployment's new generation.
    pub(super) through_operator: Vec<Duration>,
    /// The times from a bare apply of a Deployment to its new generation.
    pub(super) bare: Vec<Duration>,
}

/// A Deployment as the watcher saw it.
struct Sighting {
    name: String,
    generation: i64,
    at: Instant,
}

/// Edits one resource after the other and applies the bare Deployment in between.
///
/// # Errors
/// When the cluster fails, or an edit does not reach its Deployment.
pub(super) async fn measure(fleet: &Fleet, rounds: usize) -> Result<Edits> {
    let (_watch, mut sightings) = watched(fleet);
    let deployments = fleet.api(Watched::Child(ChildKind::Deployment));
    let body = bare_body(&deployments).await?;
    let mut found = Edits::default();
    for round in 0..WARM_UP + rounds {
        let bare = apply(&deployments, body.clone(), round, &mut sightings).await?;
        let edit = edit(fleet, round, &mut sightings).await?;
        if round >= WARM_UP {
            found.bare.push(bare);
            found.through_operator.push(edit);
        }
    }
    Ok(found)
}

/// Edits one resource after the other, until whoever called is no longer interested. The times are put where they are seen then.
///
/// # Errors
/// As [`measure`].
pub(super) async fn again_and_again(fleet: &Fleet, times: &mut Vec<Duration>) -> Result<()> {
    let (_watch, mut sightings) = watched(fleet);
    for round in 0.. {
        times.push(edit(fleet, round, &mut sightings).await?);
    }
    Ok(())
}

/// A watch of the Deployments, for as long as the set is kept, and what it sees.
fn watched(fleet: &Fleet) -> (JoinSet<()>, mpsc::UnboundedReceiver<Sighting>) {
    let (sender, sightings) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    tasks.spawn(watch(fleet.clone(), sender));
    (tasks, sightings)
}

async fn watch(fleet: Fleet, sightings: mpsc::UnboundedSender<Sighting>) {
    let deployments: Api<PartialObjectMeta<Deployment>> = Api::namespaced(fleet.client(), NAMESPACE);
    let stream = watcher(deployments, watcher::Config::default()).default_backoff();
    let mut stream = pin!(stream.applied_objects());
    while let Some(event) = stream.next().await {
        let at = Instant::now();
        let Ok(PartialObjectMeta { metadata, .. }) = event else { continue };
        if let (Some(name), Some(generation)) = (metadata.name, metadata.generation)
            && sightings.send(Sighting { name, generation, at }).is_err()
        {
            return;
        }
    }
}

/// What a bare apply sends: what the operator applied for one of the resources, under another name.
async fn bare_body(deployments: &Api<DynamicObject>) -> Result<Value> {
    let live = deployments.get(&fleet::name(0)).await?;
    let metadata =
        json!({"name": BARE, "labels": live.metadata.labels, "annotations": live.metadata.annotations});
    Ok(
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": live.data["spec"]}),
    )
}

async fn apply(
    deployments: &Api<DynamicObject>,
    mut body: Value,
    round: usize,
    sightings: &mut mpsc::UnboundedReceiver<Sighting>,
) -> Result<Duration> {
    body["spec"]["template"]["spec"]["containers"][0]["args"][1] = json!(megabytes(round).to_string());
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let started = Instant::now();
    let applied = deployments.patch(BARE, &params, &Patch::Apply(body)).await?;
    let generation = applied.metadata.generation.context("no generation")?;
    Ok(sighting(sightings, BARE, generation).await?.duration_since(started))
}

async fn edit(
    fleet: &Fleet,
    round: usize,
    sightings: &mut mpsc::UnboundedReceiver<Sighting>,
) -> Result<Duration> {
    let name = fleet::name(round % fleet.count());
    let resources: Api<Memcached> = Api::namespaced(fleet.client(), NAMESPACE);
    let deployment = fleet.api(Watched::Child(ChildKind::Deployment)).get(&name).await?;
    let before = deployment.metadata.generation.context("no generation")?;
    let patch = json!({"spec": {"memcached": {"maxMemoryMB": megabytes(round)}}});
    let started = Instant::now();
    let edited = resources.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    let seen = sighting(sightings, &name, before + 1).await?;
    // The operator is at rest again before the next round.
    let reported = |it: Option<&Memcached>| {
        let status = it.and_then(|it| it.status.as_ref());
        status.map(|status| status.observed_generation) == edited.metadata.generation
    };
    await_object_within(&resources, &name, "reports the edit", EDIT_REPORTED_WITHIN, reported).await?;
    Ok(seen.duration_since(started))
}

/// Another amount than before and than the fleet's own, of which the memory limit has room.
fn megabytes(round: usize) -> usize {
    65 + round % 100
}

/// The moment at which a Deployment was first seen in this generation or a later one.
async fn sighting(
    sightings: &mut mpsc::UnboundedReceiver<Sighting>,
    name: &str,
    generation: i64,
) -> Result<Instant> {
    let found = async {
        loop {
            let sighting = sightings.recv().await.context("the watcher ended")?;
            if sighting.name == name && sighting.generation >= generation {
                return Ok(sighting.at);
            }
        }
    };
    tokio::time::timeout(EDIT_REPORTED_WITHIN, found)
        .await
        .with_context(|| format!("Deployment {name} did not get generation {generation}"))?
}
