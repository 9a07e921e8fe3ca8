//! All watches against an API server in a closure, for a test that looks at one kind.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use http::Response;
use kube::Client;
use memcached_operator::kernel::event::Event;
use memcached_operator::kernel::object::{ChildKind, Scope, Watched};
use memcached_operator::shell::admin::Gates;
use memcached_operator::shell::metrics::Metrics;
use memcached_operator::shell::watches::{WatchSink, spawn};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::support::{Call, Calls, Frame, api, bookmark, page, watch};

pub(crate) const SERVICES: &str = "/api/v1/services";
pub(crate) const SERVICE: Watched = Watched::Child(ChildKind::Service);
pub(crate) const MONITORS: &str = "/apis/monitoring.coreos.com/v1/servicemonitors";
pub(crate) const MONITOR: Watched = Watched::Child(ChildKind::ServiceMonitor);
pub(crate) const MEMCACHEDS: &str = "/apis/memcached.c5c3.io/v1beta1/memcacheds";
/// Longer than anything here takes, in paused time.
pub(crate) const EVER: Duration = Duration::from_secs(100_000);

/// All watches, of which a test looks at one kind.
pub(crate) struct Watches {
    kind: Watched,
    path: &'static str,
    pub(crate) calls: Calls,
    pub(crate) events: mpsc::Receiver<Event>,
    pub(crate) gates: Gates,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) started: Instant,
    /// The kinds that are looked for.
    pub(crate) missing_kinds: watch::Sender<BTreeSet<ChildKind>>,
    /// Changes when the resources are to be listed anew.
    pub(crate) relist_resources: watch::Sender<u64>,
    /// Changes when every kind is to be listed anew.
    pub(crate) relist_all: watch::Sender<u64>,
    /// How many requests are answered.
    pub(crate) answers: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

/// Starts all watches. Those of `path`'s kind are answered by `script`, which gets the number of lists and of watches
/// of that kind so far, this one included; the others list nothing and hear bookmarks.
pub(crate) fn watches(
    kind: Watched,
    path: &'static str,
    script: impl Fn(Call, u32) -> Response<Body> + Send + Sync + 'static,
) -> Watches {
    let (lists, watches) = (AtomicU32::new(0), AtomicU32::new(0));
    let (client, calls) = api(move |call| {
        let counter = if call.is_watch() { &watches } else { &lists };
        std::future::ready(if call.path == path {
            let number = counter.fetch_add(1, Ordering::Relaxed) + 1;
            script(call, number)
        } else {
            quiet(&call)
        })
    });
    Watches::start(&client, calls, kind, path)
}

/// An API server with nothing to say, which it says every minute.
pub(crate) fn quiet(call: &Call) -> Response<Body> {
    if call.is_watch() {
        let minute = || [Frame::Wait(Duration::from_secs(60)), bookmark("100")];
        watch(minute().into_iter().chain(minute()).chain(minute()).collect())
    } else {
        page(&[], "100", None)
    }
}

/// A resource as the API server shows it.
pub(crate) fn memcached(name: &str) -> Value {
    json!({
        "apiVersion": "memcached.c5c3.io/v1beta1",
        "kind": "Memcached",
        "metadata": {"namespace": "shop", "name": name, "uid": name, "resourceVersion": "1"},
    })
}

pub(crate) fn service(name: &str, resource_version: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": "shop", "name": name, "uid": name, "resourceVersion": resource_version},
    })
}

/// What an event is about, short.
pub(crate) fn short(event: &Event) -> String {
    match event {
        Event::Listing(..) => "listing".into(),
        Event::Listed(..) => "listed".into(),
        Event::Child(child) => format!("{}@{}", child.key.name, child.resource_version),
        Event::Gone { key, .. } => format!("{} gone", key.name),
        Event::Pod(pod) => pod.key.name.clone(),
        other => format!("{other:?}"),
    }
}

pub(crate) fn kind_of(event: &Event) -> Option<Watched> {
    match event {
        Event::Listing(kind, _)
        | Event::Listed(kind, _)
        | Event::Unlistable(kind, _)
        | Event::Gone { kind, .. } => Some(*kind),
        Event::Resource(_) => Some(Watched::Memcached),
        Event::Child(child) => Some(Watched::Child(child.kind)),
        Event::Unavailable { kind, .. } => Some(Watched::Child(*kind)),
        Event::Secret(_) => Some(Watched::Secret),
        Event::Pod(_) => Some(Watched::Pod),
        _ => None,
    }
}

impl Watches {
    pub(crate) fn start(client: &Client, calls: Calls, kind: Watched, path: &'static str) -> Self {
        let (sender, events) = mpsc::channel(8);
        let (gates, metrics) = (Gates::new(&[Scope::All]), Arc::new(Metrics::new().unwrap()));
        let (missing_kinds, [relist_resources, relist_all]) =
            (watch::Sender::new(BTreeSet::new()), [0; 2].map(watch::Sender::new));
        let answers = Arc::new(AtomicU64::new(0));
        let sink = WatchSink {
            events: sender,
            gates: gates.clone(),
            metrics: Arc::clone(&metrics),
            missing_kinds: missing_kinds.subscribe(),
            relist_resources: relist_resources.subscribe(),
            relist_all: relist_all.subscribe(),
            answers: Arc::clone(&answers),
        };
        let tasks = spawn(client, &sink, &[Scope::All]);
        Self {
            kind,
            path,
            calls,
            events,
            gates,
            metrics,
            started: Instant::now(),
            missing_kinds,
            relist_resources,
            relist_all,
            answers,
            _tasks: tasks,
        }
    }

    /// The next event of the kind.
    pub(crate) async fn next(&mut self) -> Event {
        let next = async {
            loop {
                let event = self.events.recv().await.expect("the watches run");
                if kind_of(&event) == Some(self.kind) {
                    return event;
                }
            }
        };
        timeout(EVER, next).await.expect("an event of the kind")
    }

    /// The next so many events of the kind, short.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<String> {
        let mut taken = Vec::new();
        while taken.len() < count {
            taken.push(short(&self.next().await));
        }
        taken
    }

    /// Events of any kind pass until the time is over.
    pub(crate) async fn pass(&mut self, time: Duration) {
        let pass = async { while self.events.recv().await.is_some() {} };
        assert!(timeout(time, pass).await.is_err(), "the watches run");
    }

    pub(crate) fn lists(&self) -> usize {
        self.calls.matching(|call| call.path == self.path && !call.is_watch()).len()
    }

    pub(crate) fn counted(&self, metric: &str) -> String {
        let series = format!("memcached_operator_{metric}{{kind=\"{}\"}} ", self.kind.name());
        let text = self.metrics.render().unwrap();
        text.lines().find_map(|line| line.strip_prefix(&series)).unwrap().to_owned()
    }
}
