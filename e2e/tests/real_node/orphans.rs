//! A resource goes and leaves its cache behind: made anew it takes the cache back, with every key.

use anyhow::{Context, Result};
use e2e::testing::cache::SOON;
use kube::ResourceExt;
use kube::api::{DeleteParams, PropagationPolicy};
use memcached_operator::api::Memcached;
use serde_json::json;

use super::with_cache;

const KEYS: usize = 1_000;

#[tokio::test]
async fn a_cache_that_its_resource_left_behind_is_taken_back_with_every_key() -> Result<()> {
    with_cache("orphaned", async |cache| {
        cache.apply(&json!({})).await?;
        cache.ready().await?;
        let mut client = cache.connect().await?;
        for key in 0..KEYS {
            client.set(&format!("key-{key}"), key.to_string().as_bytes()).await?;
        }
        let pod = cache.only_pod().await?;
        let before = cache.deployment("it is there", |_| true).await?;

        let resources = cache.space.api::<Memcached>();
        let orphan =
            DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
        resources.delete(cache.name, &orphan).await?;
        cache.space.wait::<Memcached>(cache.name, "it is gone", SOON, |it| it.is_none()).await?;
        let left = cache.deployment("it is left", |it| it.owner_references().is_empty()).await?;
        assert_eq!(left.uid(), before.uid());

        cache.apply(&json!({})).await?;
        let anew = cache.ready().await?;
        let taken =
            cache.deployment("it has its owner again", |it| !it.owner_references().is_empty()).await?;
        let owners: Vec<_> = taken.owner_references().iter().map(|owner| owner.uid.clone()).collect();
        assert_eq!(owners, [anew.uid().context("it has a uid")?]);
        assert_eq!((taken.uid(), taken.metadata.generation), (before.uid(), before.metadata.generation));
        assert_eq!((cache.only_pod().await?, cache.replica_sets().await?), (pod, 1));
        let mut kept = 0;
        for key in 0..KEYS {
            kept += usize::from(client.get(&format!("key-{key}")).await?.is_some());
        }
        assert_eq!(kept, KEYS);
        Ok(())
    })
    .await
}
