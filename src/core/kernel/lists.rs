//! Which lists are under way, which have been complete, and what the word of each counts for. Pure; part of the world.
//!
//! A list is what there is. It overrules what is known also where that is newer by its version: versions go back when
//! etcd is restored from a backup. Only what an answer to a request of ours said after the list's own request left may be
//! newer than the list. A single event overrules nothing that is newer, because events come late.
//!
//! Where versions have gone back, what is known of one kind is of another history than what is known of the next: nothing
//! may be decided before everything was listed anew.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::object::{Key, Scope, Watched};

/// A point in the order in which things were learned: how many requests had been answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(pub u64);

/// What an event counts for that speaks of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// A watch says it, and may be late.
    Watch,
    /// A list says it: that is how it is.
    List,
    /// A list says it whose request left before a request of ours about this object was answered: it may be late.
    EarlierList,
}

/// A list that is under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Listing {
    kind: Watched,
    scope: Scope,
    /// When its request left.
    left: Moment,
    /// What it has named so far.
    named: BTreeSet<Key>,
    /// Whether it began before versions were found to have gone back.
    outdated: bool,
}

impl Listing {
    /// Whether an object should have been in it, and was not.
    #[must_use]
    pub fn lacks(&self, key: &Key) -> bool {
        self.scope.includes(&key.namespace) && !self.named.contains(key)
    }

    /// Whether a request about an object was answered after this list's own request left.
    #[must_use]
    pub fn left_before(&self, answered: Moment) -> bool {
        self.left < answered
    }
}

/// All lists.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Lists {
    now: Moment,
    /// When the request left of a list that has brought nothing yet.
    asked: Vec<(Watched, Scope, Moment)>,
    under_way: Vec<Listing>,
    complete: BTreeSet<(Watched, Scope)>,
    /// Those that were refused since they were complete last.
    refused: BTreeSet<(Watched, Scope)>,
    /// Those that have not been complete since versions went back.
    #[serde(default)]
    outdated: BTreeSet<(Watched, Scope)>,
    /// Whether versions were found to have gone back, and nobody was told yet.
    #[serde(default)]
    went_back: bool,
}

impl Lists {
    /// Another request was answered.
    pub const fn answer(&mut self) -> Moment {
        self.now.0 += 1;
        self.now
    }

    /// How many requests have been answered.
    #[must_use]
    pub const fn now(&self) -> Moment {
        self.now
    }

    /// The request of a list left at this moment.
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

    /// Something is seen of an object about which a request was answered last at this moment.
    pub fn hear(&mut self, kind: Watched, key: &Key, answered: Moment) -> Word {
        let Some(listing) = self.of(kind, key) else { return Word::Watch };
        listing.named.insert(key.clone());
        if listing.left_before(answered) { Word::EarlierList } else { Word::List }
    }

    /// A list, or an answer, speaks of an older version than what was known before it was asked for.
    pub fn go_back(&mut self, kind: Watched, key: &Key) {
        let expected = self.outdated.iter().any(|it| it.0 == kind && it.1.includes(&key.namespace));
        if !expected {
            self.under_way.iter_mut().for_each(|listing| listing.outdated = true);
            self.outdated = self.complete.clone();
            self.went_back = true;
        }
    }

    /// Whether versions were found to have gone back since this was asked last.
    pub const fn take_went_back(&mut self) -> bool {
        std::mem::replace(&mut self.went_back, false)
    }

    fn of(&mut self, kind: Watched, key: &Key) -> Option<&mut Listing> {
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

    /// A list may not be had, or not any more.
    pub fn refuse(&mut self, kind: Watched, scope: Scope) {
        self.refused.insert((kind, scope));
    }

    /// Whether one has been, and neither was it refused since nor did versions go back.
    #[must_use]
    pub fn is_complete(&self, kind: Watched, there: impl Fn(&Scope) -> bool) -> bool {
        let holds = |it: &(Watched, Scope)| !self.refused.contains(it) && !self.outdated.contains(it);
        self.complete.iter().any(|it| it.0 == kind && there(&it.1) && holds(it))
    }

    /// Where lists of this kind have been complete.
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
        assert_eq!(lists.hear(PODS, &key("a"), before), Word::List);
        assert_eq!(lists.hear(PODS, &key("b"), meanwhile), Word::EarlierList);
        assert_eq!(lists.hear(Watched::Secret, &key("c"), before), Word::Watch);
        let listing = lists.end(PODS, &Scope::All).unwrap();
        assert_eq!(["a", "b", "c"].map(|name| listing.lacks(&key(name))), [false, false, true]);
        lists.begin(PODS, Scope::All);
        assert_eq!(lists.hear(PODS, &key("b"), meanwhile), Word::List, "it left just now");
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
