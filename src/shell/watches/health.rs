//! The health of one watch: counts and logs its failures, and says what each means for the watch and for the kernel, and how
//! long to wait. Takes the errors of the stream; gives [`WatchAction`]s and kernel events. IO only in that it waits and logs;
//! [`super`] runs the watch and calls it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use kube::core::{Resource, Status};
use kube::runtime::watcher::{self, DefaultBackoff};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::events::gone;
use super::sink::WatchSink;
use crate::kernel::event::{Departure, Event, Unavailable};
use crate::kernel::failure::{Category, Failure};
use crate::kernel::lists::Moment;
use crate::kernel::object::{Scope, Watched};
use crate::shell::admin::Gate;
use crate::shell::classify::missing_verb;
use crate::shell::client::{explain, said};
use crate::shell::kinds;
use crate::shell::watch_liveness::WatchLiveness;

/// The API server ends a watch after this time, in seconds: a missed end of a watch costs no more than this.
pub(super) const WATCH_TIMEOUT: u32 = 180;
/// A watch that is silent for this long is dead: the API server sends a bookmark every minute, and one just before it ends a
/// watch.
pub const SILENCE: Duration = Duration::from_secs(WATCH_TIMEOUT as u64 + 10);
/// After so many failures in a row the stream is dropped and the kind is listed again.
const FAILURES_BEFORE_RELIST: u32 = 5;
/// Poll interval for a kind that is not served, while a resource wants it.
const MISSING_KIND_POLL_INTERVAL: Duration = Duration::from_secs(30);
/// At the start, after so many failures in a row, an optional kind counts as unavailable, so that nobody waits for its list.
const FAILURES_BEFORE_UNAVAILABLE: u32 = 3;
/// A failure that lasts, or comes again, is logged again after this time.
const LOG_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// The pause where the backoff has no next one.
const LONGEST_PAUSE: Duration = Duration::from_secs(120);

/// What the watch does after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchAction {
    /// Keep the stream: it continues from its last version.
    Resume,
    /// Drop the stream and list.
    Relist,
}

/// What the watch does after `error`, the `failures`th in a row.
///
/// Some errors need a new list, because the stream goes on from its last version: after 410, as an HTTP status or in the stream,
/// it would ask for the same expired version for ever, and an event that it cannot read would come again and again.
fn action_after(error: &watcher::Error, failures: u32) -> WatchAction {
    let hopeless = match error {
        // The stream lists again by itself, and knows how long its pages may be: another one would begin with the longest.
        watcher::Error::InitialListFailed(_) | watcher::Error::NoResourceVersion => {
            return WatchAction::Resume;
        }
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => matches!(status.code, 404 | 410),
        watcher::Error::WatchError(_) => true,
        watcher::Error::WatchFailed(error) => !matches!(error, kube::Error::ReadEvents(_)),
        watcher::Error::WatchStartFailed(_) => false,
    };
    if hopeless || failures >= FAILURES_BEFORE_RELIST { WatchAction::Relist } else { WatchAction::Resume }
}

/// The health of one watch, kept across restarts.
pub(super) struct WatchHealth {
    pub(super) kind: Watched,
    pub(super) scope: Scope,
    pub(super) liveness: WatchLiveness,
    pub(super) sink: WatchSink,
    backoff: DefaultBackoff,
    /// The silence counts from here, or from the last sign of life, whichever is later.
    pub(super) silent_since: Instant,
    failures: u32,
    last_failure: Option<Instant>,
    /// Which failure of those that last was logged.
    logged: Logged,
    /// Whether the kernel has a complete list.
    is_listed: bool,
    /// Whether the API server allows lists and refuses watches. Then a complete list is reported only after a watch has begun.
    /// Otherwise the kernel would believe, after every list, that all is well until the next refusal.
    pub(super) watch_refused: bool,
    /// When the last request left whose refusal was reported to the kernel; `None` after a complete list.
    refused: Option<Departure>,
    resources: watch::Sender<ResourceListState>,
}

/// The state of the list of `Memcached` resources in one scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResourceListState {
    /// No answer yet.
    Awaited,
    /// The list fails. Other kinds are listed all the same, so that readiness reports everything that is wrong at once. Their
    /// objects do not reach the kernel: without resources they are of no use, and their number has no bound.
    Failed,
    /// The list has been complete once.
    Known,
}

