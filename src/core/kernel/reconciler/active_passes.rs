//! The resources between the moment when they are taken from the queue and the moment when nothing is left to send, and
//! how many answers each waits for. Pure data; part of the reconciler.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::kernel::object::Key;

/// All such resources.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct ActivePasses(BTreeMap<Key, ActivePass>);

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct ActivePass {
    /// Requests of its batch without an answer.
    outstanding: usize,
    /// When it was taken from the queue.
    since: Timestamp,
}

impl ActivePasses {
    /// A resource is taken from the queue, for the first time or once more after the answers to its batch.
    pub(super) fn begin(&mut self, key: &Key, now: Timestamp) {
        self.0.entry(key.clone()).or_insert(ActivePass { outstanding: 0, since: now });
    }

    /// Whether a batch of requests is under way.
    pub(super) fn is_under_way(&self, key: &Key) -> bool {
        self.0.get(key).is_some_and(|it| it.outstanding > 0)
    }

    /// A batch of so many requests is sent.
    pub(super) fn send(&mut self, key: &Key, requests: usize) {
        if let Some(active_pass) = self.0.get_mut(key) {
            active_pass.outstanding = requests;
        }
    }

    /// Counts an answer. Returns whether it was the last one of a batch.
    pub(super) fn answer(&mut self, key: &Key) -> bool {
        self.0.get_mut(key).is_some_and(|it| {
            it.outstanding = it.outstanding.saturating_sub(1);
            it.outstanding == 0
        })
    }

    /// Another replica may have led: what it did meanwhile is no time of ours.
    pub(super) fn on_leadership_acquired(&mut self, now: Timestamp) {
        self.0.retain(|_, it| it.outstanding > 0);
        self.0.values_mut().for_each(|it| it.since = now);
    }

    /// A resource is left alone. Where a batch is under way, its answers end that.
    pub(super) fn leave(&mut self, key: &Key) {
        if !self.is_under_way(key) {
            self.end(key);
        }
    }

    /// Nothing is left to send. Returns when the resource was taken from the queue.
    pub(super) fn end(&mut self, key: &Key) -> Option<Timestamp> {
        self.0.remove(key).map(|it| it.since)
    }
}
