//! All IO: everything that talks to the API server, the disk and the network.
//!
//! [`run`] is one task that owns the kernel. It takes events from [`watches`] and [`effects`], gives each event its time, steps
//! the kernel, writes the step into the [`journal`], and executes the effects. All other tasks talk to it over channels.
//! With leader election, [`leader::handover`] says when the kernel leads. `cli` calls [`run`] with a [`client`], tests with a
//! client that fails.

pub mod admin;
pub mod agents;
pub mod api_request;
pub mod classify;
pub mod client;
pub mod clock;
pub mod effects;
pub mod journal;
pub mod kinds;
pub mod leader;
pub mod metered;
pub mod metrics;
pub mod no_proxy;
pub mod pod_figures;
pub mod pods;
pub mod publish;
pub mod secrets;
pub mod secure_metrics;
pub mod watch_liveness;
pub mod watches;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use self::admin::{Admin, Gate, Gates, Loopback, Ping};
use self::clock::Clock;
use self::effects::Executor;
use self::journal::{Entry, Journal};
use self::leader::handover::{Handover, HandoverStep};
use self::leader::{Campaign, Election};
use self::metered::metered;
use self::metrics::Metrics;
use self::publish::{Publication, Publisher};
use self::secure_metrics::SecureMetrics;
use self::watches::WatchSink;
use crate::kernel::effect::{About, Effect};
use crate::kernel::event::Event;
use crate::kernel::messages::{LogLevel, LogLine};
use crate::kernel::object::{ChildKind, Scope, Watched};
use crate::kernel::reconciler::{Reconciler, Settings};

/// Events that may wait for the kernel. Small on purpose: a Deployment takes 30 kB, and a full channel slows the API server's
/// streams down instead of filling memory.
const WAITING: usize = 16;
/// How long requests under way may take after a signal to end. No request takes longer.
const DRAIN: Duration = client::DEADLINE;
/// How long the last lines of the journal may take to reach the disk, and the last Kubernetes Events the API server.
const FLUSH: Duration = Duration::from_secs(5);

/// How an operator is started.
#[derive(Clone)]
pub struct Options {
    /// The journal's files, if any.
    pub journal: Option<journal::Options>,
    /// The address that shows the last steps of the journal, if any.
    pub journal_page: Option<Loopback>,
    /// Where `/metrics` is served with TLS and authorization; without, it is served with the probes, to everybody.
    pub secure_metrics: Option<secure_metrics::Options>,
    /// The leader election, where several operators run.
    pub election: Option<Election>,
    /// What the time of each event is read from.
    pub clock: Clock,
    /// The kernel's settings, with the namespaces that it works in.
    pub settings: Settings,
}

/// Why the operator cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Another process has the port, or it may not be bound.
    #[error("cannot serve {pages} on {address}: choose another address with {flag}")]
    Listen {
        /// What is served there.
        pages: &'static str,
        /// The address that was asked for.
        address: SocketAddr,
        /// The flag that asked for it.
        flag: &'static str,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// Signals cannot be received.
    #[error("cannot listen for signals")]
    Signals(#[source] std::io::Error),
    /// Two metrics share a name.
    #[error("the metrics are defective; please report this")]
    Metrics(#[from] prometheus::Error),
    /// A watch's task panicked, which its log line shows. A new process does better than one with a part of its watches.
    #[error("a watch ended, which is a defect; please report this")]
    WatchEnded(#[source] Option<tokio::task::JoinError>),
    /// The election's task panicked, which its log line shows. A new process may be elected.
    #[error("the leader election ended, which is a defect; please report this")]
    ElectionEnded,
    /// The times that this process has learnt are wrong for good. A new one learns the right ones, and writes nothing for that.
    #[error("the machine's clock was set back by more than five minutes: a new process goes by its new time")]
    ClockSetBack,
}

/// How the operator ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// After a signal, with no request under way.
    Cleanly,
    /// At once, after a second signal.
    AtOnce,
}

/// Binds the address that serves metrics and probes. Called before anything else, so that probes of a starting operator get
/// an answer.
///
/// # Errors
/// [`RunError::Listen`].
pub async fn listen(address: SocketAddr) -> Result<TcpListener, RunError> {
    bind(address, "metrics and probes", "--listen").await
}

async fn bind(address: SocketAddr, pages: &'static str, flag: &'static str) -> Result<TcpListener, RunError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|source| RunError::Listen { pages, address, flag, source })
}

