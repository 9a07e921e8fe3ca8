//! The watches: one supervised watch a kind, and a namespace where not all are watched. IO.
//!
//! Takes a client; gives [`Event`]s through a bounded channel, so that a busy kernel slows the API server's streams down, lists
//! and watches, instead of filling memory. Nothing is cached here. The main loop calls [`spawn`] once.
//!
//! Each watch has its own backoff and its own rule of restart: a kind that is forbidden, absent or broken delays no other. A
//! restart drops the stream and lists again. The kernel is told where a list begins and ends, and so finds what vanished
//! meanwhile. [`health`] says what a failure means; silence and age restart a watch, too.
//!
//! The resources are listed first, and objects of other kinds do not reach the kernel before. A child that comes after its
//! resource is compared on arrival and dropped; a child that comes before would have to be kept whole.

mod events;
mod health;
mod items;
mod objects;
pub(super) mod page;
mod sink;
mod version;

use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::core::{DeserializeGuard, DynamicObject, PartialObjectMeta, Resource};
use kube::runtime::watcher;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

pub use self::health::SILENCE;
pub use self::sink::WatchSink;

use self::events::{child, gone, pod, resource, secret};
use self::health::{ResourceListState, WatchAction, WatchHealth};
use self::objects::objects;
use self::page::Item;
use super::kinds;
use super::watch_liveness::monitored;
use crate::kernel::desired::meta::{MANAGED_BY, MANAGED_BY_LABEL};
use crate::kernel::event::{Departure, Event};
use crate::kernel::object::{Scope, Watched};

/// A watch is restarted after this time at the latest, and after four fifths of it at the earliest. A watch may lose events
/// without any sign; this bounds how long that matters.
pub const BACKSTOP: Duration = Duration::from_secs(30 * 60);

/// Starts a watch for every kind and scope. A task ends only when the receiver of its events is gone.
#[must_use]
pub fn spawn(client: &Client, sink: &WatchSink, scopes: &[Scope]) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for scope in scopes {
        let resources = watch::Sender::new(ResourceListState::Awaited);
        for kind in Watched::ALL {
            let health = WatchHealth::new(kind, scope.clone(), sink.clone(), resources.clone());
            let client = monitored(client, &health.liveness);
            spawn_one(&mut tasks, client, health);
        }
    }
    tasks
}

fn spawn_one(tasks: &mut JoinSet<()>, client: Client, health: WatchHealth) {
    let kind = health.kind;
    match kind {
        Watched::Memcached => tasks.spawn(supervise(dynamic(client, &health), resource, health)),
        Watched::Child(child_kind) => {
            tasks.spawn(supervise(dynamic(client, &health), move |it| child(child_kind, it), health))
        }
        // The metadata only: the content of a Secret that no resource names never reaches this process.
        Watched::Secret => {
            let secrets: Api<PartialObjectMeta<Secret>> = api(client, &health.scope);
            tasks.spawn(supervise(secrets, secret, health))
        }
        Watched::Pod => {
            let pods: Api<DeserializeGuard<Pod>> = api(client, &health.scope);
            tasks.spawn(supervise(pods, pod, health))
        }
    };
}

/// Dynamic objects, so that an object of any shape can be read and none stalls the watch of its kind.
fn dynamic(client: Client, health: &WatchHealth) -> Api<DynamicObject> {
    let kind = kinds::api_resource(health.kind);
    match &health.scope {
        Scope::All => Api::all_with(client, &kind),
        Scope::Namespace(namespace) => Api::namespaced_with(client, namespace, &kind),
    }
}

fn api<K>(client: Client, scope: &Scope) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    match scope {
        Scope::All => Api::all(client),
        Scope::Namespace(namespace) => Api::namespaced(client, namespace),
    }
}

/// The label by which a kind is watched. Objects of others reach this process only where a request conflicts with them.
#[must_use]
pub fn label_selector(kind: Watched) -> Option<String> {
    match kind {
        Watched::Child(_) | Watched::Pod => Some(format!("{MANAGED_BY_LABEL}={MANAGED_BY}")),
        Watched::Memcached | Watched::Secret => None,
    }
}

/// Runs one watch after another until the receiver of the events is gone.
async fn supervise<K>(api: Api<K>, prune: impl Fn(&K) -> Option<Event>, mut health: WatchHealth)
where
    K: Resource + Item + Clone + Debug + Send + 'static,
{
    health.wait_for_resources().await;
    loop {
        if health.kind == Watched::Memcached {
            version::ask(api.clone().into_client(), health.sink.events.clone());
        }
        let Some(why) = follow(&api, &prune, &mut health).await else { return };
        tracing::debug!(kind = health.kind.name(), why, "relisting the kind");
        health.sink.metrics.watch_restarted(health.kind);
    }
}

