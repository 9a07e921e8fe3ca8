//! More pods, fewer pods, none: by the spec and by the scale subresource.

use anyhow::{Context, Result};
use e2e::testing::kstatus::Status;
use kube::api::{Patch, PatchParams};
use memcached_operator::api::Memcached;
use memcached_operator::api::spec::Workload;
use serde_json::{Value, json};

use super::named_pods::names;
use super::{with_each_workload, with_workload};
use e2e::testing::cache::Cache;

/// The status of a cache whose `replicas` pods all serve, its times and its servers aside.
fn steady(cache: &Cache<'_>, kind: Workload, replicas: usize, generation: i64) -> Value {
    let condition = |of: &str, status: &str, reason: &str, message: String| json!({"type": of, "status": status, "reason": reason, "message": message, "observedGeneration": generation});
    let label = match kind {
        Workload::Deployment => "",
        Workload::StatefulSet => ",memcached.c5c3.io/workload=StatefulSet",
    };
    json!({
        "observedGeneration": generation,
        "reconciledGeneration": generation,
        "templateGeneration": generation,
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
            "app.kubernetes.io/instance={},app.kubernetes.io/managed-by=memcached-operator,app.kubernetes.io/name=memcached{label}",
            cache.name
        ),
        "templateRevision": 1,
    })
}

/// Under which names clients find the pods.
fn servers(cache: &Cache<'_>, kind: Workload, replicas: usize) -> Vec<String> {
    match kind {
        Workload::Deployment => vec![format!("{}.{}:11211", cache.name, cache.space.name())],
        Workload::StatefulSet => names(cache, replicas),
    }
}

/// Waits until the cache rests, and holds its whole status against what it has to be.
async fn rests_at(cache: &Cache<'_>, kind: Workload, replicas: usize, generation: i64) -> Result<()> {
    let resource = cache.ready().await?;
    assert_eq!(resource.metadata.generation, Some(generation));
    let mut status = resource.status.context("it has a status")?;
    // Taken out: of no pods the list of names is not written at all.
    assert_eq!(std::mem::take(&mut status.server_list), servers(cache, kind, replicas));
    let mut status = serde_json::to_value(status)?;
    for condition in status["conditions"].as_array_mut().context("it has conditions")? {
        condition.as_object_mut().context("a condition is an object")?.remove("lastTransitionTime");
    }
    assert_eq!(status, steady(cache, kind, replicas, generation));
    cache.addresses(replicas).await.map(|_| ())
}

async fn scale(cache: &Cache<'_>, replicas: usize) -> Result<()> {
    let patch = json!({"spec": {"replicas": replicas}});
    let api = cache.space.api::<Memcached>();
    api.patch_scale(cache.name, &PatchParams::default(), &Patch::Merge(patch)).await.map(|_| ())?;
    Ok(())
}

#[tokio::test]
async fn a_cache_goes_from_one_pod_to_three_to_none_and_back_without_a_rollout() -> Result<()> {
    with_each_workload("scaling", async |cache, kind| {
        cache.apply(&with_workload(kind, json!({"replicas": 1}))).await?;
        rests_at(cache, kind, 1, 1).await?;
        cache.connect().await?.set("kept", b"since one").await?;
        let first = cache.addresses(1).await?;

        scale(cache, 3).await?;
        rests_at(cache, kind, 3, 2).await?;
        let mut client = e2e::testing::memcached::Memcached::connect(first[0]).await?;
        assert_eq!(client.get("kept").await?.as_deref(), Some(b"since one".as_slice()));

        cache.apply(&with_workload(kind, json!({"replicas": 0}))).await?;
        rests_at(cache, kind, 0, 3).await?;
        scale(cache, 1).await?;
        rests_at(cache, kind, 1, 4).await?;

        let history = cache.history().await?;
        assert_eq!((history.templates(), cache.template_records().await?), (1, 1));
        let cycle = [Status::InProgress, Status::Current];
        assert_eq!(history.kstatus_results()?, [cycle, cycle, cycle, cycle].concat());
        Ok(())
    })
    .await
}