/// Runs the operator until `signals` brings a second signal, or a first one and all requests under way have ended. All
/// requests go through `client`, see [`client::connect`]. With an election, only lists, watches and the reviews of those who
/// read metrics do.
///
/// # Errors
/// See [`RunError`].
pub async fn run(
    listener: TcpListener,
    client: Client,
    options: Options,
    signals: mpsc::Receiver<()>,
) -> Result<Ended, RunError> {
    let Options { journal, journal_page, secure_metrics, election, clock, settings } = options;
    let scopes: Vec<Scope> = settings.scopes.iter().cloned().collect();
    tracing::info!(version = journal::VERSION, "memcached-operator starts");
    let metrics = Arc::new(Metrics::new()?);
    let reconciler = Reconciler::new(settings);
    let journal = Journal::start(journal, &reconciler, Arc::clone(&metrics));
    let (gates, (pings, inbox)) = (Gates::new(&scopes), mpsc::channel(8));
    let client = metered(&client, &metrics);
    let mut pages = JoinSet::new();
    let to_everybody = secure_metrics.is_none().then(|| Arc::clone(&metrics));
    if let Some(secure_metrics::Options { listen, certificate }) = secure_metrics {
        let listener = bind(listen, "metrics", "--secure-metrics-listen").await?;
        pages.spawn(SecureMetrics::new(Arc::clone(&metrics), client.clone()).serve(listener, certificate));
    }
    pages.spawn(admin::serve(listener, Admin { metrics: to_everybody, gates: gates.clone(), pings }));
    if let Some(address) = journal_page {
        pages.spawn(admin::show_journal(address, journal.ring()));
    }

    let election = election.map(|election| election.metered(&metrics));
    let campaign = election.as_ref().map(|election| Campaign::start(election, &gates));
    let work = election.map_or_else(|| client.clone(), |election| election.work());
    let operator = Operator::new(&work, Parts { reconciler, journal, metrics, gates, clock });
    operator.run(&client, Calls { scopes, campaign, pings: inbox, signals }).await
}

/// What is watched, and what interrupts the main loop.
struct Calls {
    scopes: Vec<Scope>,
    campaign: Option<Campaign>,
    pings: mpsc::Receiver<Ping>,
    signals: mpsc::Receiver<()>,
}

/// What the main loop is made of.
struct Parts {
    reconciler: Reconciler,
    journal: Journal,
    metrics: Arc<Metrics>,
    gates: Gates,
    clock: Clock,
}

/// The main loop's state.
struct Operator {
    parts: Parts,
    executor: Executor,
    publisher: Publisher,
    sink: WatchSink,
    missing_kinds: watch::Sender<BTreeSet<ChildKind>>,
    relist_resources: watch::Sender<u64>,
    relist_all: watch::Sender<u64>,
    handover: Handover,
    events: mpsc::Receiver<Event>,
    wake: Option<Timestamp>,
    in_flight: usize,
}

impl Operator {
    /// The kernel's requests are sent through `work`.
    fn new(work: &Client, parts: Parts) -> Self {
        let (sender, events) = mpsc::channel(WAITING);
        let (missing_kinds, [relist_resources, relist_all]) =
            (watch::Sender::new(BTreeSet::new()), [0; 2].map(watch::Sender::new));
        Self {
            executor: Executor::new(work.clone(), sender.clone()),
            publisher: Publisher::spawn(work.clone(), Arc::clone(&parts.metrics)),
            sink: WatchSink {
                events: sender,
                gates: parts.gates.clone(),
                metrics: Arc::clone(&parts.metrics),
                missing_kinds: missing_kinds.subscribe(),
                relist_resources: relist_resources.subscribe(),
                relist_all: relist_all.subscribe(),
                answers: Arc::default(),
            },
            missing_kinds,
            relist_resources,
            relist_all,
            handover: Handover::default(),
            events,
            wake: None,
            in_flight: 0,
            parts,
        }
    }

