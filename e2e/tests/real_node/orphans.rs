//! A resource goes and leaves its cache behind: made anew it takes the cache back, with every key.

use anyhow::{Context, Result};
use e2e::testing::cache::Cache;
use kube::ResourceExt;
use kube::api::{DeleteParams, PropagationPolicy};
use memcached_operator::api::Memcached;
use serde_json::{Value, json};

use super::{with_each_workload, with_workload};

const KEYS: usize = 1_000;

/// The uids of those to whom a workload belongs.
fn owners(workload: &Value) -> Vec<&Value> {
    let owners = workload["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().map(|owner| &owner["uid"]).collect()
}

/// Deletes the resource and waits until it is gone; its children stay.
async fn orphan(cache: &Cache<'_>) -> Result<()> {
    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    cache.space.api::<Memcached>().delete(cache.name, &orphan).await?;
    cache.space.wait::<Memcached>(cache.name, "it is gone", |it| it.is_none()).await.map(|_| ())
}

#[tokio::test]
async fn a_cache_that_its_resource_left_behind_is_taken_back_with_every_key() -> Result<()> {
    with_each_workload("orphaned", async |cache, kind| {
        let spec = with_workload(kind, json!({}));
        cache.apply(&spec).await?;
        cache.ready().await?;
        let mut client = cache.connect().await?;
        for key in 0..KEYS {
            client.set(&format!("key-{key}"), key.to_string().as_bytes()).await?;
        }
        let pod = cache.only_pod().await?;
        let before = cache.workload(kind, "it is there", |_| true).await?;

        orphan(cache).await?;
        let left = cache.workload(kind, "it is left", |it| owners(it).is_empty()).await?;
        assert_eq!(left["metadata"]["uid"], before["metadata"]["uid"]);

        cache.apply(&spec).await?;
        let recreated = cache.ready().await?;
        let taken = cache.workload(kind, "it has its owner again", |it| !owners(it).is_empty()).await?;
        assert_eq!(owners(&taken), [&json!(recreated.uid().context("it has a uid")?)]);
        for field in ["uid", "generation"] {
            assert_eq!(taken["metadata"][field], before["metadata"][field], "{field}");
        }
        assert_eq!((cache.only_pod().await?, cache.template_records().await?), (pod, 1));
        let mut kept = 0;
        for key in 0..KEYS {
            kept += usize::from(client.get(&format!("key-{key}")).await?.is_some());
        }
        assert_eq!(kept, KEYS);
        Ok(())
    })
    .await
}