/// Identifies a failure, so that the log can tell whether it is another. The message does not: it may hold versions and addresses
/// that differ each time.
type Complaint = (std::mem::Discriminant<watcher::Error>, Option<u16>);

/// What was logged last, and when; nothing, where the kind was listed since.
#[derive(Default)]
struct Logged(Option<(Complaint, Instant)>);

impl Logged {
    /// Whether to log this: another failure than the last, or the same after [`LOG_AGAIN_AFTER`]. Then it counts as logged.
    fn is_due(&mut self, complaint: Complaint, now: Instant) -> bool {
        let lasts = |at: Instant| now.duration_since(at) < LOG_AGAIN_AFTER;
        let is_due = !self.0.is_some_and(|(last, at)| last == complaint && lasts(at));
        if is_due {
            self.0 = Some((complaint, now));
        }
        is_due
    }

    /// Whether to log this, which is no failure: it is logged once.
    fn is_another(&mut self, complaint: Complaint, now: Instant) -> bool {
        let is_another = !self.0.is_some_and(|(last, _)| last == complaint);
        is_another && self.is_due(complaint, now)
    }
}

impl WatchHealth {
    pub(super) fn new(
        kind: Watched,
        scope: Scope,
        sink: WatchSink,
        resources: watch::Sender<ResourceListState>,
    ) -> Self {
        Self {
            liveness: sink.metrics.watch_liveness(kind, &scope),
            kind,
            scope,
            sink,
            backoff: DefaultBackoff::default(),
            silent_since: Instant::now(),
            failures: 0,
            last_failure: None,
            logged: Logged::default(),
            is_listed: false,
            watch_refused: false,
            refused: None,
            resources,
        }
    }

    /// Waits until the list of resources is complete or has failed. The watch of the resources itself does not wait.
    pub(super) async fn wait_for_resources(&self) {
        if self.kind == Watched::Memcached {
            return;
        }
        // `self` holds the sender, so that the channel stays open.
        let _ =
            self.resources.subscribe().wait_for(|resources| *resources != ResourceListState::Awaited).await;
        if *self.resources.borrow() == ResourceListState::Failed {
            let why = format!("waits for the list of {}", kinds::plural(Watched::Memcached));
            self.sink.gates.explain(&Gate::Listed(self.kind, self.scope.clone()), &why);
        }
    }

    /// While this kind's objects must not reach the kernel: a channel that says when the resources are known.
    pub(super) fn resources_to_come(&self) -> Option<watch::Receiver<ResourceListState>> {
        let known = self.kind == Watched::Memcached || *self.resources.borrow() == ResourceListState::Known;
        (!known).then(|| self.resources.subscribe())
    }

