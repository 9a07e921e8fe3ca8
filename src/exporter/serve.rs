//! The exporter's pages. Takes a listener and a [`Target`]; serves `/metrics`, `/livez` and `/`. IO; `cli` calls it,
//! and `agent` where it serves the same metrics.
//!
//! If memcached does not answer, the page says `memcached_up 0`, and the log has one line for each new reason, however often
//! Prometheus asks.

use std::collections::BTreeSet;
use std::error::Error;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus::TextEncoder;
use prometheus::core::Collector as _;
use prometheus::process_collector::ProcessCollector;
use prometheus::proto::MetricFamily;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::metrics;
use super::protocol::Stats;
use super::target::{ScrapeError, Target};
use crate::web::{self, Transport};

/// Connections to memcached at once: memcached limits them, and they are for its clients.
const AT_ONCE: usize = 4;

/// The address to listen on if nobody names one.
pub const DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::UNSPECIFIED), 9150);

/// Listens. All IPv6 addresses, which means all IPv4 addresses too, are those of IPv4 alone where the machine has no
/// IPv6.
///
/// # Errors
/// When the address cannot be had.
pub async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(error) => match instead(address, &error) {
            Some(other) => TcpListener::bind(other).await,
            None => Err(error),
        },
        listener => listener,
    }
}

/// What to try after this error. A kernel without IPv6 says that it does not support such addresses, which has no
/// `ErrorKind` of its own: so it is told by what else may be wrong.
fn instead(address: SocketAddr, error: &io::Error) -> Option<SocketAddr> {
    let taken = matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied);
    let all = address.ip() == Ipv6Addr::UNSPECIFIED;
    (all && !taken).then(|| (Ipv4Addr::UNSPECIFIED, address.port()).into())
}

/// Serves until `end`, and what was asked before that.
pub async fn serve(listener: TcpListener, target: Target, end: impl Future<Output = ()>) {
    let exporter = Exporter::new(target);
    let router = Router::new()
        .route(
            "/",
            get(async || "Prometheus metrics of a memcached: /metrics\nWhether the exporter lives: /livez\n"),
        )
        .route("/livez", get(async || "ok\n"))
        .route("/metrics", get(page))
        .with_state(Arc::new(exporter));
    web::serve(listener, Transport::Plain, router, end).await;
}

async fn page(State(exporter): State<Arc<Exporter>>) -> Response {
    let families = exporter.families().await;
    to_page(&families)
}

/// Metric families as an answer to Prometheus.
pub fn to_page(families: &[MetricFamily]) -> Response {
    match TextEncoder::new().encode_to_string(families) {
        Ok(text) => ([(CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// Asks one memcached, for whoever asks for its metrics.
pub struct Exporter {
    target: Target,
    slots: Semaphore,
    state: Mutex<ScrapeState>,
}

/// What came of the last scrape.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum ScrapeState {
    /// Nobody has asked yet.
    #[default]
    Unknown,
    /// All statistics were read.
    Complete,
    /// These statistics were of an unknown form.
    Unreadable(BTreeSet<&'static str>),
    /// memcached could not be asked, for this reason.
    Failed(String),
}

impl Exporter {
    /// An exporter of this memcached's metrics.
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self { target, slots: Semaphore::new(AT_ONCE), state: Mutex::default() }
    }

    /// All metrics: of memcached, where it can be asked, of this process, and of its version.
    pub async fn families(&self) -> Vec<MetricFamily> {
        let mut families = vec![metrics::build_info()];
        families.extend(ProcessCollector::for_self().collect());
        let read = self.scrape().await;
        families.push(metrics::up(read.is_some()));
        families.extend(read.unwrap_or_default().families);
        families
    }

    async fn scrape(&self) -> Option<metrics::Read> {
        let (read, state) = match self.ask().await {
            Ok(stats) => {
                let read = metrics::read(&stats);
                let odd = read.unreadable.clone();
                (
                    Some(read),
                    if odd.is_empty() { ScrapeState::Complete } else { ScrapeState::Unreadable(odd) },
                )
            }
            Err(error) => (None, ScrapeState::Failed(reason(&error))),
        };
        self.tell(state);
        read
    }

    /// The time in the queue counts, too: Prometheus has a timeout of its own.
    async fn ask(&self) -> Result<Stats, ScrapeError> {
        let timeout = self.target.timeout;
        let scrape = async {
            // Fails only once the semaphore is closed, which it never is.
            let _slot = self.slots.acquire().await;
            self.target.scrape().await
        };
        tokio::time::timeout(timeout, scrape).await.unwrap_or(Err(ScrapeError::Timeout(timeout)))
    }

    fn tell(&self, state: ScrapeState) {
        let mut last = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *last == state {
            return;
        }
        let memcached = &self.target.address;
        match &state {
            ScrapeState::Unknown => {}
            ScrapeState::Complete => tracing::info!(%memcached, "memcached answers"),
            ScrapeState::Unreadable(names) => {
                tracing::warn!(%memcached, ?names, "figures of memcached are of an unknown form and left out");
            }
            ScrapeState::Failed(reason) => tracing::warn!(%memcached, reason, "memcached cannot be asked"),
        }
        *last = state;
    }
}

/// The error with its causes, in one line.
fn reason(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(": ");
        line.push_str(&error.to_string());
        cause = error.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::no_ipv6("[::]:9150", 97, Some("0.0.0.0:9150"))] // EAFNOSUPPORT
    #[case::no_ipv6_address("[::]:9150", 99, Some("0.0.0.0:9150"))] // EADDRNOTAVAIL
    #[case::taken("[::]:9150", 98, None)] // EADDRINUSE
    #[case::not_allowed("[::]:80", 13, None)] // EACCES
    #[case::asked_for_just_this("[::1]:9150", 97, None)]
    fn ipv4_is_tried_where_there_is_no_ipv6(
        #[case] address: &str,
        #[case] error: i32,
        #[case] other: Option<&str>,
    ) {
        let tried = instead(address.parse().unwrap(), &io::Error::from_raw_os_error(error));
        assert_eq!(tried, other.map(|other| other.parse().unwrap()));
    }
}