    async fn run(mut self, client: &Client, calls: Calls) -> Result<Ended, RunError> {
        let Calls { scopes, mut campaign, mut pings, mut signals } = calls;
        let mut watches = watches::spawn(client, &self.sink, &scopes);
        if campaign.is_none() {
            self.step(Event::Leading(true));
        }
        loop {
            tokio::select! {
                Some(()) = signals.recv() => break,
                Some(ended) = watches.join_next() => return Err(RunError::WatchEnded(ended.err())),
                leading = changed(&mut campaign) => self.lead(leading.ok_or(RunError::ElectionEnded)?),
                () = self.handle_next(&mut pings) => {}
            }
            if self.parts.clock.is_far_ahead() {
                return Err(RunError::ClockSetBack);
            }
        }
        tracing::info!(in_flight = self.in_flight, "ending: no new work, requests under way may finish");
        watches.shutdown().await;
        self.publisher.hurry();
        self.lead(false);
        if self.drain(&mut pings, &mut signals).await == Ended::AtOnce {
            return Ok(Ended::AtOnce);
        }
        tokio::select! {
            Some(()) = signals.recv() => Ok(Ended::AtOnce),
            () = self.close(campaign) => Ok(Ended::Cleanly),
        }
    }

    /// Whether this process holds the Lease has changed.
    fn lead(&mut self, leads: bool) {
        if !leads {
            self.handover.on_leadership_lost();
        } else if let HandoverStep::Relist(times) = self.handover.on_leadership_acquired() {
            self.relist_resources.send_replace(times);
            return;
        }
        self.step(Event::Leading(leads));
    }

    /// Handles one event, wake-up or ping. May be dropped and called again: nothing is lost.
    async fn handle_next(&mut self, pings: &mut mpsc::Receiver<Ping>) {
        let wake = self.wake.map(|time| self.parts.clock.until(time));
        tokio::select! {
            Some(event) = self.events.recv() => self.step(event),
            () = sleep(wake.unwrap_or_default()), if wake.is_some() => {
                self.wake = None;
                self.step(Event::Tick);
            }
            // The caller may have given up.
            Some(ping) = pings.recv() => { let _ = ping.send(()); }
        }
    }

    /// Steps the kernel with one event, and executes the effects.
    fn step(&mut self, event: Event) {
        let at = self.parts.clock.now();
        let leads_then = self.handover.observe(&event);
        self.take_note(&event);
        let entry = Entry::new(at, &event);
        let effects = self.parts.reconciler.step(at, event);
        self.sink.answers.store(self.parts.reconciler.answers().0, Ordering::Relaxed);
        self.parts.journal.record(entry, &effects, &self.parts.reconciler);
        for effect in effects {
            self.carry_out(effect);
        }
        self.publisher.give_way(self.in_flight);
        if leads_then {
            self.step(Event::Leading(true));
        }
    }

    fn take_note(&mut self, event: &Event) {
        let Parts { gates, metrics, .. } = &self.parts;
        match event {
            Event::Listed(kind, scope) => {
                gates.open(&Gate::Listed(*kind, scope.clone()));
                if *kind == Watched::Memcached {
                    gates.open(&Gate::CrdServed);
                }
            }
            Event::Leading(leading) => metrics.leading(*leading),
            Event::Done { .. } => self.in_flight = self.in_flight.saturating_sub(1),
            _ => {}
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Send { id, resource, request } => {
                self.in_flight += 1;
                self.executor.send(id, resource, request);
            }
            // It changes nothing, so that an end does not wait for it.
            Effect::Ask { id, resource, question } => self.executor.ask(id, resource, question),
            Effect::Publish { resource, uid, kube_event } => {
                self.publisher.publish(Publication { resource, uid, kube_event });
            }
            Effect::Wake(time) => self.wake = Some(time),
            Effect::PollMissingKind { kind, wanted } => {
                self.missing_kinds.send_modify(|kinds| {
                    if wanted {
                        kinds.insert(kind)
                    } else {
                        kinds.remove(&kind)
                    };
                });
            }
            Effect::RelistAll => {
                tracing::warn!(
                    "resource versions have gone back, as when etcd is restored from a backup: every kind is listed again, \
                     and nothing is written before"
                );
                self.relist_all.send_modify(|times| *times += 1);
            }
            Effect::Observe(observation) => self.parts.metrics.observe(observation),
            Effect::Log { about, line } => write_log(&about, &line),
        }
    }

