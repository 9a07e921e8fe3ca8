//! What the operator counts. Takes the kernel's observations and the shell's own counts; gives the text of
//! `/metrics`. IO only in that a scrape reads `/proc`. The main loop, `watches`, `publish` and `journal` feed it,
//! `admin` renders it.

mod instances;
pub mod labels;
pub mod names;
mod registry;

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus::process_collector::ProcessCollector;
use prometheus::{
    GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry,
    TextEncoder,
};

use self::instances::{Cursor, Instances};
use self::labels::KubeEventResult;
use self::registry::{added, counters, durations, durations_by_label, labels_of, opts};
use super::api_request::{Code, Verb};
use super::watch_liveness::WatchLiveness;
use crate::kernel::failure::Category;
use crate::kernel::object::{Scope, Watched};
use crate::kernel::observation::{Observation, RolloutCounts};

/// All metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    api_requests: IntCounterVec,
    api_request_duration: HistogramVec,
    reconcile: IntCounterVec,
    reconcile_duration: Histogram,
    reconcile_errors: IntCounterVec,
    reconcile_resource: IntCounterVec,
    rollouts: IntCounterVec,
    rollouts_waiting: IntGauge,
    secret_rotations: IntCounterVec,
    adoption_halted: IntGauge,
    queue_depth: IntGauge,
    leader: IntGauge,
    kube_events: IntCounterVec,
    journal_errors: IntCounter,
    journal_gap: IntGauge,
    journal_gaps: IntCounter,
    watch_errors: IntCounterVec,
    watch_restarts: IntCounterVec,
    watch_unreadable: IntCounterVec,
    watch_age: GaugeVec,
    watches: Mutex<Watches>,
    instances: Mutex<Instances>,
}

/// All watches.
#[derive(Debug, Default)]
struct Watches {
    liveness: BTreeMap<(Watched, Scope), WatchLiveness>,
    /// The watches of kinds that the API server does not serve: they have no age.
    unserved: BTreeSet<(Watched, Scope)>,
}

