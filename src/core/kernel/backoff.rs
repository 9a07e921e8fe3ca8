//! A request that failed, and when it may be tried again. Pure data.
//!
//! The delay grows with each failure of the same thing and ends with its success; unrelated events neither
//! shorten nor lengthen it. A write that lost a race against somebody else's is no failure of that kind: it is tried again
//! at once, a few times in a row.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::failure::{self, Category, Failure};
use super::hash;
use super::object::{ResourceVersion, Uid};

/// How many races in a row a write may lose before it slows down. While pods roll, the Deployment's controller writes its
/// status a few times a second: it seldom wins two in a row, and an edit must not wait for that.
const RACES: u32 = 5;

/// A failure, how often in a row, and what may end the wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    /// How it failed last.
    pub failure: Failure,
    /// How often in a row, at least 1; races that were lost count once.
    pub attempts: u32,
    /// Races that were lost since it last had to wait.
    #[serde(default)]
    pub races: u32,
    /// When to try again; `None`: only when something about the attempt has changed.
    pub retry_at: Option<Timestamp>,
    /// What failed.
    pub sent: Attempt,
}

/// How long to wait after so many attempts. The jitter is keyed by the resource's uid, so that resources that fail
/// together do not retry together, and a replay gives the same times.
#[must_use]
pub fn delay(category: Category, attempts: u32, uid: &Uid) -> Option<SignedDuration> {
    let digest = hash::of_parts([uid.0.as_str(), &attempts.to_string()]);
    let seed = u64::from_str_radix(digest.get(..16).unwrap_or("0"), 16).unwrap_or(0);
    failure::retry_delay(category, attempts, seed)
}

/// What was tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Hash of the body; empty where there is only one thing to send: a read, a status.
    pub body: String,
    /// The versions of what it was made from and sent to: what was refused for good may be taken when one of them is
    /// another.
    pub against: String,
    /// The version of the child that it was to change, where it names one.
    #[serde(default)]
    pub version: Option<ResourceVersion>,
}

impl Backoff {
    /// The backoff after `failure`, given the one before.
    #[must_use]
    pub fn from_failure(
        before: Option<&Self>,
        failure: Failure,
        sent: Attempt,
        (uid, now): (&Uid, Timestamp),
    ) -> Self {
        let races = before.map_or(0, |before| before.races) + 1;
        if races <= RACES && sent.lost_race(&failure, before) {
            let attempts = before.map_or(1, |before| before.attempts);
            return Self { failure, attempts, races, retry_at: Some(now), sent };
        }
        let attempts = before.map_or(1, |before| before.attempts.saturating_add(1));
        let retry_at = match failure.category {
            // The object is another one than we thought: look at once, and only then slow down.
            Category::Conflict if attempts == 1 => Some(now),
            category => delay(category, attempts, uid).and_then(|delay| now.checked_add(delay).ok()),
        };
        Self { failure, attempts, races: 0, retry_at, sent }
    }

    /// Whether `sending` has to wait at this time.
    #[must_use]
    pub fn holds(&self, sending: &Attempt, now: Timestamp) -> bool {
        match self.retry_at {
            Some(at) => sending.body == self.sent.body && now < at,
            None => sending.body == self.sent.body && sending.against == self.sent.against,
        }
    }
}

impl Attempt {
    /// Whether it came to nothing because somebody wrote meanwhile: it was to change another version than the attempt
    /// before it, which is what the look between the two found.
    fn lost_race(&self, failure: &Failure, before: Option<&Backoff>) -> bool {
        let conflicts = |failure: &Failure| failure.category == Category::Conflict;
        let before = before.filter(|before| conflicts(&before.failure));
        conflicts(failure)
            && self.version.is_some()
            && before.is_none_or(|before| before.sent.version != self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflict(before: Option<&Backoff>, version: Option<u32>) -> Backoff {
        let failure = Failure { category: Category::Conflict, message: String::new() };
        let version = version.map(|version| ResourceVersion(version.to_string()));
        let sent = Attempt { version, ..Attempt::default() };
        Backoff::from_failure(before, failure, sent, (&Uid("u".into()), Timestamp::UNIX_EPOCH))
    }

    fn seconds(backoff: &Backoff) -> f64 {
        backoff.retry_at.map_or(f64::MAX, |at| at.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64())
    }

    #[test]
    fn a_write_that_loses_races_is_tried_again_at_once_and_slows_down_after_a_few() {
        let mut waits = Vec::new();
        let mut backoff = None;
        for version in 0..12 {
            let next = conflict(backoff.as_ref(), Some(version));
            waits.extend((seconds(&next) > 0.).then_some(version));
            backoff = Some(next);
        }
        assert_eq!(waits, [5, 11]);
    }

    #[test]
    fn a_conflict_that_nobody_else_wrote_for_is_looked_into_at_once_and_then_slows_down() {
        for version in [None, Some(7)] {
            let first = conflict(None, version);
            let second = conflict(Some(&first), version);
            assert!(seconds(&first) == 0. && seconds(&second) > 0.5, "{second:?}");
        }
    }
}
