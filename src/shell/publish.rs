//! Publishes Kubernetes Events about resources, best effort. Takes them through a bounded queue and sends one after the other;
//! what does not fit is dropped and counted. IO; the main loop calls it, and waits only at its end, for what is in the queue.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::core::ApiResource;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::client::{DEADLINE, explain};
use super::kinds;
use super::metrics::Metrics;
use super::metrics::labels::KubeEventResult;
use crate::kernel::messages::{KubeEvent, Severity};
use crate::kernel::object::{FIELD_MANAGER, Key, Uid, Watched};

/// Events that may wait: a cold start of a thousand resources fits.
const WAITING: usize = 1_024;
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
    queue: mpsc::Sender<Publication>,
    metrics: Arc<Metrics>,
    sending: JoinHandle<()>,
}

impl Publisher {
    /// Starts the task that sends. It ends when the publisher is gone and the queue is empty.
    #[must_use]
    pub fn spawn(client: Client, metrics: Arc<Metrics>) -> Self {
        let (queue, waiting) = mpsc::channel(WAITING);
        let sending = tokio::spawn(run(client, waiting, Arc::clone(&metrics)));
        Self { queue, metrics, sending }
    }

    /// Queues an Event, or drops it when the queue is full.
    pub fn publish(&self, publication: Publication) {
        if self.queue.try_send(publication).is_err() {
            self.metrics.kube_event(KubeEventResult::Dropped);
        }
    }

    /// Waits until every Event of the queue is answered, each in [`DEADLINE`]. An operator that is replaced by its next version
    /// would take the cause of a rollout with it.
    pub async fn close(self) {
        let Self { queue, metrics: _, sending } = self;
        drop(queue);
        // Whether it panicked does not matter any more.
        drop(sending.await);
    }
}

async fn run(client: Client, mut waiting: mpsc::Receiver<Publication>, metrics: Arc<Metrics>) {
    let ApiResource { api_version, kind, .. } = kinds::api_resource(Watched::Memcached);
    let reporter = Reporter::from(FIELD_MANAGER);
    // A recorder counts an Event with another note as a repetition and drops the note: "All 3 replicas are ready" would appear
    // as a second "All 1 replicas are ready". So each message has a recorder of its own.
    let mut recorders: HashMap<(Uid, String), Recorder> = HashMap::new();
    let mut failing = false;
    while let Some(Publication { resource, uid, kube_event }) = waiting.recv().await {
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
