//! Where objects come from: one supervised watch per kind. IO.
//!
//! Takes a client; gives [`Event`]s through a bounded channel, so that a busy kernel slows the API server's stream
//! down instead of filling memory. Nothing is cached here. The main loop starts [`spawn`] once.
//!
//! Each kind has its own watch, backoff and restart rule: one that is forbidden, absent or broken delays no other.
//! A restart drops the stream and lists again; what vanished meanwhile is found by the kernel, which is told where
//! a list begins and ends. [`verdict`] says when; silence and age restart too.
//!
//! At the start the resources are listed first: a child that comes after its resource is compared on arrival and
//! dropped, where one that comes before has to be kept whole.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::core::{DeserializeGuard, DynamicObject, PartialObjectMeta, Resource};
use kube::runtime::watcher::{self, DefaultBackoff, watcher};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::admin::{Gate, Gates};
use super::client::{explain, said};
use super::kinds;
use super::metrics::Metrics;
use super::pulse::{Pulse, monitored};
use crate::kernel::desired::meta::{MANAGED_BY, MANAGED_BY_LABEL};
use crate::kernel::event::{Event, Unavailable};
use crate::kernel::failure::{Category, Failure};
use crate::kernel::object::{ChildKind, Key, Watched};
use crate::kernel::seen;

/// After this time the API server ends a watch, in seconds. The most that a missed end can cost.
const WATCH_TIMEOUT: u32 = 180;
/// A watch that has been silent for this long is dead. The API server sends a bookmark every minute, and one just
/// before it ends a watch.
pub const SILENCE: Duration = Duration::from_secs(WATCH_TIMEOUT as u64 + 10);
/// A watch is begun anew at the latest after this time, and at the earliest after four fifths of it: the net under
/// everything that a watch can lose without anybody noticing.
pub const BACKSTOP: Duration = Duration::from_secs(30 * 60);
/// Failures in a row after which a watch is begun anew, although none of them asked for it.
const PATIENCE: u32 = 5;
/// Objects of one page. A parsed Deployment takes 40 kB, so this bounds what the lists of all kinds take at once.
const PAGE: u32 = 25;
/// A kind that is not served is asked for so often while a resource asks for one.
const SEEK: Duration = Duration::from_secs(30);
/// Failures in a row after which a kind that a resource can do without keeps nobody waiting at the start.
const LENIENCE: u32 = 3;
/// The same failure is logged again when it comes back after this time.
const FORGET: Duration = Duration::from_secs(120);

/// What every source needs.
#[derive(Clone, Debug)]
pub struct Outlet {
    /// Takes the events.
    pub events: mpsc::Sender<Event>,
    /// Told why a list does not complete.
    pub gates: Gates,
    /// Counts failures, holds the pulses.
    pub metrics: std::sync::Arc<Metrics>,
    /// The kinds that some resource asks for although the API server did not serve them.
    pub sought: watch::Receiver<BTreeSet<ChildKind>>,
}

/// Starts a watch for every kind. A task ends only when nobody takes its events any more.
#[must_use]
pub fn spawn(client: &Client, outlet: &Outlet) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let resources_tried = watch::Sender::new(false);
    for kind in Watched::ALL {
        let pulse = outlet.metrics.pulse(kind);
        let client = monitored(client, &pulse);
        let health = Health::new(kind, (pulse, resources_tried.clone()), outlet.clone());
        match kind {
            Watched::Memcached => tasks.spawn(supervise(objects(client, kind), resource, health)),
            Watched::Child(child_kind) => {
                tasks.spawn(supervise(objects(client, kind), move |it| child(child_kind, it), health))
            }
            // The metadata only: no payload of a Secret that nobody named ever reaches this process.
            Watched::Secret => {
                tasks.spawn(supervise(Api::<PartialObjectMeta<Secret>>::all(client), secret, health))
            }
            Watched::Pod => tasks.spawn(supervise(Api::<DeserializeGuard<Pod>>::all(client), pod, health)),
        };
    }
    tasks
}

/// Dynamic, so that no object can fail to deserialise and stall its kind.
fn objects(client: Client, kind: Watched) -> Api<DynamicObject> {
    Api::all_with(client, &kinds::api_resource(kind))
}

fn resource(object: &DynamicObject) -> Option<Event> {
    seen::resource(object).map(|seen| Event::Resource(Box::new(seen)))
}

