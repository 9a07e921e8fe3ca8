//! What Prometheus reads of the agent itself. Takes what is known; gives metric families. Pure; [`super::serve`] calls it.

use jiff::Timestamp;
use prometheus::proto::{Gauge, LabelPair, Metric, MetricFamily, MetricType};
use strum::{IntoStaticStr, VariantArray};

use super::published::AgentStatus;
use crate::secrets::rotation_check::RotationState;

/// What the agent says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
pub enum Family {
    /// When the certificate ends that memcached shows.
    Served,
    /// When the certificate ends that is in the file.
    File,
    /// How far memcached is with its files.
    State,
}

impl Family {
    /// The name of the metric.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Served => "memcached_agent_served_certificate_not_after_timestamp_seconds",
            Self::File => "memcached_agent_file_certificate_not_after_timestamp_seconds",
            Self::State => "memcached_agent_state",
        }
    }

    /// What the metric means, for people.
    #[must_use]
    pub const fn help(self) -> &'static str {
        match self {
            Self::Served => "When the certificate ends that memcached shows its clients.",
            Self::File => "When the certificate ends that is in the mounted Secret.",
            Self::State => {
                "1 for how far memcached is with the content of its mounted Secrets, 0 for the others."
            }
        }
    }
}

/// The values of the label `state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Word {
    /// See [`RotationState::Taking`].
    Taking,
    /// See [`RotationState::Taken`].
    Taken,
    /// See [`RotationState::NeedsRestart`].
    NeedsRestart,
    /// See [`RotationState::Refused`].
    Refused,
}

/// All families that have a series.
#[must_use]
pub fn families(status: &AgentStatus) -> Vec<MetricFamily> {
    let AgentStatus { files: _, state, served_until, file_until } = status;
    let now = match state {
        RotationState::Taking { .. } => Word::Taking,
        RotationState::Taken { .. } => Word::Taken,
        RotationState::NeedsRestart { .. } => Word::NeedsRestart,
        RotationState::Refused { .. } => Word::Refused,
    };
    let state = |word: &Word| {
        let mut label = LabelPair::default();
        label.set_name("state".to_owned());
        label.set_value(<&str>::from(*word).to_owned());
        gauge(vec![label], f64::from(u8::from(*word == now)))
    };
    let series = |of: Family| -> Vec<Metric> {
        match of {
            Family::Served => served_until.map(time).into_iter().collect(),
            Family::File => file_until.map(time).into_iter().collect(),
            Family::State => Word::VARIANTS.iter().map(state).collect(),
        }
    };
    let with_series = Family::VARIANTS.iter().map(|of| (*of, series(*of)));
    with_series.filter(|(_, series)| !series.is_empty()).map(|(of, series)| family(of, series)).collect()
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

fn family(of: Family, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(of.name().to_owned());
    family.set_help(of.help().to_owned());
    family.set_field_type(MetricType::GAUGE);
    family.set_metric(metrics);
    family
}
