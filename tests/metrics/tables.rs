//! The tables in one form: every metric of the operator, of its process, of the exporter and of the agent, from the code;
//! and those of the cluster that the dashboard uses.

use memcached_operator::agent::metrics::{self as agent, Word};
use memcached_operator::exporter::families::{CLASSES, Family, Kind, SERVER, SETTINGS, Series};
use memcached_operator::exporter::metrics;
use memcached_operator::shell::metrics::labels::{Label, Values};
use memcached_operator::shell::metrics::names::{self, Metric};
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use strum::VariantArray as _;

/// A metric.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) labels: Vec<EntryLabel>,
    pub(crate) help: String,
    /// What a person does with it.
    pub(crate) usage: &'static str,
}

/// A label: its name, and what it can say or what that is.
#[derive(Debug)]
pub(crate) struct EntryLabel {
    pub(crate) name: &'static str,
    pub(crate) values: Result<Vec<&'static str>, &'static str>,
}

pub(crate) fn operator() -> Vec<Entry> {
    let label = |Label { name, values }: &Label| EntryLabel {
        name,
        values: match values {
            Values::OneOf(values) => Ok(values()),
            Values::Any(what) => Err(*what),
        },
    };
    let entry = |Metric { name, kind, labels, help, usage }: Metric| Entry {
        name: name.to_owned(),
        kind: kind.name(),
        labels: labels.iter().map(label).collect(),
        help: help.to_owned(),
        usage,
    };
    names::ALL.into_iter().map(entry).collect()
}

/// What the library says of the operator's process.
pub(crate) fn process() -> Vec<Entry> {
    let collector = prometheus::process_collector::ProcessCollector::for_self();
    let entry = |desc: &prometheus::core::Desc| Entry {
        name: desc.fq_name.clone(),
        kind: if desc.fq_name.ends_with("_total") { "counter" } else { "gauge" },
        labels: Vec::new(),
        help: desc.help.clone(),
        usage: "",
    };
    let mut entries: Vec<_> = collector.desc().into_iter().map(entry).collect();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
}

pub(crate) fn agent() -> Vec<Entry> {
    let words = || {
        vec![EntryLabel {
            name: "state",
            values: Ok(Word::VARIANTS.iter().map(|word| (*word).into()).collect()),
        }]
    };
    let entry = |family: &agent::Family| Entry {
        name: family.name().to_owned(),
        kind: "gauge",
        labels: if *family == agent::Family::State { words() } else { Vec::new() },
        help: family.help().to_owned(),
        usage: "",
    };
    agent::Family::VARIANTS.iter().map(entry).collect()
}

pub(crate) fn exporter() -> Vec<Entry> {
    let own = |family: MetricFamily, labels: Vec<EntryLabel>| Entry {
        name: family.name().to_owned(),
        kind: "gauge",
        labels,
        help: family.help().to_owned(),
        usage: "",
    };
    let version = || vec![EntryLabel { name: "version", values: Err("of the exporter") }];
    let server = SERVER.iter().chain(SETTINGS).map(|family| of_family(family, false));
    let classes = CLASSES.iter().map(|family| of_family(family, true));
    [own(metrics::up(true), Vec::new()), own(metrics::build_info(), version())]
        .into_iter()
        .chain(server)
        .chain(classes)
        .collect()
}

/// What others serve of the pods, as far as the dashboard uses it; `usage` is who serves it.
pub(crate) fn cluster() -> Vec<Entry> {
    let of_container = |name: &str, help: &str| Entry {
        name: name.to_owned(),
        kind: "gauge",
        labels: Vec::new(),
        help: help.to_owned(),
        usage: "the kubelet, on `/metrics/cadvisor`",
    };
    let reason = EntryLabel { name: "reason", values: Err("why the container ended, such as `OOMKilled`") };
    vec![
        of_container(
            "container_memory_working_set_bytes",
            "Memory of the container that cannot be taken back at once.",
        ),
        of_container(
            "container_spec_memory_limit_bytes",
            "The container's memory limit; 0 where it has none.",
        ),
        of_container("container_start_time_seconds", "When the container started, as Unix time."),
        Entry {
            name: "kube_pod_container_status_last_terminated_reason".to_owned(),
            kind: "gauge",
            labels: vec![reason],
            help: "1 where the container ended before, with why it did so the last time.".to_owned(),
            usage: "[kube-state-metrics](https://github.com/kubernetes/kube-state-metrics)",
        },
    ]
}

fn of_family(family: &Family, of_class: bool) -> Entry {
    let slab = of_class.then_some(EntryLabel { name: "slab", values: Err("of the slab class") });
    let values = |index: usize| match family.series {
        Series::One(_) => Err("what memcached says"),
        Series::Each(series) => {
            let mut values: Vec<_> = series.iter().map(|(values, _)| values[index]).collect();
            values.sort_unstable();
            values.dedup();
            Ok(values)
        }
    };
    let labels = family.labels.iter().enumerate();
    Entry {
        name: family.name.to_owned(),
        kind: match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        },
        labels: slab
            .into_iter()
            .chain(labels.map(|(index, name)| EntryLabel { name, values: values(index) }))
            .collect(),
        help: family.help.to_owned(),
        usage: "",
    }
}
