//! Which lists are under way, which are complete, and how far each may overrule other knowledge. Pure; part of the
//! world.
//!
//! A list shows the truth. It overrules known objects even if their resourceVersion is newer: resourceVersions go back
//! when etcd is restored from a backup. Only the answer to one of our requests may be newer than a list, if it came
//! after the request of the list had left. A single watch event never overrules a newer object, because events come
//! late.
//!
//! After resourceVersions went back, one kind may be known from before the restore and another from after it: nothing
//! is decided until every kind was listed again.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::object::{Key, Scope, Watched};

/// A logical time: how many requests had been answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(pub u64);

/// How far an event about an object may overrule what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    /// A watch event: it may be late.
    Watch,
    /// A list shows it: this is the truth.
    List,
    /// A list shows it, but the request of the list left before one of our requests about the object was answered: it
    /// may be late.
    EarlierList,
}

/// A list that is under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Listing {
    kind: Watched,
    scope: Scope,
    /// When the request of the list left.
    left: Moment,
    /// The objects that it has shown so far.
    named: BTreeSet<Key>,
    /// Whether the list began before resourceVersions were found to have gone back.
    outdated: bool,
}

impl Listing {
    /// Whether the list should have shown this object and did not.
    #[must_use]
    pub fn lacks(&self, key: &Key) -> bool {
        self.scope.includes(&key.namespace) && !self.named.contains(key)
    }

    /// Whether a request about an object was answered after the request of this list had left.
    #[must_use]
    pub fn left_before(&self, answered: Moment) -> bool {
        self.left < answered
    }
}

/// All lists.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Lists {
    now: Moment,
    /// When the request left, for each list that has shown nothing yet.
    asked: Vec<(Watched, Scope, Moment)>,
    under_way: Vec<Listing>,
    complete: BTreeSet<(Watched, Scope)>,
    /// Lists that were refused since they were last complete.
    refused: BTreeSet<(Watched, Scope)>,
    /// Lists that have not been complete since resourceVersions went back.
    #[serde(default)]
    outdated: BTreeSet<(Watched, Scope)>,
    /// Whether resourceVersions went back and [`Lists::take_went_back`] has not reported it yet.
    #[serde(default)]
    went_back: bool,
}

impl Lists {
    /// Counts the answer to a request.
    pub const fn answer(&mut self) -> Moment {
        self.now.0 += 1;
        self.now
    }

    /// How many requests have been answered.
    #[must_use]
    pub const fn now(&self) -> Moment {
        self.now
    }

    /// Notes when the request of a list left.
    pub fn ask(&mut self, kind: Watched, scope: Scope, left: Moment) {
        self.asked.retain(|(other, there, _)| (*other, there) != (kind, &scope));
        self.asked.push((kind, scope, left));
    }

    /// A list begins.
    pub fn begin(&mut self, kind: Watched, scope: Scope) {
        self.under_way.retain(|it| (it.kind, &it.scope) != (kind, &scope));
        let asked = self.asked.iter().position(|(other, there, _)| (*other, there) == (kind, &scope));
        let left = asked.map_or(self.now, |at| self.asked.swap_remove(at).2);
        self.under_way.push(Listing { kind, scope, left, named: BTreeSet::new(), outdated: false });
    }

    /// Notes that an event named an object, and says how far that event counts. `answered`: when the last request about the
    /// object was answered.
    pub fn note(&mut self, kind: Watched, key: &Key, answered: Moment) -> Authority {
        let Some(listing) = self.listing_under_way(kind, key) else { return Authority::Watch };
        listing.named.insert(key.clone());
        if listing.left_before(answered) { Authority::EarlierList } else { Authority::List }
    }

    /// Called when a list or an answer shows an older resourceVersion than was known when its request left.
    pub fn go_back(&mut self, kind: Watched, key: &Key) {
        let expected = self.outdated.iter().any(|it| it.0 == kind && it.1.includes(&key.namespace));
        if !expected {
            self.under_way.iter_mut().for_each(|listing| listing.outdated = true);
            self.outdated = self.complete.clone();
            self.went_back = true;
        }
    }

