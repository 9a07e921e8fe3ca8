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

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

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

/// A list that was asked for and has shown nothing yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct AskedList {
    kind: Watched,
    scope: Scope,
    /// When the request of the list left.
    left: Moment,
}

impl AskedList {
    fn is_of(&self, kind: Watched, scope: &Scope) -> bool {
        self.kind == kind && self.scope == *scope
    }
}

/// A list that is under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Listing {
    kind: Watched,
    scope: Scope,
    /// When the request of the list left.
    left: Moment,
    /// The objects that it has shown so far.
    named: Named,
    /// Whether the list began before resourceVersions were found to have gone back.
    outdated: bool,
}

impl Listing {
    /// Whether the list should have shown this object and did not.
    #[must_use]
    pub fn lacks(&self, key: &Key) -> bool {
        self.scope.includes(&key.namespace) && !self.named.contains(key)
    }

    /// A watch shows an object after the list was complete.
    pub fn show(&mut self, key: &Key) {
        if self.lacks(key) {
            self.named.insert(key);
            self.named.complete();
        }
    }

    /// Whether the list is of this scope.
    #[must_use]
    pub fn is_of(&self, scope: &Scope) -> bool {
        self.scope == *scope
    }

    /// Whether a request about an object was answered after the request of this list had left.
    #[must_use]
    pub fn left_before(&self, answered: Moment) -> bool {
        self.left < answered
    }
}

/// Objects that a list showed, of each no more than a hash: a set of the names of a hundred thousand objects, of which the
/// kernel knows the most anyway, would take ten megabytes while they are listed.
///
/// What a collision costs: an object that was deleted while nobody watched is held to be there if another one that the list
/// shows has its hash. With a hundred thousand objects of which a thousand were deleted that is one of 10^11 lists; and the
/// next list hashes otherwise.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Named {
    /// Number of the list; it salts the hashes, so that a collision does not repeat in the next list.
    number: u64,
    /// Sorted, each once, as soon as the list is complete.
    hashes: Vec<u64>,
}

impl Named {
    fn insert(&mut self, key: &Key) {
        self.hashes.push(self.hash(key));
    }

    fn complete(&mut self) {
        self.hashes.sort_unstable();
        self.hashes.dedup();
    }

    /// Whether a complete list showed the object.
    fn contains(&self, key: &Key) -> bool {
        self.hashes.binary_search(&self.hash(key)).is_ok()
    }

    /// A hash of the object's key, equal in every process: a list that is under way is part of a snapshot.
    fn hash(&self, key: &Key) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.number, key).hash(&mut hasher);
        hasher.finish()
    }
}

/// All lists.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Lists {
    now: Moment,
    /// How many lists have begun.
    #[serde(default)]
    begun: u64,
    /// Lists that were asked for and have shown nothing yet.
    asked: Vec<AskedList>,
    under_way: Vec<Listing>,
    /// By scope, because it is asked after every event whether all kinds are known somewhere.
    #[serde(with = "as_pairs")]
    there: BTreeMap<Scope, InScope>,
    /// Whether resourceVersions went back and [`Lists::take_went_back`] has not reported it yet.
    #[serde(default)]
    went_back: bool,
}

/// The lists of one scope.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct InScope {
    complete: BTreeSet<Watched>,
    /// Lists that were refused since they were last complete.
    refused: BTreeSet<Watched>,
    /// Lists that have not been complete since resourceVersions went back.
    outdated: BTreeSet<Watched>,
}

