//! All that the operator knows: a fold over events. Pure; owned by the reconciler, read by the pass.
//!
//! An object is kept only until a pass has compared it with the desired one. After that only the result of the
//! comparison and a few facts are kept, some 250 bytes for each child and as much again for a workload. With its spec and its status
//! a resource takes 3 kB; the test `heap` holds the figure. What few resources have stands in a box, or in a list of eight
//! bytes while it is empty ([`crate::api::few`]), so that the others do not pay for it. Of what is only compared a hash is kept.

pub mod children;
pub mod pods;
pub mod resource;
pub mod secret;

use std::collections::{BTreeMap, BTreeSet};
use std::slice;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::child_state::ChildState;
use super::event::{SeenChild, SeenPod, SeenResource, SeenSecret, Unavailable};
use super::known_versions::{KnownVersions, Presence};
use super::lists::{Authority, Lists, Moment};
use super::live::Live;
use super::object::{ChildKind, Key, Scope, Watched};
use super::orphan::LeftBehind;
use super::rollout_budget::RolloutBudget;
use pods::{ExpectedPods, Pods};
use resource::Resource;
use secret::{Secret, secret_names};

/// Everything known.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct World {
    /// The resources. Boxed, because half of the places in the nodes of the map are empty.
    pub resources: BTreeMap<Key, Box<Resource>>,
    /// The Secrets that resources name.
    pub secrets: BTreeMap<Key, Secret>,
    /// The pods that do not serve, or are missing.
    pub pods: Pods,
    /// Which resources may replace pods without an edit of the user.
    pub rollout_budget: RolloutBudget,
    /// The lists that are under way, and those that have been complete.
    pub lists: Lists,
    /// The API server's version, once it has said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
    /// Children of resources that are gone.
    #[serde(default)]
    left_behind: LeftBehind,
    /// The kinds of children that cannot be listed, and why.
    unavailable: Vec<UnavailableKind>,
}

/// A kind of child that cannot be listed.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct UnavailableKind {
    kind: ChildKind,
    /// Where it cannot be listed.
    scope: Scope,
    why: Unavailable,
    #[serde(default)]
    age: Age,
}

/// How old the knowledge of a kind that cannot be listed may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Age {
    /// As old as this process: nobody asks for the kind again.
    #[default]
    Any,
    /// Up to date: the kind is asked for again and again.
    OfNow,
}

impl World {
    /// A world of which nothing is known yet.
    #[must_use]
    pub fn new(rollout_budget: RolloutBudget) -> Self {
        Self { rollout_budget, ..Self::default() }
    }

