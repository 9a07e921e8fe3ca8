//! How many pods are ready while they are replaced: never fewer than asked for, or one fewer where each needs a node of
//! its own and every node has one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use e2e::testing::Space;
use e2e::testing::cache::Cache;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{ListParams, WatchEvent, WatchParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::spare_nodes::{SpareNodes, toleration};
use super::with_cache;

const REPLICAS: usize = 3;

/// Counts the pods that serve, at every change of any of them.
struct Count {
    counts: Arc<Mutex<Vec<usize>>>,
    task: JoinHandle<Result<()>>,
}

/// Ready, and not on its way out.
fn serves(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.into_iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}

impl Count {
    /// Begins with the pods that are there.
    async fn start(space: &Space) -> Result<Self> {
        let pods = space.api::<Pod>();
        let list = pods.list(&ListParams::default()).await?;
        let from = list.metadata.resource_version.context("a list has a version")?;
        let mut serving: BTreeMap<String, bool> =
            list.items.iter().map(|pod| (pod.name_any(), serves(pod))).collect();
        let now = |serving: &BTreeMap<String, bool>| serving.values().filter(|serves| **serves).count();
        let counts = Arc::new(Mutex::new(vec![now(&serving)]));
        let kept = Arc::clone(&counts);
        let task = tokio::spawn(async move {
            let mut events = std::pin::pin!(pods.watch(&WatchParams::default().timeout(290), &from).await?);
            while let Some(event) = events.next().await {
                match event? {
                    WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                        serving.insert(pod.name_any(), serves(&pod));
                    }
                    WatchEvent::Deleted(pod) => {
                        serving.remove(&pod.name_any());
                    }
                    WatchEvent::Bookmark(_) => {}
                    WatchEvent::Error(error) => anyhow::bail!("{error}"),
                }
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(now(&serving));
            }
            anyhow::bail!("the watch ended")
        });
        Ok(Self { counts, task })
    }

    /// All counts until now, each once until the next differs.
    async fn finish(self) -> Result<Vec<usize>> {
        if self.task.is_finished() {
            self.task.await??;
        } else {
            self.task.abort();
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        counts.dedup();
        Ok(counts)
    }
}

/// Creates a cache of three, replaces all its pods, and gives the counts on the way.
async fn counts_of_a_rollout(cache: &Cache<'_>, preset: &str, tolerations: &[Value]) -> Result<Vec<usize>> {
    let availability = json!({"antiAffinityPreset": preset});
    let spec = json!({
        "replicas": REPLICAS, "highAvailability": availability, "pod": {"tolerations": tolerations},
    });
    cache.apply(&spec).await?;
    cache.ready().await?;
    let count = Count::start(cache.space).await?;
    let before = cache.deployment("it is there", |_| true).await?.metadata.generation;
    cache.trigger("now").await?;
    cache.deployment("it is changed", |it| it.metadata.generation > before).await?;
    cache.ready().await?;
    let counts = count.finish().await?;
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
        let nodes = SpareNodes::register(cache.space, &["spare-1", "spare-2"]).await?;
        let counts = counts_of_a_rollout(cache, "hard", &[toleration()]).await;
        nodes.remove().await?;
        let counts = counts?;
        assert!(counts.len() > 1 && counts.iter().all(|count| *count + 1 >= REPLICAS), "{counts:?}");
        Ok(())
    })
    .await
}
