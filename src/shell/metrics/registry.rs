//! The metrics of the library: takes the registry and one of our [`names`](super::names), gives the metric, registered and with
//! all series whose labels are known beforehand.

use prometheus::core::Collector;
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

use super::labels;
use super::names::Metric;

/// The buckets of durations, in seconds. A pass without writes takes microseconds, one with writes a few requests, a
/// failure up to the requests' deadline.
const DURATION_BUCKETS: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0];

pub(super) fn opts(metric: Metric) -> Opts {
    Opts::new(metric.name, metric.help)
}

pub(super) fn added<C: Collector + Clone + 'static>(registry: &Registry, metric: C) -> prometheus::Result<C> {
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

pub(super) fn labels_of(metric: Metric) -> Vec<&'static str> {
    metric.labels.iter().map(|label| label.name).collect()
}

/// Counters by label, each at zero.
pub(super) fn counters(registry: &Registry, metric: Metric) -> prometheus::Result<IntCounterVec> {
    let counters = added(registry, IntCounterVec::new(opts(metric), &labels_of(metric))?)?;
    for values in labels::combinations(metric.labels) {
        drop(counters.get_metric_with_label_values(&values)?);
    }
    Ok(counters)
}

pub(super) fn durations(registry: &Registry, metric: Metric) -> prometheus::Result<Histogram> {
    added(registry, Histogram::with_opts(duration_opts(metric))?)
}

/// Durations by label, each without any yet.
pub(super) fn durations_by_label(registry: &Registry, metric: Metric) -> prometheus::Result<HistogramVec> {
    let durations = added(registry, HistogramVec::new(duration_opts(metric), &labels_of(metric))?)?;
    for values in labels::combinations(metric.labels) {
        drop(durations.get_metric_with_label_values(&values)?);
    }
    Ok(durations)
}

fn duration_opts(metric: Metric) -> HistogramOpts {
    HistogramOpts::new(metric.name, metric.help).buckets(DURATION_BUCKETS.into())
}
