//! The series of single resources. Takes their metrics as they change; gives the lines of `/metrics`. Pure.
//!
//! They are not gauges of the registry: those take kilobytes a resource instead of a hundred bytes, and a changed image or a
//! deleted resource would leave series behind. The lines take some 1.5 kB a resource: so they are made a part at a time, and
//! never all at once.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter, Write as _};
use std::ops::Bound;

use strum::VariantArray as _;

use super::names::{self, Metric};
use crate::kernel::instance_metrics::InstanceMetrics;
use crate::kernel::object::Key;
use crate::kernel::rollout_cause::RolloutCause;

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

    /// Forgets all but what was counted.
    pub(super) fn forget_metrics(&mut self) {
        self.metrics.clear();
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = (&Key, &InstanceMetrics)> {
        self.metrics.iter()
    }

    /// Appends lines of resources, in Prometheus' text format, until the text has as many bytes as are `enough`: a resource's
    /// lines of a family stay together. Gives where to go on; `None` where nothing is left.
    pub(super) fn render(&self, from: Cursor, text: &mut String, enough: usize) -> Option<Cursor> {
        let Cursor { mut family, mut after } = from;
        while let Some((metric, write)) = FAMILIES.get(family) {
            let rest = match after.take() {
                Some(key) => (Bound::Excluded(key), Bound::Unbounded),
                None => {
                    begin(text, *metric);
                    (Bound::Unbounded, Bound::Unbounded)
                }
            };
            for (key, instance_metrics) in self.metrics.range(rest) {
                let begun = self.rollouts.get(key);
                write(&mut Series { text, metric: *metric, key }, &Known { instance_metrics, begun });
                if text.len() >= enough {
                    return Some(Cursor { family, after: Some(key.clone()) });
                }
            }
            family += 1;
        }
        None
    }
}

/// How far the lines are rendered. It stands for a name and not for a place: resources may come and go between two parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    /// The place of the family in [`FAMILIES`].
    family: usize,
    /// The last resource whose lines are there; `None` before the family's head.
    after: Option<Key>,
}

/// What is known of one resource.
struct Known<'a> {
    instance_metrics: &'a InstanceMetrics,
    begun: Option<&'a BTreeMap<RolloutCause, u32>>,
}

/// Writes what a family says of one resource.
type Write = fn(&mut Series<'_>, &Known<'_>);

/// The families, in the order of their names.
const FAMILIES: [(Metric, Write); 8] = [
    (names::CERTIFICATE_NOT_AFTER, |series, it| {
        if let Some(end) = it.instance_metrics.certificate_not_after {
            series.write(&[], end.as_second());
        }
    }),
    (names::INSTANCE_CONDITION, |series, it| {
        for it in &it.instance_metrics.conditions {
            series.write(&[it.of.as_str(), it.reason.as_str()], i64::from(it.holds));
        }
    }),
    (names::INSTANCE_INFO, |series, it| {
        if let Some((image, _)) = &it.instance_metrics.wanted {
            series.write(&[image], 1);
        }
    }),
    (names::INSTANCE_REPLICAS_DESIRED, |series, it| {
        if let Some(pods) = it.instance_metrics.pods_wanted() {
            series.write(&[], pods.into());
        }
    }),
    (names::INSTANCE_REPLICAS_READY, |series, it| series.write(&[], it.instance_metrics.ready.into())),
    // Every cause, from zero on: `increase()` misses the first count of a series that did not exist before.
    (names::INSTANCE_ROLLOUTS, |series, it| {
        for cause in RolloutCause::VARIANTS {
            let count = it.begun.and_then(|begun| begun.get(cause)).copied().unwrap_or_default();
            series.write(&[cause.label()], count.into());
        }
    }),
    (names::INSTANCE_TEMPLATE_REVISION, |series, it| {
        if let Some(revision) = it.instance_metrics.template_revision {
            series.write(&[], revision.into());
        }
    }),
    (names::INSTANCE_WARNING, |series, it| {
        for reason in &it.instance_metrics.warnings {
            series.write(&[reason], 1);
        }
    }),
];

fn begin(text: &mut String, Metric { name, kind, help, .. }: Metric) {
    // A String takes everything: there is no error to pass on.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {}", kind.name());
}

/// The lines of one family about one resource.
struct Series<'a> {
    text: &'a mut String,
    metric: Metric,
    key: &'a Key,
}

impl Series<'_> {
    /// Appends a line. `more` are the values of the labels after namespace and name, in the metric's order.
    fn write(&mut self, more: &[&str], value: i64) {
        let Self { text, metric, key } = self;
        text.push_str(metric.name);
        let values = [key.namespace.as_str(), key.name.as_str()].into_iter().chain(more.iter().copied());
        let mut before = '{';
        for (label, value) in metric.labels.iter().zip(values) {
            let _ = write!(text, "{before}{}=\"{}\"", label.name, Escaped(value));
            before = ',';
        }
        let _ = writeln!(text, "}} {value}");
    }
}

/// A label value as the text format wants it: an image is whatever a user wrote.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(['\\', '"', '\n']) {
            f.write_str(&rest[..at])?;
            f.write_str(match rest.as_bytes()[at] {
                b'\\' => r"\\",
                b'"' => "\\\"",
                _ => r"\n",
            })?;
            rest = &rest[at + 1..];
        }
        f.write_str(rest)
    }
}
