//! Limits how often fields of a child are repaired that somebody else keeps changing. Pure data; kept for each child.
//!
//! Without a limit two controllers that disagree write as fast as they can, and each change of a pod template rolls
//! pods.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// The most repairs of one desired child within a [`WINDOW`].
const LIMIT: usize = 12;
/// See [`LIMIT`].
const WINDOW: SignedDuration = SignedDuration::from_secs(60);

/// The recent repairs of one child, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairLimiter {
    /// Hash of the body that was written last. Writing the same body again is a repair, writing another one is not.
    written: String,
    at: Vec<Timestamp>,
}

impl RepairLimiter {
    /// Notes that the body with this hash was written.
    pub fn note(&mut self, hash: &str, now: Timestamp) {
        if self.written != hash {
            *self = Self { written: hash.to_owned(), at: Vec::new() };
            return;
        }
        self.at.retain(|at| now.duration_since(*at) < WINDOW);
        self.at.push(now);
    }

    /// Whether a write of this body would be a repair: the same body was in place before.
    #[must_use]
    pub fn is_repair(&self, hash: &str) -> bool {
        self.written == hash
    }

    /// When the child may be repaired again; `None` when that is now.
    #[must_use]
    pub fn exhausted_until(&self, hash: &str, now: Timestamp) -> Option<Timestamp> {
        let recent: Vec<_> = self.at.iter().filter(|at| now.duration_since(**at) < WINDOW).collect();
        let first = recent.len().checked_sub(LIMIT).and_then(|at| recent.get(at))?;
        first.checked_add(WINDOW).ok().filter(|_| self.written == hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn twelve_repairs_a_minute_are_made_and_the_next_waits_for_the_first_to_be_a_minute_old() {
        let mut repairs = RepairLimiter::default();
        repairs.note("a", at(0)); // the edit
        for second in 1..=12 {
            assert_eq!(repairs.exhausted_until("a", at(second)), None);
            repairs.note("a", at(second));
        }
        assert_eq!(repairs.exhausted_until("a", at(13)), Some(at(61)));
        assert_eq!(repairs.exhausted_until("a", at(61)), None);
        repairs.note("a", at(61));
        assert_eq!(repairs.exhausted_until("a", at(61)), Some(at(62)));
    }

    #[test]
    fn an_edit_is_never_held_back() {
        let mut repairs = RepairLimiter::default();
        (0..=12).for_each(|second| repairs.note("a", at(second)));
        assert_eq!(repairs.exhausted_until("b", at(12)), None);
        repairs.note("b", at(12));
        assert_eq!(repairs.exhausted_until("b", at(12)), None);
    }
}
