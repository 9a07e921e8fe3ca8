//! The bounds on `docs/performance.md` are those that the benchmark has, row by row. The rows come from the functions that a
//! run calls, with figures that nobody measured.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use super::kernel::{Rate, World};
use super::quiet::Quiet;
use super::report::{Bound, Row};
use super::size::{LARGE, SMALL, Size};
use super::{counted, crowd, kernel_rows, rotation};

const PAGE: &str = include_str!("../../../docs/performance.md");

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
