//! Which resource gets the next pass. Pure; owned by the reconciler.
//!
//! Each key waits at most once. There are two lanes: a fresh edit overtakes the backlog of a cold start, and every
//! fourth pass goes to the backlog, so that neither lane starves. A timer queues a key at a given time. A token bucket
//! limits how many timers fire per second, so that a thousand resources that failed together do not retry together.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::object::Key;

/// Timers that may fire at once after a quiet time.
const BURST: u32 = 100;
/// Milliseconds in which one more timer may fire.
const REFILL_MILLIS: i64 = 20;
/// One pass in this many belongs to the backlog.
const BACKLOG_EVERY: u32 = 4;

/// How urgent a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lane {
    /// An event about this resource arrived.
    Fresh,
    /// The resource was listed with many others.
    Backlog,
}

/// The keys that wait.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Queue {
    /// The lane and position of each waiting key.
    positions: BTreeMap<Key, (Lane, u64)>,
    /// The keys of each lane by position, so that removing one leaves no gap to skip.
    fresh: BTreeMap<u64, Key>,
    backlog: BTreeMap<u64, Key>,
    /// The position of the next key.
    next: u64,
    passes_since_backlog: u32,
    timers: BTreeSet<(Timestamp, Key)>,
    timer_of: BTreeMap<Key, Timestamp>,
    /// Tokens in use, and since when they are being refilled.
    spent: u32,
    refilled: Option<Timestamp>,
}

impl Queue {
    /// Adds a key, or moves it from the backlog to the fresh lane.
    pub fn push(&mut self, key: &Key, lane: Lane) {
        if self.positions.get(key).is_some_and(|(now, _)| *now == Lane::Fresh || *now == lane) {
            return;
        }
        self.leave(key);
        let number = self.next;
        self.next += 1;
        self.positions.insert(key.clone(), (lane, number));
        self.lane(lane).insert(number, key.clone());
    }

    /// Takes the next key.
    pub fn pop(&mut self) -> Option<Key> {
        self.passes_since_backlog = (self.passes_since_backlog + 1) % BACKLOG_EVERY;
        let order = if self.passes_since_backlog == 0 {
            [Lane::Backlog, Lane::Fresh]
        } else {
            [Lane::Fresh, Lane::Backlog]
        };
        let (_, key) = order.into_iter().find_map(|lane| self.lane(lane).pop_first())?;
        self.positions.remove(&key);
        Some(key)
    }

    const fn lane(&mut self, lane: Lane) -> &mut BTreeMap<u64, Key> {
        match lane {
            Lane::Fresh => &mut self.fresh,
            Lane::Backlog => &mut self.backlog,
        }
    }

    fn leave(&mut self, key: &Key) {
        if let Some((lane, number)) = self.positions.remove(key) {
            self.lane(lane).remove(&number);
        }
    }

    /// Number of keys that wait for a pass, timers aside.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.positions.len()
    }

    /// Sets the timer of a key and replaces an earlier one; `None` removes it.
    pub fn set_timer(&mut self, key: &Key, at: Option<Timestamp>) {
        if let Some(before) = self.timer_of.remove(key) {
            self.timers.remove(&(before, key.clone()));
        }
        if let Some(at) = at {
            self.timers.insert((at, key.clone()));
            self.timer_of.insert(key.clone(), at);
        }
    }

    /// Forgets everything about a key.
    pub fn forget(&mut self, key: &Key) {
        self.leave(key);
        self.set_timer(key, None);
    }

    /// Queues the keys whose timers are due, as long as there are tokens.
    pub fn fire(&mut self, now: Timestamp) {
        self.refill(now);
        while self.spent < BURST
            && let Some((_, key)) = self.timers.first().filter(|(at, _)| *at <= now).cloned()
        {
            self.set_timer(&key, None);
            self.spent += 1;
            self.push(&key, Lane::Fresh);
        }
    }

    fn refill(&mut self, now: Timestamp) {
        let since = *self.refilled.get_or_insert(now);
        let earned = now.duration_since(since).as_millis() / i128::from(REFILL_MILLIS);
        if earned > 0 {
            self.spent = self.spent.saturating_sub(u32::try_from(earned).unwrap_or(u32::MAX));
            self.refilled = Some(now);
        }
    }

    /// When [`Queue::fire`] has something to do next.
    #[must_use]
    pub fn next_fire(&self) -> Option<Timestamp> {
        let (at, _) = self.timers.first()?;
        let token = match self.refilled {
            Some(since) if self.spent >= BURST => since + SignedDuration::from_millis(REFILL_MILLIS),
            _ => *at,
        };
        Some(token.max(*at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key { namespace: "n".into(), name: name.into() }
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    fn drain(queue: &mut Queue) -> Vec<String> {
        std::iter::from_fn(|| queue.pop()).map(|key| key.name).collect()
    }

    #[test]
    fn a_key_waits_once_however_often_it_is_pushed() {
        let mut queue = Queue::default();
        for lane in [Lane::Backlog, Lane::Fresh, Lane::Backlog, Lane::Fresh] {
            queue.push(&key("a"), lane);
        }
        assert_eq!(queue.depth(), 1);
        assert_eq!(drain(&mut queue), ["a"]);
    }

    #[test]
    fn a_fresh_edit_overtakes_the_backlog_and_neither_starves() {
        let mut queue = Queue::default();
        for name in ["b1", "b2", "b3"] {
            queue.push(&key(name), Lane::Backlog);
        }
        for name in ["f1", "f2", "f3", "f4", "f5", "f6"] {
            queue.push(&key(name), Lane::Fresh);
        }
        assert_eq!(drain(&mut queue), ["f1", "f2", "f3", "b1", "f4", "f5", "f6", "b2", "b3"]);
    }

    #[test]
    fn a_key_that_is_forgotten_leaves_nothing_behind() {
        let mut queue = Queue::default();
        for lane in [Lane::Backlog, Lane::Fresh] {
            queue.push(&key("a"), lane);
        }
        queue.push(&key("b"), Lane::Backlog);
        queue.set_timer(&key("a"), Some(at(50)));
        queue.forget(&key("a"));
        queue.forget(&key("b"));
        let next = queue.next;
        let empty = Queue { next, ..Queue::default() };
        assert_eq!(serde_json::to_string(&queue).unwrap(), serde_json::to_string(&empty).unwrap());
    }

    #[test]
    fn a_timer_fires_once_and_not_before_its_time() {
        let mut queue = Queue::default();
        queue.set_timer(&key("a"), Some(at(50)));
        queue.set_timer(&key("a"), Some(at(100)));
        assert_eq!(queue.next_fire(), Some(at(100)));
        queue.fire(at(99));
        assert_eq!(queue.depth(), 0);
        queue.fire(at(100));
        assert_eq!(drain(&mut queue), ["a"]);
        assert_eq!(queue.next_fire(), None);
    }

    #[test]
    fn a_thousand_timers_of_one_moment_fire_at_the_rate_of_the_tokens() {
        let mut queue = Queue::default();
        for number in 0..1000 {
            queue.set_timer(&key(&number.to_string()), Some(at(0)));
        }
        queue.fire(at(0));
        assert_eq!(queue.depth(), 100);
        assert_eq!(queue.next_fire(), Some(at(20)));
        queue.fire(at(1000));
        assert_eq!(queue.depth(), 150);
    }
}
