//! Limits how often fields of a child are repaired that somebody else keeps changing. Pure data; kept for each child.
//!
//! Without a limit two controllers that disagree write as fast as they can, and each change of a pod template rolls
//! pods.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::hash::BodyHash;
use crate::api::few::Few;

/// The most repairs of one desired child within a [`WINDOW`].
const LIMIT: usize = 12;
/// See [`LIMIT`].
const WINDOW: SignedDuration = SignedDuration::from_secs(60);

/// The recent repairs of one child, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairLimiter {
    /// Hash of the body that was written last. Writing the same body again is a repair, writing another one is not.
    #[serde(with = "super::hash::or_empty")]
    written: Option<BodyHash>,
    at: Few<Timestamp>,
}

impl RepairLimiter {
    /// Notes that the body with this hash was written.
    pub fn note(&mut self, hash: Option<BodyHash>, now: Timestamp) {
        if self.written != hash {
            *self = Self { written: hash, at: Few::default() };
            return;
        }
        self.at.push_after(|at| now.duration_since(*at) < WINDOW, now);
    }

    /// Whether a write of this body would be a repair: the same body was in place before.
    #[must_use]
    pub fn is_repair(&self, hash: Option<BodyHash>) -> bool {
        self.written == hash
    }

    /// When the child may be repaired again; `None` when that is now.
    #[must_use]
    pub fn exhausted_until(&self, hash: Option<BodyHash>, now: Timestamp) -> Option<Timestamp> {
        let recent: Vec<_> = self.at.iter().filter(|at| now.duration_since(**at) < WINDOW).collect();
        let first = recent.len().checked_sub(LIMIT).and_then(|at| recent.get(at))?;
        first.checked_add(WINDOW).ok().filter(|_| self.written == hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash of some body.
    #[expect(clippy::unnecessary_wraps, reason = "as the limiter takes it")]
    fn hash(body: &str) -> Option<BodyHash> {
        Some(BodyHash::from_body(&body.into()))
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn twelve_repairs_a_minute_are_made_and_the_next_waits_for_the_first_to_be_a_minute_old() {
        let mut repairs = RepairLimiter::default();
        repairs.note(hash("a"), at(0)); // the edit
        for second in 1..=12 {
            assert_eq!(repairs.exhausted_until(hash("a"), at(second)), None);
            repairs.note(hash("a"), at(second));
        }
        assert_eq!(repairs.exhausted_until(hash("a"), at(13)), Some(at(61)));
        assert_eq!(repairs.exhausted_until(hash("a"), at(61)), None);
        repairs.note(hash("a"), at(61));
        assert_eq!(repairs.exhausted_until(hash("a"), at(61)), Some(at(62)));
    }

    #[test]
    fn an_edit_is_never_held_back() {
        let mut repairs = RepairLimiter::default();
        (0..=12).for_each(|second| repairs.note(hash("a"), at(second)));
        assert_eq!(repairs.exhausted_until(hash("b"), at(12)), None);
        repairs.note(hash("b"), at(12));
        assert_eq!(repairs.exhausted_until(hash("b"), at(12)), None);
    }
}
