//! The figures of one memcached. Takes memcached's own statistics, or the page of an exporter; gives [`Figures`]. Pure;
//! `kubectl mcd` shows them, and the operator compares them while a rollout waits for a pod to be warm.

use serde::Serialize;

/// What one memcached counts, since it started. What it does not tell is absent: an unknown value is not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// Seconds since memcached started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uptime_seconds: Option<f64>,
    /// Reads that found their item, of all reads: 0 to 1. Absent before the first read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hit_ratio: Option<f64>,
    /// Reads that found their item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub get_hits: Option<f64>,
    /// Reads that did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub get_misses: Option<f64>,
    /// Items that are stored now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<f64>,
    /// Bytes that these items take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<f64>,
    /// Bytes that items may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<f64>,
    /// Items removed before their time to make room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evictions: Option<f64>,
    /// Connections that are open now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<f64>,
}

impl Figures {
    /// The figures of several pods together: sums, and the hit ratio of all their reads. Absent is what no pod tells; the pods'
    /// ages have no sum.
    #[must_use]
    pub fn from_pods<'a>(pods: impl IntoIterator<Item = &'a Self>) -> Self {
        let plus = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        let sum = pods.into_iter().fold(Self::default(), |sum, pod| Self {
            uptime_seconds: None,
            hit_ratio: None,
            get_hits: plus(sum.get_hits, pod.get_hits),
            get_misses: plus(sum.get_misses, pod.get_misses),
            items: plus(sum.items, pod.items),
            bytes: plus(sum.bytes, pod.bytes),
            limit_bytes: plus(sum.limit_bytes, pod.limit_bytes),
            evictions: plus(sum.evictions, pod.evictions),
            connections: plus(sum.connections, pod.connections),
        });
        let hit_ratio = sum.get_hits.zip(sum.get_misses).and_then(|(hits, misses)| ratio(hits, misses));
        Self { hit_ratio, ..sum }
    }
}

