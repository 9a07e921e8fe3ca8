//! Signs of life of a watch, read off its connection. IO.
//!
//! The stream of a watch does not pass bookmarks on, so that a quiet kind looks like a dead connection. [`monitored`] wraps
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

/// How long the body of a list may let wait in all. The API server ends a list after a minute, too. A busy one pauses in the
/// midst of thousands of objects, but never for [`DEADLINE`].
const LIST_DEADLINE: Duration = Duration::from_secs(60);

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
/// within [`DEADLINE`]. So must each part of its body, and all of it within [`LIST_DEADLINE`], unless the request is a watch.
#[must_use]
pub fn monitored(client: &Client, liveness: &WatchLiveness) -> Client {
    let (inner, liveness) = (client.clone(), liveness.clone());
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (inner, liveness) = (inner.clone(), liveness.clone());
        async move {
            let is_watch = Verb::from_request(request.method(), request.uri()) == Verb::Watch;
            let response = timeout(DEADLINE, inner.send(request))
                .await
                .map_err(|_elapsed| ResponseTimeout::NextPart)??;
            let response_wait = (!is_watch).then(ResponseWait::new);
            let liveness = response.status().is_success().then_some(liveness);
            if let Some(liveness) = liveness.as_ref().filter(|_| is_watch) {
                liveness.watches.send_modify(|watches| *watches += 1);
            }
            Ok::<_, BoxError>(response.map(|body| LivenessBody { body, liveness, response_wait }))
        }
    });
    Client::new(service, client.default_namespace())
}

/// Whether a request failed because its answer, or a part of it, did not come in time.
#[must_use]
pub(super) fn is_late(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Service(why) if why.is::<ResponseTimeout>())
}

/// What did not come in time.
#[derive(Clone, Copy, Debug, thiserror::Error)]
enum ResponseTimeout {
    /// The head of an answer, or the next part of its body.
    #[error("no answer within {} s", DEADLINE.as_secs())]
    NextPart,
    /// The end of the body.
    #[error("no whole answer within {} s", LIST_DEADLINE.as_secs())]
    End,
}

/// How long a body may let wait. Only waiting counts: while a busy kernel takes no objects nobody looks whether more of the
/// body is there, and a list that is slow for that reason must not be given up.
struct ResponseWait {
    /// What is left of [`LIST_DEADLINE`].
    left: Duration,
    /// Since when the next part is waited for.
    since: Option<Instant>,
    alarm: Pin<Box<Sleep>>,
}

impl ResponseWait {
    fn new() -> Self {
        Self { left: LIST_DEADLINE, since: None, alarm: Box::pin(sleep(DEADLINE)) }
    }

    /// Called while nothing is there.
    fn wait(&mut self, context: &mut Context<'_>) -> Poll<ResponseTimeout> {
        if self.since.is_none() {
            let now = Instant::now();
            self.since = Some(now);
            self.alarm.as_mut().reset(now + self.left.min(DEADLINE));
        }
        let late = if self.left < DEADLINE { ResponseTimeout::End } else { ResponseTimeout::NextPart };
        self.alarm.as_mut().poll(context).map(|()| late)
    }

    /// Called when something is there.
    fn end_wait(&mut self) {
        let waited = self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
        self.left = self.left.saturating_sub(waited);
    }
}

/// A body whose every frame counts as a sign of life, and its orderly end, too: an API server ends a quiet watch after its
/// time, whereas a connection that hangs brings neither.
struct LivenessBody {
    body: Body,
    liveness: Option<WatchLiveness>,
    response_wait: Option<ResponseWait>,
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
            Poll::Ready(came) => {
                self.response_wait.iter_mut().for_each(ResponseWait::end_wait);
                if !matches!(came, Some(Err(_))) {
                    self.liveness.iter().for_each(WatchLiveness::heard);
                }
            }
            Poll::Pending => {
                if let Some(Poll::Ready(late)) = self.response_wait.as_mut().map(|it| it.wait(context)) {
                    return Poll::Ready(Some(Err(late.into())));
                }
            }
        }
        polled
    }
}