    /// Whether enough is known of some namespace to act there.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        let mut scopes = self.lists.scopes(Watched::Memcached);
        scopes.any(|scope| self.is_all_known(slice::from_ref(scope)))
    }

    /// Whether every kind was listed in a namespace, or is optional and known to be unavailable. Before that, absence
    /// from the cache proves nothing, and nothing is written.
    #[must_use]
    pub fn is_synced_in(&self, namespace: &str) -> bool {
        self.lists.are_complete(&Scope::All)
            || self.is_all_known(&[Scope::All, Scope::Namespace(namespace.to_owned())])
    }

    /// Whether every kind is known in one of these scopes. This is asked after each event, so the quick answer comes first:
    /// mostly one scope has all lists.
    fn is_all_known(&self, scopes: &[Scope]) -> bool {
        scopes.iter().any(|scope| self.lists.are_complete(scope))
            || Watched::ALL.iter().all(|kind| self.is_known(*kind, scopes))
    }

    /// Whether a kind was listed in one of these scopes, or is optional and known to be unavailable there.
    fn is_known(&self, kind: Watched, scopes: &[Scope]) -> bool {
        let unavailable = |it: &UnavailableKind| {
            !kind.is_required() && Watched::Child(it.kind) == kind && scopes.contains(&it.scope)
        };
        scopes.iter().any(|scope| self.lists.is_complete(kind, scope))
            || self.unavailable.iter().any(unavailable)
    }

    /// A required list is refused: what is known of that scope may be stale, and other resources stop waiting for it.
    pub fn lose_list(&mut self, kind: Watched, scope: Scope) {
        if kind == Watched::Memcached {
            self.rollout_budget.pass_over(&scope);
        }
        self.rollout_budget.lose_sight(scope.clone());
        self.lists.refuse(kind, scope);
    }

    /// Why a kind of child cannot be listed in a namespace; `None` if it can.
    #[must_use]
    pub fn unavailable(&self, kind: ChildKind, namespace: &str) -> Option<&Unavailable> {
        let found = self.unavailable.iter().find(|it| it.kind == kind && it.scope.includes(namespace));
        found.map(|it| &it.why)
    }

    /// Whether it is certain that a kind cannot be listed in a namespace now. What was heard earlier may have changed since, and
    /// a status that repeats it could be untrue.
    #[must_use]
    pub fn is_unavailable_now(&self, kind: ChildKind, namespace: &str) -> bool {
        let found = self.unavailable.iter().find(|it| it.kind == kind && it.scope.includes(namespace));
        found.is_some_and(|it| it.age == Age::OfNow)
    }

    /// These kinds are not asked for any more: what is known of them grows old.
    pub fn let_unavailable_age(&mut self, is_left: impl Fn(ChildKind) -> bool) {
        self.unavailable.iter_mut().filter(|it| is_left(it.kind)).for_each(|it| it.age = Age::Any);
    }

    /// A kind of child cannot be listed. Returns the affected resources: all of that scope, because the status of each
    /// that wants such a child has to say so.
    pub fn lose_kind(&mut self, kind: ChildKind, scope: Scope, why: Unavailable, age: Age) -> BTreeSet<Key> {
        let known = self.unavailable.iter().position(|it| it.kind == kind && it.scope == scope);
        if known.is_some_and(|at| self.unavailable[at].why == why && self.unavailable[at].age == age) {
            return BTreeSet::new();
        }
        let there = self.resources.range_mut(scope.keys());
        let mut concerned = BTreeSet::new();
        for (key, resource) in there {
            if why == Unavailable::NotServed {
                resource.children.remove(kind);
            }
            concerned.insert(key.clone());
        }
        match known {
            Some(at) => (self.unavailable[at].why, self.unavailable[at].age) = (why, age),
            None => self.unavailable.push(UnavailableKind { kind, scope, why, age }),
        }
        concerned
    }

    /// The API server has this version. Returns the resources for which another version changed an apply, or refused something
    /// for good.
    pub fn meet_server(&mut self, version: String) -> BTreeSet<Key> {
        if self.server_version.as_ref() == Some(&version) {
            return BTreeSet::new();
        }
        let is_another = self.server_version.is_some();
        let mut concerned = BTreeSet::new();
        for (key, resource) in &mut self.resources {
            let of_another = |child: &ChildState| {
                child.altered.as_ref().is_some_and(|altered| altered.server_version != version)
            };
            let remembers = resource.children.values().any(of_another);
            if (is_another && resource.forget_refusals()) || remembers {
                concerned.insert(key.clone());
            }
        }
        self.server_version = Some(version);
        concerned
    }

    /// Called when another replica may have written to the resources of a scope. Of what was decided earlier, only what each
    /// status says counts from now on; what this process remembers of its own decisions does not. The metrics of each resource
    /// are reported again.
    pub fn follow_status(&mut self, scope: &Scope) {
        for (key, resource) in self.resources.range_mut(scope.keys()) {
            (resource.reported, resource.agents, resource.figures) = (None, None, None);
            resource.recall();
            resource.secret_hash = None;
            self.rollout_budget.restore(key, &resource.seen.status);
        }
    }

    /// A list is complete: objects that it lacks are deleted. Returns the affected resources.
    pub fn end_list(&mut self, kind: Watched, scope: &Scope, now: Timestamp) -> BTreeSet<Key> {
        // A new leader does not wait for a scope whose list is refused.
        let was_refused = kind == Watched::Memcached && self.lists.is_refused(kind, scope);
        let Some(listing) = self.lists.end(kind, scope) else { return BTreeSet::new() };
        let lacking = |(key, answered): (&Key, Moment)| listing.lacks(key).then(|| (key.clone(), answered));
        let gone: Vec<(Key, Moment)> = match kind {
            // Resources are listed before any request about one can leave.
            Watched::Memcached => {
                let known = self.resources.range(scope.keys()).map(|(key, _)| (key, Moment::default()));
                known.filter_map(lacking).collect()
            }
            Watched::Child(kind) => {
                let known = self.resources.range(scope.keys());
                let known = known.filter(|(_, it)| it.live(kind).is_some_and(|live| live.in_sight));
                known.map(|(key, it)| (key, it.child(kind).answered)).filter_map(lacking).collect()
            }
            Watched::Secret => {
                let known = self.secrets.range(scope.keys()).map(|(key, it)| (key, it.answered));
                known.filter_map(lacking).collect()
            }
            Watched::Pod => {
                let known = self.pods.noted_in(scope).map(|key| (key, Moment::default()));
                known.filter_map(lacking).collect()
            }
        };
        let mut dirty = BTreeSet::new();
        for (key, answered) in &gone {
            dirty.append(&mut match listing.left_before(*answered) {
                true => self.doubt(kind, key),
                false => self.gone(kind, key, now),
            });
        }
        if let Watched::Child(kind) = kind {
            self.left_behind.remove_lacking(kind, scope, |key| listing.lacks(key));
            let lacking = self.resources.range_mut(scope.keys()).filter(|(key, _)| listing.lacks(key));
            lacking
                .filter_map(|(_, it)| it.children.get_mut(kind))
                .for_each(|child| child.deletion_heard = true);
        }
        let lost = |it: &UnavailableKind| Watched::Child(it.kind) == kind && it.scope == *scope;
        if let Some(at) = self.unavailable.iter().position(lost) {
            self.unavailable.swap_remove(at);
            dirty.extend(self.resources.range(scope.keys()).map(|(key, _)| key.clone()));
        }
        if kind == Watched::Memcached {
            self.rollout_budget.saw(scope);
        }
        if kind == Watched::Pod {
            self.pods.listed(scope, listing);
        }
        dirty.append(&mut self.note_missing_pods(scope, now));
        if was_refused {
            self.follow_status(scope);
            dirty.extend(self.resources.range(scope.keys()).map(|(key, _)| key.clone()));
        }
        if !self.lists.has_refused(scope) {
            self.rollout_budget.regain_sight(scope);
        }
        dirty
    }

    /// Notes the pods that are missing, once pods and StatefulSets were listed. Returns their resources.
    fn note_missing_pods(&mut self, scope: &Scope, now: Timestamp) -> BTreeSet<Key> {
        if !self.lists.is_complete(Watched::Child(ChildKind::StatefulSet), scope) {
            return BTreeSet::new();
        }
        let asked = self.resources.range(scope.keys()).map(|(key, it)| (key, it.asked_pods()));
        self.pods.note_missing(scope, asked, now)
    }

    /// The list lacks an object that an answer described after the request of the list had left: the object may have
    /// been created or deleted in between.
    fn doubt(&mut self, kind: Watched, key: &Key) -> BTreeSet<Key> {
        match kind {
            Watched::Child(kind) => {
                let resource = self.resources.get_mut(key);
                resource.into_iter().for_each(|resource| resource.child_mut(kind).must_read = true);
                BTreeSet::from([key.clone()])
            }
            Watched::Secret => self.secrets.get_mut(key).map_or_else(BTreeSet::new, |secret| {
                secret.presence = Presence::Unknown;
                secret.users.clone()
            }),
            Watched::Memcached | Watched::Pod => BTreeSet::new(),
        }
    }

    /// Whether resourceVersions went back, as they do when etcd is restored from a backup. A known resourceVersion may
    /// then stand for other content, and permanent refusals belong to the history that was lost.
    pub fn has_gone_back(&mut self) -> bool {
        let went_back = self.lists.take_went_back();
        if went_back {
            self.secrets.values_mut().for_each(|secret| secret.content = None);
            for resource in self.resources.values_mut() {
                resource.backoff.take_if(|backoff| backoff.retry_at.is_none());
                resource.secret_hash = None;
                resource.children.values_mut().for_each(ChildState::on_versions_gone_back);
            }
        }
        went_back
    }

    /// An event showed a resource. Returns whether that was news.
    pub fn see_resource(&mut self, seen: SeenResource) -> bool {
        let answered = self.resources.get(&seen.key).map(|known| known.answered).unwrap_or_default();
        let authority = self.lists.note(Watched::Memcached, &seen.key, answered);
        self.store_resource(seen, authority)
    }

    /// The answer to a write of the status showed a resource. A list that is under way and lacks the resource is right all the
    /// same: no other resource ever gets this uid, so this one was deleted after the write. No later event would tell of that.
    pub fn see_answered_resource(&mut self, seen: SeenResource) {
        self.store_resource(seen, Authority::Watch);
    }

    fn store_resource(&mut self, seen: SeenResource, authority: Authority) -> bool {
        let key = seen.key.clone();
        let after = secret_names(&seen);
        let known = self.resources.get(&key);
        let before = known.map(|known| secret_names(&known.seen)).unwrap_or_default();
        let older = |known: &Resource| seen.resource_version.is_older_than(&known.seen.resource_version);
        let goes_back = authority == Authority::List && known.is_some_and(|known| older(known));
        if goes_back {
            self.lists.go_back(Watched::Memcached, &key);
        }
        // For known resources our own state wins: the watch may still show what this operator wrote before.
        if known.is_none_or(|known| known.seen.uid != seen.uid) {
            self.rollout_budget.restore(&key, &seen.status);
        }
        match self.resources.get_mut(&key) {
            Some(known) if seen.uid == known.seen.uid => {
                if older(known) && !goes_back {
                    return false;
                }
                let is_another = known.seen.resource_version != seen.resource_version;
                let may_write_again = is_another && known.backoff.take().is_some();
                // A version alone is no news, unless a write waited for another one.
                known.seen.resource_version.clone_from(&seen.resource_version);
                let news = may_write_again || known.seen != seen;
                let same = known.seen.spec == seen.spec && known.seen.restart_trigger == seen.restart_trigger;
                known.rendered_hashes.take_if(|_| !same);
                let before = std::mem::replace(&mut known.seen, seen);
                known.forget_answers_of_before(&before.status);
                if !same {
                    known.note_edit(before);
                }
                if !news {
                    return false;
                }
            }
            Some(known) => {
                let mut fresh = Resource::new(seen);
                for (kind, child) in known.children.take() {
                    *fresh.child_mut(kind) = child.for_another_incarnation();
                }
                **known = fresh;
            }
            None => {
                let mut fresh = Resource::new(seen);
                for kind in self.left_behind.take(&key) {
                    fresh.child_mut(kind).must_read = true;
                }
                self.resources.insert(key.clone(), Box::new(fresh));
            }
        }
        self.rename_secrets(&key, &before, &after);
        true
    }

    /// Moves a resource from the users of the Secrets `before` to those of `after`.
    fn rename_secrets(&mut self, resource: &Key, before: &[Key], after: &[Key]) {
        for name in after {
            self.secrets.entry(name.clone()).or_default().users.insert(resource.clone());
        }
        for name in before.iter().filter(|name| !after.contains(name)) {
            if let Some(secret) = self.secrets.get_mut(name) {
                secret.users.remove(resource);
                if secret.users.is_empty() {
                    self.secrets.remove(name);
                }
            }
        }
    }

    /// A child was seen. Returns its resource if that is news. Children without a resource are not kept: resources are
    /// listed before everything else.
    pub fn see_child(&mut self, seen: SeenChild, now: Timestamp) -> Option<Key> {
        let kind = Watched::Child(seen.kind);
        let resource = self.resources.get_mut(&seen.key);
        let answered = resource.as_ref().map(|resource| resource.child(seen.kind).answered);
        let authority = self.lists.note(kind, &seen.key, answered.unwrap_or_default());
        let Some(resource) = resource else {
            self.left_behind.note(&seen);
            return None;
        };
        // If a list is the first to show a StatefulSet, the list of pods tells which pods it lacks.
        let is_known = authority == Authority::Watch || resource.live(ChildKind::StatefulSet).is_some();
        let expects = (seen.kind == ChildKind::StatefulSet && is_known)
            .then(|| (seen.key.clone(), resource.asked_pods()));
        let child = resource.child_mut(seen.kind);
        let is_news = match authority {
            Authority::Watch => child.store_from_watch(seen),
            Authority::EarlierList => child.store_from_earlier_list(seen),
            Authority::List => {
                if child.is_ahead_of(&seen) {
                    self.lists.go_back(kind, &seen.key);
                }
                child.store_as_truth(seen)
            }
        };
        let news = is_news.then(|| resource.seen.key.clone());
        if let Some((key, asked_before)) = expects {
            self.expect_pods(&key, asked_before, now);
        }
        news
    }

    /// A child was read; `known` is what was known when the request left. If nothing was learned in between, the answer
    /// is the truth, whatever was known.
    pub fn find_child(&mut self, seen: SeenChild, known: &KnownVersions) {
        let Some(resource) = self.resources.get_mut(&seen.key) else { return };
        let child = resource.child_mut(seen.kind);
        child.answered = self.lists.now();
        if child.known_versions() != *known {
            child.store_from_read(seen);
        } else {
            if child.is_ahead_of(&seen) {
                self.lists.go_back(Watched::Child(seen.kind), &seen.key);
            }
            // A pass reads a child to see the whole object. It may have dropped the object at the very version that is known.
            child.doubtful |= !child.is_open();
            child.store_as_truth(seen);
        }
        child.read_if_deleted_meanwhile();
    }

    /// See [`Resource::recheck_later`].
    pub fn recheck_later(&mut self, key: &Key, kind: ChildKind, now: Timestamp) {
        if let Some(resource) = self.resources.get_mut(key) {
            resource.recheck_later(kind, now);
        }
    }

    /// A Secret exists in this version. Returns the resources that use it.
    pub fn see_secret(&mut self, seen: SeenSecret) -> BTreeSet<Key> {
        let SeenSecret { key, uid, resource_version } = seen;
        let answered = self.secrets.get(&key).map(|secret| secret.answered).unwrap_or_default();
        let authority = self.lists.note(Watched::Secret, &key, answered);
        let Some(secret) = self.secrets.get_mut(&key) else { return BTreeSet::new() };
        let is_older = matches!(&secret.presence, Presence::Present(known, version)
            if *known == uid && resource_version.is_older_than(version));
        let seen = Presence::Present(uid, resource_version);
        if secret.presence == seen || (is_older && authority != Authority::List) {
            return BTreeSet::new();
        }
        if is_older {
            self.lists.go_back(Watched::Secret, &key);
        }
        secret.presence = seen;
        secret.backoff = None;
        secret.users.clone()
    }

    /// A pod was seen. Returns its resource, if what is noted of it is news.
    pub fn see_pod(&mut self, seen: SeenPod, now: Timestamp) -> Option<Key> {
        let authority = self.lists.note(Watched::Pod, &seen.key, Moment::default());
        let news = match self.in_the_way_of(&seen) {
            Some(resource) => self.pods.see_in_the_way(seen.key, resource, now),
            None => self.pods.see(seen, authority, now),
        };
        news.filter(|resource| self.resources.contains_key(resource))
    }

    /// The resource whose StatefulSet cannot make a pod, because this one of somebody else has its name: by the labels it seems to be
    /// that pod, or it was taken out of the StatefulSet by other ones.
    fn in_the_way_of(&self, seen: &SeenPod) -> Option<Key> {
        let (name, number) = seen.key.name.rsplit_once('-').filter(|_| seen.revision.is_none())?;
        let number: i32 = number.parse().ok()?;
        let resource = Key { namespace: seen.key.namespace.clone(), name: name.to_owned() };
        let is_asked_for = || self.resources.get(&resource).is_some_and(|it| number < it.asked_pods());
        // By its labels: the StatefulSet may not be listed yet.
        (name == seen.instance || is_asked_for()).then_some(resource)
    }

    /// Notes the pods that a StatefulSet asks for now, beyond so many as before, and that it has not made.
    pub fn expect_pods(&mut self, resource: &Key, asked_before: i32, now: Timestamp) {
        let Some(known) = self.resources.get(resource) else { return };
        let rollout = known.live(ChildKind::StatefulSet).and_then(|live| live.rollout.as_ref());
        let made = rollout.map_or(0, |it| it.replicas);
        let asked = ExpectedPods { known: asked_before.max(made), all: known.asked_pods() };
        self.pods.expect(resource, asked, now);
    }

    /// An object was deleted. Returns the affected resources, which include a deleted resource itself.
    pub fn gone(&mut self, kind: Watched, key: &Key, now: Timestamp) -> BTreeSet<Key> {
        match kind {
            Watched::Memcached => {
                let Some(resource) = self.resources.remove(key) else { return BTreeSet::new() };
                self.pods.forget_missing(key);
                self.rename_secrets(key, &secret_names(&resource.seen), &[]);
                self.rollout_budget.forget(key);
                for (kind, _) in resource.children.iter().filter(|(_, child)| child.may_hold_orphan()) {
                    self.left_behind.insert(kind, key.clone());
                }
                BTreeSet::from([key.clone()])
            }
            Watched::Child(kind) => {
                self.left_behind.forget(kind, key);
                let child = self.resources.get_mut(key).map(|resource| resource.child_mut(kind));
                child.and_then(ChildState::mark_deleted).map(|_: Live| key.clone()).into_iter().collect()
            }
            Watched::Secret => match self.secrets.get_mut(key) {
                Some(secret) if secret.presence != Presence::Absent => {
                    secret.presence = Presence::Absent;
                    secret.backoff = None;
                    secret.users.clone()
                }
                _ => BTreeSet::new(),
            },
            Watched::Pod => {
                let asked = |resource: &Key| Some(self.resources.get(resource)?.asked_pods());
                self.pods.end(key, asked, now).into_iter().collect()
            }
        }
    }

    /// The resources in a namespace.
    pub fn resources_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Key> {
        let first = Key { namespace: namespace.to_owned(), name: String::new() };
        self.resources.range(first..).map(|(key, _)| key).take_while(move |key| key.namespace == namespace)
    }
}

