//! `docs/performance.md` says what the benchmark says. Its first table has the bounds, row by row; the rows come from the
//! functions that a run calls, with figures that nobody measured. Its second table and the picture have the figures of one
//! run, whose report is `docs/performance.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::kernel::{Rate, World};
use super::quiet::Quiet;
use super::report::{Bound, Figure, Report, Row};
use super::size::{LARGE, SMALL, Size};
use super::{counted, crowd, kernel_rows, picture, rotation};

const PAGE: &str = include_str!("../../../docs/performance.md");
const REPORT: &str = include_str!("../../../docs/performance.json");
const PICTURE: &str = include_str!("../../../docs/performance.svg");
/// The section of the page that is made from the report, up to the next one.
const SECTION: &str = "## Figures of one run\n";

/// Every row that a run can have.
fn rows() -> Result<Vec<Row>> {
    let second = json!({"secs": 1, "nanos": 0});
    let mut rows = Vec::new();
    for resources in [SMALL].into_iter().chain(LARGE) {
        let size: Size = serde_json::from_value(json!({
            "resources": resources.count,
            "cold": {"operator": [second], "bare": [second], "peaks": [1], "bare_peaks": [1]},
            "restart": {"peak": 1, "processor": second, "lists_of_a_kind": 1, "lists": 1, "writes": 0},
            "edits": {"through_operator": [second], "bare": [second]},
            "edits_meanwhile": [second],
        }))?;
        rows.extend(size.rows(resources));
    }
    let rate = |world| Rate { world, of: String::new(), events: 1, took: Duration::from_secs(1) };
    rows.extend(kernel_rows(&[rate(World::Settled), rate(World::Rolling)]));
    let [cold_start, restart, idle] = [(); 3].map(|()| BTreeMap::new());
    rows.extend(counted(&Quiet { cold_start, restart, idle }));
    rows.extend(crowd::rows_of_nothing());
    rows.extend(rotation::rows_of_nothing());
    Ok(rows)
}

/// As a page says it: 200000 is `200,000`, 1.1 is `1.1`.
fn number(bound: f64) -> String {
    let text = bound.to_string();
    let (whole, fraction) = text.split_once('.').map_or((&*text, None), |(it, rest)| (it, Some(rest)));
    let apart = whole.as_bytes().rchunks(3).rev().map(|it| String::from_utf8_lossy(it).into_owned());
    let whole = apart.collect::<Vec<_>>().join(",");
    fraction.map_or(whole.clone(), |fraction| format!("{whole}.{fraction}"))
}

fn words(bound: Bound) -> String {
    match bound {
        Bound::AtMost(bound) => format!("at most {}", number(bound)),
        Bound::AtLeast(bound) => format!("at least {}", number(bound)),
        Bound::Exactly(bound) => number(bound),
    }
}

/// What a bound is with each number of resources, where it differs: `at most 18 with 1,000 resources, 38 with 5,000`.
fn cell(rows: &[&Row]) -> Result<String> {
    let first = rows.first().context("a figure has a row")?;
    if rows.iter().all(|row| row.must == first.must) {
        return Ok(words(first.must));
    }
    let mut parts = Vec::new();
    for row in rows {
        let with = number(row.resources.context("bounds that differ have a number")? as f64);
        let said = words(row.must);
        parts.push(match parts.is_empty() {
            true => format!("{said} with {with} resources"),
            false => format!("{} with {with}", said.trim_start_matches("at most ")),
        });
    }
    Ok(parts.join(", "))
}

/// The page's section about this run.
fn section(report: &Report) -> String {
    let Report { day, machine, rows, sizes: _ } = report;
    let missed = rows.iter().filter(|row| !row.is_kept()).count();
    let mut text = format!(
        "{SECTION}Measured on {day}, on {machine}. {missed} of {} rows miss their bound. What each figure was made from is in\n\
         [performance.json](performance.json).\n\n\
         ![Time of a cold start, and peak memory, over the number of resources](performance.svg)\n\n\
         | figure | resources | was | must be | hope | |\n|---|---|---|---|---|---|\n",
        rows.len(),
    );
    for row in rows {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            row.what,
            row.resources.map(|it| number(it as f64)).unwrap_or_default(),
            Figure(row.figure),
            words(row.must),
            row.hope.map(words).unwrap_or_default(),
            row.outcome(),
        ); // a String takes everything
    }
    text
}

/// The page with this section in the place of its own.
fn page_with(section: &str) -> Result<String> {
    let (before, rest) = PAGE.split_once(SECTION).context("the page has the section")?;
    let (_, after) = rest.split_once("\n## ").context("the page goes on behind the section")?;
    Ok(format!("{before}{section}\n## {after}"))
}

/// A text that is not as it has to be stands beside the file then.
fn ensure_file_is(name: &str, text: &str, expected: &str) -> Result<()> {
    if text != expected {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        fs::write(docs.join(format!("{name}.new")), expected)?;
    }
    ensure!(text == expected, "docs/{name} is stale: docs/{name}.new is what it has to be");
    Ok(())
}

#[test]
fn the_page_and_the_picture_have_the_figures_of_the_report() -> Result<()> {
    let report: Report = serde_json::from_str(REPORT)?;
    let (page, picture) = (page_with(&section(&report))?, picture::draw(&report.sizes)?);
    let outcomes =
        [ensure_file_is("performance.md", PAGE, &page), ensure_file_is("performance.svg", PICTURE, &picture)];
    outcomes.into_iter().collect()
}

#[test]
fn the_report_has_every_row_with_the_bound_that_it_has_today() -> Result<()> {
    let report: Report = serde_json::from_str(REPORT)?;
    let said = |rows: &[Row]| -> BTreeSet<String> {
        let bounds = |row: &Row| (row.must, row.hope);
        rows.iter().map(|row| format!("{} {:?} {:?}", row.what, row.resources, bounds(row))).collect()
    };
    assert_eq!(said(&report.rows), said(&rows()?));
    Ok(())
}

#[test]
fn the_page_has_the_bound_of_every_row_and_no_other() -> Result<()> {
    let rows = rows()?;
    let mut of_figures: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in &rows {
        of_figures.entry(&row.what).or_default().push(row);
    }
    let mut expected = BTreeMap::new();
    for (what, rows) in &of_figures {
        expected.insert(format!("`{what}`"), cell(rows)?);
    }
    let table = PAGE.split("| figure | bound |\n").nth(1).context("the page has a table")?;
    let lines = table
        .lines()
        .skip(1)
        .map_while(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
    let on_page: BTreeMap<String, String> =
        lines.map(|(what, bound)| (what.to_owned(), bound.to_owned())).collect();
    let names = |rows: &BTreeMap<String, String>| rows.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&on_page), names(&expected));
    for (what, bound) in &on_page {
        assert_eq!(Some(bound), expected.get(what), "{what}");
    }
    Ok(())
}
