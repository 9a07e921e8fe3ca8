//! Many caches in one table. Takes a [`ListView`], gives text. Pure; `status` without a name prints it.

use super::table::{Cell, table};
use super::words::{NOTHING, age, of_health};
use crate::cli::mcd::view::answer::Answer;
use crate::cli::mcd::view::list::{ListView, Row, WantedPods};

/// The table, or a sentence where there is no cache.
#[must_use]
pub fn screen(view: &ListView) -> String {
    if view.caches.is_empty() {
        return "There is no Memcached here.\n".to_owned();
    }
    let rows: Vec<_> = view
        .caches
        .iter()
        .map(|row| {
            let Row { health, namespace, name, ready, wanted, created, template_revision, why } = row;
            let wanted = match wanted {
                Answer::Known(WantedPods::Fixed(replicas)) => replicas.to_string(),
                Answer::Known(WantedPods::Autoscaled(bounds)) => format!("{}-{}", bounds.min, bounds.max),
                Answer::Unknown { .. } => "?".to_owned(),
            };
            let revision = template_revision.map_or_else(|| NOTHING.to_owned(), |it| it.to_string());
            vec![
                Cell::from(namespace.as_str()),
                Cell::from(name.as_str()),
                Cell::with_style(of_health(*health), health.as_str()),
                Cell::from(format!("{ready}/{wanted}")),
                Cell::from(revision),
                Cell::from(age(*created, view.at)),
                Cell::from(why.as_deref().unwrap_or_default()),
            ]
        })
        .collect();
    table(&["NAMESPACE", "NAME", "HEALTH", "PODS", "TEMPLATE", "AGE", "WHY"], &rows)
}