fn child(kind: ChildKind, object: &DynamicObject) -> Option<Event> {
    seen::child(kind, object).map(|seen| Event::Child(Box::new(seen)))
}

fn secret(object: &PartialObjectMeta<Secret>) -> Option<Event> {
    seen::secret(&object.metadata).map(Event::Secret)
}

fn pod(object: &DeserializeGuard<Pod>) -> Option<Event> {
    object.0.as_ref().ok().and_then(seen::pod).map(Event::Pod)
}

fn config(kind: Watched) -> watcher::Config {
    let config = watcher::Config::default().timeout(WATCH_TIMEOUT).page_size(PAGE);
    match kind {
        Watched::Pod => config.labels(&format!("{MANAGED_BY_LABEL}={MANAGED_BY}")),
        _ => config,
    }
}

/// Runs one watch after another until nobody takes the events any more.
async fn supervise<K>(api: Api<K>, prune: impl Fn(&K) -> Option<Event>, mut health: Health)
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    health.wait_for_turn().await;
    while let Some(why) = follow(&api, &prune, &mut health).await {
        tracing::debug!(kind = health.kind.name(), why, "listing anew");
        health.outlet.metrics.watch_restarted(health.kind);
    }
}

/// Follows one watch until it has to begin anew, and says why; `None` when nobody takes the events any more.
async fn follow<K>(
    api: &Api<K>,
    prune: &impl Fn(&K) -> Option<Event>,
    health: &mut Health,
) -> Option<&'static str>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let started = Instant::now();
    let relist_at = started + jittered(BACKSTOP);
    health.heard_of = started;
    let mut pending = Pending::default();
    let mut withheld = None;
    let mut stream = std::pin::pin!(watcher(api.clone(), config(health.kind)));
    loop {
        let silent_at = health.heard_of.max(health.pulse.last()) + SILENCE;
        tokio::select! {
            biased;
            item = stream.next() => match item {
                Some(Ok(event)) => {
                    for event in pending.events(event, prune, health) {
                        let complete = matches!(event, Event::Listed(_));
                        if complete && health.watch_refused {
                            withheld = Some(health.pulse.begun());
                            continue;
                        }
                        health.outlet.events.send(event).await.ok()?;
                        if complete {
                            health.tried();
                        }
                    }
                }
                Some(Err(error)) => {
                    let mut verdict = health.failed(&error);
                    if let Some(event) = health.gives_up(&error) {
                        health.outlet.events.send(event).await.ok()?;
                        // Only a complete list takes that back.
                        verdict = Verdict::Relist;
                    }
                    health.wait(&error).await;
                    health.heard_of = Instant::now();
                    if verdict == Verdict::Relist {
                        return Some("the watch failed");
                    }
                }
                None => return Some("the watch ended"),
            },
            () = change(&mut withheld) => {
                withheld = None;
                health.watch_refused = false;
                health.listed();
                health.outlet.events.send(Event::Listed(health.kind)).await.ok()?;
            }
            () = sleep_until(relist_at) => return Some("the watch is old"),
            () = sleep_until(silent_at) => {
                if health.heard_of.max(health.pulse.last()) + SILENCE <= Instant::now() {
                    health.fell_silent();
                    return Some("the watch fell silent");
                }
            }
        }
    }
}

/// Waits for the next change; for ever without anything to wait for.
async fn change(of: &mut Option<watch::Receiver<u64>>) {
    let changed = match of {
        Some(receiver) => receiver.changed().await,
        None => std::future::pending().await,
    };
    // The sender lives as long as the watch.
    drop(changed);
}

/// What to do after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Go on with the stream: it asks again from where it was.
    Resume,
    /// Drop the stream and list.
    Relist,
}

/// What to do after `error`, the `failures`th in a row.
///
/// Left alone, the stream would ask for ever for a version that is gone when 410 comes as an HTTP status, would
/// skip an event it could not read, and would go on reading a stream in which the server said that it failed.
fn verdict(error: &watcher::Error, failures: u32) -> Verdict {
    let hopeless = match error {
        // The stream begins again with a list by itself.
        watcher::Error::InitialListFailed(_) | watcher::Error::NoResourceVersion => false,
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => matches!(status.code, 404 | 410),
        watcher::Error::WatchError(_) => true,
        watcher::Error::WatchFailed(error) => !matches!(error, kube::Error::ReadEvents(_)),
        watcher::Error::WatchStartFailed(_) => false,
    };
    if hopeless || failures >= PATIENCE { Verdict::Relist } else { Verdict::Resume }
}

