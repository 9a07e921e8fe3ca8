//! The agent's pages. Takes a listener and what is published; serves `/metrics`, `/livez` and the answers to the operator's
//! questions. IO; `cli` calls it.
//!
//! Anybody may reach the port. A question is a path of a fixed length, and only a few a second are answered: see
//! [`crate::secrets::rotation_check`].

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use prometheus::core::Collector as _;
use prometheus::process_collector::ProcessCollector;
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::metrics;
use super::published::Published;
use crate::exporter::serve::{Exporter, to_page};
use crate::figures::AGENTS_PAGE;
use crate::secrets::rotation_check::{PATH, RotationQuestion};
use crate::web;

/// Questions that are answered in any second.
pub const A_SECOND: u32 = 4;

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
    let pages = Arc::new(Served { pages, limit: Mutex::default() });
    let router = Router::new()
        .route("/", get(async || "The agent of a memcached: /metrics\nWhether the agent lives: /livez\n"))
        .route("/livez", get(async || "ok\n"))
        .route("/metrics", get(metrics_page))
        .route(AGENTS_PAGE, get(figures_page))
        .route(&format!("{PATH}/{{nonce}}/{{mac}}"), get(answer))
        .with_state(pages);
    web::serve(listener, web::Transport::Plain, router, end).await;
}

struct Served {
    pages: Pages,
    limit: Mutex<Limit>,
}

impl Served {
    fn allows(&self) -> bool {
        self.limit.lock().unwrap_or_else(PoisonError::into_inner).allows(Instant::now())
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
async fn figures_page(State(served): State<Arc<Served>>) -> Response {
    match served.allows() {
        true => to_page(&served.pages.exporter.families().await),
        false => later(),
    }
}

async fn answer(State(served): State<Arc<Served>>, Path((nonce, mac)): Path<(String, String)>) -> Response {
    if !served.allows() {
        return later();
    }
    let question = match RotationQuestion::from_path_parts(&nonce, &mac) {
        Ok(question) => question,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    match serde_json::to_string(&served.pages.published.get().answer(&question)) {
        Ok(text) => ([(CONTENT_TYPE, "application/json")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// Lets a few through a second, whoever asks.
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
}
