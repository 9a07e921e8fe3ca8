//! How a live child compares with what is desired: its object until it was compared, the outcome afterwards. Pure; part
//! of a live child.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::diff::{self, Differences};
use crate::kernel::object::ChildKind;

/// How a live child compares with the desired one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Comparison {
    /// Not compared yet: the object is kept until a pass has rendered the desired one.
    Pending {
        /// [`SeenChild::content`].
        content: Value,
        /// [`SeenChild::owned`].
        owned: Option<Value>,
        /// The result of an earlier comparison of the same content. It only saves a comparison, so snapshots leave it
        /// out.
        #[serde(skip)]
        before: Option<ComparisonResult>,
    },
    /// Compared; the object itself is dropped.
    Done(ComparisonResult),
}

/// The result of a comparison with a desired object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonResult {
    /// Hash of the desired body.
    pub desired: String,
    /// What was found.
    pub differences: Differences,
    /// [`fingerprint`] of the live object, if it was computed.
    #[serde(skip)]
    of: Option<u64>,
}

impl ComparisonResult {
    /// Whether it was found for an object that reads like this one.
    #[must_use]
    pub fn is_of(&self, content: &Value, owned: Option<&Value>) -> bool {
        self.of == Some(fingerprint(content, owned))
    }
}

impl Comparison {
    /// Keeps the outcome of a comparison and lets the object go.
    pub fn keep(&mut self, desired: String, differences: Differences) {
        let of = match &*self {
            Self::Pending { before: Some(before), .. } | Self::Done(before) => before.of,
            Self::Pending { content, owned, before: None } => Some(fingerprint(content, owned.as_ref())),
        };
        *self = Self::Done(ComparisonResult { desired, differences, of });
    }

    /// Whether the object still has to be compared.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Pending { .. })
    }

    /// Whether the differences from the desired object of this hash are known, or can be found.
    #[must_use]
    pub fn is_with(&self, desired: &str) -> bool {
        match self {
            Self::Pending { .. } => true,
            Self::Done(result) => result.desired == desired,
        }
    }

    /// What was found, if anything was.
    #[must_use]
    pub fn result(self) -> Option<ComparisonResult> {
        match self {
            Self::Pending { before, .. } => before,
            Self::Done(result) => Some(result),
        }
    }

    /// Fields in which the live child differs from the desired one of this hash and body; `None` when that is not
    /// known any more, because the object was compared with another desired one and dropped.
    #[must_use]
    pub fn differences<'a>(
        &self,
        kind: ChildKind,
        hash: &str,
        body: impl FnOnce() -> &'a Value,
    ) -> Option<Differences> {
        match self {
            Self::Done(result) => (result.desired == hash).then(|| result.differences.clone()),
            Self::Pending { before: Some(before), .. } if before.desired == hash => {
                Some(before.differences.clone())
            }
            Self::Pending { content, owned, before: _ } => {
                Some(diff::differences(kind, body(), content, owned.as_ref()))
            }
        }
    }
}

/// A hash of the parts of an object that are compared.
fn fingerprint(content: &Value, owned: Option<&Value>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (content, owned).hash(&mut hasher);
    hasher.finish()
}
