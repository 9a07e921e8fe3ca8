//! Whose an object is that sits where a child belongs. Pure; called by [`super::plan`].

use super::view::View;
use crate::kernel::live::Live;
use crate::kernel::object::{ChildKind, Key};

/// Who owns an object that has the name of a child.
pub enum Owner {
    /// Ours.
    Us,
    /// A child that is going: of an earlier resource, or of this one. Says which.
    Earlier(String),
    /// Of somebody else. Says whose.
    Foreign(String),
}

/// Whose the object at the place of a child is.
#[must_use]
pub fn owner(view: &View<'_>, kind: ChildKind, live: &Live) -> Owner {
    let Key { namespace, name } = &view.resource.seen.key;
    // Nearly all are ours, and need no name.
    let what = || format!("{} {namespace}/{}", kind.name(), kind.name_of_child(name));
    match &live.controller {
        Some(owner) if owner.is_memcached() => {
            if owner.uid == view.resource.seen.uid && live.deleting {
                Owner::Earlier(format!("{} is being deleted", what()))
            } else if owner.uid == view.resource.seen.uid {
                Owner::Us
            } else if owner.name == *name {
                Owner::Earlier(format!(
                    "{} belongs to an earlier Memcached of this name and waits for garbage collection",
                    what()
                ))
            } else {
                Owner::Foreign(format!("{} belongs to Memcached {}", what(), owner.name))
            }
        }
        Some(owner) => Owner::Foreign(format!("{} is controlled by {} {}", what(), owner.kind, owner.name)),
        None if view.orphan(live).is_some() && live.deleting => {
            Owner::Earlier(format!("{} is being deleted", what()))
        }
        None if view.orphan(live).is_some() => Owner::Us,
        None => Owner::Foreign(format!("{} exists and is not controlled by this resource", what())),
    }
}
