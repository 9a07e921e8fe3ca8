//! What the operator counts. Takes the kernel's observations and the shell's own counts; gives the text of
//! `/metrics`. IO only in that a scrape reads `/proc`. The main loop, `watches`, `publish` and `journal` feed it,
//! `admin` renders it.

mod instances;
pub mod labels;
pub mod names;

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus::core::Collector;
use prometheus::process_collector::ProcessCollector;
use prometheus::{
    GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, TextEncoder,
};

use self::instances::{Cursor, Instances};
use self::labels::KubeEventResult;
use self::names::Metric;
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
        Ok(Page::new(self)?.collect())
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
pub struct Page<M> {
    metrics: M,
    first: Option<String>,
    next: Option<Cursor>,
}

impl<M: Borrow<Metrics>> Page<M> {
    /// The metrics as they are now; those of single resources as they are when their part is made.
    ///
    /// # Errors
    /// When the encoder refuses a metric, which would be a defect.
    pub fn new(metrics: M) -> prometheus::Result<Self> {
        let first = metrics.borrow().of_process()?;
        Ok(Self { metrics, first: Some(first), next: Some(Cursor::default()) })
    }
}

impl<M: Borrow<Metrics>> Iterator for Page<M> {
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

/// The buckets of durations, in seconds. A pass without writes takes microseconds, one with writes a few requests, a
/// failure up to the requests' deadline.
const DURATION_BUCKETS: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0];

fn opts(metric: Metric) -> Opts {
    Opts::new(metric.name, metric.help)
}

fn added<C: Collector + Clone + 'static>(registry: &Registry, metric: C) -> prometheus::Result<C> {
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

fn labels_of(metric: Metric) -> Vec<&'static str> {
    metric.labels.iter().map(|label| label.name).collect()
}

/// Counters by label, each at zero.
fn counters(registry: &Registry, metric: Metric) -> prometheus::Result<IntCounterVec> {
    let counters = added(registry, IntCounterVec::new(opts(metric), &labels_of(metric))?)?;
    for values in labels::combinations(metric.labels) {
        drop(counters.get_metric_with_label_values(&values)?);
    }
    Ok(counters)
}

fn durations(registry: &Registry, metric: Metric) -> prometheus::Result<Histogram> {
    added(registry, Histogram::with_opts(duration_opts(metric))?)
}

/// Durations by label, each without any yet.
fn durations_by_label(registry: &Registry, metric: Metric) -> prometheus::Result<HistogramVec> {
    let durations = added(registry, HistogramVec::new(duration_opts(metric), &labels_of(metric))?)?;
    for values in labels::combinations(metric.labels) {
        drop(durations.get_metric_with_label_values(&values)?);
    }
    Ok(durations)
}

