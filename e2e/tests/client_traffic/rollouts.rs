//! How many pods are ready while they are replaced: never fewer than asked for, or one fewer where each needs a node of
//! its own and every node has one; and how soon one follows the other.

use anyhow::{Result, ensure};
use e2e::testing::cache::{Cache, says};
use e2e::testing::kubelet::{Kubelet, Which};
use e2e::testing::nodes::Nodes;
use e2e::testing::serving::Serving;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::with_cache;

const REPLICAS: usize = 3;
/// Keeps the pods of other tests off the nodes that are none.
const SPARE: &str = "e2e-test/spare";

/// Creates a cache of three, replaces all its pods, and gives the counts on the way.
async fn counts_of_a_rollout(cache: &Cache<'_>, preset: &str, tolerations: &[Value]) -> Result<Vec<usize>> {
    let availability = json!({"antiAffinityPreset": preset});
    let spec = json!({
        "replicas": REPLICAS, "highAvailability": availability, "pod": {"tolerations": tolerations},
    });
    cache.apply(&spec).await?;
    cache.ready().await?;
    let serving = Serving::follow(cache.space, cache.name).await?;
    let before = cache.deployment("it is there", |_| true).await?.metadata.generation;
    cache.trigger("now").await?;
    cache.deployment("it is changed", |it| it.metadata.generation > before).await?;
    cache.ready().await?;
    let counts = serving.finish().await?;
    println!("ready pods during a rollout of {REPLICAS} ({preset}): {counts:?}");
    Ok(counts)
}

#[tokio::test]
async fn pods_on_any_node_are_replaced_without_one_ready_pod_fewer() -> Result<()> {
    with_cache("soft", async |cache| {
        let counts = counts_of_a_rollout(cache, "soft", &[]).await?;
        assert!(counts.len() > 1 && counts.iter().all(|count| *count >= REPLICAS), "{counts:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn pods_that_fill_all_nodes_are_replaced_with_one_ready_pod_fewer_at_most() -> Result<()> {
    with_cache("hard", async |cache| {
        // With the real one as many nodes as pods: none has room for one more.
        let names = ["spare-1", "spare-2"].map(str::to_owned).into();
        let nodes = Nodes::register(cache.space.client(), names, SPARE, "yes").await?;
        let _kubelet = Kubelet::start_for(cache.space, Which::On(nodes.names().to_vec()));
        let tolerates = json!({"key": SPARE, "operator": "Exists"});
        let counts = counts_of_a_rollout(cache, "hard", &[tolerates]).await;
        nodes.remove().await?;
        let counts = counts?;
        assert!(counts.len() > 1 && counts.iter().all(|count| *count + 1 >= REPLICAS), "{counts:?}");
        Ok(())
    })
    .await
}

/// Since when a pod is ready.
fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|it| it.type_ == "Ready" && it.status == "True")?;
    Some(ready.last_transition_time.as_ref()?.0)
}

#[tokio::test]
async fn the_next_pod_is_replaced_when_the_new_one_has_been_ready_for_as_long_as_asked() -> Result<()> {
    futures::try_join!(
        becomes_new_gradually("gradual", "Deployment"),
        becomes_new_gradually("named-gradual", "StatefulSet")
    )?;
    Ok(())
}

/// Replaces the two pods of a cache of this kind.
async fn becomes_new_gradually(name: &str, workload: &str) -> Result<()> {
    with_cache(name, async |cache| {
        let spec = |threads: i32| {
            let rollout = json!({"minReadySeconds": 12});
            json!({"workload": workload, "replicas": 2, "rollout": rollout, "memcached": {"threads": threads}})
        };
        cache.apply(&spec(1)).await?;
        cache.ready().await?;
        cache.apply(&spec(2)).await?;
        cache.is("the rollout is under way", |it| says(it, "False", "MemcachedNotReady")).await?;
        cache.ready().await?;
        let pods = cache.space.api::<Pod>().list(&ListParams::default()).await?.items;
        let stays = |pod: &&Pod| pod.metadata.deletion_timestamp.is_none();
        let mut since: Vec<_> = pods.iter().filter(stays).filter_map(ready_since).collect();
        since.sort();
        ensure!(since.len() == 2, "{since:?}");
        let apart = since[1].duration_since(since[0]);
        // The API server keeps whole seconds.
        assert!(apart.as_secs() >= 11, "{workload}: the second pod was ready only {apart} after the first");
        Ok(())
    })
    .await
}
