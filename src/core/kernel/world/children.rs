//! What is known of the children of one resource, by their kind. Pure data; part of a resource.
//!
//! Most resources have three. A sorted list of them takes less than half of a map, whose nodes have room for eleven; it is
//! written as a map.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::kernel::child_state::ChildState;
use crate::kernel::object::ChildKind;

/// The children of which something is known, in the order of their kinds. Each stands in a box, so that a new one moves no other.
#[derive(Clone, Debug, Default)]
pub struct Children(Vec<(ChildKind, Box<ChildState>)>);

impl Children {
    /// What is known of the child of this kind.
    #[must_use]
    pub fn get(&self, kind: ChildKind) -> Option<&ChildState> {
        let place = self.place(kind).ok()?;
        self.0.get(place).map(|(_, child)| &**child)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, kind: ChildKind) -> Option<&mut ChildState> {
        let place = self.place(kind).ok()?;
        self.0.get_mut(place).map(|(_, child)| &mut **child)
    }

    /// The same, of a child of which nothing may be known yet.
    pub fn get_or_default(&mut self, kind: ChildKind) -> &mut ChildState {
        let place = self.place(kind).unwrap_or_else(|place| {
            self.0.reserve_exact(1);
            self.0.insert(place, (kind, Box::default()));
            place
        });
        &mut self.0[place].1
    }

    /// Forgets a child.
    pub fn remove(&mut self, kind: ChildKind) {
        self.0.retain(|(other, _)| *other != kind);
    }

    /// Every child of which something is known.
    pub fn iter(&self) -> impl Iterator<Item = (ChildKind, &ChildState)> {
        self.0.iter().map(|(kind, child)| (*kind, &**child))
    }

    /// What is known of each.
    pub fn values(&self) -> impl Iterator<Item = &ChildState> {
        self.0.iter().map(|(_, child)| &**child)
    }

    /// The same, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut ChildState> {
        self.0.iter_mut().map(|(_, child)| &mut **child)
    }

    /// Takes all of them.
    pub fn take(&mut self) -> impl Iterator<Item = (ChildKind, ChildState)> {
        std::mem::take(&mut self.0).into_iter().map(|(kind, child)| (kind, *child))
    }

    /// Where the child of this kind stands, or belongs.
    fn place(&self, kind: ChildKind) -> Result<usize, usize> {
        self.0.binary_search_by_key(&kind, |(other, _)| *other)
    }
}

impl Serialize for Children {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Children {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let all = BTreeMap::<ChildKind, Box<ChildState>>::deserialize(from)?;
        Ok(Self(all.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_kept_and_written_in_the_order_of_their_kinds_as_in_a_map() {
        let mut children = Children::default();
        let mut map = BTreeMap::new();
        for kind in
            [ChildKind::Deployment, ChildKind::NetworkPolicy, ChildKind::Service, ChildKind::Deployment]
        {
            children.get_or_default(kind).must_read = true;
            map.entry(kind).or_insert_with(ChildState::default).must_read = true;
        }
        let written = serde_json::to_string(&children).unwrap();
        assert_eq!(written, serde_json::to_string(&map).unwrap());
        let read: Children = serde_json::from_str(&written).unwrap();
        assert!(read.iter().eq(map.iter().map(|(kind, child)| (*kind, child))));
        children.remove(ChildKind::Service);
        children.get_mut(ChildKind::Deployment).unwrap().must_read = false;
        assert_eq!(children.get(ChildKind::Service), None);
        let doubts: Vec<_> = children.take().map(|(kind, child)| (kind, child.must_read)).collect();
        assert_eq!(doubts, [(ChildKind::NetworkPolicy, true), (ChildKind::Deployment, false)]);
        assert_eq!(children.values().count(), 0);
    }
}
