//! What memcached itself says about the arguments that it got, and what its container may take.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use e2e::testing::cache::Cache;
use e2e::testing::kstatus::Status;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::ListParams;
use memcached_operator::cli::yaml;
use serde_json::{Value, json};

use super::with_cache;

const MIB: i64 = 1024 * 1024;

/// The settings that the spec has fields for, as memcached names them, and one that takes `extraArgs`.
fn settings(values: [i64; 5], lru_crawler: &str) -> BTreeMap<&'static str, String> {
    let names = ["maxbytes", "maxconns", "num_threads", "item_size_max", "verbosity"];
    let mut settings: BTreeMap<_, _> = names.into_iter().zip(values.map(|value| value.to_string())).collect();
    settings.insert("lru_crawler", lru_crawler.to_owned());
    settings
}

/// The only pod.
async fn pod(cache: &Cache<'_>) -> Result<Value> {
    let pods = cache.space.api::<Pod>().list(&ListParams::default()).await?.items;
    let [pod] = pods.as_slice() else { bail!("there are {} pods", pods.len()) };
    Ok(json!(pod))
}

/// The resources of the only container of the only pod.
async fn resources(cache: &Cache<'_>) -> Result<Value> {
    Ok(pod(cache).await?["spec"]["containers"][0]["resources"].take())
}

async fn memcached_reports(name: &str, spec: Value, expected: BTreeMap<&'static str, String>) -> Result<()> {
    with_cache(name, async |cache| {
        cache.apply(&spec).await?;
        cache.ready().await?;
        let mut client = cache.connect().await?;
        let reported = client.stats("settings").await?;
        let found: BTreeMap<&str, String> =
            expected.keys().map(|name| (*name, reported.get(*name).cloned().unwrap_or_default())).collect();
        assert_eq!(found, expected);
        assert_eq!(resources(cache).await?, spec.get("resources").cloned().unwrap_or_else(|| json!({})));
        client.set("greeting", b"hello").await?;
        assert_eq!(client.get("greeting").await?.as_deref(), Some(b"hello".as_slice()));
        assert_eq!(cache.kstatus_results().await?, [Status::InProgress, Status::Current]);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn memcached_runs_with_the_defaults_where_the_spec_says_nothing() -> Result<()> {
    memcached_reports("defaults", json!({}), settings([64 * MIB, 1024, 4, MIB, 0], "yes")).await
}

#[tokio::test]
async fn memcached_runs_with_the_settings_of_the_spec() -> Result<()> {
    let memcached = json!({
        "maxMemoryMB": 96, "maxConnections": 500, "threads": 2, "maxItemSize": "2560k", "verbosity": 1,
        "extraArgs": ["-o", "no_lru_crawler"],
    });
    let resources = json!({"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "128Mi"}});
    let spec = json!({"image": "memcached:1.6.18", "memcached": memcached, "resources": resources});
    memcached_reports("custom", spec, settings([96 * MIB, 500, 2, 2560 * 1024, 1], "no")).await
}

async fn is_of_class(name: &str, spec: Value, class: &str) -> Result<()> {
    with_cache(name, async |cache| {
        cache.apply(&spec).await?;
        cache.ready().await?;
        assert_eq!(pod(cache).await?["status"]["qosClass"], class);
        assert_eq!(cache.kstatus_results().await?, [Status::InProgress, Status::Current]);
        Ok(())
    })
    .await
}

/// As the page on sizing says.
#[tokio::test]
async fn a_cache_without_resources_is_best_effort() -> Result<()> {
    is_of_class("best-effort", json!({}), "BestEffort").await
}

/// As the page on sizing says.
#[tokio::test]
async fn a_cache_with_the_resources_of_the_demo_is_burstable() -> Result<()> {
    let sample = yaml::objects(include_str!("../../../manifests/samples/memcached.yaml"))?;
    let resources = &sample.first().context("the demo's cache")?["spec"]["resources"];
    assert!(resources["limits"]["memory"].is_string(), "{resources}");
    is_of_class("burstable", json!({"resources": resources}), "Burstable").await
}

#[tokio::test]
async fn the_right_password_stores_and_a_wrong_or_missing_one_does_not() -> Result<()> {
    with_cache("sasl", async |cache| {
        cache.password("users", "ann:right").await?;
        let sasl = json!({"enabled": true, "credentialsSecretRef": {"name": "users"}});
        cache.apply(&json!({"memcached": {"verbosity": 2}, "security": {"sasl": sasl}})).await?;
        cache.ready().await?;

        let mut nobody = cache.connect().await?;
        assert!(nobody.set("greeting", b"from nobody").await.is_err());
        let mut wrong = cache.connect().await?;
        assert!(wrong.authenticate("ann", "wrong").await.is_err());
        assert!(wrong.set("greeting", b"from a stranger").await.is_err());
        let mut right = cache.connect().await?;
        right.authenticate("ann", "right").await?;
        assert_eq!(right.get("greeting").await?, None);
        right.set("greeting", b"from Ann").await?;
        assert_eq!(right.get("greeting").await?.as_deref(), Some(b"from Ann".as_slice()));
        assert_eq!(right.stats("settings").await?.get("verbosity").map(String::as_str), Some("2"));

        assert_eq!(cache.warnings().await?, Vec::<String>::new());
        assert_eq!(cache.kstatus_results().await?, [Status::InProgress, Status::Current]);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_password_file_whose_last_line_is_not_ended_is_warned_of() -> Result<()> {
    with_cache("not-ended", async |cache| {
        let secret = json!({"metadata": {"name": "users"}, "stringData": {"password-file": "ann:right"}});
        cache.space.apply(&serde_json::from_value::<Secret>(secret)?).await?;
        let sasl = json!({"enabled": true, "credentialsSecretRef": {"name": "users"}});
        cache.apply(&json!({"security": {"sasl": sasl}})).await?;
        cache.ready().await?;
        assert_eq!(cache.warnings().await?, ["PasswordFileNotEnded"]);
        Ok(())
    })
    .await
}
