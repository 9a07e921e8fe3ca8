//! What the watches do not show. They are by our label: a child that lost it, and an object of somebody else, is found
//! only by reading, and nobody tells when it changes or goes. Pure; a part of a child's place.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::backoff;
use super::desired::meta::{MANAGED_BY, MANAGED_BY_LABEL};
use super::failure::Category;
use super::object::Uid;

/// The longest time between two reads of what no watch tells of.
const LONGEST: SignedDuration = SignedDuration::from_secs(60);

/// What is known of a place where no watch shows anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Absence {
    /// Nothing: a list shows only what has our label.
    #[default]
    Unproven,
    /// What was there has gone from the watch, or a create was not told that something is there. A create finds out.
    Likely,
    /// An answer said that nothing is there.
    Proven,
}

/// When what no watch tells of is read again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recheck {
    /// When.
    pub at: Timestamp,
    /// How often it was read.
    times: u32,
    /// The generation of the resource that it was read for: an edit is a reason to look at once.
    generation: i64,
}

impl Recheck {
    /// After one more read.
    #[must_use]
    pub fn after(before: Option<&Self>, generation: i64, (uid, now): (&Uid, Timestamp)) -> Self {
        let before = before.filter(|before| before.generation == generation);
        let times = before.map_or(1, |before| before.times.saturating_add(1));
        let delay = backoff::delay(Category::Conflict, times, uid).unwrap_or(LONGEST);
        let at = now.checked_add(delay.min(LONGEST)).unwrap_or(Timestamp::MAX);
        Self { at, times, generation }
    }

    /// Whether it is time.
    #[must_use]
    pub fn is_due(&self, generation: i64, now: Timestamp) -> bool {
        self.at <= now || self.generation != generation
    }
}

/// Whether the watch by our label shows an object of this content, see [`super::event::SeenChild::content`].
#[must_use]
pub fn carries_label(content: &Value) -> bool {
    let labels = content.pointer("/metadata/labels");
    labels.and_then(|labels| labels.get(MANAGED_BY_LABEL)).is_some_and(|value| value == MANAGED_BY)
}
