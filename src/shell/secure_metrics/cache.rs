//! Decisions that are not older than a minute, by the hash of the token. Takes the time as an argument; keeps no token. Pure;
//! `mod` looks here before the API server is asked.

use std::collections::HashMap;
use std::time::Duration;

use super::access::AccessDecision;
use crate::kernel::hash;

/// How long a decision counts. For so long somebody whose right was taken away still reads the metrics.
pub const LIFE: Duration = Duration::from_secs(60);
/// How many decisions are kept. A few Prometheus servers read the metrics, each with one token.
pub const MOST: usize = 256;

/// SHA-256 of a token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenHash(String);

impl TokenHash {
    /// The hash of this token.
    #[must_use]
    pub fn from_token(token: &str) -> Self {
        Self(hash::of_bytes(token.as_bytes()))
    }
}

/// A decision and when it was given.
#[derive(Clone, Debug)]
struct Entry {
    decision: AccessDecision,
    given: Duration,
}

/// The decisions. Times are durations since any moment that is the same for all calls.
#[derive(Debug, Default)]
pub struct Cache(HashMap<TokenHash, Entry>);

impl Cache {
    /// The decision about a token, if it still counts.
    #[must_use]
    pub fn get(&self, token: &TokenHash, now: Duration) -> Option<AccessDecision> {
        let entry = self.0.get(token).filter(|entry| counts(entry, now))?;
        Some(entry.decision.clone())
    }

    /// Keeps a decision. Where there is no room, it takes the place of one that counts no more, else of the oldest refusal, and
    /// only else of the oldest: whoever sends many tokens that nobody knows must not push out those who are allowed.
    pub fn keep(&mut self, token: TokenHash, decision: AccessDecision, now: Duration) {
        if self.0.len() >= MOST && !self.0.contains_key(&token) {
            self.0.retain(|_, entry| counts(entry, now));
        }
        if self.0.len() >= MOST && !self.0.contains_key(&token) {
            let worth = |entry: &Entry| (entry.decision == AccessDecision::Allowed, entry.given);
            let least = self.0.iter().min_by_key(|(_, entry)| worth(entry));
            if let Some(least) = least.map(|(token, _)| token.clone()) {
                self.0.remove(&least);
            }
        }
        self.0.insert(token, Entry { decision, given: now });
    }
}

fn counts(entry: &Entry, now: Duration) -> bool {
    now.saturating_sub(entry.given) < LIFE
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(1000);
    const MOMENT: Duration = Duration::from_millis(1);

    fn token(name: &impl ToString) -> TokenHash {
        TokenHash::from_token(&name.to_string())
    }

    #[test]
    fn a_decision_counts_for_a_minute_and_for_its_token_alone() {
        // As the page says; all else here would pass with any life.
        assert_eq!(LIFE, Duration::from_mins(1));
        let mut cache = Cache::default();
        cache.keep(token(&"a"), AccessDecision::Allowed, START);
        assert_eq!(cache.get(&token(&"a"), START + LIFE - MOMENT), Some(AccessDecision::Allowed));
        assert_eq!(cache.get(&token(&"a"), START + LIFE), None);
        assert_eq!(cache.get(&token(&"b"), START), None);

        cache.keep(token(&"a"), AccessDecision::Unauthenticated, START + LIFE);
        assert_eq!(cache.get(&token(&"a"), START + LIFE), Some(AccessDecision::Unauthenticated));
    }

    #[test]
    fn tokens_that_nobody_knows_take_a_bounded_room_and_push_out_nobody_who_is_allowed() {
        let mut cache = Cache::default();
        cache.keep(token(&"prometheus"), AccessDecision::Allowed, START);
        for guess in 0..2 * MOST {
            cache.keep(token(&guess), AccessDecision::Unauthenticated, START + MOMENT);
        }
        assert_eq!(cache.0.len(), MOST);
        assert_eq!(cache.get(&token(&"prometheus"), START + MOMENT), Some(AccessDecision::Allowed));
    }

    #[test]
    fn where_all_are_allowed_the_oldest_makes_room() {
        let mut cache = Cache::default();
        for (age, name) in (0..=MOST).enumerate() {
            cache.keep(token(&name), AccessDecision::Allowed, START + u32::try_from(age).unwrap() * MOMENT);
        }
        let now = START + LIFE / 2;
        assert_eq!(cache.0.len(), MOST);
        assert_eq!(
            [cache.get(&token(&0), now), cache.get(&token(&1), now)],
            [None, Some(AccessDecision::Allowed)]
        );
    }

    #[test]
    fn what_counts_no_more_makes_room_first() {
        let mut cache = Cache::default();
        for name in 0..MOST {
            cache.keep(token(&name), AccessDecision::Allowed, START);
        }
        cache.keep(token(&"new"), AccessDecision::Unauthenticated, START + LIFE);
        assert_eq!(cache.0.len(), 1);
    }
}
