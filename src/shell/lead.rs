//! When the kernel is told that it leads. Takes whether this process leads, and the lists as they come; says when the
//! resources have to be listed anew, and when to lead. Pure; the main loop calls it.
//!
//! What a follower knows of one kind may be older than what it knows of another: where it has seen the children that the
//! last leader wrote, but not yet the edit that they were written for, it would undo that edit, and roll pods twice. So
//! whoever begins to lead lists the resources first. What is older of the children is harmless: each write carries what
//! it was decided on.

use std::collections::BTreeMap;

use crate::kernel::event::Event;
use crate::kernel::object::{Scope, Watched};

/// The way to the lead.
#[derive(Debug, Default)]
pub struct Succession {
    /// The lists of resources that have been complete once.
    listed: Vec<Scope>,
    /// The lists that are waited for, and whether each has begun; `None` when nobody is to lead, or leads already.
    awaited: Option<BTreeMap<Scope, bool>>,
}

/// What comes of winning the lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing is known yet, so that nothing is old: lead.
    Lead,
    /// List the resources, and lead when [`Succession::note`] says so.
    List,
}

impl Succession {
    /// This process is to lead.
    pub fn win(&mut self) -> Next {
        if self.listed.is_empty() {
            return Next::Lead;
        }
        self.awaited = Some(self.listed.iter().map(|scope| (scope.clone(), false)).collect());
        Next::List
    }

    /// It is not to lead any more.
    pub fn lose(&mut self) {
        self.awaited = None;
    }

    /// Whether this event was the last that was waited for.
    pub fn note(&mut self, event: &Event) -> bool {
        match event {
            Event::Listing(Watched::Memcached, scope) => {
                if let Some(begun) = self.awaited.as_mut().and_then(|awaited| awaited.get_mut(scope)) {
                    *begun = true;
                }
            }
            Event::Listed(Watched::Memcached, scope) => {
                if !self.listed.contains(scope) {
                    self.listed.push(scope.clone());
                }
                if let Some(awaited) = &mut self.awaited {
                    awaited.retain(|other, begun| other != scope || !*begun);
                }
            }
            _ => {}
        }
        self.awaited.take_if(|awaited| awaited.is_empty()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(name: &str) -> Event {
        Event::Listing(Watched::Memcached, Scope::Namespace(name.into()))
    }

    fn listed(name: &str) -> Event {
        Event::Listed(Watched::Memcached, Scope::Namespace(name.into()))
    }

    #[test]
    fn who_knows_nothing_leads_at_once() {
        assert_eq!(Succession::default().win(), Next::Lead);
    }

    #[test]
    fn who_knows_something_leads_after_lists_that_began_afterwards() {
        let mut succession = Succession::default();
        for event in [listing("a"), listed("a"), listing("b"), listed("b"), listing("a")] {
            assert!(!succession.note(&event));
        }
        assert_eq!(succession.win(), Next::List);
        let told = [listed("a"), listing("b"), listed("b"), listing("a"), listed("a"), listed("a")]
            .map(|event| succession.note(&event));
        assert_eq!(told, [false, false, false, false, true, false]);
    }

    #[test]
    fn who_loses_before_the_lists_are_complete_does_not_lead() {
        let mut succession = Succession::default();
        succession.note(&listed("a"));
        succession.win();
        succession.lose();
        assert!(![listing("a"), listed("a")].iter().any(|event| succession.note(event)));
    }
}
