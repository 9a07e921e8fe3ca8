//! A certificate that is renewed and passwords that change while clients work on a cache that takes Secrets in place: no key is
//! lost, no operation fails, nobody who may come in is refused.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use e2e::testing::cache::Cache;
use e2e::testing::changing_secrets::{COMMON, is_shown, lets_in, write_passwords};
use e2e::testing::tls::Authority;
use e2e::testing::traffic::{Access, Keys, OPERATIONS_A_SECOND, Traffic};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;
use tokio::time::Instant;

use super::with_cache;

const PODS: usize = 3;
const KEYS: usize = 50_000;
/// Renewals, and changes of passwords.
const CHANGES: usize = 10;

/// Each pod's uid, and how often its containers were started again.
async fn pods(cache: &Cache<'_>) -> Result<BTreeMap<String, i32>> {
    let of_cache = ListParams::default().labels(&format!("app.kubernetes.io/instance={}", cache.name));
    let pods = cache.space.api::<Pod>().list(&of_cache).await?.items;
    let restarts = |pod: &Pod| {
        let containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        containers.map(|container| container.restart_count).sum()
    };
    pods.iter().map(|pod| Ok((pod.uid().context("a pod has a uid")?, restarts(pod)))).collect()
}

/// Changes the Secrets [`CHANGES`] times each: a renewal, a change of passwords, both at once, and again. Gives how long it was
/// until all pods had the new content, the shortest first.
async fn rotate(cache: &Cache<'_>, access: &Access, addresses: &[SocketAddr]) -> Result<Vec<Duration>> {
    let mut took = Vec::new();
    let (mut renewals, mut passwords) = (0, 0);
    while renewals < CHANGES || passwords < CHANGES {
        let (renews, changes) = match (renewals + passwords) % 4 {
            0 => (true, false),
            1 => (false, true),
            _ => (true, true),
        };
        let certificate = match renews {
            true => Some(access.authority.fill(cache.space, "certificate").await?),
            false => None,
        };
        if changes {
            write_passwords(cache, passwords + 1).await?;
        }
        let written = Instant::now();
        if let Some(certificate) = &certificate {
            is_shown(access, addresses, certificate).await?;
        }
        if changes {
            lets_in(access, addresses, passwords + 1).await?;
        }
        took.push(written.elapsed());
        renewals += usize::from(renews);
        passwords += usize::from(changes);
    }
    took.sort();
    Ok(took)
}

#[tokio::test]
async fn certificates_and_passwords_change_under_traffic_and_no_key_no_operation_and_no_client_is_lost()
-> Result<()> {
    with_cache("rotated", async |cache| {
        let (user, password) = COMMON;
        let access = Arc::new(Access { authority: Authority::create("authority")?, user, password });
        access.authority.fill(cache.space, "certificate").await?;
        write_passwords(cache, 0).await?;
        let security = json!({
            "rotation": "InPlace",
            "tls": {"enabled": true, "certificateSecretRef": {"name": "certificate"}, "enableClientCert": true},
            "sasl": {"enabled": true, "credentialsSecretRef": {"name": "users"}},
        });
        cache.apply(&json!({"replicas": PODS, "security": security})).await?;
        cache.ready().await?;
        let before = pods(cache).await?;
        let addresses = cache.addresses(PODS).await?;
        let keys: Vec<_> =
            addresses.iter().map(|pod| Keys { pod: *pod, count: KEYS.div_ceil(PODS) }).collect();
        try_join_all(keys.iter().map(|keys| keys.store(&access))).await?;

        let (traffic, start) = (Traffic::start(&access, &keys).await?, Instant::now());
        let took = rotate(cache, &access, &addresses).await?;
        let seconds = start.elapsed();
        let done = traffic.finish().await?;
        println!(
            "{CHANGES} renewals and {CHANGES} changes of passwords in {seconds:?}: {} operations, of which 99 % took at most \
             {:?}, and {} new connections, none failed; all pods had the new content after {:?} (median), {:?} (longest)",
            done.operations,
            done.p99(),
            done.connections,
            took[took.len() / 2],
            took[took.len() - 1]
        );
        let found: usize = try_join_all(keys.iter().map(|keys| keys.found(&access))).await?.iter().sum();
        assert_eq!(found, KEYS.div_ceil(PODS) * PODS, "keys are lost");
        let rate = done.operations as f64 / seconds.as_secs_f64();
        assert!(rate > OPERATIONS_A_SECOND as f64 / 2.0, "only {rate} operations a second");
        assert!(done.connections > 2 * CHANGES, "only {} new connections", done.connections);
        assert_eq!(pods(cache).await?, before, "a pod was replaced, or a container started again");
        assert_eq!(cache.template_records().await?, 1);
        cache.ready().await?;
        Ok(())
    })
    .await
}