impl Metrics {
    /// All metrics at zero, with every series whose labels are known beforehand: `rate()` misses the first count of a series
    /// that did not exist before.
    ///
    /// # Errors
    /// When two metrics share a name.
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let all = &registry;
        let metrics = Self {
            api_requests: counters(all, names::API_REQUESTS)?,
            api_request_duration: durations_by_label(all, names::API_REQUEST_DURATION)?,
            reconcile: counters(all, names::RECONCILE)?,
            reconcile_duration: durations(all, names::RECONCILE_DURATION)?,
            reconcile_errors: counters(all, names::RECONCILE_ERRORS)?,
            reconcile_resource: counters(all, names::RECONCILE_RESOURCE)?,
            rollouts: counters(all, names::ROLLOUTS)?,
            rollouts_waiting: added(all, IntGauge::with_opts(opts(names::ROLLOUTS_WAITING))?)?,
            secret_rotations: counters(all, names::SECRET_ROTATIONS)?,
            adoption_halted: added(all, IntGauge::with_opts(opts(names::ADOPTION_HALTED))?)?,
            queue_depth: added(all, IntGauge::with_opts(opts(names::QUEUE_DEPTH))?)?,
            leader: added(all, IntGauge::with_opts(opts(names::LEADER))?)?,
            kube_events: counters(all, names::KUBE_EVENTS)?,
            journal_errors: added(all, IntCounter::with_opts(opts(names::JOURNAL_ERRORS))?)?,
            journal_gap: added(all, IntGauge::with_opts(opts(names::JOURNAL_GAP))?)?,
            journal_gaps: added(all, IntCounter::with_opts(opts(names::JOURNAL_GAPS))?)?,
            watch_errors: counters(all, names::WATCH_ERRORS)?,
            watch_restarts: counters(all, names::WATCH_RESTARTS)?,
            watch_unreadable: counters(all, names::WATCH_UNREADABLE)?,
            watch_age: added(
                all,
                GaugeVec::new(opts(names::WATCH_LAST_EVENT_AGE), &labels_of(names::WATCH_LAST_EVENT_AGE))?,
            )?,
            watches: Mutex::default(),
            instances: Mutex::default(),
            registry,
        };
        let build = IntGaugeVec::new(opts(names::BUILD_INFO), &labels_of(names::BUILD_INFO))?;
        let build = added(&metrics.registry, build)?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        metrics.registry.register(Box::new(ProcessCollector::for_self()))?;
        Ok(metrics)
    }

    /// Records whether the API server serves the kind there. While it does not, the age of the watch is not shown.
    pub fn watched(&self, kind: Watched, scope: &Scope, served: bool) {
        let unserved = &mut self.watches().unserved;
        if served {
            unserved.remove(&(kind, scope.clone()))
        } else {
            unserved.insert((kind, scope.clone()))
        };
    }

    /// Registers a watch. The age of a kind's oldest sign of life is its `watch_last_event_age_seconds`.
    #[must_use]
    pub fn watch_liveness(&self, kind: Watched, scope: &Scope) -> WatchLiveness {
        let liveness = WatchLiveness::new();
        self.watches().liveness.insert((kind, scope.clone()), liveness.clone());
        liveness
    }

    /// Counts an observation of the kernel.
    pub fn observe(&self, observation: Observation) {
        match observation {
            Observation::Reconciled { resource: _, millis, failure } => self.came_to_rest(millis, failure),
            Observation::Child { kind, result } => {
                self.reconcile_resource.with_label_values(&[kind.name(), labels::child_result(result)]).inc();
            }
            Observation::RolloutStarted { resource, cause } => {
                self.rollouts.with_label_values(&[cause.label()]).inc();
                self.instances().rollout(resource, cause);
            }
            Observation::SecretRotation(result) => {
                self.secret_rotations.with_label_values(&[result.label()]).inc();
            }
            Observation::Instance { resource, instance_metrics } => {
                self.instances().set(resource, instance_metrics);
            }
            Observation::InstanceGone(resource) => self.instances().remove(&resource),
            Observation::RolloutCounts(RolloutCounts { rolling: _, waiting, adoption_halted }) => {
                self.rollouts_waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
                self.adoption_halted.set(i64::from(adoption_halted));
            }
            Observation::QueueDepth(depth) => self.queue_depth.set(i64::try_from(depth).unwrap_or(i64::MAX)),
        }
    }

    fn came_to_rest(&self, millis: i64, failure: Option<Category>) {
        let taken = Duration::from_millis(u64::try_from(millis).unwrap_or_default());
        self.reconcile_duration.observe(taken.as_secs_f64());
        if let Some(category) = failure {
            self.reconcile_errors.with_label_values(&[category.label()]).inc();
        }
        self.reconcile
            .with_label_values(&[if failure.is_some() { labels::ERROR } else { labels::SUCCESS }])
            .inc();
    }

    /// A request to the API server was answered, or nobody waits for its answer any more.
    pub fn api_request(&self, verb: Verb, code: Code, taken: Duration) {
        self.api_requests.with_label_values(&[verb.label(), code.label()]).inc();
        self.api_request_duration.with_label_values(&[verb.label()]).observe(taken.as_secs_f64());
    }

    /// Records whether this process leads. Metrics from an earlier lead are dropped; the next lead reports each resource again.
    pub fn leading(&self, leading: bool) {
        self.leader.set(i64::from(leading));
        if !leading {
            self.instances().forget_metrics();
        }
    }

    /// A list or watch failed.
    pub fn watch_failed(&self, kind: Watched) {
        self.watch_errors.with_label_values(&[kind.name()]).inc();
    }

    /// A watch was restarted.
    pub fn watch_restarted(&self, kind: Watched) {
        self.watch_restarts.with_label_values(&[kind.name()]).inc();
    }

    /// An object was passed over.
    pub fn unreadable(&self, kind: Watched) {
        self.watch_unreadable.with_label_values(&[kind.name()]).inc();
    }

    /// A Kubernetes Event was sent, refused or dropped.
    pub fn kube_event(&self, result: KubeEventResult) {
        self.kube_events.with_label_values(&[result.label()]).inc();
    }

    /// The journal could not be written.
    pub fn journal_failed(&self) {
        self.journal_errors.inc();
    }

    /// Steps are missing from the journal.
    pub fn journal_gap(&self) {
        self.journal_gaps.inc();
        self.journal_leaves_out(true);
    }

    /// Whether steps are left out of the journal now.
    pub fn journal_leaves_out(&self, leaves_out: bool) {
        self.journal_gap.set(i64::from(leaves_out));
    }

    /// Everything in Prometheus' text format.
    ///
    /// # Errors
    /// When the encoder refuses a metric, which would be a defect.
    pub fn render(&self) -> prometheus::Result<String> {
        Ok(MetricsPage::new(self)?.collect())
    }

    /// The metrics that are not of single resources.
    fn of_process(&self) -> prometheus::Result<String> {
        let watches = self.watches();
        self.watch_age.reset();
        for (watch, liveness) in
            watches.liveness.iter().filter(|(watch, _)| !watches.unserved.contains(watch))
        {
            let age = self.watch_age.with_label_values(&[watch.0.name()]);
            age.set(liveness.last_heard().elapsed().as_secs_f64().max(age.get()));
        }
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    /// The next lines of single resources, and where to go on.
    fn of_instances(&self, from: Cursor) -> (String, Option<Cursor>) {
        // Only a leader's knowledge of single resources is up to date, and two processes must not show different values.
        if self.leader.get() != 1 {
            return (String::new(), None);
        }
        let mut text = String::with_capacity(PART + SLACK);
        let next = self.instances().render(from, &mut text, PART);
        (text, next)
    }

    fn watches(&self) -> MutexGuard<'_, Watches> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn instances(&self) -> MutexGuard<'_, Instances> {
        self.instances.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// After so many bytes a part of a page ends.
pub const PART: usize = 64 * 1024;
/// Room for the last lines of a part, so that it is not copied for them: those of one resource in one family.
const SLACK: usize = 4 * 1024;

/// Everything in Prometheus' text format, in parts: first the metrics that are not of single resources, then the others. The
/// whole would take megabytes in a large world, at each scrape. Between two parts nothing is locked, and nothing is kept but a
/// name.
#[derive(Debug)]
pub struct MetricsPage<M> {
    metrics: M,
    first: Option<String>,
    next: Option<Cursor>,
}

impl<M: Borrow<Metrics>> MetricsPage<M> {
    /// The metrics as they are now; those of single resources as they are when their part is made.
    ///
    /// # Errors
    /// When the encoder refuses a metric, which would be a defect.
    pub fn new(metrics: M) -> prometheus::Result<Self> {
        let first = metrics.borrow().of_process()?;
        Ok(Self { metrics, first: Some(first), next: Some(Cursor::default()) })
    }
}

impl<M: Borrow<Metrics>> Iterator for MetricsPage<M> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let (part, next) = self.metrics.borrow().of_instances(self.next.take()?);
        self.next = next;
        // hyper takes a part without bytes for the end.
        (!part.is_empty()).then_some(part)
    }
}

#[cfg(test)]
mod tests;
