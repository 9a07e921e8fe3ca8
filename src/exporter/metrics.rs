//! From memcached's statistics to what Prometheus reads. Takes [`Stats`]; gives metric families. Pure; `serve` calls
//! it.

use std::collections::BTreeSet;

use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

use super::families::{CLASSES, Family, Kind, SERVER, SETTINGS, Series, Value};
use super::protocol::{Group, Stats};

/// Whether memcached could be asked.
pub const UP: &str = "memcached_up";
/// The metric that names this program and its version.
pub const BUILD_INFO: &str = "memcached_exporter_build_info";

/// Statistics as metrics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Read {
    /// Every family that has a series.
    pub families: Vec<MetricFamily>,
    /// Statistics that are not of the expected form, by memcached's names; they have no series. The values are left out: they may
    /// differ at each scrape, and the log says only what is new.
    pub unreadable: BTreeSet<&'static str>,
}

/// All of memcached's statistics as metrics. Where memcached gives no value there is no series: an unknown value is not 0.
#[must_use]
pub fn read(stats: &Stats) -> Read {
    let Stats { server, settings, classes } = stats;
    let mut read = Read::default();
    for family in SERVER {
        read.add(family, [(None, server)]);
    }
    for family in SETTINGS {
        read.add(family, [(None, settings)]);
    }
    for family in CLASSES {
        read.add(family, classes.iter().map(|(class, group)| (Some(*class), group)));
    }
    read
}

/// 1 after a scrape that succeeded, 0 after one that failed.
#[must_use]
pub fn up(up: bool) -> MetricFamily {
    let help = "Whether memcached could be reached and told its figures.";
    one(UP, help, vec![], f64::from(u8::from(up)))
}

/// The version of this program.
#[must_use]
pub fn build_info() -> MetricFamily {
    let help = "Always 1, with the exporter's version.";
    one(BUILD_INFO, help, vec![label("version", env!("CARGO_PKG_VERSION"))], 1.0)
}

fn one(name: &str, help: &str, labels: Vec<LabelPair>, value: f64) -> MetricFamily {
    family(name, help, Kind::Gauge, vec![metric(Kind::Gauge, labels, value)])
}

impl Read {
    fn add<'a>(&mut self, family: &Family, groups: impl IntoIterator<Item = (Option<u16>, &'a Group)>) {
        let Family { name, help, kind, labels, series } = *family;
        let one: [(&[&str], Value); 1];
        let series = match series {
            Series::One(value) => {
                one = [(&[], value)];
                &one
            }
            Series::Each(series) => series,
        };
        let mut metrics = Vec::new();
        for (class, group) in groups {
            for (values, value) in series {
                let Some(sample) = self.sample(*value, group) else { continue };
                let class = class.map(|class| label("slab", &class.to_string()));
                let values = values.iter().copied().chain(sample.text);
                let pairs = labels.iter().zip(values).map(|(name, value)| label(name, value));
                metrics.push(metric(kind, class.into_iter().chain(pairs).collect(), sample.value));
            }
        }
        if !metrics.is_empty() {
            self.families.push(self::family(name, help, kind, metrics));
        }
    }

    fn sample<'a>(&mut self, value: Value, group: &'a Group) -> Option<Sample<'a>> {
        let mut get = |name: &'static str, read: fn(&str) -> Option<f64>| {
            let text = group.get(name)?;
            let value = read(text);
            if value.is_none() {
                self.unreadable.insert(name);
            }
            value
        };
        match value {
            Value::Number(name) => get(name, number).map(Sample::from),
            Value::Switch(name) => get(name, switch).map(Sample::from),
            Value::Time(name) => get(name, time).map(Sample::from),
            Value::Less(name, others) => {
                let others = others.iter().map(|other| get(other, number)).sum::<Option<f64>>()?;
                get(name, number).map(|all| Sample::from(all - others))
            }
            Value::Text(name) => group.get(name).map(|text| Sample { value: 1.0, text: Some(text) }),
        }
    }
}

/// A sample of a metric, with the text that it has instead of a number.
struct Sample<'a> {
    value: f64,
    text: Option<&'a str>,
}

impl From<f64> for Sample<'_> {
    fn from(value: f64) -> Self {
        Self { value, text: None }
    }
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

fn switch(text: &str) -> Option<f64> {
    match text {
        "yes" => Some(1.0),
        "no" => Some(0.0),
        _ => None,
    }
}

fn time(text: &str) -> Option<f64> {
    let (seconds, micros) = text.split_once('.')?;
    Some(number(seconds)? + number(micros)? / 1e6)
}

fn family(name: &str, help: &str, kind: Kind, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(match kind {
        Kind::Counter => MetricType::COUNTER,
        Kind::Gauge => MetricType::GAUGE,
    });
    family.set_metric(metrics);
    family
}

fn metric(kind: Kind, labels: Vec<LabelPair>, value: f64) -> Metric {
    let mut metric = Metric::from_label(labels);
    match kind {
        Kind::Counter => {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        }
        Kind::Gauge => {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
    }
    metric
}

fn label(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::TextEncoder;
    use rstest::rstest;

    fn group<const N: usize>(pairs: [(&str, &str); N]) -> Group {
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    /// The series only.
    fn series(read: &Read) -> Vec<String> {
        let text = TextEncoder::new().encode_to_string(&read.families).unwrap();
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn each_way_of_reading_gives_its_series_and_what_memcached_does_not_tell_has_none() {
        let sets = [("cmd_set", "10"), ("cas_hits", "1"), ("cas_misses", "2"), ("cas_badval", "3")];
        let mut server = group(sets);
        server.extend(group([("version", "1.6\"18"), ("rusage_user", "3.000250"), ("bytes", "17")]));
        let classes = [(1, group([("number", "3"), ("hits_to_temp", "4")])), (12, group([("number", "5")]))];
        let stats = Stats { server, settings: group([("lru_crawler", "no")]), classes: classes.into() };
        let read = read(&stats);
        assert_eq!(read.unreadable, [].into());
        assert_eq!(
            series(&read),
            [
                "memcached_version{version=\"1.6\\\"18\"} 1",
                "memcached_process_user_cpu_seconds_total 3.00025",
                "memcached_current_bytes 17",
                "memcached_commands_total{command=\"cas\",status=\"hit\"} 1",
                "memcached_commands_total{command=\"cas\",status=\"miss\"} 2",
                "memcached_commands_total{command=\"cas\",status=\"badval\"} 3",
                "memcached_commands_total{command=\"set\",status=\"hit\"} 4",
                "memcached_lru_crawler_enabled 0",
                "memcached_slab_current_items{slab=\"1\"} 3",
                "memcached_slab_current_items{slab=\"12\"} 5",
                "memcached_slab_lru_hits_total{slab=\"1\",lru=\"temporary\"} 4",
            ]
        );
    }

    #[rstest]
    #[case("uptime", "long")]
    #[case("uptime", "inf")]
    #[case("uptime", "")]
    #[case("rusage_user", "3")]
    #[case("rusage_user", "3.x")]
    fn a_figure_of_another_form_is_left_out_and_named(#[case] name: &'static str, #[case] value: &str) {
        let stats = Stats { server: group([(name, value), ("time", "7")]), ..Stats::default() };
        let read = read(&stats);
        assert_eq!(read.unreadable, [name].into());
        assert_eq!(series(&read), ["memcached_time_seconds 7"]);
    }
}