    /// Waits until the main loop asks for a new list, and says why it does.
    pub(super) async fn relist_requested(&mut self) -> &'static str {
        let WatchSink { relist_resources, relist_all, .. } = &mut self.sink;
        // The senders live as long as the main loop.
        tokio::select! {
            Ok(()) = relist_resources.changed(), if self.kind == Watched::Memcached => "this process is to lead",
            Ok(()) = relist_all.changed() => "versions have gone back",
            else => std::future::pending().await,
        }
    }

    /// The departure of a list request that leaves now.
    pub(super) fn departure(&mut self) -> Departure {
        let answers = Moment(self.sink.answers.load(Ordering::Relaxed));
        // A request for a new list that comes later ends `relist_requested`.
        self.sink.relist_all.mark_unchanged();
        Departure { answers, relists: *self.sink.relist_resources.borrow_and_update() }
    }

    /// The event for the first answer to a request with this departure.
    pub(super) fn asked(&self, left: Departure) -> Event {
        Event::Asked { kind: self.kind, scope: self.scope.clone(), left }
    }

    /// Records that the kernel has received a complete list.
    pub(super) fn kernel_has_list(&self) {
        if self.kind == Watched::Memcached {
            self.resources.send_replace(ResourceListState::Known);
        }
    }

    /// Counts the failure, logs it when it is due, and updates readiness.
    pub(super) fn failed(&mut self, error: &watcher::Error) -> WatchAction {
        let (complaint, now) = ((std::mem::discriminant(error), code(error)), Instant::now());
        if self.kind == Watched::Memcached {
            let waits = |resources: &mut ResourceListState| *resources == ResourceListState::Awaited;
            self.resources
                .send_if_modified(|it| waits(it) && std::mem::replace(it, ResourceListState::Failed) != *it);
        }
        if self.is_absent(error) {
            // The cluster does not have this kind, which is no failure.
            if self.logged.is_another(complaint, now) {
                tracing::info!(kind = self.kind.name(), "{}", self.explain(error));
            }
            self.last_failure = Some(now);
            self.sink.metrics.watched(self.kind, &self.scope, false);
            return WatchAction::Relist;
        }
        self.sink.metrics.watch_failed(self.kind);
        if self.last_failure.replace(now).is_some_and(|at| self.liveness.last_heard() > at) {
            self.failures = 0;
        }
        self.failures += 1;
        let why = self.explain(error);
        if self.logged.is_due(complaint, now) {
            tracing::warn!(kind = self.kind.name(), "{why}");
        }
        if self.kind == Watched::Memcached && complaint.1 == Some(404) {
            self.sink.gates.close(Gate::CrdServed, &why);
        }
        let gate = Gate::Listed(self.kind, self.scope.clone());
        if self.is_taken_away(error) {
            self.sink.gates.close(gate, &why);
            // Only a complete list opens it again.
            return WatchAction::Relist;
        }
        self.sink.gates.explain(&gate, &why);
        action_after(error, self.failures)
    }

    /// Whether the operator lacks permission for a kind that it needs there, for example because the owners of a namespace
    /// removed its Role. Readiness reports it; other namespaces go on.
    fn is_taken_away(&self, error: &watcher::Error) -> bool {
        let concerns =
            self.kind == Watched::Memcached || (self.kind.is_required() && self.scope != Scope::All);
        concerns && code(error) == Some(403)
    }

    /// Whether this is an optional kind that the API server does not serve.
    fn is_absent(&self, error: &watcher::Error) -> bool {
        !self.kind.is_required() && code(error) == Some(404)
    }

    /// The events that tell the kernel that it may not list a kind, or of a failure of an optional kind. `None` where the kernel
    /// keeps what it knows: once a list was complete, transient failures do not concern it.
    pub(super) fn events_of_failure(
        &mut self,
        error: &watcher::Error,
        left: Departure,
    ) -> Option<Vec<Event>> {
        let scope = self.scope.clone();
        let told = match (self.kind, code(error)) {
            (Watched::Memcached, Some(403 | 404)) => self.say_refused(left),
            _ if self.is_taken_away(error) => self.say_refused(left),
            (Watched::Child(kind), code) if !kind.is_required() => {
                let why = match code {
                    Some(404) => Unavailable::NotServed,
                    Some(403) => refused(Category::Forbidden, self.explain(error)),
                    _ if !self.is_listed && self.failures >= FAILURES_BEFORE_UNAVAILABLE => {
                        refused(Category::Transient, self.explain(error))
                    }
                    _ => return None,
                };
                vec![Event::Unavailable { kind, scope, why }]
            }
            _ => return None,
        };
        self.is_listed = false;
        self.watch_refused = !matches!(error, watcher::Error::InitialListFailed(_));
        Some(told)
    }

    /// A list that is needed is refused. The kernel is told once, and once more after each request for a new list of the
    /// resources, because a new leader waits for the answer.
    fn say_refused(&mut self, left: Departure) -> Vec<Event> {
        if self.refused.is_some_and(|known| known.relists == left.relists) {
            return Vec::new();
        }
        self.refused = Some(left);
        vec![self.asked(left), Event::Unlistable(self.kind, self.scope.clone())]
    }

    /// Waits before the next attempt. For an optional kind that is not served: until a resource wants it, and then for the poll
    /// interval.
    pub(super) async fn wait(&mut self, error: &watcher::Error) {
        let Watched::Child(kind) = self.kind else { return self.back_off().await };
        if !self.is_absent(error) {
            return self.back_off().await;
        }
        let mut missing_kinds = self.sink.missing_kinds.clone();
        if missing_kinds.borrow().contains(&kind) {
            sleep(MISSING_KIND_POLL_INTERVAL).await;
        }
        // The sender lives as long as the main loop.
        let _ = missing_kinds.wait_for(|kinds| kinds.contains(&kind)).await;
    }

    /// Backs off, but not while the main loop asks for a new list: a new leader waits for that list, and nobody writes meanwhile.
    async fn back_off(&mut self) {
        let pause = self.backoff.next().unwrap_or(LONGEST_PAUSE);
        let WatchSink { mut relist_resources, mut relist_all, .. } = self.sink.clone();
        tokio::select! {
            () = sleep(pause) => {}
            Ok(()) = relist_resources.changed(), if self.kind == Watched::Memcached => {}
            Ok(()) = relist_all.changed() => {}
        }
    }

    fn explain(&self, error: &watcher::Error) -> String {
        let plural = match &self.scope {
            Scope::All => kinds::plural(self.kind),
            Scope::Namespace(namespace) => format!("{} in namespace {namespace}", kinds::plural(self.kind)),
        };
        match (self.kind, code(error)) {
            (Watched::Memcached, Some(404)) => format!(
                "the API server does not serve {plural}: apply the CustomResourceDefinition that \
                 `memcached-operator crd` prints"
            ),
            (_, Some(404)) if !self.kind.is_required() => {
                format!("the API server does not serve {plural}: no resource gets one until it does")
            }
            // Else a proxy refuses, or whatever is before the API server.
            (_, Some(403)) if status(error).and_then(missing_verb).is_some() => {
                format!("may not list and watch {plural}: grant both verbs ({})", words(error))
            }
            _ => format!("cannot list and watch {plural}: {}", words(error)),
        }
    }

    pub(super) fn fell_silent(&self) {
        self.sink.metrics.watch_failed(self.kind);
        tracing::warn!(
            kind = self.kind.name(),
            "heard nothing of the watch of {} for {} s: it is begun anew",
            kinds::plural(self.kind),
            SILENCE.as_secs()
        );
    }

    pub(super) fn listed(&mut self) {
        if self.watch_refused {
            return;
        }
        // What fails from now on is of the watch, and begins a row of its own.
        (self.is_listed, self.refused, self.failures) = (true, None, 0);
        self.sink.metrics.watched(self.kind, &self.scope, true);
        if self.last_failure.take().is_some() {
            self.logged = Logged::default();
            tracing::info!(kind = self.kind.name(), "listed {} again", kinds::plural(self.kind));
        }
    }

    /// Treats an object that gives no event as deleted: a pod without our labels, or an object that this build cannot read.
    /// Other objects are not affected. `None` for an object that is no child, because no resource has a child of its name.
    pub(super) fn unreadable<K: Resource>(&self, object: &K) -> Option<Event> {
        let gone = gone(self.kind, object)?;
        self.sink.metrics.unreadable(self.kind);
        tracing::debug!(kind = self.kind.name(), name = object.meta().name, "cannot read an object");
        Some(gone)
    }
}

