//! A certificate that is renewed: one rollout, and then the new one is served. One whose key is another's is never served.

use anyhow::{Context, Result};
use e2e::testing::cache::says;
use e2e::testing::kstatus::Status;
use e2e::testing::tls::Authority;
use memcached_operator::api::Memcached;
use serde_json::json;

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
        assert_eq!(cache.template_records().await?, 2);
        let cycle = [Status::InProgress, Status::Current];
        assert_eq!(history.kstatus_results()?, [cycle, cycle].concat());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_certificate_with_the_key_of_another_leaves_the_pods_until_it_is_mended() -> Result<()> {
    with_cache("mismatch", async |cache| {
        let authority = Authority::create("authority")?;
        authority.fill(cache.space, "certificate").await?;
        let spec = |threads: i32| {
            let tls = json!({
                "enabled": true, "certificateSecretRef": {"name": "certificate"}, "enableClientCert": true,
            });
            json!({"security": {"tls": tls}, "memcached": {"threads": threads}})
        };
        cache.apply(&spec(1)).await?;
        cache.ready().await?;
        let pod = cache.addresses(1).await?[0];
        let mut client = authority.connect(pod, Some(authority.client())).await?;
        client.set("a", b"1").await?;

        authority.fill_mismatched(cache.space, "certificate").await?;
        let invalid = |it: &Memcached| says(it, "False", "SecretInvalid");
        cache.is("it says what is wrong", invalid).await?;
        cache.apply(&spec(2)).await?;
        cache.is("it has seen the edit, and says the same", invalid).await?;
        assert_eq!(client.get("a").await?.as_deref(), Some(&b"1"[..]), "the pod serves as before");
        assert_eq!(cache.template_records().await?, 1, "a pod was started with a key that does not match");

        authority.fill(cache.space, "certificate").await?;
        let mended = cache.ready().await?.status.unwrap_or_default();
        assert_eq!(cache.template_records().await?, 2, "the edit and the certificate come together");
        let secret = mended.secrets.iter().find(|it| it.name == "certificate");
        let secret = secret.context("the status names the Secret")?;
        assert!(secret.certificate_not_after.is_some() && secret.invalid.is_none(), "{secret:?}");
        let pod = cache.addresses(1).await?[0];
        authority.connect(pod, Some(authority.client())).await?.set("b", b"2").await?;
        Ok(())
    })
    .await
}
