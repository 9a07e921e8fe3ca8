//! Children that outlived the resource for which they were made. Pure; read from each child, and turned into requests by
//! [`super::plan`].
//!
//! `kubectl delete --cascade=orphan` takes away who controls them and leaves the rest. Our labels say for which name one
//! was made. The API server's record of who wrote its fields says that it was us, or the Go operator: a copy that somebody
//! else applied has the labels and no such record. A later resource of that name takes them back, so that their pods
//! and what these hold stay.
//!
//! A later one: while a resource is being deleted, its children may be seen without their owner before the end of the
//! resource is. Taken back then they would be deleted after it, and the cache would be lost. So what is not older than
//! the resource stays as it is.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::desired::meta;
use super::effect::Edit;
use super::event::{SeenChild, SeenResource};
use super::object::{ChildKind, Key};

/// Where an object says who owns it.
const OWNERS: &str = "/metadata/ownerReferences";

/// What we made and nobody controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orphan {
    created: Timestamp,
    /// Whether it has owners, none of which controls it.
    owned: bool,
}

impl Orphan {
    /// Whether this is one.
    #[must_use]
    pub fn of(seen: &SeenChild) -> Option<Self> {
        let labels = seen.content.pointer("/metadata/labels");
        let is_written =
            |(name, value): (String, String)| labels.and_then(|all| all.get(name)?.as_str()) == Some(&value);
        let made_here = seen.entry.is_some() || seen.go_operator.is_some();
        let labelled = || meta::labels(&seen.key.name).into_iter().all(is_written);
        if seen.controller.is_some() || !made_here || !labelled() {
            return None;
        }
        let owners = seen.content.pointer(OWNERS).and_then(Value::as_array);
        Some(Self { created: seen.created?, owned: owners.is_some_and(|all| !all.is_empty()) })
    }

    /// Whether it was made for an earlier resource of this one's name.
    #[must_use]
    pub fn is_older_than(&self, resource: &SeenResource) -> bool {
        resource.created.is_some_and(|created| self.created < created)
    }

    /// Makes a resource its controller and changes nothing else: for one that nobody asks for, because only what is
    /// controlled is deleted. One that is asked for gets its controller with all the rest, by an apply.
    #[must_use]
    pub fn taken_back(self, resource: &SeenResource) -> Edit {
        let owner = json!(meta::owner_reference(&resource.key, &resource.uid));
        if self.owned {
            Edit::Add { path: format!("{OWNERS}/-"), value: owner }
        } else {
            Edit::Add { path: OWNERS.to_owned(), value: json!([owner]) }
        }
    }
}

/// The places of orphans whose name no resource has: of objects without a resource nothing else is kept. The next
/// resource of that name reads what is there, also where it asks for no such child.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeftBehind(BTreeSet<(ChildKind, Key)>);

impl LeftBehind {
    /// A child was seen whose name no resource has.
    pub fn note(&mut self, seen: &SeenChild) {
        let place = (seen.kind, seen.key.clone());
        if Orphan::of(seen).is_some() {
            self.0.insert(place);
        } else {
            self.0.remove(&place);
        }
    }

    /// A resource went and left this behind.
    pub fn insert(&mut self, kind: ChildKind, key: Key) {
        self.0.insert((kind, key));
    }

    /// It is gone.
    pub fn forget(&mut self, kind: ChildKind, key: &Key) {
        self.0.retain(|(other, there)| (*other, there) != (kind, key));
    }

    /// All of a kind that a complete list lacks are gone.
    pub fn keep(&mut self, kind: ChildKind, is_there: impl Fn(&Key) -> bool) {
        self.0.retain(|(other, key)| *other != kind || is_there(key));
    }

    /// What was left for a resource of this name, which takes care of it from here on.
    pub fn take(&mut self, key: &Key) -> Vec<ChildKind> {
        ChildKind::ALL.into_iter().filter(|kind| self.0.remove(&(*kind, key.clone()))).collect()
    }
}