    /// Whether resourceVersions went back since the last call.
    pub const fn take_went_back(&mut self) -> bool {
        std::mem::replace(&mut self.went_back, false)
    }

    fn listing_under_way(&mut self, kind: Watched, key: &Key) -> Option<&mut Listing> {
        self.under_way.iter_mut().find(|it| it.kind == kind && it.scope.includes(&key.namespace))
    }

    /// A list is complete; `None` where none began.
    pub fn end(&mut self, kind: Watched, scope: &Scope) -> Option<Listing> {
        let at = self.under_way.iter().position(|it| (it.kind, &it.scope) == (kind, scope))?;
        let (ended, listing) = ((kind, scope.clone()), self.under_way.swap_remove(at));
        if !listing.outdated {
            self.outdated.remove(&ended);
        }
        self.refused.remove(&ended);
        self.complete.insert(ended);
        Some(listing)
    }

    /// A list is refused.
    pub fn refuse(&mut self, kind: Watched, scope: Scope) {
        self.refused.insert((kind, scope));
    }

    /// Whether a list of this kind is complete, and neither was refused nor became stale since.
    #[must_use]
    pub fn is_complete(&self, kind: Watched, there: impl Fn(&Scope) -> bool) -> bool {
        let holds = |it: &(Watched, Scope)| !self.refused.contains(it) && !self.outdated.contains(it);
        self.complete.iter().any(|it| it.0 == kind && there(&it.1) && holds(it))
    }

    /// The scopes in which lists of this kind are complete.
    pub fn scopes(&self, kind: Watched) -> impl Iterator<Item = &Scope> {
        self.complete.iter().filter(move |(other, _)| *other == kind).map(|(_, scope)| scope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PODS: Watched = Watched::Pod;

    fn key(name: &str) -> Key {
        Key { namespace: "n".into(), name: name.into() }
    }

    #[test]
    fn an_answer_counts_more_than_a_list_whose_request_left_before_it_and_less_than_a_later_one() {
        let mut lists = Lists::default();
        let before = lists.answer();
        lists.ask(PODS, Scope::All, lists.now());
        let meanwhile = lists.answer();
        lists.begin(PODS, Scope::All);
        assert_eq!(lists.note(PODS, &key("a"), before), Authority::List);
        assert_eq!(lists.note(PODS, &key("b"), meanwhile), Authority::EarlierList);
        assert_eq!(lists.note(Watched::Secret, &key("c"), before), Authority::Watch);
        let listing = lists.end(PODS, &Scope::All).unwrap();
        assert_eq!(["a", "b", "c"].map(|name| listing.lacks(&key(name))), [false, false, true]);
        lists.begin(PODS, Scope::All);
        assert_eq!(lists.note(PODS, &key("b"), meanwhile), Authority::List, "it left just now");
    }

    #[test]
    fn where_versions_went_back_every_list_has_to_be_complete_once_more() {
        let mut lists = Lists::default();
        let everywhere = |_: &Scope| true;
        let kinds = [PODS, Watched::Secret];
        for kind in kinds {
            lists.begin(kind, Scope::All);
            lists.end(kind, &Scope::All);
        }
        lists.begin(PODS, Scope::All);
        lists.go_back(PODS, &key("a"));
        assert!(lists.take_went_back());
        lists.end(PODS, &Scope::All);
        for kind in kinds {
            assert!(!lists.is_complete(kind, everywhere), "it began before");
            lists.begin(kind, Scope::All);
            lists.go_back(kind, &key("a"));
            lists.end(kind, &Scope::All);
            assert!(lists.is_complete(kind, everywhere));
        }
        assert!(!lists.take_went_back(), "it is known");
    }

    #[test]
    fn what_was_refused_is_complete_again_with_the_next_complete_list() {
        let mut lists = Lists::default();
        let everywhere = |_: &Scope| true;
        lists.refuse(PODS, Scope::All);
        assert!(!lists.is_complete(PODS, everywhere));
        lists.begin(PODS, Scope::All);
        lists.end(PODS, &Scope::All);
        assert!(lists.is_complete(PODS, everywhere));
        lists.refuse(PODS, Scope::All);
        assert!(!lists.is_complete(PODS, everywhere));
    }
}
