//! What was measured against what must be: takes rows, gives a table and whether every bound was kept. Called by
//! [`super::run`].

use std::fmt::{self, Write};
use std::fs;
use std::thread;

use anyhow::Result;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What a figure has to be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Bound {
    /// This or less.
    AtMost(f64),
    /// This or more.
    AtLeast(f64),
    /// This and nothing else.
    Exactly(f64),
}

impl Bound {
    fn keeps(self, figure: f64) -> bool {
        match self {
            Self::AtMost(bound) => figure <= bound,
            Self::AtLeast(bound) => figure >= bound,
            Self::Exactly(bound) => (figure - bound).abs() < f64::EPSILON,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(bound) => write!(f, "<= {}", Figure(*bound)),
            Self::AtLeast(bound) => write!(f, ">= {}", Figure(*bound)),
            Self::Exactly(bound) => write!(f, "{}", Figure(*bound)),
        }
    }
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    /// What was measured, with its unit.
    pub(super) what: String,
    /// With how many resources, where that is what the figure depends on.
    pub(super) resources: Option<usize>,
    /// What came out.
    pub(super) figure: f64,
    /// What it has to be.
    pub(super) must: Bound,
    /// What it may once be.
    pub(super) hope: Option<Bound>,
    /// What the figure was made from.
    pub(super) detail: String,
}

impl Row {
    /// Whether the figure is what it has to be.
    pub(super) fn is_kept(&self) -> bool {
        self.must.keeps(self.figure)
    }

    /// Whether its bound was kept, in a word for the table.
    pub(super) fn outcome(&self) -> &'static str {
        match self.hope {
            _ if !self.is_kept() => "MISSED",
            Some(hope) if hope.keeps(self.figure) => "ok, and the hope",
            _ => "ok",
        }
    }
}

/// Everything that was measured.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    /// On which day it was begun, in UTC: `2026-11-30`.
    pub(super) day: String,
    /// The machine, in one line.
    pub(super) machine: String,
    /// The table.
    pub(super) rows: Vec<Row>,
    /// The figures behind it that depend on the number of resources.
    pub(super) sizes: Vec<Summary>,
}

/// Times and memory with a number of resources, for the picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary {
    pub(super) resources: usize,
    /// Medians of cold starts, in seconds.
    pub(super) operator_seconds: f64,
    /// Medians of the bare client for the writes of the operator, in seconds.
    pub(super) bare_seconds: f64,
    /// The highest peak of a cold start, in MB.
    pub(super) cold_start_megabytes: f64,
    /// The peak of a restart.
    pub(super) restart_megabytes: f64,
    /// What the peak must not exceed.
    pub(super) most_megabytes: f64,
}

impl Report {
    /// An empty one, of this machine.
    pub(super) fn new(day: Timestamp) -> Self {
        Self { day: day.strftime("%F").to_string(), machine: machine(), rows: Vec::new(), sizes: Vec::new() }
    }

    /// Adds rows, and prints them: who waits for the others, or loses them to a failure, has these.
    pub(super) fn add(&mut self, rows: Vec<Row>) {
        eprint!("{}", table(&rows));
        self.rows.extend(rows);
    }

    /// As a file.
    ///
    /// # Errors
    /// When a figure is no number.
    pub(super) fn json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

/// The table, for a terminal.
pub(super) fn table(rows: &[Row]) -> String {
    let head = ["what", "resources", "figure", "must", "hope", "", "from"].map(str::to_owned);
    let mut lines = vec![head];
    lines.extend(rows.iter().map(|row| {
        [
            row.what.clone(),
            row.resources.map(|count| Figure(count as f64).to_string()).unwrap_or_default(),
            Figure(row.figure).to_string(),
            row.must.to_string(),
            row.hope.map(|hope| hope.to_string()).unwrap_or_default(),
            row.outcome().to_owned(),
            row.detail.clone(),
        ]
    }));
    let width =
        |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; 7] = std::array::from_fn(width);
    let mut text = String::new();
    for line in &lines {
        let cells: Vec<String> =
            line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end()); // a String takes everything
    }
    text
}

/// The machine that the figures are from, in one line.
fn machine() -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let (cpus, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
    let after = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim_start_matches([' ', '\t', ':']).trim().to_owned()
    };
    let load: String = read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" ");
    let memory = after(&memory, "MemTotal").trim_end_matches(" kB").parse::<f64>().unwrap_or_default() / 1e6;
    let release = read("/proc/sys/kernel/osrelease");
    let kernel = release.split(['-', '\n']).next().unwrap_or_default();
    let build = if cfg!(debug_assertions) { "a debug build, which says little" } else { "a release build" };
    format!(
        "{cores} cores, {}, {memory:.0} GB of memory, Linux {kernel}, load {load}; {build}",
        after(&cpus, "model name"),
    )
}

/// A number for people: thousands apart, two decimals where they say something.
pub(super) struct Figure(pub(super) f64);

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.0.fract() == 0.0 || self.0 >= 1_000.0 {
            format!("{:.0}", self.0)
        } else {
            format!("{:.2}", self.0)
        };
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        for (at, digit) in whole.chars().enumerate() {
            if at > 0 && (whole.len() - at).is_multiple_of(3) {
                f.write_str(",")?;
            }
            f.write_char(digit)?;
        }
        if fraction.is_empty() { Ok(()) } else { write!(f, ".{fraction}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(figure: f64, must: Bound, hope: Option<Bound>) -> Row {
        Row {
            what: "speed".to_owned(),
            resources: Some(1_000),
            figure,
            must,
            hope,
            detail: "a, b".to_owned(),
        }
    }

    #[test]
    fn a_table_says_what_was_kept_and_what_was_missed() {
        let rows = [
            row(1_234_567.0, Bound::AtLeast(100_000.0), Some(Bound::AtLeast(1_000_000.0))),
            row(1.25, Bound::AtMost(1.3), Some(Bound::AtMost(1.05))),
            row(4.0, Bound::Exactly(3.0), None),
        ];
        let kept: Vec<bool> = rows.iter().map(Row::is_kept).collect();
        assert_eq!(kept, [true, true, false]);
        let expected = "\
what   resources  figure     must        hope                            from
speed  1,000      1,234,567  >= 100,000  >= 1,000,000  ok, and the hope  a, b
speed  1,000      1.25       <= 1.30     <= 1.05       ok                a, b
speed  1,000      4          3                         MISSED            a, b
";
        assert_eq!(table(&rows), expected);
    }
}