/// JSON map keys must be strings and a scope is not, so the map is stored as a list of pairs.
mod as_pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    use super::{InScope, Scope};

    pub(super) fn serialize<S: Serializer>(
        there: &BTreeMap<Scope, InScope>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(there)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<Scope, InScope>, D::Error> {
        Vec::<(Scope, InScope)>::deserialize(deserializer).map(BTreeMap::from_iter)
    }
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
        self.asked.retain(|it| !it.is_of(kind, &scope));
        self.asked.push(AskedList { kind, scope, left });
    }

    /// A list begins.
    pub fn begin(&mut self, kind: Watched, scope: Scope) {
        self.under_way.retain(|it| (it.kind, &it.scope) != (kind, &scope));
        let asked = self.asked.iter().position(|it| it.is_of(kind, &scope));
        let left = asked.map_or(self.now, |at| self.asked.swap_remove(at).left);
        self.begun += 1;
        let named = Named { number: self.begun, hashes: Vec::new() };
        self.under_way.push(Listing { kind, scope, left, named, outdated: false });
    }

    /// Notes that an event named an object, and says how far that event counts. `answered`: when the last request about the
    /// object was answered.
    pub fn note(&mut self, kind: Watched, key: &Key, answered: Moment) -> Authority {
        let Some(listing) = self.listing_under_way(kind, key) else { return Authority::Watch };
        listing.named.insert(key);
        if listing.left_before(answered) { Authority::EarlierList } else { Authority::List }
    }

    /// Called when a list or an answer shows an older resourceVersion than was known when its request left.
    pub fn go_back(&mut self, kind: Watched, key: &Key) {
        let mut there = self.there.iter().filter(|(scope, _)| scope.includes(&key.namespace));
        let expected = there.any(|(_, it)| it.outdated.contains(&kind));
        if !expected {
            self.under_way.iter_mut().for_each(|listing| listing.outdated = true);
            self.there.values_mut().for_each(|it| it.outdated = it.complete.clone());
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
        let mut listing = self.under_way.swap_remove(at);
        listing.named.complete();
        let there = self.there.entry(scope.clone()).or_default();
        if !listing.outdated {
            there.outdated.remove(&kind);
        }
        there.refused.remove(&kind);
        there.complete.insert(kind);
        Some(listing)
    }

    /// A list is refused.
    pub fn refuse(&mut self, kind: Watched, scope: Scope) {
        self.there.entry(scope).or_default().refused.insert(kind);
    }

    /// Whether the list of this kind was refused since it was last complete.
    #[must_use]
    pub fn is_refused(&self, kind: Watched, scope: &Scope) -> bool {
        self.there.get(scope).is_some_and(|it| it.refused.contains(&kind))
    }

    /// Whether any list of this scope was refused since it was last complete.
    #[must_use]
    pub fn has_refused(&self, scope: &Scope) -> bool {
        self.there.get(scope).is_some_and(|it| !it.refused.is_empty())
    }

    /// Whether the list of this kind and scope is complete, and neither was refused nor became stale since.
    #[must_use]
    pub fn is_complete(&self, kind: Watched, scope: &Scope) -> bool {
        let holds = |it: &InScope| !it.refused.contains(&kind) && !it.outdated.contains(&kind);
        self.there.get(scope).is_some_and(|it| it.complete.contains(&kind) && holds(it))
    }

    /// Whether the lists of all kinds in this scope are complete, and none was refused or became stale since.
    #[must_use]
    pub fn are_complete(&self, scope: &Scope) -> bool {
        let holds = |it: &InScope| it.refused.is_empty() && it.outdated.is_empty();
        self.there.get(scope).is_some_and(|it| it.complete.len() == Watched::ALL.len() && holds(it))
    }

    /// The scopes in which lists of this kind are complete.
    pub fn scopes(&self, kind: Watched) -> impl Iterator<Item = &Scope> {
        self.there.iter().filter(move |(_, it)| it.complete.contains(&kind)).map(|(scope, _)| scope)
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
    fn a_list_under_way_takes_eight_bytes_for_each_object_and_the_next_one_hashes_otherwise() {
        let mut lists = Lists::default();
        lists.begin(PODS, Scope::All);
        let names: Vec<_> = (0..1_000).map(|number| key(&format!("cache-{number:04}"))).collect();
        for name in names.iter().rev().chain(&names) {
            lists.note(PODS, name, Moment::default());
        }
        let first = lists.end(PODS, &Scope::All).unwrap();
        assert_eq!(first.named.hashes.len(), 1_000);
        assert!(names.iter().all(|name| !first.lacks(name)));
        assert!(first.lacks(&key("cache-1000")));
        lists.begin(PODS, Scope::All);
        lists.note(PODS, &names[0], Moment::default());
        let next = lists.end(PODS, &Scope::All).unwrap();
        assert!(!next.lacks(&names[0]) && next.lacks(&names[1]));
        assert!(first.named.hashes.binary_search(&next.named.hashes[0]).is_err());
    }

    #[test]
    fn where_versions_went_back_every_list_has_to_be_complete_once_more() {
        let mut lists = Lists::default();
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
            assert!(!lists.is_complete(kind, &Scope::All), "it began before");
            lists.begin(kind, Scope::All);
            lists.go_back(kind, &key("a"));
            lists.end(kind, &Scope::All);
            assert!(lists.is_complete(kind, &Scope::All));
        }
        assert!(!lists.take_went_back(), "it is known");
    }

    #[test]
    fn what_was_refused_is_complete_again_with_the_next_complete_list() {
        let mut lists = Lists::default();
        lists.refuse(PODS, Scope::All);
        assert!(!lists.is_complete(PODS, &Scope::All));
        lists.begin(PODS, Scope::All);
        lists.end(PODS, &Scope::All);
        assert!(lists.is_complete(PODS, &Scope::All));
        lists.refuse(PODS, Scope::All);
        assert!(!lists.is_complete(PODS, &Scope::All));
    }

    #[test]
    fn every_kind_is_complete_once_each_was_and_while_none_is_refused_or_stale() {
        let mut lists = Lists::default();
        for kind in Watched::ALL {
            assert!(!lists.are_complete(&Scope::All), "{kind:?}");
            lists.begin(kind, Scope::All);
            lists.end(kind, &Scope::All);
        }
        assert!(lists.are_complete(&Scope::All));
        assert!(!lists.are_complete(&Scope::Namespace("n".into())));
        lists.refuse(PODS, Scope::All);
        assert!(!lists.are_complete(&Scope::All));
        lists.begin(PODS, Scope::All);
        lists.end(PODS, &Scope::All);
        assert!(lists.are_complete(&Scope::All));
        lists.go_back(PODS, &key("a"));
        assert!(!lists.are_complete(&Scope::All));
    }
}
