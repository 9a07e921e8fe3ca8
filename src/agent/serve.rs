//! The agent's pages. Takes a listener and what is published; serves `/metrics`, `/livez` and the answers to the operator's
//! questions. IO; `cli` calls it.
//!
//! Anybody may reach the port. A question is a path of a fixed length, and only a few a second of each client are answered: see
//! [`crate::secrets::rotation_check`]. What one client asks takes nothing from another: else a stranger could keep the
//! operator without an answer, and a rotation would never end.

use std::collections::VecDeque;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Path, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use prometheus::core::Collector as _;
use prometheus::process_collector::ProcessCollector;
use prometheus::proto::MetricFamily;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep_until};

use super::metrics;
use super::published::Published;
use crate::exporter::serve::{Exporter, to_page};
use crate::figures::AGENTS_PAGE;
use crate::secrets::rotation_check::{PATH, RotationQuestion};
use crate::web;

/// Questions of one client that are answered in any second, and as often it is told the figures.
pub const A_SECOND: u32 = 4;
/// Clients that are told apart: a few operators, people, and strangers.
const MOST_CLIENTS: usize = 64;
/// Figures that are not older are told to everybody.
const MOMENT: Duration = Duration::from_millis(250);

/// What the pages show.
pub struct Pages {
    /// How far memcached is with its files.
    pub published: Arc<Published>,
    /// Reads memcached's metrics.
    pub exporter: Exporter,
    /// Whether `/metrics` has them.
    pub is_scraped: bool,
}

/// Serves until `end`, and what was asked before that.
pub async fn serve(listener: TcpListener, pages: Pages, end: impl Future<Output = ()>) {
    let pages = Arc::new(Served {
        pages,
        questions: Mutex::default(),
        figures: Mutex::default(),
        look: tokio::sync::Mutex::default(),
    });
    let router = Router::new()
        .route("/", get(async || "The agent of a memcached: /metrics\nWhether the agent lives: /livez\n"))
        .route("/livez", get(async || "ok\n"))
        .route("/metrics", get(metrics_page))
        .route(AGENTS_PAGE, get(figures_page))
        .route(&format!("{PATH}/{{nonce}}/{{mac}}"), get(answer))
        .with_state(pages);
    web::serve(listener, web::Transport::Plain, router, end).await;
}

/// Questions and figures have a budget each, so that who waits for one can still ask for the other.
struct Served {
    pages: Pages,
    questions: Mutex<Clients>,
    figures: Mutex<Clients>,
    look: tokio::sync::Mutex<Look>,
}

/// The last look at memcached's figures.
#[derive(Default)]
struct Look {
    began: Option<Instant>,
    /// `None` before the first one was over.
    ended: Option<Instant>,
    families: Vec<MetricFamily>,
}

impl Served {
    /// What memcached counts. The limits are those of each client, and there may be many clients. So what costs memcached
    /// a connection and a login is limited for all of them together: one looks at a time, whoever asks in the same moment
    /// is told what was seen, and no look begins within a moment of the one before, also where nobody waited for that one to
    /// end. A question needs no such limit: its answer is in memory.
    async fn tell_figures(&self) -> Response {
        let mut look = self.look.lock().await;
        if look.ended.is_none_or(|ended| ended.elapsed() >= MOMENT) {
            if let Some(began) = look.began {
                sleep_until(began + MOMENT).await;
            }
            look.began = Some(Instant::now());
            look.families = self.pages.exporter.families().await;
            look.ended = Some(Instant::now());
        }
        to_page(&look.families)
    }
}

fn later() -> Response {
    (StatusCode::TOO_MANY_REQUESTS, "ask again in a second\n").into_response()
}

async fn metrics_page(State(served): State<Arc<Served>>) -> Response {
    let Pages { published, exporter, is_scraped } = &served.pages;
    let mut families = match is_scraped {
        true => exporter.families().await,
        false => ProcessCollector::for_self().collect(),
    };
    families.extend(metrics::families(&published.get()));
    to_page(&families)
}

/// What memcached counts, for an operator that waits for it to be warm.
async fn figures_page(
    State(served): State<Arc<Served>>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
) -> Response {
    match allows(&served.figures, client) {
        true => served.tell_figures().await,
        false => later(),
    }
}

async fn answer(
    State(served): State<Arc<Served>>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    Path((nonce, mac)): Path<(String, String)>,
) -> Response {
    let question = match RotationQuestion::from_path_parts(&nonce, &mac) {
        Ok(question) => question,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    if !allows(&served.questions, client) {
        return later();
    }
    match serde_json::to_string(&served.pages.published.get().answer(&question)) {
        Ok(text) => ([(CONTENT_TYPE, "application/json")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

fn allows(clients: &Mutex<Clients>, client: SocketAddr) -> bool {
    clients.lock().unwrap_or_else(PoisonError::into_inner).allows(client.ip(), Instant::now())
}

/// Lets a few of each client through a second.
#[derive(Debug, Default)]
struct Clients {
    /// Who asked last comes last. At most [`MOST_CLIENTS`].
    limits: VecDeque<(IpAddr, Limit)>,
}

impl Clients {
    /// Where one too many comes, the one that has not asked for longest is forgotten, and begins anew when it asks. So
    /// strangers with many addresses get more answers, and keep none from anybody.
    fn allows(&mut self, client: IpAddr, now: Instant) -> bool {
        let known = self.limits.iter().position(|(address, _)| *address == client);
        let known = known.and_then(|at| self.limits.remove(at));
        let mut limit = known.map(|(_, limit)| limit).unwrap_or_default();
        let allows = limit.allows(now);
        if self.limits.len() >= MOST_CLIENTS {
            self.limits.pop_front();
        }
        self.limits.push_back((client, limit));
        allows
    }
}

/// Lets a few through a second.
#[derive(Debug, Default)]
struct Limit {
    /// When the second began, and how many were let through in it.
    second: Option<(Instant, u32)>,
}

impl Limit {
    fn allows(&mut self, now: Instant) -> bool {
        let (began, count) = match self.second {
            Some((began, count)) if now.duration_since(began) < Duration::from_secs(1) => (began, count),
            Some(_) | None => (now, 0),
        };
        self.second = Some((began, count.saturating_add(1)));
        count < A_SECOND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_questions_a_second_are_let_through() {
        let mut limit = Limit::default();
        let start = Instant::now();
        let allowed = |limit: &mut Limit, millis| limit.allows(start + Duration::from_millis(millis));
        assert_eq!(
            [0, 1, 2, 3, 4, 999].map(|at| allowed(&mut limit, at)),
            [true, true, true, true, false, false]
        );
        assert_eq!([1000, 1001].map(|at| allowed(&mut limit, at)), [true, true]);
    }

    #[test]
    fn each_client_has_its_own_limit_and_a_crowd_takes_little_room_and_nobodys_answer() {
        let mut clients = Clients::default();
        let now = Instant::now();
        let [one, other] = [1, 2].map(|last| IpAddr::from([127, 0, 0, last]));
        let five = |clients: &mut Clients, of| [(); 5].map(|()| clients.allows(of, now));
        let a_few = [true, true, true, true, false];
        assert_eq!([one, other].map(|of| five(&mut clients, of)), [a_few, a_few]);
        for stranger in 0..10_000_u32 {
            assert!(clients.allows(IpAddr::from(stranger.to_be_bytes()), now), "{stranger}");
            assert!(!clients.allows(one, now), "who goes on asking is not forgotten");
        }
        assert_eq!(clients.limits.len(), MOST_CLIENTS);
        assert_eq!(five(&mut clients, other), a_few);
    }
}
