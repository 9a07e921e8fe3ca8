//! The list of servers follows an autoscaler: whoever changes the number of named pods, soon after it the status and the
//! ConfigMap name as many.
//!
//! No metrics are served, so that the real HPA controller only keeps the number between its bounds; within them a hand does what
//! it would do with metrics, by the same subresource.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{at_once, await_ready, in_space, plain};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::stalls::Stalls;
use e2e::testing::{Space, Watchable, await_answer};
use futures::StreamExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Resource;
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use memcached_operator::api::Memcached;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::MACHINE;

/// How long the list may be behind the workload's number.
const WITHIN: Duration = Duration::from_secs(2);
/// Caches at the same time.
const CACHES: usize = 4;

/// What an object says, each time with the moment at which it was seen; it is followed until this is dropped.
struct Followed<T> {
    seen: Arc<Mutex<Vec<(Instant, T)>>>,
    task: JoinHandle<()>,
}

impl<T> Drop for Followed<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<T: Clone + Debug + PartialEq + Send + 'static> Followed<T> {
    fn new<K>(space: &Space, name: &str, says: impl Fn(&K) -> Option<T> + Send + 'static) -> Self
    where
        K: Watchable + Resource<Scope = NamespaceResourceScope>,
    {
        let seen = Arc::new(Mutex::new(Vec::<(Instant, T)>::new()));
        let (api, name, into) = (space.api::<K>(), name.to_owned(), Arc::clone(&seen));
        let task = tokio::spawn(async move {
            let mut states = std::pin::pin!(watcher::watch_object(api, &name).default_backoff());
            while let Some(state) = states.next().await {
                if let Some(said) = state.ok().flatten().as_ref().and_then(&says) {
                    let mut seen = into.lock().unwrap_or_else(PoisonError::into_inner);
                    if seen.last().is_none_or(|(_, last)| *last != said) {
                        seen.push((Instant::now(), said));
                    }
                }
            }
        });
        Self { seen, task }
    }

    /// When the last thing that was said was said, if it is this one.
    fn since(&self, wanted: &T) -> Result<Instant> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, last) = seen.last().context("nothing is said yet")?;
        ensure!(last == wanted, "{last:?} instead of {wanted:?}");
        Ok(*at)
    }
}

/// A cache and all that says how many pods it is to have.
struct Scaled<'a> {
    space: &'a Space,
    name: String,
    number: Followed<i32>,
    status: Followed<String>,
    config: Followed<String>,
    stalls: Stalls,
}

fn spec((min, max): (i32, i32)) -> Value {
    json!({
        "workload": "StatefulSet",
        "resources": {"requests": {"cpu": "50m"}},
        "autoscaling": {"enabled": true, "minReplicas": min, "maxReplicas": max},
    })
}

impl<'a> Scaled<'a> {
    fn follow(space: &'a Space, name: String) -> Self {
        let number = Followed::new(space, &name, |it: &StatefulSet| it.spec.as_ref()?.replicas);
        let status =
            Followed::new(space, &name, |it: &Memcached| Some(it.status.as_ref()?.server_list.join(",")));
        let config = Followed::new(space, &format!("{name}-servers"), |it: &ConfigMap| {
            it.data.as_ref()?.get("MEMCACHED_SERVERS").cloned()
        });
        Self { space, name, number, status, config, stalls: Stalls::watch() }
    }

    /// The list for so many pods.
    fn servers(&self, number: i32) -> String {
        let (name, namespace) = (&self.name, self.space.name());
        let server = |pod| format!("{name}-{pod}.{name}.{namespace}.svc:11211");
        (0..number).map(server).collect::<Vec<_>>().join(",")
    }

    /// Waits until the workload has this number and both lists do; fails where a list was behind for too long. It may be ahead.
    async fn apart(&self, number: i32) -> Result<Apart> {
        let (stood_still, servers) = (self.stalls.total(), self.servers(number));
        let told = format!("{} has {number} servers", self.name);
        let times = await_answer(&told, async || {
            let changed = self.number.since(&number).context("the workload")?;
            let status = self.status.since(&servers).context("the status")?;
            let config = self.config.since(&servers).context("the ConfigMap")?;
            Ok((changed, [status, config]))
        });
        let (changed, lists) = times.await?;
        let behind = lists.map(|list| list.saturating_duration_since(changed));
        let ahead = lists.map(|list| changed.saturating_duration_since(list));
        let within = WITHIN + (self.stalls.total() - stood_still);
        ensure!(behind.iter().all(|behind| *behind < within), "{told} {behind:?} after the workload");
        Ok(Apart { behind, ahead })
    }

    async fn scale(&self, number: i32) -> Result<Apart> {
        let patch = Patch::Merge(json!({"spec": {"replicas": number}}));
        self.space.api::<StatefulSet>().patch_scale(&self.name, &PatchParams::default(), &patch).await?;
        self.apart(number).await
    }

    /// The autoscaler gets other bounds, and moves the number into them; the list may know that before it happens.
    async fn bound(&self, bounds: (i32, i32), number: i32) -> Result<Apart> {
        self.space.apply(&plain(&self.name, &spec(bounds))?).await?;
        self.apart(number).await
    }

    async fn play(&self) -> Result<Played> {
        self.bound((2, 5), 2).await?;
        await_ready(self.space, &self.name).await?;
        let raised = self.bound((3, 5), 3).await?;
        let scaled = vec![self.scale(5).await?, self.scale(4).await?, self.scale(5).await?];
        let lowered = self.bound((1, 2), 2).await?;
        await_ready(self.space, &self.name).await?;
        Ok(Played { scaled, bound: vec![raised, lowered] })
    }
}

/// How long status and ConfigMap were behind the workload's number, or ahead of it.
struct Apart {
    behind: [Duration; 2],
    ahead: [Duration; 2],
}

/// How it was at each change.
struct Played {
    /// Where the number changed within the autoscaler's bounds.
    scaled: Vec<Apart>,
    /// Where it changed with them.
    bound: Vec<Apart>,
}

/// In words: of status and ConfigMap, the half and all of the times.
fn told(times: impl Iterator<Item = [Duration; 2]>) -> String {
    let changes: Vec<_> = times.collect();
    let of = |place: usize| {
        let mut times: Vec<_> = changes.iter().map(|both| both[place]).collect();
        times.sort();
        format!("half within {:?} and all within {:?}", times[times.len() / 2], times[times.len() - 1])
    };
    format!("{} changes, the status {}, the ConfigMap {}", changes.len(), of(0), of(1))
}

#[tokio::test]
async fn the_list_of_servers_follows_an_autoscaler_within_two_seconds() -> Result<()> {
    let _machine = MACHINE.lock().await;
    in_space("servers", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        let caches = (0..CACHES).map(|number| async move {
            let scaled = Scaled::follow(space, format!("cache-{number}"));
            scaled.play().await
        });
        let played = at_once(CACHES, caches).await?;
        let scaled = played.iter().flat_map(|it| &it.scaled);
        println!(
            "behind the number of named pods, scaled within bounds: {}",
            told(scaled.map(|it| it.behind))
        );
        let bound = || played.iter().flat_map(|it| &it.bound);
        println!("behind the number of named pods, with other bounds: {}", told(bound().map(|it| it.behind)));
        println!(
            "ahead of the number of named pods, with other bounds: {}",
            told(bound().map(|it| it.ahead))
        );
        operator.end().await
    })
    .await
}
