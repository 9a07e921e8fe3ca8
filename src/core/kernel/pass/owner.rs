//! Whose an object is that sits where a child belongs. Pure; called by [`super::plan`].

use super::view::View;
use crate::kernel::live::Live;
use crate::kernel::live_controller::LiveController;
use crate::kernel::object::{ChildKind, Controller, Key};

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
    let is_ours = |owner: &LiveController| {
        *owner.uid() == view.resource.seen.uid && owner.other().is_none_or(Controller::is_memcached)
    };
    match &live.controller {
        Some(owner) if is_ours(owner) && live.deleting => {
            Owner::Earlier(format!("{} is being deleted", what()))
        }
        Some(owner) if is_ours(owner) => Owner::Us,
        Some(owner) => match owner.other() {
            None => Owner::Earlier(format!(
                "{} belongs to an earlier Memcached of this name and waits for garbage collection",
                what()
            )),
            Some(other) if other.is_memcached() => {
                Owner::Foreign(format!("{} belongs to Memcached {}", what(), other.name))
            }
            Some(other) => {
                Owner::Foreign(format!("{} is controlled by {} {}", what(), other.kind, other.name))
            }
        },
        None if view.orphan(live).is_some() && live.deleting => {
            Owner::Earlier(format!("{} is being deleted", what()))
        }
        None if view.orphan(live).is_some() => Owner::Us,
        None => Owner::Foreign(format!("{} exists and is not controlled by this resource", what())),
    }
}