fn duration_opts(metric: Metric) -> HistogramOpts {
    HistogramOpts::new(metric.name, metric.help).buckets(DURATION_BUCKETS.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::instance_metrics::{ConditionSample, InstanceMetrics};
    use crate::kernel::object::Key;
    use crate::kernel::rollout_cause::RolloutCause;
    use crate::kernel::status::conditions::{Reason, Type};
    use jiff::Timestamp;

    fn sessions() -> Key {
        Key { namespace: "shop".into(), name: "sessions".into() }
    }

    fn leading() -> Metrics {
        let metrics = Metrics::new().unwrap();
        metrics.leading(true);
        metrics
    }

    fn instance(image: &str) -> Observation {
        let instance_metrics = InstanceMetrics {
            wanted: Some((image.into(), 3)),
            wanted_all_the_same: None,
            ready: 2,
            template_revision: Some(1),
            certificate_not_after: Timestamp::from_second(1_800_000_000).ok(),
            warnings: vec!["AutoscalerInactive".into()],
            conditions: vec![
                ConditionSample { of: Type::Ready, holds: false, reason: Reason::MemcachedNotReady },
                ConditionSample { of: Type::Reconciling, holds: true, reason: Reason::NewGeneration },
            ],
        };
        Observation::Instance { resource: sessions(), instance_metrics }
    }

    /// The lines that are no rollouts: those stand at zero for every cause.
    fn lines_about(metrics: &Metrics, word: &str) -> Vec<String> {
        let lines = all_lines_about(metrics, word).into_iter();
        lines.filter(|line| !line.starts_with(names::INSTANCE_ROLLOUTS.name)).collect()
    }

    fn all_lines_about(metrics: &Metrics, word: &str) -> Vec<String> {
        let text = metrics.render().unwrap();
        text.lines().filter(|line| !line.starts_with('#') && line.contains(word)).map(str::to_owned).collect()
    }

    #[test]
    fn the_series_of_a_resource_change_with_it_and_go_with_it() {
        let metrics = leading();
        metrics.observe(instance("memcached:1.5"));
        metrics.observe(instance("memcached:1.6"));

        assert_eq!(
            lines_about(&metrics, "sessions"),
            [
                r#"memcached_operator_certificate_not_after_timestamp_seconds{namespace="shop",name="sessions"} 1800000000"#,
                r#"memcached_operator_instance_condition{namespace="shop",name="sessions",type="Ready",reason="MemcachedNotReady"} 0"#,
                r#"memcached_operator_instance_condition{namespace="shop",name="sessions",type="Reconciling",reason="NewGeneration"} 1"#,
                r#"memcached_operator_instance_info{namespace="shop",name="sessions",image="memcached:1.6"} 1"#,
                r#"memcached_operator_instance_replicas_desired{namespace="shop",name="sessions"} 3"#,
                r#"memcached_operator_instance_replicas_ready{namespace="shop",name="sessions"} 2"#,
                r#"memcached_operator_instance_template_revision{namespace="shop",name="sessions"} 1"#,
                r#"memcached_operator_instance_warning{namespace="shop",name="sessions",reason="AutoscalerInactive"} 1"#,
            ]
        );
        metrics.observe(Observation::InstanceGone(sessions()));
        assert_eq!(all_lines_about(&metrics, "sessions"), Vec::<String>::new());
    }

    #[test]
    fn the_rollouts_of_a_resource_are_counted_by_cause_from_zero_on_and_forgotten_with_it() {
        let metrics = leading();
        let rollout = |cause| Observation::RolloutStarted { resource: sessions(), cause };
        // After a start of the operator a rollout begins before anything else is told of the resource.
        for cause in [RolloutCause::Secret, RolloutCause::Secret, RolloutCause::Spec] {
            metrics.observe(rollout(cause));
        }
        metrics.observe(instance("memcached:1.6"));

        let counts = |metrics: &Metrics| -> Vec<(String, String)> {
            all_lines_about(metrics, names::INSTANCE_ROLLOUTS.name)
                .iter()
                .map(|line| {
                    let series = r#"memcached_operator_instance_rollouts_total{namespace="shop",name="sessions",cause=""#;
                    let (cause, count) = line.strip_prefix(series).unwrap().split_once("\"} ").unwrap();
                    (cause.to_owned(), count.to_owned())
                })
                .collect()
        };
        let expected = [
            ("spec", "1"),
            ("secret", "2"),
            ("restart_trigger", "0"),
            ("drift", "0"),
            ("adoption", "0"),
            ("definition", "0"),
            ("others", "0"),
        ];
        assert_eq!(counts(&metrics), expected.map(|(cause, count)| (cause.to_owned(), count.to_owned())));

        metrics.observe(Observation::InstanceGone(sessions()));
        metrics.observe(instance("memcached:1.6"));
        assert_eq!(
            counts(&metrics).iter().map(|(_, count)| count.as_str()).collect::<Vec<_>>(),
            ["0"; 7],
            "the resource that has the name now is another"
        );
    }

    #[test]
    fn of_a_resource_whose_spec_is_invalid_no_image_is_shown_and_the_pods_where_any_are_wanted() {
        let metrics = leading();
        let stalled = ConditionSample { of: Type::Stalled, holds: true, reason: Reason::InvalidSpec };
        let instance_metrics = InstanceMetrics { conditions: vec![stalled], ..InstanceMetrics::default() };
        let running = InstanceMetrics { wanted_all_the_same: Some(2), ready: 1, ..instance_metrics.clone() };
        metrics.observe(Observation::Instance { resource: sessions(), instance_metrics });

        assert_eq!(
            lines_about(&metrics, "sessions"),
            [
                r#"memcached_operator_instance_condition{namespace="shop",name="sessions",type="Stalled",reason="InvalidSpec"} 1"#,
                r#"memcached_operator_instance_replicas_ready{namespace="shop",name="sessions"} 0"#,
            ]
        );
        metrics.observe(Observation::Instance { resource: sessions(), instance_metrics: running });
        assert_eq!(
            lines_about(&metrics, "replicas"),
            [
                r#"memcached_operator_instance_replicas_desired{namespace="shop",name="sessions"} 2"#,
                r#"memcached_operator_instance_replicas_ready{namespace="shop",name="sessions"} 1"#,
            ]
        );
    }

    #[test]
    fn only_a_leader_speaks_of_resources() {
        let metrics = leading();
        metrics.observe(instance("memcached:1.6"));
        metrics.leading(false);
        assert_eq!(all_lines_about(&metrics, "sessions"), Vec::<String>::new());
        metrics.leading(true);
        assert_eq!(lines_about(&metrics, "sessions"), [""; 0], "what was so then may be so no more");
        metrics.observe(instance("memcached:1.6"));
        assert_eq!(lines_about(&metrics, "sessions").len(), 8);
    }

    /// As many resources as `numbers` has, each with other values, and some without a valid spec.
    fn with_instances(numbers: std::ops::Range<i32>) -> Metrics {
        let metrics = leading();
        for number in numbers {
            let Observation::Instance { instance_metrics: usual, .. } =
                instance("registry.example/memcached:1.6")
            else {
                unreachable!()
            };
            let wanted = (number % 7 != 0).then(|| (format!("image \"{number}\"\n\\"), number));
            let instance_metrics = InstanceMetrics { wanted, ready: number, ..usual };
            let resource = Key { namespace: "shop".into(), name: format!("cache-{number:04}") };
            for _ in 0..number % 3 {
                let cause = RolloutCause::Secret;
                metrics.observe(Observation::RolloutStarted { resource: resource.clone(), cause });
            }
            metrics.observe(Observation::Instance { resource, instance_metrics });
        }
        metrics
    }

    /// Values of labels, and of the series.
    type Lines = Vec<(Vec<String>, i64)>;

    /// The lines of single resources, each family made at once and each line of whole texts: the rendering of before there
    /// were parts.
    fn at_once(instances: &[(Key, InstanceMetrics, i32)]) -> String {
        let escaped = |value: &str| value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
        let mut text = String::new();
        let mut family = |metric: Metric, of: &dyn Fn(&InstanceMetrics, i32) -> Lines| {
            let Metric { name, kind, help, labels, .. } = metric;
            text += &format!("# HELP {name} {help}\n# TYPE {name} {}\n", kind.name());
            for (key, it, secrets) in instances {
                for (more, value) in of(it, *secrets) {
                    let values = [key.namespace.clone(), key.name.clone()].into_iter().chain(more);
                    let pairs = labels.iter().zip(values).map(|(label, it)| (label.name, escaped(&it)));
                    let pairs: Vec<_> = pairs.map(|(label, it)| format!("{label}=\"{it}\"")).collect();
                    text += &format!("{name}{{{}}} {value}\n", pairs.join(","));
                }
            }
        };
        family(names::CERTIFICATE_NOT_AFTER, &|it, _| {
            it.certificate_not_after.iter().map(|end| (vec![], end.as_second())).collect()
        });
        family(names::INSTANCE_CONDITION, &|it, _| {
            let sample = |it: &ConditionSample| {
                (vec![it.of.as_str().into(), it.reason.as_str().into()], it.holds.into())
            };
            it.conditions.iter().map(sample).collect()
        });
        family(names::INSTANCE_INFO, &|it, _| {
            it.wanted.iter().map(|(image, _)| (vec![image.clone()], 1)).collect()
        });
        family(names::INSTANCE_REPLICAS_DESIRED, &|it, _| {
            it.wanted.iter().map(|(_, pods)| (vec![], i64::from(*pods))).collect()
        });
        family(names::INSTANCE_REPLICAS_READY, &|it, _| vec![(vec![], it.ready.into())]);
        family(names::INSTANCE_ROLLOUTS, &|_, secrets| {
            let causes = ["spec", "secret", "restart_trigger", "drift", "adoption", "definition", "others"];
            let of = |cause: &str| if cause == "secret" { secrets.into() } else { 0 };
            causes.iter().map(|cause| (vec![(*cause).to_owned()], of(cause))).collect()
        });
        family(names::INSTANCE_TEMPLATE_REVISION, &|it, _| {
            it.template_revision.iter().map(|it| (vec![], i64::from(*it))).collect()
        });
        family(names::INSTANCE_WARNING, &|it, _| {
            it.warnings.iter().map(|reason| (vec![reason.clone()], 1)).collect()
        });
        text
    }

    #[test]
    fn a_page_of_a_thousand_resources_comes_in_parts_that_are_bounded_and_reads_as_if_it_were_made_at_once() {
        let metrics = with_instances(0..1_000);
        let instances: Vec<_> =
            metrics.instances().all().map(|(key, it)| (key.clone(), it.clone())).collect();
        let instances: Vec<_> =
            instances.into_iter().zip(0..).map(|((key, it), number)| (key, it, number % 3)).collect();
        let parts: Vec<String> = Page::new(&metrics).unwrap().skip(1).collect();
        assert!(parts.iter().all(|part| part.ends_with('\n')));
        let (last, full) = parts.split_last().unwrap();
        assert!(full.iter().all(|part| (PART..PART + SLACK).contains(&part.len())));
        assert!(full.len() > 10 && last.len() < PART + SLACK, "{} parts", parts.len());
        assert!(full.iter().all(|part| part.capacity() == PART + SLACK), "none is copied while it grows");
        assert_same(&parts.concat(), &at_once(&instances));
    }

    fn assert_same(found: &str, expected: &str) {
        let differs = found.lines().zip(expected.lines()).find(|(one, other)| one != other);
        assert_eq!(differs, None);
        assert_eq!(found.len(), expected.len());
    }

    #[test]
    fn resources_come_and_go_and_the_lead_is_lost_between_two_parts_of_a_page() {
        let metrics = with_instances(0..1_000);
        let mut page = Page::new(&metrics).unwrap().skip(1);
        let first = page.next().unwrap();
        let last_line = first.lines().next_back().unwrap();
        for number in 0..1_000 {
            let gone = Key { namespace: "shop".into(), name: format!("cache-{number:04}") };
            if last_line.contains(&gone.name) {
                metrics.observe(Observation::InstanceGone(gone));
                break;
            }
            metrics.observe(Observation::InstanceGone(gone));
        }
        let second = page.next().unwrap();
        let name = last_line.split_once('{').unwrap().0;
        assert!(second.starts_with(&format!("{name}{{")), "the family goes on after the name that is gone");
        metrics.leading(false);
        assert_eq!(page.next(), None);
    }

    #[test]
    fn an_image_cannot_break_out_of_its_label() {
        let metrics = leading();
        metrics.observe(instance("a\"} 1\nb\\"));

        assert_eq!(
            lines_about(&metrics, "instance_info"),
            [r#"memcached_operator_instance_info{namespace="shop",name="sessions",image="a\"} 1\nb\\"} 1"#]
        );
    }

    #[test]
    fn a_failure_counts_as_an_error_of_its_category() {
        let metrics = Metrics::new().unwrap();
        metrics.observe(Observation::Reconciled {
            resource: sessions(),
            millis: 1_500,
            failure: Some(Category::QuotaExceeded),
        });

        let counted: Vec<_> =
            lines_about(&metrics, "reconcile_").into_iter().filter(|line| line.ends_with(" 1")).collect();
        assert_eq!(
            counted,
            [
                r#"memcached_operator_reconcile_duration_seconds_bucket{le="2.5"} 1"#,
                r#"memcached_operator_reconcile_duration_seconds_bucket{le="10"} 1"#,
                r#"memcached_operator_reconcile_duration_seconds_bucket{le="30"} 1"#,
                r#"memcached_operator_reconcile_duration_seconds_bucket{le="+Inf"} 1"#,
                "memcached_operator_reconcile_duration_seconds_count 1",
                r#"memcached_operator_reconcile_errors_total{category="quota_exceeded"} 1"#,
                r#"memcached_operator_reconcile_total{result="error"} 1"#,
            ]
        );
    }

    #[test]
    fn every_named_metric_is_served_from_the_start() {
        let metrics = leading();
        let _watch = metrics.watch_liveness(Watched::Pod, &Scope::All);
        let text = metrics.render().unwrap();

        for Metric { name, .. } in names::ALL {
            assert!(text.contains(&format!("# TYPE {name} ")), "{name} is missing");
        }
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        let unnamed: Vec<_> = types
            .filter(|served| served.starts_with("memcached_operator_"))
            .filter(|served| names::ALL.iter().all(|named| named.name != *served))
            .collect();
        assert!(unnamed.is_empty(), "names::ALL lacks {unnamed:?}");
        assert!(text.contains("process_resident_memory_bytes"));
    }
}