#[cfg(test)]
mod tests {
    use kube_core::DynamicObject;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::kernel::backoff::{Attempt, Backoff};
    use crate::kernel::failure::{Category, Failure};
    use crate::kernel::seen;

    fn resource(version: &str) -> SeenResource {
        let object: DynamicObject = serde_json::from_value(json!({
            "metadata": {"namespace": "n", "name": "x", "uid": "u", "resourceVersion": version, "generation": 1},
            "spec": {},
        }))
        .unwrap();
        seen::resource(&object).unwrap()
    }

    /// The StatefulSet asks for one pod. A pod that has another name for its cache was taken out of the StatefulSet by hand.
    #[rstest]
    #[case::with_the_labels_of_the_cache("x")]
    #[case::with_other_labels("x-debug")]
    fn a_pod_of_somebody_else_takes_the_name_of_a_named_pod_and_that_is_known_to_be_missing(
        #[case] instance: &str,
    ) {
        let mut world = World::default();
        world.see_resource(resource("1"));
        let metadata =
            |name: &str| json!({"namespace": "n", "name": name, "uid": name, "resourceVersion": "1"});
        let set = json!({"metadata": metadata("x"), "spec": {"replicas": 1}});
        let set = seen::child(ChildKind::StatefulSet, &serde_json::from_value(set).unwrap()).unwrap();
        // Of what a list shows first, the list of pods says what is missing.
        world.lists.begin(Watched::Child(ChildKind::StatefulSet), Scope::All);
        world.see_child(set, Timestamp::UNIX_EPOCH);
        let pod = |name: &str, instance: &str, owners: Value| {
            let mut pod = json!({"metadata": metadata(name), "status": {"phase": "Running"}});
            pod["metadata"]["labels"] =
                json!({"app.kubernetes.io/instance": instance, "controller-revision-hash": "x-1"});
            pod["metadata"]["ownerReferences"] = owners;
            seen::pod(&serde_json::from_value(pod).unwrap()).unwrap()
        };
        let of_set = json!([
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "x", "uid": "x", "controller": true}
        ]);
        let missing = |world: &World| world.pods.missing_of(&resource("1").key).count();
        let of_somebody_else = |name: &str| pod(name, instance, json!([]));
        // A list shows it as well as an event does.
        world.lists.begin(Watched::Pod, Scope::All);
        let news = world.see_pod(of_somebody_else("x-0"), Timestamp::UNIX_EPOCH);
        assert_eq!((news, missing(&world)), (Some(resource("1").key), 1));
        assert_eq!(world.see_pod(of_somebody_else("x-0"), Timestamp::UNIX_EPOCH), None, "no news");
        world.see_pod(of_somebody_else("x-7d4b9c6f5-24689"), Timestamp::UNIX_EPOCH);
        assert_eq!(missing(&world), 1, "a Deployment's pod has nobody's name");
        world.see_pod(pod("x-0", "x", of_set), Timestamp::UNIX_EPOCH);
        assert_eq!(missing(&world), 0);
    }

    #[test]
    fn another_version_of_a_resource_is_news_only_where_a_write_of_its_status_waits_for_it() {
        let mut world = World::default();
        assert!(world.see_resource(resource("1")));
        assert!(!world.see_resource(resource("2")));
        let failure = Failure { category: Category::Conflict, message: String::new() };
        let refused = Backoff { failure, attempts: 1, races: 0, retry_at: None, sent: Attempt::default() };
        let known = |world: &mut World| world.resources.values_mut().next().unwrap().backoff.take();
        for resource in world.resources.values_mut() {
            resource.backoff = Some(Box::new(refused.clone()));
        }
        assert!(world.see_resource(resource("3")));
        assert_eq!(known(&mut world), None);
        assert!(!world.see_resource(resource("4")));
    }
}
