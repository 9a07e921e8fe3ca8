//! The [`Fence`] stops what only a leader may send, before leadership may have been lost. IO: it waits for requests, reads the
//! monotonic clock and runs connections. The election opens and shuts it; the clients of `effects` and `publish` are behind it.
//!
//! It works in two places. First, no request begins while the fence is shut, and a request that began earlier ends, here and
//! at the API server, before anybody else may lead. Second, a connection is dropped instead of being polled again when the
//! grace period is over: a process that was stopped may go on with a request that passed the first check long ago.
//!
//! The fence cannot stop everything: a process that is stopped between the check and the system call sends, when it goes
//! on, what it had prepared, at most one request. No check in this process can prevent that. The API server does: each write
//! names the version of the object that it was decided on, and is refused when somebody has written to that object since.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{Request, Uri};
use kube::Client;
use kube::client::Body;
use tokio::sync::RwLock;
use tokio::time::{Instant, timeout};
use tower::BoxError;

use super::elector::Timing;
use crate::shell::client::{Connection, DEADLINE};

/// Until when a leader may write. Clones share one state.
#[derive(Clone, Debug)]
pub struct Fence(Arc<State>);

#[derive(Debug)]
struct State {
    origin: Instant,
    /// Grace period for requests under way.
    grace: Duration,
    /// Nanoseconds after `origin`; 0 means shut.
    until: AtomicU64,
    /// Every request under way holds this for reading.
    under_way: Arc<RwLock<()>>,
}

/// Why a request was stopped.
#[derive(Debug, thiserror::Error)]
enum Stopped {
    #[error("not sent, because this process does not lead or may have lost the lead")]
    NotLeading,
    #[error("no answer within {} ms, after which somebody else may lead", .0.as_millis())]
    Late(Duration),
}

impl Fence {
    /// A fence that is shut.
    #[must_use]
    pub fn new(timing: Timing) -> Self {
        let (until, under_way) = (AtomicU64::new(0), Arc::default());
        Self(Arc::new(State { origin: Instant::now(), grace: timing.grace(), until, under_way }))
    }

    /// The time since this fence was made, on the monotonic clock. All times of the election are counted so.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.0.origin.elapsed()
    }

    /// The instant of a time of the election.
    #[must_use]
    pub fn instant(&self, time: Duration) -> Instant {
        self.0.origin + time
    }

    /// Opens until this time of the election, and shuts then by itself.
    pub fn open(&self, until: Duration) {
        self.0.until.store(u64::try_from(until.as_nanos()).unwrap_or(u64::MAX), Ordering::Release);
    }

    /// Shuts at once, also for requests under way.
    pub fn shut(&self) {
        self.open(Duration::ZERO);
    }

    /// Waits until every request under way has ended, then shuts.
    pub async fn shut_behind(&self) {
        let _none = self.0.under_way.write().await;
        self.shut();
    }

    /// Whether a request may begin.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.now() < self.until()
    }

    /// A client for what only a leader may send.
    #[must_use]
    pub fn guard(&self, client: &Client) -> Client {
        let (inner, fence) = (client.clone(), self.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (inner, fence) = (inner.clone(), fence.clone());
            async move {
                let _under_way = Arc::clone(&fence.0.under_way).read_owned().await;
                let limit = fence.limit().ok_or(Stopped::NotLeading)?;
                let answer = timeout(limit, inner.send(bounded(request, limit)?)).await;
                Ok::<_, BoxError>(answer.map_err(|_elapsed| Stopped::Late(limit))??)
            }
        });
        Client::new(service, client.default_namespace())
    }

    /// How long a request may take that begins now; `None` while the fence is shut.
    fn limit(&self) -> Option<Duration> {
        let left = (self.until() + self.0.grace).saturating_sub(self.now());
        self.is_open().then(|| left.min(DEADLINE))
    }

    fn until(&self) -> Duration {
        Duration::from_nanos(self.0.until.load(Ordering::Acquire))
    }

    /// Whether the grace period is over, too: no request may be under way any more.
    fn is_past(&self) -> bool {
        self.now() >= self.until() + self.0.grace
    }
}

