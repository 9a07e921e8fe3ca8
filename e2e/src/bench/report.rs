//! What was measured against what must be: takes rows, gives a table and whether every bound was kept. Called by
//! [`super::run`].

use std::fmt::{self, Write};
use std::fs;
use std::thread;

/// What a figure has to be.
#[derive(Debug, Clone, Copy, PartialEq)]
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
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// What was measured, with its unit.
    pub(super) what: &'static str,
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

    fn verdict(&self) -> &'static str {
        match self.hope {
            _ if !self.is_kept() => "MISSED",
            Some(hope) if hope.keeps(self.figure) => "ok, and the hope",
            _ => "ok",
        }
    }
}

/// The table, for a terminal.
pub(super) fn table(rows: &[Row]) -> String {
    let head = ["what", "figure", "must", "hope", "", "from"].map(str::to_owned);
    let mut lines = vec![head];
    lines.extend(rows.iter().map(|row| {
        [
            row.what.to_owned(),
            Figure(row.figure).to_string(),
            row.must.to_string(),
            row.hope.map(|hope| hope.to_string()).unwrap_or_default(),
            row.verdict().to_owned(),
            row.detail.clone(),
        ]
    }));
    let width =
        |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut text = String::new();
    for line in &lines {
        let cells: Vec<String> =
            line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end()); // a String takes everything
    }
    text
}

/// The machine that the figures are from, in one line.
pub(super) fn machine() -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let (cpus, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
    let after = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim_start_matches([' ', '\t', ':']).trim().to_owned()
    };
    let load: String = read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" ");
    let build = if cfg!(debug_assertions) { "a debug build, which says little" } else { "a release build" };
    format!(
        "{cores} cores, {}, {} of memory, Linux {}, load {load}; {build}",
        after(&cpus, "model name"),
        after(&memory, "MemTotal"),
        read("/proc/sys/kernel/osrelease").trim(),
    )
}

/// A number for people: thousands apart, two decimals where they say something.
struct Figure(f64);

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
        Row { what: "speed", figure, must, hope, detail: "a, b".to_owned() }
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
what   figure     must        hope                            from
speed  1,234,567  >= 100,000  >= 1,000,000  ok, and the hope  a, b
speed  1.25       <= 1.30     <= 1.05       ok                a, b
speed  4          3                         MISSED            a, b
";
        assert_eq!(table(&rows), expected);
    }
}
