//! `/metrics` behind TLS and authorization, on a port of its own. Takes a listener, the metrics and a client; serves those whom
//! the API server lets read them. IO; the main loop starts it, leader or not.
//!
//! [`access`] decides, [`reviews`] asks the API server, [`cache`] remembers for a minute, [`certificate`] gives what TLS is set up
//! with. Whoever sends no token costs no request. Whoever sends tokens that nobody knows costs a few requests at once, and
//! takes nothing from the probes, which are on another port.

pub mod access;
pub mod cache;
pub mod certificate;
pub mod reviews;

use std::future::pending;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::header::WWW_AUTHENTICATE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use kube::Client;
use tokio::join;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use self::access::{AccessDecision, PATH, bearer_token};
use self::cache::{Cache, TokenHash};
use self::certificate::{Source, keep_current};
use self::reviews::{ReviewError, review};
use super::admin::page_of;
use super::metrics::Metrics;
use crate::web::{self, Transport};

/// Reviews at once: the API server has other work.
const AT_ONCE: usize = 4;

/// Where metrics are served with TLS and authorization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The address.
    pub listen: SocketAddr,
    /// The certificate.
    pub certificate: Source,
}

/// The page, and who may read it.
pub struct SecureMetrics {
    metrics: Arc<Metrics>,
    gatekeeper: Gatekeeper,
}

impl SecureMetrics {
    /// The metrics for those whom the API server behind `client` lets read them.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>, client: Client) -> Self {
        Self { metrics, gatekeeper: Gatekeeper::new(client) }
    }

    /// Serves them until the task is dropped.
    pub async fn serve(self, listener: TcpListener, certificate: Source) {
        let pages = Router::new().route(PATH, get(page)).with_state(Arc::new(self));
        let (newest, certificates) = watch::channel(None);
        join!(
            keep_current(certificate, newest),
            web::serve(listener, Transport::Tls(certificates), pages, pending())
        );
    }
}

async fn page(State(page): State<Arc<SecureMetrics>>, head: HeaderMap) -> Response {
    let decision = match bearer_token(&head) {
        Some(token) => page.gatekeeper.decision(token).await,
        None => Ok(AccessDecision::Unauthenticated),
    };
    match decision {
        Ok(AccessDecision::Allowed) => page_of(&page.metrics),
        Ok(AccessDecision::Unauthenticated) => {
            let text = "send a token that the API server takes, as Authorization: Bearer\n";
            (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], text).into_response()
        }
        Ok(AccessDecision::Forbidden { user }) => {
            (StatusCode::FORBIDDEN, format!("{}\n", refused(&user))).into_response()
        }
        Err(Unknown) => {
            let text =
                "the API server does not say who may read the metrics: the log of the operator says why\n";
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

fn refused(user: &str) -> String {
    format!(
        "{user} may not read the metrics: bind this user to a ClusterRole with the verb get on the nonResourceURL /metrics"
    )
}

/// Nobody knows whether the client may read the metrics. Why, is for the log only.
#[derive(Debug)]
struct Unknown;

/// Says who may read the metrics.
struct Gatekeeper {
    client: Client,
    started: Instant,
    reviews: Semaphore,
    cache: Mutex<Cache>,
    /// Why the last review failed, if it did.
    problem: Mutex<Option<String>>,
}

impl Gatekeeper {
    fn new(client: Client) -> Self {
        Self {
            client,
            started: Instant::now(),
            reviews: Semaphore::new(AT_ONCE),
            cache: Mutex::default(),
            problem: Mutex::default(),
        }
    }

    async fn decision(&self, token: &str) -> Result<AccessDecision, Unknown> {
        let hash = TokenHash::from_token(token);
        if let Some(decision) = self.known(&hash) {
            return Ok(decision);
        }
        // Fails only once the semaphore is closed, which it never is.
        let _turn = self.reviews.acquire().await;
        // Another request with the same token may have been answered meanwhile.
        if let Some(decision) = self.known(&hash) {
            return Ok(decision);
        }
        let reviewed = review(&self.client, token).await;
        self.tell(reviewed.as_ref());
        let decision = reviewed.map_err(|_told| Unknown)?;
        lock(&self.cache).keep(hash, decision.clone(), self.started.elapsed());
        Ok(decision)
    }

    fn known(&self, token: &TokenHash) -> Option<AccessDecision> {
        lock(&self.cache).get(token, self.started.elapsed())
    }

    /// A line for each user who is refused, once a minute for each token; and for each new problem.
    fn tell(&self, reviewed: Result<&AccessDecision, &ReviewError>) {
        if let Ok(AccessDecision::Forbidden { user }) = reviewed {
            tracing::warn!("{}", refused(user));
        }
        let problem = reviewed.err().map(ToString::to_string);
        let mut last = lock(&self.problem);
        if *last == problem {
            return;
        }
        match &problem {
            Some(why) => tracing::warn!("nobody may read the metrics before the API server answers: {why}"),
            None => tracing::info!("the API server says again who may read the metrics"),
        }
        *last = problem;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
