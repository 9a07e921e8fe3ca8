//! What memcached itself says about the arguments that it got.

use std::collections::BTreeMap;

use anyhow::Result;
use e2e::testing::kstatus::Status;
use serde_json::{Value, json};

use super::with_cache;

const MIB: i64 = 1024 * 1024;

/// The settings that the spec has fields for, as memcached names them.
fn settings(values: [i64; 5]) -> BTreeMap<&'static str, String> {
    let names = ["maxbytes", "maxconns", "num_threads", "item_size_max", "verbosity"];
    names.into_iter().zip(values.map(|value| value.to_string())).collect()
}

async fn memcached_reports(name: &str, spec: Value, expected: [i64; 5]) -> Result<()> {
    with_cache(name, async |cache| {
        cache.apply(&spec).await?;
        cache.ready().await?;
        let mut client = cache.connect().await?;
        let reported = client.stats("settings").await?;
        let expected = settings(expected);
        let found: BTreeMap<&str, String> =
            expected.keys().map(|name| (*name, reported.get(*name).cloned().unwrap_or_default())).collect();
        assert_eq!(found, expected);
        client.set("greeting", b"hello").await?;
        assert_eq!(client.get("greeting").await?.as_deref(), Some(b"hello".as_slice()));
        assert_eq!(cache.verdicts().await?, [Status::InProgress, Status::Current]);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn memcached_runs_with_the_defaults_where_the_spec_says_nothing() -> Result<()> {
    memcached_reports("defaults", json!({}), [64 * MIB, 1024, 4, MIB, 0]).await
}

#[tokio::test]
async fn memcached_runs_with_the_settings_of_the_spec() -> Result<()> {
    let memcached = json!({
        "maxMemoryMB": 96, "maxConnections": 500, "threads": 2, "maxItemSize": "2560k", "verbosity": 1,
        "extraArgs": ["-o", "no_lru_crawler"],
    });
    let resources = json!({"requests": {"memory": "16Mi"}, "limits": {"memory": "128Mi"}});
    let spec = json!({"image": "memcached:1.6.18", "memcached": memcached, "resources": resources});
    memcached_reports("custom", spec, [96 * MIB, 500, 2, 2560 * 1024, 1]).await
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

        assert_eq!(cache.verdicts().await?, [Status::InProgress, Status::Current]);
        Ok(())
    })
    .await
}
