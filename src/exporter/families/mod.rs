//! Every metric that is read off memcached, one entry each: its name, what it means, its type, and where in
//! memcached's answers its figures are. Pure; `metrics` turns the entries into what Prometheus reads.
//!
//! Names, types and labels are those of prometheus/memcached_exporter 0.15 (with the proxy's of 0.16), also where it
//! has reasons to regret them: some counters lack `_total`, and `slab_items_evicted_time_seconds`,
//! `slab_mem_requested_bytes` and `extstore_bytes_used` are called counters though they go down.

mod classes;
mod server;

pub use self::classes::CLASSES;
pub use self::server::{SERVER, SETTINGS};

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Counts since memcached started.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// As Prometheus shows it.
    pub name: &'static str,
    /// What a person is told.
    pub help: &'static str,
    /// Its type.
    pub kind: Kind,
    /// The labels of its series; those of slab classes come after `slab`.
    pub labels: &'static [&'static str],
    /// Where its figures are.
    pub series: Series,
}

/// Where the figures of a metric are.
#[derive(Clone, Copy, Debug)]
pub enum Series {
    /// One series.
    One(Value),
    /// One series for each combination of label values.
    Each(&'static [(&'static [&'static str], Value)]),
}

/// How a figure is read, by memcached's name for it.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// A number.
    Number(&'static str),
    /// `yes` is 1, `no` is 0.
    Switch(&'static str),
    /// Seconds and microseconds with a point between; the latter need not have six digits.
    Time(&'static str),
    /// The first less the others.
    Less(&'static str, &'static [&'static str]),
    /// 1; the text is the value of the only label.
    Text(&'static str),
}

const fn family(kind: Kind, name: &'static str, help: &'static str, value: Value) -> Family {
    Family { name, help, kind, labels: &[], series: Series::One(value) }
}

const fn counter(name: &'static str, help: &'static str, figure: &'static str) -> Family {
    family(Kind::Counter, name, help, Value::Number(figure))
}

const fn gauge(name: &'static str, help: &'static str, figure: &'static str) -> Family {
    family(Kind::Gauge, name, help, Value::Number(figure))
}
