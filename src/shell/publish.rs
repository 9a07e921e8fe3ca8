//! Publishes Kubernetes Events about resources, best effort. Takes them through bounded queues and sends one after the other;
//! what does not fit is dropped and counted. IO; the main loop calls it, and waits only at its end, for what is in the queues.
//!
//! Normal Events give way to requests. A fleet that starts has three for each resource: sent beside its writes, they were
//! every seventh request. Warnings go first, and give way to nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::core::ApiResource;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::client::{DEADLINE, explain};
use super::kinds;
use super::metrics::Metrics;
use super::metrics::labels::KubeEventResult;
use crate::kernel::messages::{KubeEvent, Severity};
use crate::kernel::object::{FIELD_MANAGER, Key, Uid, Watched};

/// Normal Events that may wait: a cold start of three hundred resources fits.
const WAITING: usize = 1_024;
/// Warnings that may wait.
const WARNINGS_WAITING: usize = 256;
/// While requests are under way, at most one Normal Event goes in this time.
const PACE: Duration = Duration::from_millis(100);
/// How many recorders are kept: enough to count an Event that a resource repeats, with little memory. The kernel avoids
/// repetitions itself.
const REMEMBERED: usize = 50;

/// An Event and the resource that it is about.
#[derive(Debug)]
pub struct Publication {
    /// The resource.
    pub resource: Key,
    /// The uid of the resource.
    pub uid: Uid,
    /// What to say.
    pub kube_event: KubeEvent,
}

/// Takes Events.
#[derive(Debug)]
pub struct Publisher {
    warnings: mpsc::Sender<Publication>,
    normal: mpsc::Sender<Publication>,
    /// Whether requests are under way; `None` at the end, when Events give way to nothing any more.
    busy: Option<watch::Sender<bool>>,
    metrics: Arc<Metrics>,
    sending: JoinHandle<()>,
}

impl Publisher {
    /// Starts the task that sends. It ends when the publisher is gone and the queues are empty.
    #[must_use]
    pub fn spawn(client: Client, metrics: Arc<Metrics>) -> Self {
        let (busy, is_busy) = watch::channel(false);
        let (warnings, waiting_warnings) = mpsc::channel(WARNINGS_WAITING);
        let (normal, waiting) = mpsc::channel(WAITING);
        let queues = Queues { warnings: waiting_warnings, normal: waiting, is_busy, next_at: Instant::now() };
        let sending = tokio::spawn(run(client, queues, Arc::clone(&metrics)));
        Self { warnings, normal, busy: Some(busy), metrics, sending }
    }

    /// Queues an Event, or drops it when its queue is full.
    pub fn publish(&self, publication: Publication) {
        let queue = match publication.kube_event.severity {
            Severity::Normal => &self.normal,
            Severity::Warning => &self.warnings,
        };
        if queue.try_send(publication).is_err() {
            self.metrics.kube_event(KubeEventResult::Dropped);
        }
    }

    /// Notes how many requests are under way.
    pub fn give_way(&self, requests: usize) {
        if let Some(busy) = &self.busy {
            busy.send_if_modified(|busy| std::mem::replace(busy, requests > 0) != *busy);
        }
    }

    /// From now on Events give way to nothing: the process ends.
    pub fn hurry(&mut self) {
        self.busy = None;
    }

    /// Waits until every Event of the queues is answered, each in [`DEADLINE`]. An operator that is replaced by its next version
    /// would take the cause of a rollout with it.
    pub async fn close(self) {
        let Self { warnings, normal, busy, metrics: _, sending } = self;
        drop((warnings, normal, busy));
        // Whether it panicked does not matter any more.
        drop(sending.await);
    }
}

/// The Events that wait.
struct Queues {
    warnings: mpsc::Receiver<Publication>,
    normal: mpsc::Receiver<Publication>,
    is_busy: watch::Receiver<bool>,
    /// When the next Normal Event goes at the latest.
    next_at: Instant,
}

impl Queues {
    /// The next Event to send; `None` once no more can come.
    async fn next(&mut self) -> Option<Publication> {
        let Self { warnings, normal, is_busy, next_at } = self;
        let normal = async {
            // Each way in which this ends means that a Normal Event may go.
            drop(timeout_at(*next_at, is_busy.wait_for(|busy| !busy)).await);
            normal.recv().await
        };
        tokio::select! {
            biased;
            Some(warning) = warnings.recv() => Some(warning),
            Some(publication) = normal => {
                *next_at = Instant::now() + PACE;
                Some(publication)
            }
            else => None,
        }
    }
}

async fn run(client: Client, mut queues: Queues, metrics: Arc<Metrics>) {
    let ApiResource { api_version, kind, .. } = kinds::api_resource(Watched::Memcached);
    let reporter = Reporter::from(FIELD_MANAGER);
    // A recorder counts an Event with another note as a repetition and drops the note: "All 3 replicas are ready" would appear
    // as a second "All 1 replicas are ready". So each message has a recorder of its own.
    let mut recorders: HashMap<(Uid, String), Recorder> = HashMap::new();
    let mut failing = false;
    while let Some(Publication { resource, uid, kube_event }) = queues.next().await {
        if recorders.len() == REMEMBERED {
            recorders.clear();
        }
        let recorder = recorders
            .entry((uid.clone(), kube_event.message.clone()))
            .or_insert_with(|| Recorder::new(client.clone(), reporter.clone()));
        let about = ObjectReference {
            api_version: Some(api_version.clone()),
            kind: Some(kind.clone()),
            namespace: Some(resource.namespace.clone()),
            name: Some(resource.name.clone()),
            uid: Some(uid.into()),
            ..ObjectReference::default()
        };
        let problem = match timeout(DEADLINE, recorder.publish(&event(kube_event), &about)).await {
            Ok(sent) => sent.err().map(|error| explain(&error)),
            Err(_elapsed) => Some("no answer in time".to_owned()),
        };
        metrics.kube_event(if problem.is_none() { KubeEventResult::Sent } else { KubeEventResult::Failed });
        // Logged once per change: a line for each Event would be too much.
        let failed = std::mem::replace(&mut failing, problem.is_some());
        if let (Some(problem), false) = (&problem, failed) {
            tracing::warn!(%resource, "cannot publish Kubernetes Events: {problem}");
        }
    }
}

fn event(KubeEvent { severity, reason, action, message }: KubeEvent) -> Event {
    let type_ = match severity {
        Severity::Normal => EventType::Normal,
        Severity::Warning => EventType::Warning,
    };
    Event { type_, reason, note: Some(message), action, secondary: None }
}
