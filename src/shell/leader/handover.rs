//! From winning the Lease to leading. Takes whether this process holds the Lease, and the lists of resources as they come;
//! says when the resources have to be listed again, and when the kernel may lead. Pure; the main loop calls it.
//!
//! A follower may know a newer state of one kind than of another. If it knows the children that the last leader wrote, but
//! not yet the edit that they were written for, it would undo that edit, and roll pods twice. So a new leader lists the
//! resources first. An old state of a child does no harm: each write names the version of the child that it was decided on.

use std::collections::{BTreeMap, BTreeSet};

use crate::kernel::event::Event;
use crate::kernel::object::{Scope, Watched};

/// How far the handover of leadership is.
#[derive(Debug, Default)]
pub struct Handover {
    /// The scopes whose resources have been listed at least once.
    listed: BTreeSet<Scope>,
    /// How many times the resources were to be listed again.
    asked: u64,
    /// The scopes whose list is awaited. `true` once a list has begun to arrive that was requested after leadership was
    /// acquired; an older list does not count. `None` while this process does not hold the Lease, or leads already.
    awaited: Option<BTreeMap<Scope, bool>>,
}

/// What to do once leadership is acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandoverStep {
    /// Lead at once: no list of the resources is complete yet. A list that is on its way may have been requested before this
    /// process won the Lease. That does no harm: the lists of children are requested after it, and meanwhile the watch shows
    /// newer edits. A relist would make every start with an election list all resources twice.
    Lead,
    /// List the resources again, for the n-th time, and lead when [`Handover::observe`] says so.
    Relist(u64),
}

impl Handover {
    /// This process holds the Lease now.
    pub fn on_leadership_acquired(&mut self) -> HandoverStep {
        if self.listed.is_empty() {
            return HandoverStep::Lead;
        }
        self.asked += 1;
        self.awaited = Some(self.listed.iter().map(|scope| (scope.clone(), false)).collect());
        HandoverStep::Relist(self.asked)
    }

    /// This process does not hold the Lease any more.
    pub fn on_leadership_lost(&mut self) {
        self.awaited = None;
    }

    /// Whether this event completes the handover, so that the kernel may lead. A refused list counts as an answer: the kernel
    /// writes nothing in that scope until the scope is listed, and the other scopes do not wait for it.
    pub fn observe(&mut self, event: &Event) -> bool {
        match event {
            Event::Asked { kind: Watched::Memcached, scope, left } => {
                if let Some(begun) = self.awaited.as_mut().and_then(|awaited| awaited.get_mut(scope)) {
                    *begun = left.relists >= self.asked;
                }
            }
            Event::Listed(Watched::Memcached, scope) => {
                self.listed.insert(scope.clone());
                self.answered(scope);
            }
            Event::Unlistable(Watched::Memcached, scope) => self.answered(scope),
            _ => {}
        }
        self.awaited.take_if(|awaited| awaited.is_empty()).is_some()
    }

    fn answered(&mut self, scope: &Scope) {
        if let Some(awaited) = &mut self.awaited {
            awaited.retain(|other, begun| other != scope || !*begun);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::event::Departure;

    const KIND: Watched = Watched::Memcached;

    fn scope(name: &str) -> Scope {
        Scope::Namespace(name.into())
    }

    /// The first answer to a request that left after so many relists.
    fn asked(name: &str, relists: u64) -> Event {
        Event::Asked { kind: KIND, scope: scope(name), left: Departure { relists, ..Departure::default() } }
    }

    fn listed(name: &str) -> Event {
        Event::Listed(KIND, scope(name))
    }

    fn refused(name: &str) -> Event {
        Event::Unlistable(KIND, scope(name))
    }

    /// A follower that has listed two namespaces.
    fn follower() -> Handover {
        let mut handover = Handover::default();
        for event in [asked("a", 0), listed("a"), asked("b", 0), listed("b")] {
            assert!(!handover.observe(&event));
        }
        handover
    }

    fn told<const N: usize>(handover: &mut Handover, events: [Event; N]) -> [bool; N] {
        events.map(|event| handover.observe(&event))
    }

    #[test]
    fn who_knows_nothing_leads_at_once() {
        assert_eq!(Handover::default().on_leadership_acquired(), HandoverStep::Lead);
    }

    #[test]
    fn who_knows_something_leads_after_lists_that_were_asked_for_afterwards() {
        let mut handover = follower();
        handover.observe(&asked("a", 0));
        assert_eq!(handover.on_leadership_acquired(), HandoverStep::Relist(1));
        let events =
            [listed("a"), asked("b", 0), listed("b"), asked("b", 1), listed("b"), asked("a", 1), listed("a")];
        assert_eq!(told(&mut handover, events), [false, false, false, false, false, false, true]);
        assert_eq!(told(&mut handover, [asked("a", 1), listed("a")]), [false, false]);
    }

    #[test]
    fn a_list_that_was_asked_for_after_an_earlier_win_is_not_one_of_now() {
        let mut handover = follower();
        handover.on_leadership_acquired();
        handover.on_leadership_lost();
        assert_eq!(handover.on_leadership_acquired(), HandoverStep::Relist(2));
        let events = [asked("a", 2), listed("a"), asked("b", 1), listed("b")];
        assert_eq!(told(&mut handover, events), [false; 4]);
        assert_eq!(told(&mut handover, [asked("b", 2), listed("b")]), [false, true]);
    }

    #[test]
    fn a_namespace_that_may_not_be_listed_any_more_keeps_nobody_from_leading() {
        let mut handover = follower();
        handover.observe(&refused("b"));
        handover.on_leadership_acquired();
        let events = [asked("a", 1), listed("a"), refused("b"), asked("b", 1), refused("b")];
        assert_eq!(told(&mut handover, events), [false, false, false, false, true]);
    }

    #[test]
    fn who_loses_before_the_lists_are_complete_does_not_lead() {
        let mut handover = follower();
        handover.on_leadership_acquired();
        handover.on_leadership_lost();
        let events = ["a", "b"].map(|name| [asked(name, 1), listed(name)]);
        assert!(!events.as_flattened().iter().any(|event| handover.observe(event)));
    }
}
