//! Signs of life of a watch, read off its connection. IO.
//!
//! `kube::runtime::watcher` keeps bookmarks to itself, so that from outside a quiet kind looks like a dead
//! connection. [`monitored`] wraps a client so that every byte of a successful answer counts, and so that no
//! request waits for ever. `watches` calls it, one [`WatchLiveness`] a watch.

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

use super::client::DEADLINE;

/// When something was last heard. Clones share it.
#[derive(Clone, Debug)]
pub struct WatchLiveness {
    origin: Instant,
    millis: Arc<AtomicU64>,
    /// How many watches the API server has begun.
    watches: watch::Sender<u64>,
}

impl WatchLiveness {
    /// One that beats now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: Instant::now(), millis: Arc::default(), watches: watch::Sender::default() }
    }

    /// When it last beat, to the millisecond.
    #[must_use]
    pub fn last_heard(&self) -> Instant {
        self.origin + Duration::from_millis(self.millis.load(Ordering::Relaxed))
    }

    /// Changes when the next watch begins: the API server has let it pass.
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

/// A client that shares `client`'s connections and reports what it hears to `liveness`. The head of every answer
/// must come within [`DEADLINE`], and so must the rest of it unless the request is a watch.
#[must_use]
pub fn monitored(client: &Client, liveness: &WatchLiveness) -> Client {
    let (inner, liveness) = (client.clone(), liveness.clone());
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (inner, liveness) = (inner.clone(), liveness.clone());
        async move {
            let is_watch = is_watch(request.uri());
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

fn is_watch(uri: &http::Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"))
}

/// An answer did not come in time.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {} s", DEADLINE.as_secs())]
struct ResponseTimeout;

/// A body that reports each of its frames, and its orderly end, as a sign of life. A connection that hangs gives
/// neither; an API server that ends a quiet watch after its time does.
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
