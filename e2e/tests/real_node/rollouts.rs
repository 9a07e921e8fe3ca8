//! Rollouts without a new generation of the resource: each cause replaces the pods exactly once, and nothing else does.

use anyhow::{Context, Result};
use e2e::testing::kstatus::Status;
use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use memcached_operator::api::RESTART_TRIGGER;
use memcached_operator::kernel::desired::meta::SECRET_HASH;
use serde_json::{Value, json};

use super::with_cache;
use e2e::testing::cache::{Cache, annotation, condition, says};

fn with_password_of(secret: &str) -> Value {
    json!({"security": {"sasl": {"enabled": true, "credentialsSecretRef": {"name": secret}}}})
}

/// Waits until the resource is ready with another pod template; `since` is the generation that the Deployment had.
async fn rolled_once(cache: &Cache<'_>, since: i64) -> Result<()> {
    let changed = cache.deployment("it is changed", |it| it.metadata.generation > Some(since)).await?;
    cache.ready().await?;
    let history = cache.history().await?;
    assert_eq!((changed.metadata.generation, history.templates()), (Some(since + 1), 2));
    assert_eq!(cache.replica_sets().await?, 2);
    // Ready goes away before the pods roll, and comes back once.
    let cycle = [Status::InProgress, Status::Current];
    assert_eq!(history.verdicts()?, [cycle, cycle].concat());
    Ok(())
}

/// Creates a cache and waits for it; gives its Deployment's generation.
async fn ready(cache: &Cache<'_>, spec: &Value) -> Result<i64> {
    cache.apply(spec).await?;
    cache.ready().await?;
    cache.deployment("it is there", |_| true).await?.metadata.generation.context("it has a generation")
}

#[tokio::test]
async fn new_content_of_a_secret_rolls_once_and_the_new_password_works() -> Result<()> {
    with_cache("rotation", async |cache| {
        cache.password("users", "ann:old").await?;
        let before = ready(cache, &with_password_of("users")).await?;
        cache.connect().await?.authenticate("ann", "old").await?;

        cache.password("users", "ann:new").await?;
        rolled_once(cache, before).await?;

        cache.connect().await?.authenticate("ann", "new").await?;
        assert!(cache.connect().await?.authenticate("ann", "old").await.is_err());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_secret_that_goes_and_comes_back_unchanged_rolls_nothing() -> Result<()> {
    with_cache("restored", async |cache| {
        cache.password("users", "ann:same").await?;
        let before = ready(cache, &with_password_of("users")).await?;
        let pod = cache.only_pod().await?;

        cache.space.api::<Secret>().delete("users", &DeleteParams::default()).await?;
        let missing =
            cache.is("says that the Secret is missing", |it| says(it, "False", "SecretNotFound")).await?;
        let message = "Referenced Secrets not found: users";
        for of in ["Ready", "Degraded"] {
            assert_eq!(condition(&missing, of).map(|it| it.message.as_str()), Some(message), "{of}");
        }
        cache.password("users", "ann:same").await?;
        cache.ready().await?;

        cache.connect().await?.authenticate("ann", "same").await?;
        let deployment = cache.deployment("it is there", |_| true).await?;
        assert_eq!(deployment.metadata.generation, Some(before));
        assert!(annotation(&deployment, SECRET_HASH).is_some());
        assert_eq!(cache.only_pod().await?, pod);
        assert_eq!((cache.history().await?.templates(), cache.replica_sets().await?), (1, 1));
        let cycle = [Status::InProgress, Status::Current];
        assert_eq!(cache.verdicts().await?, [cycle, cycle].concat());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_restart_trigger_rolls_once() -> Result<()> {
    with_cache("trigger", async |cache| {
        let before = ready(cache, &json!({})).await?;
        let pod = cache.only_pod().await?;

        cache.trigger("today").await?;
        rolled_once(cache, before).await?;

        let deployment = cache.deployment("it is there", |_| true).await?;
        assert_eq!(annotation(&deployment, RESTART_TRIGGER).as_deref(), Some("today"));
        assert_ne!(cache.only_pod().await?, pod);
        Ok(())
    })
    .await
}
