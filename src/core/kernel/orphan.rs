//! Children that outlived the resource for which they were made. Pure; read from each child, and turned into requests by
//! [`super::pass::plan`].
//!
//! `kubectl delete --cascade=orphan` removes the owner reference and leaves everything else. Our labels say for which
//! resource the child was made. The API server's record of who wrote its fields says that it was us, or the Go
//! operator: a copy that somebody else applied has the labels and no such record. A later resource of that name takes
//! them back, so that their pods and the cached data stay.
//!
//! Only a later one: while a resource is being deleted, its children may be seen without their owner before the
//! deletion of the resource is seen. If they were taken back then, they would be deleted with the resource, and the cache
//! would be lost. So a child that is not older than the resource is left alone.

use std::collections::BTreeSet;

use jiff::Timestamp;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::desired::meta;
use super::event::{SeenChild, SeenResource};
use super::object::{ChildKind, Key, Scope};

/// A child that this operator made and nobody controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orphan {
    created: Timestamp,
    /// Whether the child has owners, none of which is its controller.
    owned: bool,
}

impl Orphan {
    /// Recognises an orphan.
    #[must_use]
    pub fn from_seen(seen: &SeenChild) -> Option<Self> {
        let made_here = seen.entry.is_some() || seen.go_operator.is_some();
        if seen.controller.is_some() || !made_here {
            return None;
        }
        let content = seen.content.tree();
        let labels = content.pointer("/metadata/labels");
        let is_written =
            |(name, value): (String, String)| labels.and_then(|all| all.get(name)?.as_str()) == Some(&value);
        if !meta::selector_labels(&seen.key.name).into_iter().all(is_written) {
            return None;
        }
        let owners = content.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        Some(Self { created: seen.created?, owned: owners.is_some_and(|all| !all.is_empty()) })
    }

    /// Whether the child was made for an earlier resource of the same name.
    #[must_use]
    pub fn is_older_than(&self, resource: &SeenResource) -> bool {
        resource.created.is_some_and(|created| self.created < created)
    }

    /// Makes a resource the controller of the child and changes nothing else. Used for a child that the spec does not
    /// ask for, because the operator deletes only what it controls. A child that is asked for gets its controller by
    /// the apply.
    #[must_use]
    pub fn taken_back(self, resource: &SeenResource) -> PatchOperation {
        let owner = json!(meta::owner_reference(&resource.key, &resource.uid));
        let (path, value) = if self.owned {
            (PointerBuf::from_tokens(["metadata", "ownerReferences", "-"]), owner)
        } else {
            (PointerBuf::from_tokens(["metadata", "ownerReferences"]), json!([owner]))
        };
        PatchOperation::Add(AddOperation { path, value })
    }
}

/// Orphans for whose name no resource exists; nothing else is kept of them. The next resource of that name reads them,
/// even if its spec asks for no such child.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeftBehind(BTreeSet<(ChildKind, Key)>);

impl LeftBehind {
    /// Notes a child for whose name no resource exists.
    pub fn note(&mut self, seen: &SeenChild) {
        let place = (seen.kind, seen.key.clone());
        if Orphan::from_seen(seen).is_some() {
            self.0.insert(place);
        } else {
            self.0.remove(&place);
        }
    }

    /// Notes a child that a deleted resource left behind.
    pub fn insert(&mut self, kind: ChildKind, key: Key) {
        self.0.insert((kind, key));
    }

    /// Removes a child that was deleted.
    pub fn forget(&mut self, kind: ChildKind, key: &Key) {
        self.0.remove(&(kind, key.clone()));
    }

    /// Removes the children of a kind that a complete list of this scope lacks.
    pub fn remove_lacking(&mut self, kind: ChildKind, scope: &Scope, lacks: impl Fn(&Key) -> bool) {
        let (from, to) = scope.keys();
        let range = (from.map(|key| (kind, key)), to.map(|key| (kind, key)));
        let there = self.0.range(range).take_while(|(other, _)| *other == kind);
        let gone: Vec<_> = there.filter(|(_, key)| lacks(key)).cloned().collect();
        for place in &gone {
            self.0.remove(place);
        }
    }

    /// Removes and returns the kinds that were left behind for a resource of this name: from now on the resource keeps
    /// track of them.
    pub fn take(&mut self, key: &Key) -> Vec<ChildKind> {
        ChildKind::ALL.into_iter().filter(|kind| self.0.remove(&(*kind, key.clone()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_removes_what_it_lacks_of_its_kind_and_scope_and_nothing_else() {
        let key = |namespace: &str, name: &str| Key { namespace: namespace.into(), name: name.into() };
        let kinds = [ChildKind::Service, ChildKind::ConfigMap, ChildKind::ServiceMonitor];
        let places =
            || kinds.into_iter().flat_map(|kind| ["a", "a-b", "b"].map(|namespace| (kind, namespace)));
        let scopes = ["a", "a-b", "b"].map(|name| Scope::Namespace(name.into()));
        for (kind, scope) in kinds
            .into_iter()
            .flat_map(|kind| [Scope::All].into_iter().chain(scopes.clone()).map(move |scope| (kind, scope)))
        {
            let mut left_behind = LeftBehind::default();
            for (kind, namespace) in places() {
                left_behind.insert(kind, key(namespace, "kept"));
                left_behind.insert(kind, key(namespace, "gone"));
            }
            left_behind.remove_lacking(kind, &scope, |key| key.name == "gone");
            for (other, namespace) in places() {
                let lost = other == kind && scope.includes(namespace);
                let found =
                    ["kept", "gone"].map(|name| left_behind.0.contains(&(other, key(namespace, name))));
                assert_eq!(found, [true, !lost], "{other:?} in {namespace} after {kind:?} in {scope:?}");
            }
        }
    }
}
