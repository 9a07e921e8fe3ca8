//! Ages, sizes, shares and colours, as all pages write them. Pure; called by the other files of this folder.

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;

use crate::cli::mcd::view::health::Health;

/// What stands where something is not known.
pub const NOTHING: &str = "-";
/// For what is well.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// For what passes, or what a person should know.
pub const NOTICE: Style = AnsiColor::Yellow.on_default();
/// For what a person should do something about.
pub const BAD: Style = AnsiColor::Red.on_default();
/// For headings and names.
pub const STRONG: Style = Style::new().bold();

/// The colour of a health.
#[must_use]
pub const fn of_health(health: Health) -> Style {
    match health {
        Health::Ready => GOOD,
        Health::Working | Health::Paused => NOTICE,
        Health::Stalled | Health::Unavailable | Health::Unseen | Health::NotReady => BAD,
    }
}

/// A text in a style.
#[must_use]
pub fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// How long ago a time was, as `kubectl get` writes ages.
#[must_use]
pub fn age(at: Option<Timestamp>, now: Timestamp) -> String {
    at.map_or_else(|| NOTHING.to_owned(), |at| duration(now.duration_since(at).as_secs()))
}

/// Seconds, as `kubectl get` writes ages: the second unit is left out where it no longer matters.
#[must_use]
pub fn duration(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two = |first: i64, unit: &str, second: i64, lesser: &str| match second {
        0 => format!("{first}{unit}"),
        second => format!("{first}{unit}{second}{lesser}"),
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, "d", hours % 24, "h"),
        () if days < 730 => format!("{days}d"),
        () => two(days / 365, "y", days % 365, "d"),
    }
}

/// A time with its age: `2026-11-21 10:00:03 UTC (31m ago)`.
#[must_use]
pub fn time(at: Option<Timestamp>, now: Timestamp) -> String {
    at.map_or_else(
        || NOTHING.to_owned(),
        |at| format!("{} ({} ago)", at.strftime("%Y-%m-%d %H:%M:%S UTC"), age(Some(at), now)),
    )
}

/// A count, without a fraction.
#[must_use]
pub fn count(value: Option<f64>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), |value| format!("{value:.0}"))
}

/// A share: `98.2%`. Less than all is never written as all.
#[must_use]
pub fn share(value: Option<f64>) -> String {
    let tenths = |value: f64| (value * 1000.0).floor() / 10.0;
    value.map_or_else(|| NOTHING.to_owned(), |value| format!("{:.1}%", tenths(value)))
}

/// Bytes of bytes, in MiB: `41.2Mi/64Mi`.
#[must_use]
pub fn memory(bytes: Option<f64>, limit: Option<f64>) -> String {
    let mebibytes = |bytes: f64| bytes / 1024.0 / 1024.0;
    let taken = |bytes: f64| match mebibytes(bytes) {
        few if few <= 0.0 => "0".to_owned(),
        few if few < 1.0 => format!("{:.1}Ki", bytes / 1024.0),
        more => format!("{more:.1}Mi"),
    };
    match (bytes, limit) {
        (Some(bytes), Some(limit)) => format!("{}/{:.0}Mi", taken(bytes), mebibytes(limit)),
        (Some(bytes), None) => taken(bytes),
        (None, _) => NOTHING.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(-3, "0s")]
    #[case(119, "119s")]
    #[case(125, "2m5s")]
    #[case(180, "3m")]
    #[case(3 * 3600 - 1, "179m")]
    #[case(3 * 3600 + 120, "3h2m")]
    #[case(30 * 3600, "30h")]
    #[case(3 * 86400 + 3600, "3d1h")]
    #[case(700 * 86400, "700d")]
    #[case(800 * 86400, "2y70d")]
    fn ages_are_written_as_kubectl_writes_them(#[case] seconds: i64, #[case] expected: &str) {
        assert_eq!(duration(seconds), expected);
    }

    #[rstest]
    #[case(None, "-")]
    #[case(Some(1.0), "100.0%")]
    #[case(Some(0.999_99), "99.9%")]
    #[case(Some(0.0), "0.0%")]
    fn less_than_all_is_never_written_as_all(#[case] value: Option<f64>, #[case] expected: &str) {
        assert_eq!(share(value), expected);
    }

    #[test]
    fn memory_is_written_in_a_unit_that_shows_it() {
        assert_eq!(memory(Some(43_201_331.0), Some(67_108_864.0)), "41.2Mi/64Mi");
        assert_eq!(memory(Some(30_822.0), Some(67_108_864.0)), "30.1Ki/64Mi");
        assert_eq!(memory(Some(0.0), Some(67_108_864.0)), "0/64Mi");
        assert_eq!(memory(None, Some(1.0)), "-");
    }
}
