//! How a kind's watch does: counts and logs its failures, says what each means for the watch and for the kernel, and how
//! long to wait. IO only in that it waits; called by [`super`], which runs the watches.

use std::sync::atomic::Ordering;
use std::time::Duration;

use kube::core::Resource;
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
use crate::shell::client::{explain, said};
use crate::shell::kinds;
use crate::shell::watch_liveness::WatchLiveness;

/// After this time the API server ends a watch, in seconds. The most that a missed end can cost.
pub(super) const WATCH_TIMEOUT: u32 = 180;
/// A watch that has been silent for this long is dead. The API server sends a bookmark every minute, and one just
/// before it ends a watch.
pub const SILENCE: Duration = Duration::from_secs(WATCH_TIMEOUT as u64 + 10);
/// Failures in a row after which a watch is begun anew, although none of them asked for it.
const FAILURES_BEFORE_RELIST: u32 = 5;
/// A kind that is not served is asked for so often while a resource asks for one.
const MISSING_KIND_POLL_INTERVAL: Duration = Duration::from_secs(30);
/// Failures in a row after which a kind that a resource can do without keeps nobody waiting at the start.
const FAILURES_BEFORE_UNAVAILABLE: u32 = 3;
/// The same failure is logged again when it comes back after this time.
const LOG_AGAIN_AFTER: Duration = Duration::from_secs(120);

/// What to do after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchAction {
    /// Go on with the stream: it asks again from where it was.
    Resume,
    /// Drop the stream and list.
    Relist,
}

/// What to do after `error`, the `failures`th in a row.
///
/// Left alone, the stream would ask for ever for a version that is gone when 410 comes as an HTTP status, would
/// skip an event it could not read, and would go on reading a stream in which the server said that it failed.
fn action_after(error: &watcher::Error, failures: u32) -> WatchAction {
    let hopeless = match error {
        // The stream begins again with a list by itself.
        watcher::Error::InitialListFailed(_) | watcher::Error::NoResourceVersion => false,
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => matches!(status.code, 404 | 410),
        watcher::Error::WatchError(_) => true,
        watcher::Error::WatchFailed(error) => !matches!(error, kube::Error::ReadEvents(_)),
        watcher::Error::WatchStartFailed(_) => false,
    };
    if hopeless || failures >= FAILURES_BEFORE_RELIST { WatchAction::Relist } else { WatchAction::Resume }
}

/// How a kind's watch does, across its restarts.
pub(super) struct Health {
    pub(super) kind: Watched,
    pub(super) scope: Scope,
    pub(super) liveness: WatchLiveness,
    pub(super) sink: WatchSink,
    backoff: DefaultBackoff,
    /// When silence began to count, if nothing was heard since.
    pub(super) silent_since: Instant,
    failures: u32,
    last_failure: Option<(Complaint, Instant)>,
    /// Whether the kernel has a complete list.
    is_listed: bool,
    /// Whether lists may be had but no watch: a complete list is then no news before a watch has begun, or the kernel
    /// would believe that all is well until the next refusal, over and over.
    pub(super) watch_refused: bool,
    /// When the request left whose refusal the kernel knows of; `None` since a list was complete.
    refused: Option<Departure>,
    resources: watch::Sender<Resources>,
}

/// How far the list of resources of one scope is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resources {
    /// It has not been answered.
    Awaited,
    /// It fails. Other kinds are asked for all the same, so that readiness says all that is wrong at once; but nothing of
    /// them is kept: without resources there is no use for it, and no bound.
    Failed,
    /// It was complete once.
    Known,
}

/// What tells two failures apart in the log: the words may hold versions and addresses that differ each time.
type Complaint = (std::mem::Discriminant<watcher::Error>, Option<u16>);

