//! How a pod ends: with graceful shutdown the pod goes on serving clients that are connected and clients that still connect.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::testing::cache::Cache;
use e2e::testing::memcached::Memcached;
use e2e::testing::stalls::Stalls;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::json;
use tokio::time::interval;

use super::{in_restricted, pods};

const DELAY: Duration = Duration::from_secs(6);

/// How long after the deletion of the pod an open connection and new connections were served: until the answer that failed.
/// A question that was asked before, on a busy machine long before, says nothing of the moment of the end.
#[derive(Debug)]
struct Served {
    connection: Duration,
    newcomers: Duration,
}

/// Deletes the only pod under an open connection and uses both until they fail.
async fn deletion(cache: &Cache<'_>) -> Result<Served> {
    let address = cache.addresses(1).await?[0];
    let pod = pods::only_name(cache).await?;
    let mut client = Memcached::connect(address).await?;
    client.set("kept", b"until the end").await?;
    let deleted = Instant::now();
    cache.space.api::<Pod>().delete(&pod, &DeleteParams::default()).await?;
    let (connection, newcomers) =
        tokio::try_join!(served_until(client, deleted), newcomers_until(address, deleted))?;
    Ok(Served { connection, newcomers })
}

async fn served_until(mut client: Memcached, since: Instant) -> Result<Duration> {
    let mut pace = interval(Duration::from_millis(50));
    loop {
        let value = client.get("kept").await;
        let served = since.elapsed();
        match value {
            Ok(value) => ensure!(value.is_some(), "what was cached is gone {served:?} after the deletion"),
            Err(_) => return Ok(served),
        }
        pace.tick().await;
    }
}

async fn newcomers_until(address: SocketAddr, since: Instant) -> Result<Duration> {
    let mut pace = interval(Duration::from_millis(50));
    loop {
        let answer = match Memcached::connect(address).await {
            Ok(mut client) => client.get("kept").await,
            Err(error) => Err(error),
        };
        if answer.is_err() {
            return Ok(since.elapsed());
        }
        pace.tick().await;
    }
}

#[tokio::test]
async fn a_connection_that_is_open_when_the_pod_is_deleted_is_served_through_the_delay() -> Result<()> {
    in_restricted("shutdown", async |space| {
        let [graceful, abrupt] =
            [Cache::follow(space, "graceful").await?, Cache::follow(space, "abrupt").await?];
        let section = json!({
            "enabled": true, "preStopDelaySeconds": DELAY.as_secs(), "terminationGracePeriodSeconds": 20,
        });
        graceful.apply(&json!({"highAvailability": {"gracefulShutdown": section}})).await?;
        abrupt.apply(&json!({})).await?;
        graceful.ready().await?;
        abrupt.ready().await?;
        let old = pods::only(&graceful).await?.metadata.uid.context("a pod has a uid")?;

        let (stalls, began) = (Stalls::watch(), Timestamp::now());
        let (with, without) = tokio::try_join!(deletion(&graceful), deletion(&abrupt))?;
        println!("served after the deletion, with a delay of {DELAY:?}: {with:?}; without one: {without:?}");
        assert!(with.connection >= DELAY && with.newcomers >= DELAY, "{with:?}");
        // Memcached itself answers for a second at most after the signal: what is longer is the delay's doing.
        let soon = DELAY + stalls.since(began);
        assert!(without.connection < soon && without.newcomers < soon, "{without:?}");

        // The replacement did not wait for the old pod's end.
        graceful.ready().await?;
        assert_ne!(graceful.only_pod().await?, old);
        Ok(())
    })
    .await
}