fn refused(category: Category, message: String) -> Unavailable {
    Unavailable::Refused(Failure { category, message })
}

/// The HTTP status in an error, where the API server answered at all.
fn code(error: &watcher::Error) -> Option<u16> {
    status(error).map(|status| status.code)
}

/// The answer in an error.
fn status(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => match error {
            kube::Error::Api(status) => Some(status),
            _ => None,
        },
        watcher::Error::WatchError(status) => Some(status),
        watcher::Error::NoResourceVersion => None,
    }
}

fn words(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => explain(error),
        watcher::Error::WatchError(status) => said(status),
        watcher::Error::NoResourceVersion => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds at which one of the failures, which come every 20 s, is logged.
    fn logged(failures: &[Complaint]) -> Vec<u64> {
        let (mut logged, start) = (Logged::default(), Instant::now());
        let seconds = (0..).step_by(20).zip(failures);
        let due = seconds.filter(|(at, it)| logged.is_due(**it, start + Duration::from_secs(*at)));
        due.map(|(at, _)| at).collect()
    }

    #[test]
    fn a_failure_that_lasts_is_logged_once_a_minute_and_another_at_once() {
        let [refused, away] =
            [Some(403), None].map(|code| (std::mem::discriminant(&watcher::Error::NoResourceVersion), code));
        assert_eq!(logged(&[refused; 8]), [0, 60, 120]);
        assert_eq!(logged(&[refused, refused, away, away, refused]), [0, 40, 80]);
    }
}