/// A list that has been announced by the stream but has not brought anything: the kernel hears of it with the first
/// page, so that a list that fails again and again does not reach it at all.
#[derive(Debug, Default)]
struct Pending {
    list: bool,
}

impl Pending {
    fn events<K: Resource>(
        &mut self,
        event: watcher::Event<K>,
        prune: &impl Fn(&K) -> Option<Event>,
        health: &mut Health,
    ) -> Vec<Event> {
        let kind = health.kind;
        let (start, event) = match event {
            watcher::Event::Init => {
                self.list = true;
                (false, None)
            }
            watcher::Event::InitApply(object) => {
                (true, prune(&object).or_else(|| health.unreadable(&object)))
            }
            watcher::Event::InitDone => {
                health.listed();
                (true, Some(Event::Listed(kind)))
            }
            watcher::Event::Apply(object) => (false, prune(&object).or_else(|| health.unreadable(&object))),
            watcher::Event::Delete(object) => (false, gone(kind, &object)),
        };
        let start = (start && std::mem::take(&mut self.list)).then_some(Event::Listing(kind));
        start.into_iter().chain(event).collect()
    }
}

fn gone<K: Resource>(kind: Watched, object: &K) -> Option<Event> {
    let meta = object.meta();
    let key = Key { namespace: meta.namespace.clone()?, name: meta.name.clone()? };
    Some(Event::Gone { kind, key })
}

/// How a kind's watch does, across its restarts.
struct Health {
    kind: Watched,
    pulse: Pulse,
    outlet: Outlet,
    backoff: DefaultBackoff,
    /// When silence began to count, if nothing was heard since.
    heard_of: Instant,
    failures: u32,
    last_failure: Option<(Complaint, Instant)>,
    /// Whether the kernel has a complete list.
    is_listed: bool,
    /// Whether lists may be had but no watch: a complete list is then no news before a watch has begun, or the kernel
    /// would believe that all is well until the next refusal, over and over.
    watch_refused: bool,
    /// Whether a list of resources has been complete, or has failed, for the first time.
    resources_tried: watch::Sender<bool>,
}

/// What tells two failures apart in the log: the words may hold versions and addresses that differ each time.
type Complaint = (std::mem::Discriminant<watcher::Error>, Option<u16>);

impl Health {
    fn new(kind: Watched, (pulse, resources_tried): (Pulse, watch::Sender<bool>), outlet: Outlet) -> Self {
        Self {
            kind,
            pulse,
            outlet,
            backoff: DefaultBackoff::default(),
            heard_of: Instant::now(),
            failures: 0,
            last_failure: None,
            is_listed: false,
            watch_refused: false,
            resources_tried,
        }
    }

    /// Every other kind begins after the resources, or after their first failure: it must not wait for a CRD.
    async fn wait_for_turn(&self) {
        if self.kind != Watched::Memcached {
            // The sender is here, so that this ends with `true` only.
            let _ = self.resources_tried.subscribe().wait_for(|tried| *tried).await;
        }
    }

    fn tried(&self) {
        if self.kind == Watched::Memcached {
            self.resources_tried.send_replace(true);
        }
    }

    /// Counts, logs what is new, and tells readiness why.
    fn failed(&mut self, error: &watcher::Error) -> Verdict {
        let (complaint, now) = ((std::mem::discriminant(error), code(error)), Instant::now());
        self.tried();
        if self.is_absent(error) {
            // A state of the cluster, and nobody's fault.
            if !self.last_failure.is_some_and(|(last, _)| last == complaint) {
                tracing::info!(kind = self.kind.name(), "{}", self.explain(error));
            }
            self.last_failure = Some((complaint, now));
            return Verdict::Relist;
        }
        self.outlet.metrics.watch_failed(self.kind);
        let said = self.last_failure.take();
        if said.is_some_and(|(_, at)| self.pulse.last() > at) {
            self.failures = 0;
        }
        self.failures += 1;
        let why = self.explain(error);
        if !said.is_some_and(|(last, at)| last == complaint && now.duration_since(at) < FORGET) {
            tracing::warn!(kind = self.kind.name(), "{why}");
        }
        self.last_failure = Some((complaint, now));
        if self.kind == Watched::Memcached && complaint.1 == Some(404) {
            self.outlet.gates.close(Gate::CrdServed, &why);
        }
        self.outlet.gates.explain(Gate::Listed(self.kind), &why);
        verdict(error, self.failures)
    }

