//! The series of single resources. Takes their metrics as they change; gives the lines of `/metrics`. Pure.
//!
//! They are not gauges of the registry: those take kilobytes a resource instead of a hundred bytes, and a changed image or a
//! deleted resource would leave series behind.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use strum::VariantArray as _;

use super::names::{self, Metric};
use crate::kernel::effect::RolloutCause;
use crate::kernel::instance_metrics::InstanceMetrics;
use crate::kernel::object::Key;

/// All resources.
#[derive(Debug, Default)]
pub(super) struct Instances {
    metrics: BTreeMap<Key, InstanceMetrics>,
    /// How many rollouts began. Before the first metrics of a resource there may be one: its pods rolled at once.
    rollouts: BTreeMap<Key, BTreeMap<RolloutCause, u32>>,
}

impl Instances {
    pub(super) fn set(&mut self, resource: Key, instance_metrics: InstanceMetrics) {
        self.metrics.insert(resource, instance_metrics);
    }

    pub(super) fn rollout(&mut self, resource: Key, cause: RolloutCause) {
        let count = self.rollouts.entry(resource).or_default().entry(cause).or_default();
        *count = count.saturating_add(1);
    }

    pub(super) fn remove(&mut self, resource: &Key) {
        self.metrics.remove(resource);
        self.rollouts.remove(resource);
    }

    /// Appends the lines of all resources, in Prometheus' text format.
    pub(super) fn render(&self, text: &mut String) {
        family(text, names::CERTIFICATE_NOT_AFTER);
        for (key, instance_metrics) in &self.metrics {
            if let Some(end) = instance_metrics.certificate_not_after {
                let labels = SeriesLabels::for_resource(key);
                series(text, names::CERTIFICATE_NOT_AFTER, labels, end.as_second());
            }
        }
        family(text, names::INSTANCE_CONDITION);
        for (key, instance_metrics) in &self.metrics {
            for it in &instance_metrics.conditions {
                let labels = [it.of.as_str(), it.reason.as_str()];
                series(
                    text,
                    names::INSTANCE_CONDITION,
                    SeriesLabels { resource: key, more: &labels },
                    i64::from(it.holds),
                );
            }
        }
        self.family_of_wanted(text, names::INSTANCE_INFO, |image, _| (Some(image), 1));
        self.family_of_wanted(text, names::INSTANCE_REPLICAS_DESIRED, |_, pods| (None, pods));
        family(text, names::INSTANCE_REPLICAS_READY);
        for (key, instance_metrics) in &self.metrics {
            series(
                text,
                names::INSTANCE_REPLICAS_READY,
                SeriesLabels::for_resource(key),
                instance_metrics.ready.into(),
            );
        }
        self.family_of_rollouts(text);
        family(text, names::INSTANCE_TEMPLATE_REVISION);
        for (key, instance_metrics) in &self.metrics {
            if let Some(revision) = instance_metrics.template_revision {
                series(
                    text,
                    names::INSTANCE_TEMPLATE_REVISION,
                    SeriesLabels::for_resource(key),
                    revision.into(),
                );
            }
        }
        family(text, names::INSTANCE_WARNING);
        for (key, instance_metrics) in &self.metrics {
            for reason in &instance_metrics.warnings {
                let labels = SeriesLabels { resource: key, more: &[reason] };
                series(text, names::INSTANCE_WARNING, labels, 1);
            }
        }
    }

    /// Every cause, from zero on: `increase()` misses the first count of a series that did not exist before.
    fn family_of_rollouts(&self, text: &mut String) {
        family(text, names::INSTANCE_ROLLOUTS);
        for key in self.metrics.keys() {
            let begun = self.rollouts.get(key);
            for cause in RolloutCause::VARIANTS {
                let count = begun.and_then(|it| it.get(cause)).copied().unwrap_or_default();
                let labels = SeriesLabels { resource: key, more: &[cause.label()] };
                series(text, names::INSTANCE_ROLLOUTS, labels, count.into());
            }
        }
    }

    /// A family of what a valid spec wants: the value of one more label, and the series' value.
    fn family_of_wanted(
        &self,
        text: &mut String,
        metric: Metric,
        read: fn(image: &str, pods: i32) -> (Option<&str>, i32),
    ) {
        family(text, metric);
        for (key, instance_metrics) in &self.metrics {
            if let Some((image, pods)) = &instance_metrics.wanted {
                let (more, value) = read(image, *pods);
                series(text, metric, SeriesLabels { resource: key, more: more.as_slice() }, value.into());
            }
        }
    }
}

fn family(text: &mut String, Metric { name, kind, help, .. }: Metric) {
    // A String takes everything: there is no error to pass on.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {}", kind.name());
}

/// The label values of one series, in the metric's order: the resource's namespace and name, then `more`.
#[derive(Clone, Copy)]
struct SeriesLabels<'a> {
    resource: &'a Key,
    more: &'a [&'a str],
}

impl<'a> SeriesLabels<'a> {
    fn for_resource(resource: &'a Key) -> Self {
        Self { resource, more: &[] }
    }
}

fn series(text: &mut String, metric: Metric, labels: SeriesLabels<'_>, value: i64) {
    let SeriesLabels { resource, more } = labels;
    let values =
        [resource.namespace.as_str(), resource.name.as_str()].into_iter().chain(more.iter().copied());
    let labels: Vec<String> = metric
        .labels
        .iter()
        .zip(values)
        .map(|(label, value)| format!("{}=\"{}\"", label.name, escaped(value)))
        .collect();
    let _ = writeln!(text, "{}{{{}}} {value}", metric.name, labels.join(","));
}

/// A label value as the text format wants it: an image is whatever a user wrote.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}
