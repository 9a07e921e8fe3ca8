//! `/metrics`, `/livez` and `/readyz` on one port, and `/debug/journal` on a port of loopback. IO; the main loop binds the
//! first port before anything else and keeps the [`Gates`] up to date. `/metrics` may be elsewhere: `secure_metrics`.
//!
//! Ready means that the operator would act on an edit now: every gate is open. Alive means that the main loop answers. A gate
//! that is open stays open when the API server does not answer: neither a restart of the operator nor its removal from a
//! Service would bring the API server back.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::stream;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use super::journal::Ring;
use super::metrics::{Metrics, MetricsPage};
use crate::kernel::object::{Scope, Watched};
use crate::web::{self, Transport};

/// The operator is alive while the main loop answers within this time.
pub const MAIN_LOOP_TIMEOUT: Duration = Duration::from_secs(5);

/// A condition of readiness.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// The API server serves the kind `Memcached`. The gate closes when it ceases to.
    CrdServed,
    /// The kernel has seen a complete list of this kind. The gate stays open, because the kernel keeps what it has seen. Only
    /// the gate of a single namespace closes, when the list is forbidden: the owners of the namespace may remove its Role.
    Listed(Watched, Scope),
    /// This process can take part in the leader election. The gate closes when RBAC forbids it: an operator that can never lead
    /// would look like one that follows.
    Election,
}

impl Gate {
    fn always(scopes: &[Scope]) -> impl Iterator<Item = Self> {
        let required = Watched::ALL.into_iter().filter(|kind| kind.is_required());
        let lists =
            required.flat_map(|kind| scopes.iter().map(move |scope| Self::Listed(kind, scope.clone())));
        std::iter::once(Self::CrdServed).chain(lists)
    }

    fn describe(&self) -> String {
        match self {
            Self::CrdServed => "the API server serves Memcached".to_owned(),
            Self::Listed(kind, Scope::All) => format!("list of {} complete", kind.name()),
            Self::Listed(kind, Scope::Namespace(namespace)) => {
                format!("list of {} in namespace {namespace} complete", kind.name())
            }
            Self::Election => "leader election works".to_owned(),
        }
    }
}

/// All gates, with the reason why a gate is closed. Clones share one state.
#[derive(Clone, Debug)]
pub struct Gates(Arc<Mutex<BTreeMap<Gate, Option<String>>>>);

impl Gates {
    /// The gates that exist for these scopes, all closed.
    #[must_use]
    pub fn new(scopes: &[Scope]) -> Self {
        let closed = Gate::always(scopes).map(|gate| (gate, Some("not yet".to_owned())));
        Self(Arc::new(Mutex::new(closed.collect())))
    }

    /// Opens the gate, if it exists.
    pub fn open(&self, gate: &Gate) {
        if let Some(closed) = self.lock().get_mut(gate) {
            *closed = None;
        }
    }

    /// Closes the gate for this reason. The gate exists from now on.
    pub fn close(&self, gate: Gate, why: &str) {
        self.lock().insert(gate, Some(why.to_owned()));
    }

    /// Gives another reason why the gate is closed, if it is.
    pub fn explain(&self, gate: &Gate, why: &str) {
        if let Some(Some(reason)) = self.lock().get_mut(gate) {
            why.clone_into(reason);
        }
    }

    /// Why the gate is closed; `None` when it is open or does not exist.
    #[must_use]
    pub fn why(&self, gate: &Gate) -> Option<String> {
        self.lock().get(gate).cloned().flatten()
    }

    /// Whether every gate is open.
    #[must_use]
    pub fn all_open(&self) -> bool {
        self.lock().values().all(Option::is_none)
    }

    fn report(&self) -> String {
        let line = |(gate, closed): (&Gate, &Option<String>)| match closed {
            None => format!("[+] {}\n", gate.describe()),
            Some(why) => format!("[-] {}: {why}\n", gate.describe()),
        };
        self.lock().iter().map(line).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Gate, Option<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A loopback address. Only the pod itself, and users who may forward a port to the pod, reach it: the journal holds specs.
/// On a port that others reach, the address of the peer is no proof, because a sidecar delivers from loopback what came from
/// anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loopback(SocketAddr);

/// An address that is not on loopback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} is not on loopback: a journal is for 127.0.0.1 or [::1] only, where `kubectl port-forward` reaches it"
)]
pub struct NotLoopback(SocketAddr);

impl TryFrom<SocketAddr> for Loopback {
    type Error = NotLoopback;

    fn try_from(address: SocketAddr) -> Result<Self, NotLoopback> {
        if address.ip().to_canonical().is_loopback() { Ok(Self(address)) } else { Err(NotLoopback(address)) }
    }
}

impl fmt::Display for Loopback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Asks the main loop for a sign of life: it sends `()` back.
pub type Ping = oneshot::Sender<()>;

/// What the pages show.
#[derive(Clone, Debug)]
pub struct Admin {
    /// Rendered by `/metrics`. `None` where another port serves them.
    pub metrics: Option<Arc<Metrics>>,
    /// Reported by `/readyz`.
    pub gates: Gates,
    /// Asked by `/livez`.
    pub pings: mpsc::Sender<Ping>,
}

/// Serves metrics and probes until the task is dropped.
pub async fn serve(listener: TcpListener, admin: Admin) {
    let metrics = admin.metrics.clone();
    let mut pages = Router::new().route("/livez", get(livez)).route("/readyz", get(readyz)).with_state(admin);
    if let Some(metrics) = metrics {
        pages = pages.route("/metrics", get(async move || page_of(&metrics)));
    }
    web::serve(listener, Transport::Plain, pages, pending()).await;
}

/// Serves the last steps until the task is dropped. The journal must never be in the way: if the address cannot be bound,
/// because another operator of this machine uses it, the log says so and everything else goes on.
pub async fn show_journal(address: Loopback, ring: Ring) {
    match TcpListener::bind(address.0).await {
        Ok(listener) => {
            tracing::info!(listen = %address, "serving /debug/journal");
            let pages = Router::new().route("/debug/journal", get(journal)).with_state(ring);
            web::serve(listener, Transport::Plain, pages, pending()).await;
        }
        Err(error) => tracing::warn!(
            listen = %address,
            %error,
            "cannot serve /debug/journal, everything else goes on: choose another address with --journal-listen"
        ),
    }
}

/// The metrics as they are now, made a part at a time as the client takes them.
pub(super) fn page_of(metrics: &Arc<Metrics>) -> Response {
    match MetricsPage::new(Arc::clone(metrics)) {
        Ok(page) => {
            let parts = stream::iter(page.map(Ok::<_, Infallible>));
            ([(CONTENT_TYPE, prometheus::TEXT_FORMAT)], Body::from_stream(parts)).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

async fn livez(State(admin): State<Admin>) -> Response {
    let (ping, answer) = oneshot::channel();
    let asked = async { admin.pings.send(ping).await.is_ok() && answer.await.is_ok() };
    match tokio::time::timeout(MAIN_LOOP_TIMEOUT, asked).await {
        Ok(true) => "ok\n".into_response(),
        _ => {
            let text = format!("the main loop did not answer within {} s\n", MAIN_LOOP_TIMEOUT.as_secs());
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

async fn readyz(State(admin): State<Admin>) -> Response {
    let status = if admin.gates.all_open() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, admin.gates.report()).into_response()
}

async fn journal(State(ring): State<Ring>) -> Response {
    ([(CONTENT_TYPE, "application/jsonl")], ring.lines()).into_response()
}
