//! Events, the newest last, as `kubectl events` prints them. Takes views of Events, gives text. Pure; `events NAME` prints it.

use jiff::Timestamp;

use super::table::{Cell, table};
use super::words::{NOTICE, age};
use crate::cli::mcd::view::events::EventView;

/// The table, or a sentence where there is no Event.
#[must_use]
pub fn screen(events: &[EventView], now: Timestamp) -> String {
    if events.is_empty() {
        return "There is no Event; Kubernetes keeps Events for an hour.\n".to_owned();
    }
    let rows: Vec<_> = events
        .iter()
        .map(|event| {
            let EventView { at, severity, reason, object, message, count } = event;
            let severity = match severity.as_str() {
                "Warning" => Cell::with_style(NOTICE, "Warning"),
                other => Cell::from(other),
            };
            let often = if *count > 1 { format!(" (x{count})") } else { String::new() };
            vec![
                Cell::from(format!("{}{often}", age(*at, now))),
                severity,
                Cell::from(reason.as_str()),
                Cell::from(object.as_str()),
                // One Event, one line.
                Cell::from(message.split_whitespace().collect::<Vec<_>>().join(" ")),
            ]
        })
        .collect();
    table(&["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"], &rows)
}
