//! The status of the demo's resource as it changes: takes the generation that is waited for, prints a line for each
//! change, ends when all of that generation is ready. Called by the demo.

use std::pin::pin;
use std::time::Instant;

use anyhow::{Result, bail};
use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use memcached_operator::api::MemcachedStatus;

use super::narration::say;
use super::sample::{NAME, PODS_READY_WITHIN};
use super::stage::Stage;

/// Prints every change until the resource is ready at this generation.
///
/// # Errors
/// When it is not in time, with what to look at; or when it is deleted meanwhile.
pub(super) async fn until_ready(stage: &Stage, generation: Option<i64>) -> Result<()> {
    let started = Instant::now();
    say("    time  ready  pods  updated  status");
    let mut last = String::new();
    let followed = async {
        let mut states = pin!(watcher::watch_object(stage.memcacheds(), NAME).default_backoff());
        while let Some(state) = states.next().await {
            // The watcher tries again after an error.
            let Ok(state) = state else { continue };
            let Some(resource) = state else { bail!("somebody deleted the resource") };
            let status = resource.status.unwrap_or_default();
            // What is said about an older generation is no news.
            if Some(status.observed_generation) < generation {
                continue;
            }
            let (line, ready) = line(&status);
            if line != last {
                say(&format!("{:6.1} s  {line}", started.elapsed().as_secs_f32()));
                last = line;
            }
            if ready {
                return Ok(());
            }
        }
        bail!("the watch ended")
    };
    match tokio::time::timeout(PODS_READY_WITHIN, followed).await {
        Ok(outcome) => outcome,
        Err(_) => bail!(
            "the cache is not ready after {} s; `{}` says what its pods are about",
            PODS_READY_WITHIN.as_secs(),
            stage.kubectl("describe pods,memcacheds")
        ),
    }
}

/// The counters and Ready, and whether that is true.
fn line(status: &MemcachedStatus) -> (String, bool) {
    let MemcachedStatus { replicas, ready_replicas, updated_replicas, .. } = status;
    let condition = |of: &str| status.conditions.iter().find(|condition| condition.type_ == of);
    let ready = condition("Ready");
    let rollout = condition("Progressing").filter(|progressing| progressing.status == "True");
    let words: Vec<&str> =
        ready.into_iter().chain(rollout).map(|condition| condition.message.as_str()).collect();
    let reason = ready.map_or("", |ready| &ready.reason);
    let words = format!("{reason}: {}", words.join("; "));
    let line = format!("{ready_replicas:>5}  {replicas:>4}  {updated_replicas:>7}  {words}");
    (line, ready.is_some_and(|ready| ready.status == "True"))
}
