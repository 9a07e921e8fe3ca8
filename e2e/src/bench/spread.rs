//! Least, median and greatest of some times or ratios: takes durations, gives seconds. Pure; called by the measurements.

use std::fmt;
use std::time::Duration;

/// The shape of some times, in seconds, or of other figures.
pub(super) struct Spread {
    pub(super) min: f64,
    pub(super) median: f64,
    pub(super) max: f64,
}

impl Spread {
    pub(super) fn from_times(times: &[Duration]) -> Self {
        Self::from_values(times.iter().map(Duration::as_secs_f64).collect())
    }

    pub(super) fn from_values(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let at = |place: usize| times.get(place).copied().unwrap_or(f64::NAN);
        let middle = times.len() / 2;
        let median = if times.len().is_multiple_of(2) {
            f64::midpoint(at(middle.saturating_sub(1)), at(middle))
        } else {
            at(middle)
        };
        Self { min: at(0), median, max: at(times.len().saturating_sub(1)) }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |seconds: f64| format!("{:.1?}", Duration::from_secs_f64(seconds.max(0.0)));
        write!(f, "{} ({} to {})", text(self.median), text(self.min), text(self.max))
    }
}
