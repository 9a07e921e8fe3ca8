//! Figures of pods, as `kubectl top` prints them. Takes a [`TopView`], gives text. Pure; `top` prints it.

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
    let mut rows = Vec::new();
    for (at, pod) in view.pods.iter().enumerate() {
        rows.push(of_pod(pod));
        let of_cache = |it: &Row| (it.namespace.clone(), it.cache.clone());
        let is_last = view.pods[at + 1..].iter().all(|later| of_cache(later) != of_cache(pod));
        let sum = view.caches.iter().find(|it| (&it.namespace, &it.cache) == (&pod.namespace, &pod.cache));
        rows.extend(sum.filter(|_| is_last).map(of_all));
    }
    let untold = view.pods.iter().map(|row| (row.pod.as_str(), &row.figures));
    table(&HEADINGS, &rows) + &no_figures(untold)
}

fn of_pod(row: &Row) -> Vec<Cell> {
    let Row { namespace, cache, pod, reads_per_second, recent_hit_ratio, figures } = row;
    let figures = figures.known().copied().unwrap_or_default();
    cells([namespace, cache, pod], (*reads_per_second, *recent_hit_ratio), &figures)
}

/// The row below the pods of a cache.
fn of_all(sum: &Sum) -> Vec<Cell> {
    let Sum { namespace, cache, pods, reads_per_second, recent_hit_ratio, figures } = sum;
    cells([namespace, cache, &format!("all {pods}")], (*reads_per_second, *recent_hit_ratio), figures)
}

fn cells(names: [&str; 3], (reads, hits): (Option<f64>, Option<f64>), figures: &Figures) -> Vec<Cell> {
    let now = [count(reads), share(hits)].map(Cell::from);
    names.map(Cell::from).into_iter().chain(now).chain(figure_cells(figures)).collect()
}
