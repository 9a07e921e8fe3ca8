//! The backoff after a failed request: when the request may be sent again. Pure data.
//!
//! The delay grows with each failure of the same request and ends with its success; unrelated events do not change it.
//! A write that lost a race against the write of somebody else does not grow the delay: it is sent again at once, up to
//! twenty times in a row.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::failure::{self, Category, Failure};
use super::hash::{self, BodyHash};
use super::object::{ResourceVersion, Uid};

/// How many races in a row a write may lose before it backs off. Each lost race means that a write of somebody else
/// succeeded. While pods roll, that is the Deployment's controller: it writes the status a few times for each pod, and an
/// edit must not wait for it. On a busy machine it was seen to win two races of five, and once six in a row. The limit is
/// for somebody who writes without an end.
const RACES: u32 = 20;

/// A failure, how often it happened in a row, and what ends the wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    /// The last failure.
    pub failure: Failure,
    /// Failures in a row, at least 1; lost races count once.
    pub attempts: u32,
    /// Races lost since the last wait.
    #[serde(default)]
    pub races: u32,
    /// When to send again; `None`: only when the attempt has changed.
    pub retry_at: Option<Timestamp>,
    /// What failed.
    pub sent: Attempt,
}

/// How long to wait after so many attempts. The jitter comes from the uid of the resource, so that resources that fail
/// together do not retry together, and a replay gives the same times.
#[must_use]
pub fn delay(category: Category, attempts: u32, uid: &Uid) -> Option<SignedDuration> {
    let digest = hash::of_parts([uid.to_string().as_str(), &attempts.to_string()]);
    let seed = u64::from_str_radix(digest.get(..16).unwrap_or("0"), 16).unwrap_or(0);
    failure::retry_delay(category, attempts, seed)
}

/// What was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Hash of the body; `None` for a read and for a status.
    #[serde(with = "hash::or_empty")]
    pub body: Option<BodyHash>,
    /// The versions of the resource and of the child: a request that was refused for good may be accepted when one of
    /// them changes.
    pub against: String,
    /// The version of the child, if the request names one.
    #[serde(default)]
    pub version: Option<ResourceVersion>,
}

impl Backoff {
    /// The backoff after `failure`; `before` is the one until now.
    #[must_use]
    pub fn from_failure(
        before: Option<&Self>,
        failure: Failure,
        sent: Attempt,
        uid: &Uid,
        now: Timestamp,
    ) -> Self {
        let races = before.map_or(0, |before| before.races) + 1;
        if races <= RACES && sent.lost_race(&failure, before) {
            let attempts = before.map_or(1, |before| before.attempts);
            return Self { failure, attempts, races, retry_at: Some(now), sent };
        }
        let attempts = before.map_or(1, |before| before.attempts.saturating_add(1));
        let retry_at = match failure.category {
            // The live object is not the one that we know: read it at once, and back off only after that.
            Category::Conflict if attempts == 1 => Some(now),
            category => delay(category, attempts, uid).and_then(|delay| now.checked_add(delay).ok()),
        };
        Self { failure, attempts, races: 0, retry_at, sent }
    }

    /// Whether `sending` still has to wait.
    #[must_use]
    pub fn holds(&self, sending: &Attempt, now: Timestamp) -> bool {
        match self.retry_at {
            Some(at) => sending.body == self.sent.body && now < at,
            None => sending.body == self.sent.body && sending.against == self.sent.against,
        }
    }
}

impl Attempt {
    /// Whether the write lost a race: it conflicted, and it names another version than the attempt before, because the
    /// child was read in between.
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
        let version = version.map(|version| ResourceVersion::from(version.to_string()));
        let sent = Attempt { version, ..Attempt::default() };
        Backoff::from_failure(before, failure, sent, &Uid::from("u"), Timestamp::UNIX_EPOCH)
    }

    fn seconds(backoff: &Backoff) -> f64 {
        backoff.retry_at.map_or(f64::MAX, |at| at.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64())
    }

    #[test]
    fn a_write_that_loses_races_is_tried_again_at_once_and_slows_down_after_a_few() {
        let mut waits = Vec::new();
        let mut backoff = None;
        for version in 0..42 {
            let next = conflict(backoff.as_ref(), Some(version));
            waits.extend((seconds(&next) > 0.).then_some(version));
            backoff = Some(next);
        }
        assert_eq!(waits, [20, 41]);
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