/// Adds the limit to the request, so that the API server gives up after the same time. Otherwise a request that waits in the
/// API server's queues while this process is cut off could be executed later.
fn bounded(request: Request<Body>, limit: Duration) -> Result<Request<Body>, http::Error> {
    let (mut parts, body) = request.into_parts();
    let target = parts.uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let join = if target.contains('?') { '&' } else { '?' };
    let target = format!("{target}{join}timeout={}ms", limit.as_millis().max(1));
    let mut uri = parts.uri.into_parts();
    uri.path_and_query = Some(target.parse()?);
    parts.uri = Uri::from_parts(uri)?;
    Ok(Request::from_parts(parts, body))
}

/// Runs the connections of a client. A connection ends when the grace period is over.
impl hyper::rt::Executor<Connection> for Fence {
    fn execute(&self, mut connection: Connection) {
        let fence = self.clone();
        tokio::spawn(poll_fn(move |context| {
            if fence.is_past() { Poll::Ready(()) } else { connection.as_mut().poll(context) }
        }));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use http::Response;
    use tokio::sync::Notify;
    use tokio::time::advance;

    use super::*;

    const LEASE: Timing = Timing { lease: Duration::from_secs(15) };

    /// A client that records each request and answers when it is notified.
    fn noting() -> (Client, Arc<Mutex<Vec<String>>>, Arc<Notify>) {
        let (asked, answer) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Notify>::default());
        let (notes, told) = (Arc::clone(&asked), Arc::clone(&answer));
        let service = tower::service_fn(move |request: Request<Body>| {
            notes.lock().unwrap().push(request.uri().to_string());
            let told = Arc::clone(&told);
            async move {
                told.notified().await;
                Ok::<_, BoxError>(Response::new(Body::from(Vec::new())))
            }
        });
        (Client::new(service, "default"), asked, answer)
    }

    async fn sent(client: &Client, uri: &str) -> Result<(), String> {
        let request = Request::get(uri).body(Body::from(Vec::new())).unwrap();
        client.send(request).await.map(|_| ()).map_err(|error| error.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_begun_ends_before_another_may_lead() {
        let (client, asked, answer) = noting();
        let fence = Fence::new(LEASE);
        let client = fence.guard(&client);
        let refused = sent(&client, "/a").await.unwrap_err();
        assert!(refused.contains("does not lead"), "{refused}");

        fence.open(LEASE.valid());
        answer.notify_one();
        sent(&client, "/a").await.unwrap();
        advance(Duration::from_secs(7)).await;
        let late = sent(&client, "/a?b=c").await.unwrap_err();
        assert!(late.contains("no answer within 7000 ms"), "{late}");
        assert_eq!(fence.now(), Duration::from_secs(14), "the lease ends at 15 s");
        assert!(sent(&client, "/a").await.is_err());
        assert_eq!(*asked.lock().unwrap(), ["/a?timeout=10000ms", "/a?b=c&timeout=7000ms"]);
    }

    #[tokio::test(start_paused = true)]
    async fn shutting_behind_waits_for_what_is_under_way() {
        let (client, _, answer) = noting();
        let fence = Fence::new(LEASE);
        fence.open(LEASE.valid());
        let client = fence.guard(&client);
        let request = tokio::spawn(async move { sent(&client, "/a").await });
        tokio::task::yield_now().await;
        assert!(timeout(Duration::from_secs(1), fence.shut_behind()).await.is_err());
        assert!(fence.is_open());

        answer.notify_one();
        fence.shut_behind().await;
        assert!(!fence.is_open() && request.await.unwrap().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_wakes_too_late_sends_nothing() {
        use hyper::rt::Executor as _;
        let fence = Fence::new(LEASE);
        fence.open(LEASE.valid());
        let (sent, wake) = (Arc::<Mutex<Vec<Duration>>>::default(), Arc::<Notify>::default());
        let (log, waking, clock) = (Arc::clone(&sent), Arc::clone(&wake), fence.clone());
        fence.execute(Box::pin(async move {
            loop {
                waking.notified().await;
                log.lock().unwrap().push(clock.now());
            }
        }));
        for seconds in [9, 4, 2] {
            advance(Duration::from_secs(seconds)).await;
            wake.notify_one();
            tokio::task::yield_now().await;
        }
        assert_eq!(*sent.lock().unwrap(), [9, 13].map(Duration::from_secs));
    }
}