    /// Waits for requests under way.
    async fn drain(&mut self, pings: &mut mpsc::Receiver<Ping>, signals: &mut mpsc::Receiver<()>) -> Ended {
        let mut deadline = pin!(sleep(DRAIN));
        while self.in_flight > 0 {
            tokio::select! {
                Some(()) = signals.recv() => return Ended::AtOnce,
                () = &mut deadline => {
                    tracing::warn!(in_flight = self.in_flight, "requests under way did not finish in time");
                    break;
                }
                () = self.handle_next(pings) => {}
            }
        }
        Ended::Cleanly
    }

    /// Publishes the Kubernetes Events that wait, lets the Lease go, and writes the rest of the journal to the disk. The Events
    /// come first: once the Lease is let go, the fence lets none of them through.
    async fn close(self, campaign: Option<Campaign>) {
        let Self { parts: Parts { journal, .. }, publisher, .. } = self;
        let closed = tokio::task::spawn_blocking(move || journal.close());
        let let_go = async {
            if timeout(FLUSH, publisher.close()).await.is_err() {
                tracing::warn!("Kubernetes Events were not published in time");
            }
            if let Some(campaign) = campaign {
                campaign.withdraw().await;
            }
        };
        let ((), closed) = tokio::join!(let_go, timeout(FLUSH, closed));
        if closed.is_err() {
            tracing::warn!("the journal did not reach the disk in time");
        }
        tracing::info!("ended");
    }
}

fn write_log(about: &About, LogLine { level, words }: &LogLine) {
    let (resource, namespace) = match about {
        About::Resource(key) => (Some(key.to_string()), None),
        About::Namespace(name) => (None, Some(name)),
    };
    match level {
        LogLevel::Debug => tracing::debug!(resource, namespace, "{words}"),
        LogLevel::Info => tracing::info!(resource, namespace, "{words}"),
        LogLevel::Warn => tracing::warn!(resource, namespace, "{words}"),
    }
}

/// Waits until this process begins or ceases to hold the Lease; for ever without an election.
async fn changed(campaign: &mut Option<Campaign>) -> Option<bool> {
    match campaign {
        Some(campaign) => campaign.changed().await,
        None => std::future::pending().await,
    }
}

/// A message for each SIGTERM and SIGINT.
///
/// # Errors
/// When the handlers cannot be installed.
pub fn signals() -> Result<mpsc::Receiver<()>, RunError> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).map_err(RunError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(RunError::Signals)?;
    let (sender, receiver) = mpsc::channel(2);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if sender.send(()).await.is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use http::{Request, Response};
    use kube::client::Body;
    use tower::{BoxError, service_fn};

    use super::*;
    use crate::kernel::effect::PodQuestion;
    use crate::kernel::event::PodsReply;
    use crate::kernel::object::Key;
    use crate::kernel::request::RequestId;

    #[tokio::test]
    async fn a_question_to_pods_keeps_no_operator_from_ending() {
        let silent = service_fn(|_: Request<Body>| pending::<Result<Response<Body>, BoxError>>());
        let reconciler = Reconciler::new(Settings::default());
        let metrics = Arc::new(Metrics::new().unwrap());
        let journal = Journal::start(None, &reconciler, Arc::clone(&metrics));
        let gates = Gates::new(&[Scope::All]);
        let parts = Parts { reconciler, journal, metrics, gates, clock: Clock::start() };
        let mut operator = Operator::new(&Client::new(silent, "default"), parts);

        let id = RequestId(1);
        let resource = Key { namespace: "shop".to_owned(), name: "sessions".to_owned() };
        operator.carry_out(Effect::Ask { id, resource, question: PodQuestion::Figures });
        let ((_pings, mut pings), (_signals, mut signals)) = (mpsc::channel(1), mpsc::channel(1));
        let ended = timeout(Duration::from_secs(1), operator.drain(&mut pings, &mut signals)).await;
        assert_eq!(ended, Ok(Ended::Cleanly));

        operator.in_flight = 1;
        operator.take_note(&Event::Answered { id, reply: PodsReply::Figures(Vec::new()) });
        assert_eq!(operator.in_flight, 1, "an answer of pods ends no request");
    }
}
