//! Fourth stage: in what each child differs from what it should be. Pure; called by the pass.

use super::desired::DesiredChildren;
use super::outcome::ComparedChild;
use super::view::View;
use crate::api::status::AlteredFields;
use crate::kernel::altered;
use crate::kernel::diff::Differences;
use crate::kernel::hash::BodyHash;
use crate::kernel::object::ChildKind;

/// How a child that is wanted compares with what it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Hash of its desired body.
    pub hash: BodyHash,
    /// In what the live one differs; `None` if there is none, or if it was compared with something else and dropped.
    pub found: Option<Differences>,
    /// [`Self::found`] without what the API server made of our own apply.
    pub differences: Option<Differences>,
    /// Set if differences are ignored because of an earlier answer that was to another body, or of another server.
    pub unanswered: Option<Unanswered>,
}

/// Why the last answer does not say what the API server makes of the desired body: only an apply finds out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// It was the answer to another body.
    AnotherBody,
    /// It was the answer of another version of the API server.
    AnotherServer,
}

/// Compares every child that is wanted.
#[must_use]
pub fn compare(view: &View<'_>, desired: &DesiredChildren<'_>) -> Vec<(ChildKind, Compared)> {
    let compared = |kind| Some((kind, compare_child(view, desired, kind)?));
    ChildKind::ALL.into_iter().filter_map(compared).collect()
}

fn compare_child(view: &View<'_>, desired: &DesiredChildren<'_>, kind: ChildKind) -> Option<Compared> {
    let hash = desired.hash(kind)?;
    let child = view.resource.child(kind);
    let found =
        child.live.as_ref().and_then(|live| live.comparison.differences(kind, hash, || desired.body(kind)));
    let known = child.altered.as_deref();
    let differences = found.clone().map(|found| altered::left(found, known));
    let unanswered = known.filter(|_| found != differences).and_then(|it| unanswered(view, it, hash));
    Some(Compared { hash, found, differences, unanswered })
}

/// Why `known` does not say what this API server makes of the body with this hash; `None` if it does, as far as is known.
fn unanswered(view: &View<'_>, known: &AlteredFields, hash: BodyHash) -> Option<Unanswered> {
    let (then, now) = (&known.server_version, view.world.server_version.as_deref().unwrap_or_default());
    let same_server = then.is_empty() || now.is_empty() || then == now;
    // An earlier release wrote the whole SHA-256 into the status, of which a hash is the first half.
    let same_body = known.applied_hash.starts_with(&hash.to_string());
    match (same_body, same_server) {
        (false, _) => Some(Unanswered::AnotherBody),
        (true, false) => Some(Unanswered::AnotherServer),
        (true, true) => None,
    }
}

impl Compared {
    /// What to keep of it instead of the live object, if the object is still kept. One that differs and that no watch shows
    /// stays whole: there are few, and they are read once a minute at most.
    #[must_use]
    pub fn into_kept(self, view: &View<'_>, kind: ChildKind) -> Option<ComparedChild> {
        let child = view.resource.child(kind);
        let agrees = self.differences.as_ref().is_none_or(|it| *it == Differences::default());
        let differences = self.found.filter(|_| child.is_open() && (agrees || !child.is_out_of_sight()))?;
        Some(ComparedChild { kind, desired: self.hash, differences })
    }
}
