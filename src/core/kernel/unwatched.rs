//! What the watches do not show. They select by our label: a child that lost the label, or an object of somebody else,
//! is found only by reading, and no event tells when it changes or is deleted. Pure data; part of what is known of a
//! child.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::backoff;
use super::desired::meta::{MANAGED_BY, MANAGED_BY_LABEL};
use super::failure::Category;
use super::json_text::JsonText;
use super::object::Uid;

/// The longest time between two reads of an object that no watch shows.
const LONGEST: SignedDuration = SignedDuration::from_secs(60);

/// What is known of a child that no watch shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Absence {
    /// Nothing is known: a list shows only objects with our label.
    #[default]
    Unproven,
    /// Most likely none exists: the object left the watch, or a create failed without a conflict. Another create finds
    /// out.
    Likely,
    /// No object exists: an answer said so.
    Proven,
}

/// When an object that no watch shows is read again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recheck {
    /// The time of the next read.
    pub at: Timestamp,
    /// How often the object was read.
    times: u32,
    /// The generation of the resource at the last read: an edit is a reason to read again at once.
    generation: i64,
}

impl Recheck {
    /// The next recheck, after one more read.
    #[must_use]
    pub fn new(before: Option<&Self>, generation: i64, uid: &Uid, now: Timestamp) -> Self {
        let before = before.filter(|before| before.generation == generation);
        let times = before.map_or(1, |before| before.times.saturating_add(1));
        let delay = backoff::delay(Category::Conflict, times, uid).unwrap_or(LONGEST);
        let at = now.checked_add(delay.min(LONGEST)).unwrap_or(Timestamp::MAX);
        Self { at, times, generation }
    }

    /// Whether the recheck is due.
    #[must_use]
    pub fn is_due(&self, generation: i64, now: Timestamp) -> bool {
        self.at <= now || self.generation != generation
    }
}

/// Whether the watch by our label shows an object with this content, see [`super::event::SeenChild::content`].
#[must_use]
pub fn carries_label(content: &JsonText) -> bool {
    let labels = content.tree().pointer("/metadata/labels");
    labels.and_then(|labels| labels.get(MANAGED_BY_LABEL)?.as_str()) == Some(MANAGED_BY)
}
