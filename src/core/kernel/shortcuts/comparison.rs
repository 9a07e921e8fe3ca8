//! How a live child compares with what is desired: its object until it was compared, the outcome afterwards. Pure; part
//! of a live child.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use twox_hash::XxHash3_64;

use crate::kernel::diff::{self, Differences};
use crate::kernel::event::SeenChild;
use crate::kernel::hash::BodyHash;
use crate::kernel::json_text::JsonText;
use crate::kernel::object::ChildKind;

/// How a live child compares with the desired one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Comparison {
    /// Not compared yet: the object is kept until a pass has rendered the desired one.
    Pending(Box<Uncompared>),
    /// Compared; the object itself is dropped.
    Done(ComparisonResult),
}

/// An object that no pass has compared yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Uncompared {
    /// [`SeenChild::content`].
    content: JsonText,
    /// [`SeenChild::owned`].
    owned: Option<JsonText>,
    /// The result of an earlier comparison of the same content. It only saves a comparison, so snapshots leave it out.
    #[serde(skip)]
    before: Option<ComparisonResult>,
}

/// The result of a comparison with a desired object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonResult {
    /// Hash of the desired body.
    desired: BodyHash,
    /// What was found; `None` where nothing was, as in nearly each child.
    #[serde(with = "none_or_some")]
    differences: Option<Box<Differences>>,
    /// The live object. It is in the snapshot, so that a replayed kernel also ignores an event that repeats the same object.
    of: Fingerprint,
}

/// Where nothing differs, an empty `Differences` is stored.
mod none_or_some {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Differences;

    #[expect(clippy::ref_option, reason = "serde asks for it")]
    pub(super) fn serialize<S: Serializer>(
        found: &Option<Box<Differences>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        found.as_deref().unwrap_or(&Differences::default()).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Box<Differences>>, D::Error> {
        Differences::deserialize(from).map(super::some)
    }
}

/// The differences, if there are any.
fn some(found: Differences) -> Option<Box<Differences>> {
    (found != Differences::default()).then(|| Box::new(found))
}

impl ComparisonResult {
    fn differences(&self) -> Differences {
        self.differences.as_deref().cloned().unwrap_or_default()
    }
}

impl Comparison {
    /// Of an object that was just seen.
    #[must_use]
    pub fn new(content: JsonText, owned: Option<JsonText>) -> Self {
        Self::Pending(Box::new(Uncompared { content, owned, before: None }))
    }

    /// That of the live object.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        match self {
            Self::Done(result) => result.of,
            Self::Pending(object) => match &object.before {
                Some(before) => before.of,
                None => Fingerprint::new(&object.content, object.owned.as_ref()),
            },
        }
    }

    /// Keeps the outcome of a comparison and lets the object go.
    pub fn keep(&mut self, desired: BodyHash, differences: Differences) {
        let of = self.fingerprint();
        *self = Self::Done(ComparisonResult { desired, differences: some(differences), of });
    }

    /// Keeps an object that could not be compared as its text alone: it may have to wait for long.
    pub fn let_trees_go(&mut self) {
        if let Self::Pending(object) = self {
            object.content.let_tree_go();
            object.owned.iter_mut().for_each(JsonText::let_tree_go);
        }
    }

    /// The comparison of this object in another version: it is made again only where something else is desired by then.
    #[must_use]
    pub fn of_same(self, content: JsonText, owned: Option<JsonText>) -> Self {
        let before = match self {
            Self::Pending(object) => object.before,
            Self::Done(result) => Some(result),
        };
        Self::Pending(Box::new(Uncompared { content, owned, before }))
    }

    /// Whether an object with the same content and owned fields was compared.
    #[must_use]
    pub fn is_of(&self, object: Fingerprint) -> bool {
        match self {
            Self::Pending(uncompared) => uncompared.before.as_ref(),
            Self::Done(result) => Some(result),
        }
        .is_some_and(|result| result.of == object)
    }

    /// What the last comparison found, whatever that was with; `None` while the object still has to be compared.
    #[must_use]
    pub fn last(&self) -> Option<Differences> {
        match self {
            Self::Pending(_) => None,
            Self::Done(result) => Some(result.differences()),
        }
    }

    /// Whether the object still has to be compared.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Pending(_))
    }

    /// Whether the differences from the desired object of this hash are known, or can be found.
    #[must_use]
    pub fn is_with(&self, desired: Option<BodyHash>) -> bool {
        match self {
            Self::Pending(_) => true,
            Self::Done(result) => Some(result.desired) == desired,
        }
    }

    /// Fields in which the live child differs from the desired one of this hash and body; `None` when that is not
    /// known any more, because the object was compared with another desired one and dropped.
    #[must_use]
    pub fn differences<'a>(
        &self,
        kind: ChildKind,
        hash: BodyHash,
        body: impl FnOnce() -> &'a Value,
    ) -> Option<Differences> {
        match self {
            Self::Done(result) => (result.desired == hash).then(|| result.differences()),
            Self::Pending(object) => {
                let Uncompared { content, owned, before } = &**object;
                let known = before.as_ref().filter(|before| before.desired == hash);
                Some(match known {
                    Some(before) => before.differences(),
                    None => {
                        let owned = owned.as_ref().map(JsonText::tree);
                        diff::differences(kind, body(), content.tree(), owned)
                    }
                })
            }
        }
    }
}

/// A hash of the parts of an object that are compared. It has no random key, so that each process finds the same: a snapshot holds
/// it. It is no protection against somebody who may write the child: such a person can also remove the record of who owns
/// which field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(u64);

impl fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

impl Fingerprint {
    /// Of an object that was seen.
    #[must_use]
    pub fn from_seen(seen: &SeenChild) -> Self {
        Self::new(&seen.content, seen.owned.as_ref())
    }

    fn new(content: &JsonText, owned: Option<&JsonText>) -> Self {
        let of = |text: &JsonText| XxHash3_64::oneshot(text.as_str().as_bytes());
        Self(of(content).rotate_left(1) ^ owned.map_or(0, of))
    }
}
