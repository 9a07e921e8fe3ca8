//! Figures of pods, as `kubectl top` prints them. Takes a [`TopView`], gives text. Pure; `top` prints it.

use std::collections::BTreeMap;

use super::cache::{figure_cells, no_figures};
use super::table::{Cell, table};
use super::words::{count, share};
use crate::cli::mcd::view::top::{Row, Sum, TopView};
use crate::figures::Figures;

const HEADINGS: [&str; 10] = [
    "NAMESPACE",
    "CACHE",
    "POD",
    "READS/S",
    "HIT RATIO NOW",
    "HIT RATIO",
    "ITEMS",
    "MEMORY",
    "EVICTIONS",
    "CONNECTIONS",
];

/// The table, or a sentence where there is no pod.
#[must_use]
pub fn screen(view: &TopView) -> String {
    if view.pods.is_empty() {
        return "There is no pod of a cache here.\n".to_owned();
    }
    let mut sums: BTreeMap<(&str, &str), &Sum> =
        view.caches.iter().map(|sum| ((sum.namespace.as_str(), sum.cache.as_str()), sum)).collect();
    let mut rows = Vec::new();
    // From the end: the first pod of a cache that comes has the sum below it.
    for pod in view.pods.iter().rev() {
        rows.extend(sums.remove(&(pod.namespace.as_str(), pod.cache.as_str())).map(of_all));
        rows.push(of_pod(pod));
    }
    rows.reverse();
    let untold = view.pods.iter().map(|row| (row.pod.as_str(), &row.figures));
    table(&HEADINGS, &rows) + &no_figures(untold)
}

fn of_pod(row: &Row) -> Vec<Cell> {
    let Row { namespace, cache, pod, reads_per_second, recent_hit_ratio, figures } = row;
    let figures = figures.known().copied().unwrap_or_default();
    cells([namespace, cache, pod], *reads_per_second, *recent_hit_ratio, &figures)
}

/// The row below the pods of a cache.
fn of_all(sum: &Sum) -> Vec<Cell> {
    let Sum { namespace, cache, pods, reads_per_second, recent_hit_ratio, figures } = sum;
    cells([namespace, cache, &format!("all {pods}")], *reads_per_second, *recent_hit_ratio, figures)
}

fn cells(names: [&str; 3], reads: Option<f64>, hits: Option<f64>, figures: &Figures) -> Vec<Cell> {
    let now = [count(reads), share(hits)].map(Cell::from);
    names.map(Cell::from).into_iter().chain(now).chain(figure_cells(figures)).collect()
}
