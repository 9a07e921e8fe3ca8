//! Keys, through the demo's Service: finds the pods behind it and talks to one, by way of the API server (as
//! `kubectl port-forward` does), because pods of a cluster elsewhere cannot be reached otherwise. Called by the demo.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;

use super::narration::say;
use super::sample::{NAME, PODS_READY_WITHIN};
use super::stage::Stage;
use crate::testing::await_answer_within;
use crate::testing::memcached::Memcached;

const PORT: u16 = 11211;

/// A pod that the Service leads to.
pub(super) struct Endpoint {
    /// The pod's name.
    pub(super) name: String,
    /// Its address in the cluster, with the port.
    pub(super) address: String,
}

/// The pods that clients find through the Service, once there are `count` that are ready and none of them is going. Slices follow
/// the pods: when a rollout has just ended, they may still have a pod that is going.
///
/// # Errors
/// When there are not in time.
pub(super) async fn pods(stage: &Stage, count: usize) -> Result<Vec<Endpoint>> {
    let slices = stage.api::<EndpointSlice>();
    let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={NAME}"));
    await_answer_within("the Service leads to the pods", PODS_READY_WITHIN, async || {
        let all = slices.list(&of_service).await?.items.into_iter().flat_map(|slice| slice.endpoints);
        let ready = all.filter(|it| it.conditions.as_ref().is_some_and(|them| them.ready == Some(true)));
        let found: Vec<Endpoint> = ready
            .filter_map(|endpoint| {
                let name = endpoint.target_ref?.name?;
                Some(Endpoint { name, address: format!("{}:{PORT}", endpoint.addresses.first()?) })
            })
            .collect();
        ensure!(found.len() == count, "it leads to {}", found.len());
        for Endpoint { name, .. } in &found {
            let pod = stage.api::<Pod>().get(name).await?;
            ensure!(pod.metadata.deletion_timestamp.is_none(), "pod {name} is going");
        }
        Ok(found)
    })
    .await
}

/// A connection to the memcached in a pod.
///
/// # Errors
/// When the API server does not lead there.
pub(super) async fn connect(stage: &Stage, pod: &Endpoint) -> Result<Memcached> {
    let forward = stage.api::<Pod>().portforward(&pod.name, &[PORT]).await;
    let mut forward = forward.with_context(|| format!("cannot reach port {PORT} of pod {}", pod.name))?;
    Ok(Memcached::from_stream(forward.take_stream(PORT).context("the port is not forwarded")?))
}

/// What a pod has under the demo's key.
///
/// # Errors
/// When it does not answer.
pub(super) async fn get(stage: &Stage, pod: &Endpoint) -> Result<String> {
    let value = connect(stage, pod).await?.get("greeting").await?;
    Ok(value.map_or_else(|| "nothing".to_owned(), |value| String::from_utf8_lossy(&value).into_owned()))
}

/// After the rollout: what memcached itself says about its memory, and that the new pods are empty.
///
/// # Errors
/// When a pod does not answer.
pub(super) async fn say_what_is_left(stage: &Stage) -> Result<()> {
    let pods = pods(stage, 3).await?;
    let first = pods.first().context("there are three")?;
    let settings = connect(stage, first).await?.stats("settings").await?;
    let bytes: u64 = settings.get("maxbytes").context("memcached does not say its maxbytes")?.parse()?;
    say(&format!("stats settings       maxbytes {bytes} ({} MiB)", bytes / 1024 / 1024));
    let mut values = Vec::new();
    for pod in &pods {
        values.push(get(stage, pod).await?);
    }
    say(&format!("get greeting         {}   (from the three pods)", values.join(", ")));
    say(
        "A cache that restarts is empty: so the operator replaces pods only when you meant it, and says why.",
    );
    Ok(())
}