/// Follows one watch until it has to be restarted, and says why; `None` when the receiver of the events is gone.
async fn follow<K>(
    api: &Api<K>,
    prune: &impl Fn(&K) -> Option<Event>,
    health: &mut WatchHealth,
) -> Option<&'static str>
where
    K: Resource + Item + Clone + Debug + Send + 'static,
{
    let started = Instant::now();
    let relist_at = started + jittered(BACKSTOP);
    health.silent_since = started;
    let mut pending = Pending::default();
    let mut withheld = None;
    let mut to_come = health.resources_to_come();
    let mut stream = std::pin::pin!(objects(api, label_selector(health.kind)));
    loop {
        let silent_at = health.silent_since.max(health.liveness.last_heard()) + SILENCE;
        tokio::select! {
            biased;
            () = known(&mut to_come) => return Some("the resources are known by now"),
            item = stream.next() => match item {
                Some(Ok(_)) if to_come.is_some() => {}
                Some(Ok(event)) => {
                    for event in pending.events(event, prune, health) {
                        let complete = matches!(event, Event::Listed(..));
                        if complete && health.watch_refused {
                            withheld = Some(health.liveness.watches_begun());
                            continue;
                        }
                        health.sink.events.send(event).await.ok()?;
                        if complete {
                            health.kernel_has_list();
                        }
                    }
                    // While the kernel was busy nobody listened: that is no silence of the API server.
                    health.silent_since = Instant::now();
                }
                Some(Err(error)) => {
                    if after_failure(&error, pending.left, health).await? == WatchAction::Relist {
                        return Some("the watch failed");
                    }
                }
                None => return Some("the watch ended"),
            },
            () = change(&mut withheld) => {
                withheld = None;
                health.watch_refused = false;
                health.listed();
                health.sink.events.send(Event::Listed(health.kind, health.scope.clone())).await.ok()?;
            }
            () = sleep_until(relist_at) => return Some("the watch is old"),
            why = health.relist_requested() => return Some(why),
            () = sleep_until(silent_at) => {
                if health.silent_since.max(health.liveness.last_heard()) + SILENCE <= Instant::now() {
                    health.fell_silent();
                    return Some("the watch fell silent");
                }
            }
        }
    }
}

/// Tells the kernel what it has to know of a failure, waits, and says how to go on; `None` when the receiver of the events is
/// gone.
async fn after_failure(
    error: &watcher::Error,
    left: Departure,
    health: &mut WatchHealth,
) -> Option<WatchAction> {
    let mut action = health.failed(error);
    let news = health.events_of_failure(error, left);
    if news.is_some() {
        // Only a complete list tells the kernel otherwise.
        action = WatchAction::Relist;
    }
    for event in news.into_iter().flatten() {
        health.sink.events.send(event).await.ok()?;
    }
    health.wait(error).await;
    health.silent_since = Instant::now();
    Some(action)
}

/// Waits until the resources are known; for ever when they are known already.
async fn known(to_come: &mut Option<watch::Receiver<ResourceListState>>) {
    let waited = match to_come {
        Some(resources) => resources.wait_for(|it| *it == ResourceListState::Known).await.map(drop),
        None => std::future::pending().await,
    };
    // The sender lives as long as the watch.
    drop(waited);
}

/// Waits for the next change; for ever where there is no channel.
async fn change(of: &mut Option<watch::Receiver<u64>>) {
    let changed = match of {
        Some(receiver) => receiver.changed().await,
        None => std::future::pending().await,
    };
    // The sender lives as long as the watch.
    drop(changed);
}

/// A list that is requested, or about to be, and has brought nothing yet. The kernel is told with the first object, so that it
/// does not hear of a list that is refused again and again.
#[derive(Debug, Default)]
struct Pending {
    list: bool,
    /// When its request left. Replies that are on their way to the kernel count as later, which is the safe side.
    left: Departure,
}

impl Pending {
    fn events<K: Resource + Item>(
        &mut self,
        event: watcher::Event<K>,
        prune: &impl Fn(&K) -> Option<Event>,
        health: &mut WatchHealth,
    ) -> Vec<Event> {
        let kind = health.kind;
        let (start, event) = match event {
            // The request leaves when the stream is polled next. The first page's departure tells how old all pages are.
            watcher::Event::Init => {
                *self = Self { list: true, left: health.departure() };
                (false, None)
            }
            watcher::Event::InitApply(object) => {
                let mut event = prune(&object).or_else(|| health.unreadable(&object));
                if let Some(event) = &mut event {
                    object.give_trees(event);
                }
                (true, event)
            }
            watcher::Event::InitDone => {
                health.listed();
                (true, Some(Event::Listed(kind, health.scope.clone())))
            }
            watcher::Event::Apply(object) => (false, prune(&object).or_else(|| health.unreadable(&object))),
            watcher::Event::Delete(object) => (false, gone(kind, &object)),
        };
        let start = start && std::mem::take(&mut self.list);
        let start = start.then(|| [health.asked(self.left), Event::Listing(kind, health.scope.clone())]);
        start.into_iter().flatten().chain(event).collect()
    }
}

/// Between four fifths of `most` and all of it, so that kinds and replicas do not list at the same time.
fn jittered(most: Duration) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    // A fresh RandomState is the standard library's only source of randomness; no more is needed here.
    let share = RandomState::new().hash_one(0) % 1_000;
    most.mul_f64(0.8 + 0.2 * f64::from(u32::try_from(share).unwrap_or_default()) / 1_000.0)
}
