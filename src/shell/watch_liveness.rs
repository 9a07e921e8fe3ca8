//! Signs of life of a watch, read off its connection. IO.
//!
//! `kube::runtime::watcher` does not pass bookmarks on, so that a quiet kind looks like a dead connection. [`monitored`] wraps
//! a client: every byte of a successful answer is a sign of life, and no request waits for ever. `watches` calls it with one
//! [`WatchLiveness`] a watch.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::{Body as HttpBody, Frame};
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tower::BoxError;

use super::api_request::Verb;
use super::client::DEADLINE;

/// When a watch gave its last sign of life. Clones share one state.
#[derive(Clone, Debug)]
pub struct WatchLiveness {
    origin: Instant,
    millis: Arc<AtomicU64>,
    /// How many watches the API server has begun.
    watches: watch::Sender<u64>,
}

impl WatchLiveness {
    /// One whose last sign of life is now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: Instant::now(), millis: Arc::default(), watches: watch::Sender::default() }
    }

    /// The last sign of life, to the millisecond.
    #[must_use]
    pub fn last_heard(&self) -> Instant {
        self.origin + Duration::from_millis(self.millis.load(Ordering::Relaxed))
    }

    /// Changes when the API server accepts the next watch.
    #[must_use]
    pub fn watches_begun(&self) -> watch::Receiver<u64> {
        self.watches.subscribe()
    }

    fn heard(&self) {
        let millis = u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.millis.store(millis, Ordering::Relaxed);
    }
}

impl Default for WatchLiveness {
    fn default() -> Self {
        Self::new()
    }
}

/// A client that shares `client`'s connections and records signs of life in `liveness`. The head of every answer must come
/// within [`DEADLINE`], and so must its body, unless the request is a watch.
#[must_use]
pub fn monitored(client: &Client, liveness: &WatchLiveness) -> Client {
    let (inner, liveness) = (client.clone(), liveness.clone());
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (inner, liveness) = (inner.clone(), liveness.clone());
        async move {
            let is_watch = Verb::of(request.method(), request.uri()) == Verb::Watch;
            let deadline = (!is_watch).then(|| Box::pin(sleep(DEADLINE)));
            let response =
                timeout(DEADLINE, inner.send(request)).await.map_err(|_elapsed| ResponseTimeout)??;
            let liveness = response.status().is_success().then_some(liveness);
            if let Some(liveness) = liveness.as_ref().filter(|_| is_watch) {
                liveness.watches.send_modify(|watches| *watches += 1);
            }
            Ok::<_, BoxError>(response.map(|body| LivenessBody { body, liveness, deadline }))
        }
    });
    Client::new(service, client.default_namespace())
}

/// An answer, or the rest of its body, did not come in time.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {} s", DEADLINE.as_secs())]
struct ResponseTimeout;

/// A body whose every frame counts as a sign of life, and its orderly end, too: an API server ends a quiet watch after its
/// time, whereas a connection that hangs brings neither.
struct LivenessBody {
    body: Body,
    liveness: Option<WatchLiveness>,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl HttpBody for LivenessBody {
    type Data = <Body as HttpBody>::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context).map_err(Into::into);
        match &polled {
            Poll::Ready(None | Some(Ok(_))) => self.liveness.iter().for_each(WatchLiveness::heard),
            Poll::Ready(Some(Err(_))) => {}
            Poll::Pending => {
                let late =
                    self.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(context).is_ready());
                if late {
                    return Poll::Ready(Some(Err(ResponseTimeout.into())));
                }
            }
        }
        polled
    }
}
