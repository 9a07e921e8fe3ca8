//! More pods, fewer pods, none: by the spec and by the scale subresource.

use anyhow::{Context, Result};
use e2e::testing::kstatus::Status;
use kube::api::{Patch, PatchParams};
use memcached_operator::api::Memcached;
use serde_json::{Value, json};

use super::with_cache;
use e2e::testing::cache::Cache;

/// The status of a cache whose `replicas` pods all serve, its times aside.
fn steady(cache: &Cache<'_>, replicas: i32, generation: i64) -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: String| json!({"type": kind, "status": status, "reason": reason, "message": message, "observedGeneration": generation});
    json!({
        "observedGeneration": generation,
        "reconciledGeneration": generation,
        "conditions": [
            condition("Available", "True", "Available", format!("{replicas}/{replicas} replicas are ready")),
            condition("Progressing", "False", "ProgressingComplete", format!("All {replicas} replicas are updated")),
            condition("Degraded", "False", "NotDegraded", format!("All {replicas} desired replicas are ready")),
            condition("Ready", "True", "MemcachedReady", format!("All {replicas} replicas are ready")),
        ],
        "replicas": replicas,
        "readyReplicas": replicas,
        "updatedReplicas": replicas,
        "selector": format!(
            "app.kubernetes.io/instance={},app.kubernetes.io/managed-by=memcached-operator,app.kubernetes.io/name=memcached",
            cache.name
        ),
        "templateRevision": 1,
        "serverList": [format!("{}.{}:11211", cache.name, cache.space.name())],
    })
}

/// Waits until the cache rests, and holds its whole status against what it has to be.
async fn rests_at(cache: &Cache<'_>, replicas: i32, generation: i64) -> Result<()> {
    let resource = cache.ready().await?;
    assert_eq!(resource.metadata.generation, Some(generation));
    let mut status = serde_json::to_value(resource.status.context("it has a status")?)?;
    for condition in status["conditions"].as_array_mut().context("it has conditions")? {
        condition.as_object_mut().context("a condition is an object")?.remove("lastTransitionTime");
    }
    assert_eq!(status, steady(cache, replicas, generation));
    cache.addresses(replicas.try_into()?).await.map(|_| ())
}

async fn scale(cache: &Cache<'_>, replicas: i32) -> Result<()> {
    let patch = json!({"spec": {"replicas": replicas}});
    let api = cache.space.api::<Memcached>();
    api.patch_scale(cache.name, &PatchParams::default(), &Patch::Merge(patch)).await.map(|_| ())?;
    Ok(())
}

#[tokio::test]
async fn a_cache_goes_from_one_pod_to_three_to_none_and_back_without_a_rollout() -> Result<()> {
    with_cache("scaling", async |cache| {
        cache.apply(&json!({"replicas": 1})).await?;
        rests_at(cache, 1, 1).await?;
        cache.connect().await?.set("kept", b"since one").await?;
        let first = cache.addresses(1).await?;

        scale(cache, 3).await?;
        rests_at(cache, 3, 2).await?;
        let mut client = e2e::testing::memcached::Memcached::connect(first[0]).await?;
        assert_eq!(client.get("kept").await?.as_deref(), Some(b"since one".as_slice()));

        cache.apply(&json!({"replicas": 0})).await?;
        rests_at(cache, 0, 3).await?;
        scale(cache, 1).await?;
        rests_at(cache, 1, 4).await?;

        let history = cache.history().await?;
        assert_eq!((history.templates(), cache.replica_sets().await?), (1, 1));
        let cycle = [Status::InProgress, Status::Current];
        assert_eq!(history.verdicts()?, [cycle, cycle, cycle, cycle].concat());
        Ok(())
    })
    .await
}