/// Each figure, by memcached's own name and by the name of the exporter's series, which is that of
/// prometheus/memcached_exporter.
const NAMES: [(&str, &str); 8] = [
    ("uptime", "memcached_uptime_seconds"),
    ("get_hits", r#"memcached_commands_total{command="get",status="hit"}"#),
    ("get_misses", r#"memcached_commands_total{command="get",status="miss"}"#),
    ("curr_items", "memcached_current_items"),
    ("bytes", "memcached_current_bytes"),
    ("limit_maxbytes", "memcached_limit_bytes"),
    ("evictions", "memcached_items_evicted_total"),
    ("curr_connections", "memcached_current_connections"),
];

/// The page of the agent that has the figures, whether or not somebody scrapes them.
pub const AGENTS_PAGE: &str = "/figures";

/// The series by which an exporter says whether it could ask memcached.
const UP: &str = "memcached_up";

impl Figures {
    /// Memcached's own statistics, by name.
    pub fn from_stats<'a>(of: impl Fn(&str) -> Option<&'a str>) -> Self {
        Self::from_values(NAMES.map(|(name, _)| of(name).and_then(number)))
    }

    /// The page of an exporter.
    ///
    /// # Errors
    /// When the page is not about a memcached, or the exporter could not ask its memcached.
    pub fn from_page(page: &str) -> Result<Self, String> {
        match series(page, UP) {
            Some(up) if up > 0.0 => Ok(Self::from_values(NAMES.map(|(_, name)| series(page, name)))),
            Some(_) => {
                Err("the exporter cannot ask memcached (memcached_up is 0): its log says why".to_owned())
            }
            None => Err("the metrics page of the exporter says nothing about a memcached".to_owned()),
        }
    }

    fn from_values(values: [Option<f64>; NAMES.len()]) -> Self {
        let [uptime_seconds, get_hits, get_misses, items, bytes, limit_bytes, evictions, connections] =
            values;
        let hit_ratio = get_hits.zip(get_misses).and_then(|(hits, misses)| ratio(hits, misses));
        Self {
            uptime_seconds,
            hit_ratio,
            get_hits,
            get_misses,
            items,
            bytes,
            limit_bytes,
            evictions,
            connections,
        }
    }

    /// The reads since an earlier look at the same memcached: hits and misses. `None` where memcached was restarted in
    /// between.
    #[must_use]
    pub fn reads_since(&self, earlier: &Self) -> Option<(f64, f64)> {
        let hits = self.get_hits? - earlier.get_hits?;
        let misses = self.get_misses? - earlier.get_misses?;
        let went_on = self.uptime_seconds? >= earlier.uptime_seconds? && hits >= 0.0 && misses >= 0.0;
        went_on.then_some((hits, misses))
    }
}

/// The share of hits; `None` where nothing was read.
#[must_use]
pub fn ratio(hits: f64, misses: f64) -> Option<f64> {
    let reads = hits + misses;
    (reads > 0.0).then(|| hits / reads)
}

/// The value of the series of exactly this name and these labels.
fn series(page: &str, name: &str) -> Option<f64> {
    page.lines().find_map(|line| number(line.strip_prefix(name)?.strip_prefix(' ')?))
}

/// A number, with a time stamp after it or not.
fn number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;
    use crate::exporter::metrics;
    use crate::exporter::protocol::Stats;

    fn stats() -> Stats {
        let server = [
            ("uptime", "100"),
            ("get_hits", "9"),
            ("get_misses", "1"),
            ("curr_items", "7"),
            ("bytes", "512"),
            ("limit_maxbytes", "67108864"),
            ("evictions", "2"),
            ("curr_connections", "3"),
        ];
        Stats {
            server: server.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            ..Stats::default()
        }
    }

    fn of(stats: &Stats) -> Figures {
        Figures::from_stats(|name| stats.server.get(name).map(String::as_str))
    }

    fn expected() -> Figures {
        Figures {
            uptime_seconds: Some(100.0),
            hit_ratio: Some(0.9),
            get_hits: Some(9.0),
            get_misses: Some(1.0),
            items: Some(7.0),
            bytes: Some(512.0),
            limit_bytes: Some(67_108_864.0),
            evictions: Some(2.0),
            connections: Some(3.0),
        }
    }

    fn page(up: bool) -> String {
        let mut families = metrics::read(&stats()).families;
        families.push(metrics::up(up));
        TextEncoder::new().encode_to_string(&families).unwrap()
    }

    #[test]
    fn memcached_and_its_exporter_tell_the_same_figures() {
        assert_eq!(of(&stats()), expected());
        assert_eq!(Figures::from_page(&page(true)), Ok(expected()));
    }

    #[test]
    fn what_is_not_told_is_absent_and_no_ratio_is_made_of_no_reads() {
        let mut stats = stats();
        stats.server.insert("get_hits".to_owned(), "0".to_owned());
        stats.server.insert("get_misses".to_owned(), "0".to_owned());
        stats.server.remove("evictions");
        let figures = of(&stats);
        assert_eq!((figures.hit_ratio, figures.evictions, figures.items), (None, None, Some(7.0)));
    }

    #[test]
    fn an_exporter_that_cannot_ask_and_a_page_of_something_else_are_no_figures() {
        let said = |page: &str| Figures::from_page(page).unwrap_err();
        assert!(said(&page(false)).contains("memcached_up is 0"));
        assert!(said("<html>").contains("nothing about a memcached"));
    }

    #[test]
    fn reads_between_two_looks_are_known_unless_memcached_was_restarted() {
        let later = Figures {
            uptime_seconds: Some(102.0),
            get_hits: Some(12.0),
            get_misses: Some(2.0),
            ..expected()
        };
        assert_eq!(later.reads_since(&expected()), Some((3.0, 1.0)));
        assert_eq!(expected().reads_since(&later), None);
    }
}
