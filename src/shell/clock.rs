//! The one place that reads the wall clock: for the time of each event, for the times in the Lease, and for the agent, which
//! judges certificates by it. IO; called by the main loop, by `leader` and by `cli`.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A clock that never stands still and never goes back, whatever happens to the machine's: a kernel whose time stands still for
/// an hour retries nothing for an hour.
///
/// It follows the wall clock forward. When the wall clock is set back, it goes on with the monotonic clock, and stays ahead: see
/// [`Clock::is_far_ahead`].
#[derive(Clone, Debug)]
pub struct Clock {
    wall: fn() -> Timestamp,
    said: Timestamp,
    measured: Instant,
    /// How far it was ahead of the wall clock then.
    ahead: SignedDuration,
}

/// More than any difference between two machines, and less than what anybody judges by the hour or the day.
const FAR: SignedDuration = SignedDuration::from_mins(5);

impl Clock {
    /// A clock that starts with the wall clock's time.
    #[must_use]
    pub fn start() -> Self {
        Self::new(wall_clock)
    }

    /// A clock that follows this wall clock.
    #[must_use]
    pub fn new(wall: fn() -> Timestamp) -> Self {
        Self { wall, said: wall(), measured: Instant::now(), ahead: SignedDuration::ZERO }
    }

    /// The time now.
    pub fn now(&mut self) -> Timestamp {
        self.advance((self.wall)(), Instant::now())
    }

    /// Whether the wall clock was set back so far that this one is wrong about days: it would say of a certificate that it has
    /// ended long before it does. Only a new one is right again.
    #[must_use]
    pub fn is_far_ahead(&mut self) -> bool {
        self.now();
        self.ahead > FAR
    }

    /// How long until a time comes; zero when it has passed.
    pub fn until(&mut self, time: Timestamp) -> Duration {
        Duration::try_from(time.duration_since(self.now())).unwrap_or(Duration::ZERO)
    }

    fn advance(&mut self, wall: Timestamp, monotonic: Instant) -> Timestamp {
        let passed = SignedDuration::try_from(monotonic.duration_since(self.measured)).unwrap_or_default();
        let at_least = self.said.saturating_add(passed).unwrap_or(self.said);
        self.said = wall.max(at_least);
        self.measured = monotonic;
        self.ahead = self.said.duration_since(wall);
        self.said
    }
}

/// The time as the machine has it now, which may be before one that it had earlier.
#[expect(
    clippy::disallowed_methods,
    reason = "the kernel gets its time with each event, and this is where from"
)]
#[must_use]
pub fn wall_clock() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn it_follows_the_wall_clock_forward_and_goes_on_at_its_own_pace_when_that_is_set_back() {
        let start = Instant::now();
        let mut clock =
            Clock { wall: wall_clock, said: at(1_000), measured: start, ahead: SignedDuration::ZERO };
        let mut read = |wall, monotonic| clock.advance(at(wall), start + Duration::from_secs(monotonic));

        assert_eq!(read(1_001, 1), at(1_001));
        assert_eq!(read(5_000, 2), at(5_000), "set forward");
        assert_eq!(read(1_003, 3), at(5_001), "set back");
        assert_eq!(read(1_063, 63), at(5_061));
        assert_eq!(read(9_000, 64), at(9_000), "the wall clock has caught up");
    }

    #[test]
    fn it_is_far_ahead_while_the_wall_clock_is_more_than_five_minutes_behind() {
        let start = Instant::now();
        let mut clock =
            Clock { wall: wall_clock, said: at(1_000), measured: start, ahead: SignedDuration::ZERO };
        let is_far_ahead = |wall| {
            clock.advance(at(wall), start);
            clock.ahead > FAR
        };

        assert_eq!([1_000, 700, 699, 2_000].map(is_far_ahead), [false, false, true, false]);
    }
}
