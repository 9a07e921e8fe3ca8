//! A certificate that is renewed: one rollout, and then the new one is served.

use anyhow::{Context, Result};
use e2e::testing::kstatus::Status;
use serde_json::json;

use super::tls::Authority;
use super::with_cache;

#[tokio::test]
async fn a_renewed_certificate_rolls_once_and_is_served() -> Result<()> {
    with_cache("renewal", async |cache| {
        let [old, new] = [Authority::create("old")?, Authority::create("new")?];
        old.fill(cache.space, "certificate").await?;
        let tls =
            json!({"enabled": true, "certificateSecretRef": {"name": "certificate"}, "enableClientCert": true});
        cache.apply(&json!({"security": {"tls": tls}})).await?;
        cache.ready().await?;
        let first = cache.deployment("it is there", |_| true).await?.metadata.generation;
        let first = first.context("it has a generation")?;
        let pod = cache.addresses(1).await?[0];
        old.connect(pod, Some(old.client())).await?.set("a", b"1").await?;

        new.fill(cache.space, "certificate").await?;
        let changed = cache.deployment("it is changed", |it| it.metadata.generation > Some(first)).await?;
        cache.ready().await?;

        let pod = cache.addresses(1).await?[0];
        let mut client = new.connect(pod, Some(new.client())).await?;
        assert_eq!(client.get("a").await?, None);
        assert!(old.connect(pod, Some(old.client())).await.is_err(), "the old certificate is still served");
        let mut stale = new.connect(pod, Some(old.client())).await?;
        assert!(stale.get("a").await.is_err(), "clients of the old authority are still let in");

        let history = cache.history().await?;
        assert_eq!((changed.metadata.generation, history.templates()), (Some(first + 1), 2));
        assert_eq!(cache.replica_sets().await?, 2);
        let cycle = [Status::InProgress, Status::Current];
        assert_eq!(history.verdicts()?, [cycle, cycle].concat());
        Ok(())
    })
    .await
}
