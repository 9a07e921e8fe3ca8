//! A request that failed, and when it may be tried again. Pure data.
//!
//! The delay grows with each failure of the same thing and ends with its success; unrelated events neither
//! shorten nor lengthen it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::failure::{self, Category, Failure};
use super::hash;
use super::object::Uid;

/// A failure, how often in a row, and what may end the wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setback {
    /// How it failed last.
    pub failure: Failure,
    /// How often in a row, at least 1.
    pub attempts: u32,
    /// When to try again; `None`: only when something about the attempt has changed.
    pub retry_at: Option<Timestamp>,
    /// What failed.
    pub sent: Attempt,
}

/// What was tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Hash of the body; empty where there is only one thing to send: a read, a status.
    pub body: String,
    /// The versions of what it was made from and sent to: what was refused for good may be taken when one of them is
    /// another.
    pub against: String,
}

impl Setback {
    /// The setback after `failure`, given the one before. The jitter is keyed by the resource's uid, so that
    /// resources that fail together do not retry together, and a replay gives the same times.
    #[must_use]
    pub fn after(
        before: Option<&Self>,
        failure: Failure,
        sent: Attempt,
        (uid, now): (&Uid, Timestamp),
    ) -> Self {
        let attempts = before.map_or(1, |before| before.attempts.saturating_add(1));
        let digest = hash::of_parts([uid.0.as_str(), &attempts.to_string()]);
        let seed = u64::from_str_radix(digest.get(..16).unwrap_or("0"), 16).unwrap_or(0);
        let retry_at = match failure.category {
            // The object is another one than we thought: look at once, and only then slow down.
            Category::Conflict if attempts == 1 => Some(now),
            category => {
                failure::retry(category, attempts, seed).and_then(|delay| now.checked_add(delay).ok())
            }
        };
        Self { failure, attempts, retry_at, sent }
    }

    /// Whether `sending` has to wait at this time.
    #[must_use]
    pub fn holds(&self, sending: &Attempt, now: Timestamp) -> bool {
        match self.retry_at {
            Some(at) => sending.body == self.sent.body && now < at,
            None => *sending == self.sent,
        }
    }
}