    /// Whether the API server does not serve a kind that a resource can do without.
    fn is_absent(&self, error: &watcher::Error) -> bool {
        !self.kind.is_required() && code(error) == Some(404)
    }

    /// What the kernel has to know of a kind that a resource can do without. A failure that passes is none of its
    /// business once there was a list: what it knows is as good as it was.
    fn gives_up(&mut self, error: &watcher::Error) -> Option<Event> {
        let kind = match self.kind {
            Watched::Child(kind) if !kind.is_required() => kind,
            _ => return None,
        };
        let why = match code(error) {
            Some(404) => Unavailable::NotServed,
            Some(403) => refused(Category::Forbidden, self.explain(error)),
            _ if !self.is_listed && self.failures >= LENIENCE => {
                refused(Category::Transient, self.explain(error))
            }
            _ => return None,
        };
        self.is_listed = false;
        self.watch_refused = !matches!(error, watcher::Error::InitialListFailed(_));
        Some(Event::Unavailable { kind, why })
    }

    /// Waits before the next attempt: for a kind that is not served until somebody asks for one, and then a while.
    async fn wait(&mut self, error: &watcher::Error) {
        let Watched::Child(kind) = self.kind else { return self.back_off().await };
        if !self.is_absent(error) {
            return self.back_off().await;
        }
        let mut sought = self.outlet.sought.clone();
        if sought.borrow().contains(&kind) {
            sleep(SEEK).await;
        }
        // The sender lives as long as the main loop.
        let _ = sought.wait_for(|kinds| kinds.contains(&kind)).await;
    }

    async fn back_off(&mut self) {
        sleep(self.backoff.next().unwrap_or(FORGET)).await;
    }

    fn explain(&self, error: &watcher::Error) -> String {
        let plural = kinds::plural(self.kind);
        match (self.kind, code(error)) {
            (Watched::Memcached, Some(404)) => format!(
                "the API server does not serve {plural}: apply the CustomResourceDefinition that \
                 `memcached-operator crd` prints"
            ),
            (_, Some(404)) if !self.kind.is_required() => {
                format!("the API server does not serve {plural}: no resource gets one until it does")
            }
            (_, Some(403)) => format!("may not list and watch {plural}: grant both verbs ({})", words(error)),
            _ => format!("cannot list and watch {plural}: {}", words(error)),
        }
    }

    fn fell_silent(&self) {
        self.outlet.metrics.watch_failed(self.kind);
        tracing::warn!(
            kind = self.kind.name(),
            "heard nothing of the watch of {} for {} s: it is begun anew",
            kinds::plural(self.kind),
            SILENCE.as_secs()
        );
    }

    fn listed(&mut self) {
        if self.watch_refused {
            return;
        }
        self.is_listed = true;
        if self.last_failure.take().is_some() {
            tracing::info!(kind = self.kind.name(), "listed {} again", kinds::plural(self.kind));
        }
    }

    /// An object that gives no event is as good as gone: a pod that lost our labels, or one that this build cannot
    /// read. It harms nobody else.
    fn unreadable<K: Resource>(&self, object: &K) -> Option<Event> {
        self.outlet.metrics.unreadable(self.kind);
        tracing::debug!(kind = self.kind.name(), name = object.meta().name, "cannot read an object");
        gone(self.kind, object)
    }
}

fn refused(category: Category, message: String) -> Unavailable {
    Unavailable::Refused(Failure { category, message })
}

/// The HTTP status in an error, where the API server answered at all.
fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => match error {
            kube::Error::Api(status) => Some(status.code),
            _ => None,
        },
        watcher::Error::WatchError(status) => Some(status.code),
        watcher::Error::NoResourceVersion => None,
    }
}

fn words(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => explain(error),
        watcher::Error::WatchError(status) => said(status),
        watcher::Error::NoResourceVersion => error.to_string(),
    }
}

/// Between four fifths of `most` and all of it, so that kinds and replicas do not list in step.
fn jittered(most: Duration) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    // A fresh RandomState is the standard library's only source of randomness; no more is needed here.
    let share = RandomState::new().hash_one(0) % 1_000;
    most.mul_f64(0.8 + 0.2 * f64::from(u32::try_from(share).unwrap_or_default()) / 1_000.0)
}