impl Health {
    pub(super) fn new(
        kind: Watched,
        scope: Scope,
        sink: WatchSink,
        resources: watch::Sender<Resources>,
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
            is_listed: false,
            watch_refused: false,
            refused: None,
            resources,
        }
    }

    /// Every other kind begins after the resources, or after their first failure.
    pub(super) async fn wait_for_turn(&self) {
        if self.kind == Watched::Memcached {
            return;
        }
        // The sender is here, so that this ends only when it is so.
        let _ = self.resources.subscribe().wait_for(|resources| *resources != Resources::Awaited).await;
        if *self.resources.borrow() == Resources::Failed {
            let why = format!("waits for the list of {}", kinds::plural(Watched::Memcached));
            self.sink.gates.explain(&Gate::Listed(self.kind, self.scope.clone()), &why);
        }
    }

    /// Where what this kind brings is of no use yet: tells when it is.
    pub(super) fn resources_to_come(&self) -> Option<watch::Receiver<Resources>> {
        let known = self.kind == Watched::Memcached || *self.resources.borrow() == Resources::Known;
        (!known).then(|| self.resources.subscribe())
    }

    /// Waits until a list is asked for, and says why.
    pub(super) async fn relist_requested(&mut self) -> &'static str {
        let WatchSink { relist_resources, relist_all, .. } = &mut self.sink;
        // The senders live as long as the main loop.
        tokio::select! {
            Ok(()) = relist_resources.changed(), if self.kind == Watched::Memcached => "this process is to lead",
            Ok(()) = relist_all.changed() => "versions have gone back",
            else => std::future::pending().await,
        }
    }

    /// What a request that leaves now has to say about that.
    pub(super) fn departure(&mut self) -> Departure {
        let answers = Moment(self.sink.answers.load(Ordering::Relaxed));
        // Who asks for a list after this is told so by `relist_requested`.
        self.sink.relist_all.mark_unchanged();
        Departure { answers, relists: *self.sink.relist_resources.borrow_and_update() }
    }

    /// The first answer has come to a request that left then.
    pub(super) fn asked(&self, left: Departure) -> Event {
        Event::Asked { kind: self.kind, scope: self.scope.clone(), left }
    }

    /// The kernel has a complete list.
    pub(super) fn told(&self) {
        if self.kind == Watched::Memcached {
            self.resources.send_replace(Resources::Known);
        }
    }

    /// Counts, logs what is new, and tells readiness why.
    pub(super) fn failed(&mut self, error: &watcher::Error) -> WatchAction {
        let (complaint, now) = ((std::mem::discriminant(error), code(error)), Instant::now());
        if self.kind == Watched::Memcached {
            let waits = |resources: &mut Resources| *resources == Resources::Awaited;
            self.resources
                .send_if_modified(|it| waits(it) && std::mem::replace(it, Resources::Failed) != *it);
        }
        if self.is_absent(error) {
            // A state of the cluster, and nobody's fault.
            if !self.last_failure.is_some_and(|(last, _)| last == complaint) {
                tracing::info!(kind = self.kind.name(), "{}", self.explain(error));
            }
            self.last_failure = Some((complaint, now));
            self.sink.metrics.watched(self.kind, &self.scope, false);
            return WatchAction::Relist;
        }
        self.sink.metrics.watch_failed(self.kind);
        let said = self.last_failure.take();
        if said.is_some_and(|(_, at)| self.liveness.last_heard() > at) {
            self.failures = 0;
        }
        self.failures += 1;
        let why = self.explain(error);
        if !said.is_some_and(|(last, at)| last == complaint && now.duration_since(at) < LOG_AGAIN_AFTER) {
            tracing::warn!(kind = self.kind.name(), "{why}");
        }
        self.last_failure = Some((complaint, now));
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

    /// Whether those who own a namespace do not let us work there (any more): a person has to know, and the other
    /// namespaces go on.
    fn is_taken_away(&self, error: &watcher::Error) -> bool {
        let concerns =
            self.kind == Watched::Memcached || (self.kind.is_required() && self.scope != Scope::All);
        concerns && code(error) == Some(403)
    }

    /// Whether the API server does not serve a kind that a resource can do without.
    fn is_absent(&self, error: &watcher::Error) -> bool {
        !self.kind.is_required() && code(error) == Some(404)
    }

    /// What the kernel has to know of the resources, or of a kind that a resource can do without. `None` where it goes on
    /// with what it knows: a failure that passes is none of its business once there was a list.
    pub(super) fn events_of_failure(
        &mut self,
        error: &watcher::Error,
        left: Departure,
    ) -> Option<Vec<Event>> {
        let scope = self.scope.clone();
        let told = match (self.kind, code(error)) {
            (Watched::Memcached, Some(403 | 404)) => self.say_refused(left),
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

    /// The resources are refused: told once, and once more to who is to lead since and waits for an answer.
    fn say_refused(&mut self, left: Departure) -> Vec<Event> {
        if self.refused.is_some_and(|known| known.relists == left.relists) {
            return Vec::new();
        }
        self.refused = Some(left);
        vec![self.asked(left), Event::Unlistable(self.kind, self.scope.clone())]
    }

    /// Waits before the next attempt: for a kind that is not served until somebody asks for one, and then a while.
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

    /// Not where a list is asked for: whoever is to lead waits for that, and nobody writes meanwhile.
    async fn back_off(&mut self) {
        let pause = self.backoff.next().unwrap_or(LOG_AGAIN_AFTER);
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
            (_, Some(403)) => format!("may not list and watch {plural}: grant both verbs ({})", words(error)),
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
        (self.is_listed, self.refused) = (true, None);
        self.sink.metrics.watched(self.kind, &self.scope, true);
        if self.last_failure.take().is_some() {
            tracing::info!(kind = self.kind.name(), "listed {} again", kinds::plural(self.kind));
        }
    }

    /// An object that gives no event is as good as gone: a pod that lost our labels, or one that this build cannot
    /// read. It harms nobody else.
    pub(super) fn unreadable<K: Resource>(&self, object: &K) -> Option<Event> {
        self.sink.metrics.unreadable(self.kind);
        tracing::debug!(kind = self.kind.name(), name = object.meta().name, "cannot read an object");
        gone(self.kind, object)
    }
}

fn refused(category: Category, message: String) -> Unavailable {
    Unavailable::Refused(Failure { category, message })
}

/// The HTTP status in an error, where the API server answered at all.
fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => match error {
            kube::Error::Api(status) => Some(status.code),
            _ => None,
        },
        watcher::Error::WatchError(status) => Some(status.code),
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
