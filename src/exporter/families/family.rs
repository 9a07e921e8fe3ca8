//! What describes one metric that is read off memcached. Pure data; the tables beside this file are made of it.

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
    /// The name of the metric, as Prometheus shows it.
    pub name: &'static str,
    /// What a person is told.
    pub help: &'static str,
    /// The type of the metric.
    pub kind: Kind,
    /// The labels of its series; those of slab classes come after `slab`.
    pub labels: &'static [&'static str],
    /// The series of the metric, and where each figure is.
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

pub(super) const fn family(kind: Kind, name: &'static str, help: &'static str, value: Value) -> Family {
    Family { name, help, kind, labels: &[], series: Series::One(value) }
}

pub(super) const fn counter(name: &'static str, help: &'static str, figure: &'static str) -> Family {
    family(Kind::Counter, name, help, Value::Number(figure))
}

pub(super) const fn gauge(name: &'static str, help: &'static str, figure: &'static str) -> Family {
    family(Kind::Gauge, name, help, Value::Number(figure))
}
