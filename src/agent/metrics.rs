//! What Prometheus reads of the agent itself. Takes what is known; gives metric families. Pure; [`super::serve`] calls it.

use jiff::Timestamp;
use prometheus::proto::{Gauge, LabelPair, Metric, MetricFamily, MetricType};
use strum::{IntoStaticStr, VariantArray};

use super::published::AgentStatus;
use crate::secrets::rotation_check::State;

/// When the certificate ends that memcached shows.
pub const SERVED: &str = "memcached_agent_served_certificate_not_after_timestamp_seconds";
/// When the certificate ends that is in the file.
pub const FILE: &str = "memcached_agent_file_certificate_not_after_timestamp_seconds";
/// How far memcached is with its files.
pub const STATE: &str = "memcached_agent_state";

/// The values of the label `state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Word {
    /// See [`State::Taking`].
    Taking,
    /// See [`State::Taken`].
    Taken,
    /// See [`State::NeedsRestart`].
    NeedsRestart,
    /// See [`State::Refused`].
    Refused,
}

/// Names and helps of all families.
pub const ALL: [(&str, &str); 3] = [
    (SERVED, "When the certificate ends that memcached shows its clients."),
    (FILE, "When the certificate ends that is in the mounted Secret."),
    (STATE, "1 for how far memcached is with the content of its mounted Secrets, 0 for the others."),
];

/// All families that have a series.
#[must_use]
pub fn families(status: &AgentStatus) -> Vec<MetricFamily> {
    let AgentStatus { files: _, state, served_until, file_until } = status;
    let now = match state {
        State::Taking { .. } => Word::Taking,
        State::Taken { .. } => Word::Taken,
        State::NeedsRestart { .. } => Word::NeedsRestart,
        State::Refused { .. } => Word::Refused,
    };
    let state = |word: &Word| {
        let mut label = LabelPair::default();
        label.set_name("state".to_owned());
        label.set_value(<&str>::from(*word).to_owned());
        gauge(vec![label], f64::from(u8::from(*word == now)))
    };
    let [served, file, states] = ALL;
    let series = [
        (served, served_until.map(time).into_iter().collect()),
        (file, file_until.map(time).into_iter().collect()),
        (states, Word::VARIANTS.iter().map(state).collect::<Vec<_>>()),
    ];
    let with_series = series.into_iter().filter(|(_, metrics)| !metrics.is_empty());
    with_series.map(|((name, help), metrics)| family(name, help, metrics)).collect()
}

#[expect(clippy::cast_precision_loss, reason = "seconds of the years up to 9999 are exact")]
fn time(time: Timestamp) -> Metric {
    gauge(Vec::new(), time.as_second() as f64)
}

fn gauge(labels: Vec<LabelPair>, value: f64) -> Metric {
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    let mut metric = Metric::default();
    metric.set_label(labels);
    metric.set_gauge(gauge);
    metric
}

fn family(name: &str, help: &str, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(MetricType::GAUGE);
    family.set_metric(metrics);
    family
}
