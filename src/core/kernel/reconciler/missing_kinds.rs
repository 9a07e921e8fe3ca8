//! Kinds of children that the API server does not serve though resources ask for them: the shell asks for such a kind
//! again and again. Pure data; part of the reconciler.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::kernel::effect::Effect;
use crate::kernel::object::{ChildKind, Key};

/// The resources that ask for each such kind.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct MissingKinds(BTreeMap<ChildKind, BTreeSet<Key>>);

impl MissingKinds {
    /// Whether the shell polls for this kind.
    pub(super) fn are_polled(&self, kind: ChildKind) -> bool {
        self.0.get(&kind).is_some_and(|users| !users.is_empty())
    }

    /// Notes which of these kinds a resource asks for, and has the shell begin or end to poll for them.
    pub(super) fn note(&mut self, key: &Key, unserved: &[ChildKind], effects: &mut Vec<Effect>) {
        for kind in ChildKind::ALL.into_iter().filter(|kind| !kind.is_required()) {
            let users = self.0.entry(kind).or_default();
            let before = users.is_empty();
            if unserved.contains(&kind) {
                users.insert(key.clone());
            } else {
                users.remove(key);
            }
            if users.is_empty() != before {
                effects.push(Effect::PollMissingKind { kind, wanted: before });
            }
        }
    }
}
