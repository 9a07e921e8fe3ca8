//! Figures of pods, as `kubectl top` prints them. Takes a [`TopView`], gives text. Pure; `top` prints it.

use super::cache::{figure_cells, no_figures};
use super::table::{Cell, table};
use super::words::{count, share};
use crate::cli::mcd::view::top::{Row, TopView};

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
    let rows: Vec<_> = view
        .pods
        .iter()
        .map(|row| {
            let Row { namespace, cache, pod, reads_per_second, recent_hit_ratio, figures } = row;
            let names = [namespace, cache, pod].map(|name| Cell::from(name.as_str()));
            let now = [count(*reads_per_second), share(*recent_hit_ratio)].map(Cell::from);
            let figures = figure_cells(&figures.known().copied().unwrap_or_default());
            names.into_iter().chain(now).chain(figures).collect()
        })
        .collect();
    let untold = view.pods.iter().map(|row| (row.pod.as_str(), &row.figures));
    table(&HEADINGS, &rows) + &no_figures(untold)
}
