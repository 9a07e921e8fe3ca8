//! How a live child compares with what is desired: its object until it was compared, the outcome afterwards. Pure; part
//! of a live child.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::diff::{self, Differences};
use crate::kernel::hash::BodyHash;
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
    content: Value,
    /// [`SeenChild::owned`].
    owned: Option<Value>,
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
    /// [`fingerprint`] of the live object, if it was computed. It is in the snapshot, so that a replayed kernel also ignores
    /// an event that repeats the same object.
    #[serde(default)]
    of: Option<u64>,
}

/// Differences are stored as such also where there are none.
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

impl Uncompared {
    /// The result of an earlier comparison of the same content.
    pub fn remember(&mut self, before: Option<ComparisonResult>) {
        self.before = before;
    }
}

impl ComparisonResult {
    /// Whether this result belongs to an object with the same content and owned fields.
    #[must_use]
    pub fn is_of(&self, content: &Value, owned: Option<&Value>) -> bool {
        self.of == Some(fingerprint(content, owned))
    }

    fn differences(&self) -> Differences {
        self.differences.as_deref().cloned().unwrap_or_default()
    }
}

impl Comparison {
    /// Of an object that was just seen.
    #[must_use]
    pub fn pending(content: Value, owned: Option<Value>) -> Self {
        Self::Pending(Box::new(Uncompared { content, owned, before: None }))
    }

    /// Keeps the outcome of a comparison and lets the object go.
    pub fn keep(&mut self, desired: BodyHash, differences: Differences) {
        let of = match &*self {
            Self::Done(before) => before.of,
            Self::Pending(object) => match &object.before {
                Some(before) => before.of,
                None => Some(fingerprint(&object.content, object.owned.as_ref())),
            },
        };
        *self = Self::Done(ComparisonResult { desired, differences: some(differences), of });
    }

    /// Whether this is the result for an object with the same content and owned fields.
    #[must_use]
    pub fn is_of(&self, content: &Value, owned: Option<&Value>) -> bool {
        matches!(self, Self::Done(result) if result.is_of(content, owned))
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

    /// What was found, if anything was.
    #[must_use]
    pub fn result(self) -> Option<ComparisonResult> {
        match self {
            Self::Pending(object) => object.before,
            Self::Done(result) => Some(result),
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
                    None => diff::differences(kind, body(), content, owned.as_ref()),
                })
            }
        }
    }
}

/// A hash of the parts of an object that are compared. It has no random key, so that each process of one build finds the same:
/// a snapshot holds it.
fn fingerprint(content: &Value, owned: Option<&Value>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (content, owned).hash(&mut hasher);
    hasher.finish()
}
