//! All that the operator knows: a fold over events. Pure; owned by the kernel, read by the pass.
//!
//! An object is kept only until a pass has compared it with what it should be; what stays is the verdict and a
//! few facts, a few hundred bytes a resource.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::event::{SecretContent, SeenChild, SeenPod, SeenResource, SeenSecret, Unavailable};
use super::figures::Figures;
use super::live::{Live, Slot};
use super::object::{ChildKind, Key, ResourceVersion, Scope, Uid, Watched};
use super::outline::Outline;
use super::rollouts::Rollouts;
use super::setback::Setback;
use crate::api::{MemcachedSpec, MemcachedStatus};

/// Everything known.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct World {
    /// The resources.
    pub resources: BTreeMap<Key, Resource>,
    /// The Secrets that resources name; until the first complete list of resources, all Secrets.
    pub secrets: BTreeMap<Key, Secret>,
    /// Why pods are not running, by pod; pods without a problem are not kept.
    pub pods: BTreeMap<Key, SeenPod>,
    /// Who may roll pods that nobody's edit asked to roll.
    pub rollouts: Rollouts,
    /// Children that came before their resource, until the first complete list of resources.
    early: Vec<SeenChild>,
    /// The lists that are under way: what each has named so far.
    listing: Vec<(Watched, Scope, BTreeSet<Key>)>,
    /// The lists that have been complete at least once.
    listed: BTreeSet<(Watched, Scope)>,
    /// The kinds of children that cannot be dealt with.
    unavailable: Vec<(ChildKind, Scope, Unavailable)>,
}

/// One resource, and what is known of its children.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Resource {
    /// As seen last, with the status that we know to be there.
    pub seen: SeenResource,
    /// The places of its children, as far as something was seen or tried there.
    slots: BTreeMap<ChildKind, Slot>,
    /// What its children are to be, by hash.
    #[serde(skip)]
    pub outline: Option<Outline>,
    /// The Secret hash that was computed or found on the live template: kept while a Secret is missing or
    /// unreadable, so that no pod rolls.
    pub secret_hash: Option<String>,
    /// Why the last status write, or the last pass, failed.
    pub setback: Option<Setback>,
    /// A status that the API server did not store as it was sent (an older CRD drops fields it does not know),
    /// and what it stored: writing it again would change nothing, for ever.
    pub unstorable: Option<Box<(MemcachedStatus, MemcachedStatus)>>,
    /// What the metrics show.
    pub reported: Option<Figures>,
}

impl Resource {
    fn new(seen: SeenResource) -> Self {
        Self {
            seen,
            slots: BTreeMap::new(),
            outline: None,
            secret_hash: None,
            setback: None,
            unstorable: None,
            reported: None,
        }
    }

    /// The place of a child.
    #[must_use]
    pub fn slot(&self, kind: ChildKind) -> &Slot {
        /// A place where nothing was seen.
        static EMPTY: LazyLock<Slot> = LazyLock::new(Slot::default);
        self.slots.get(&kind).unwrap_or(&EMPTY)
    }

    /// What sits at the place of a child.
    #[must_use]
    pub fn live(&self, kind: ChildKind) -> Option<&Live> {
        self.slot(kind).live.as_ref()
    }

    /// Whether a child still has to be compared.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.slots.values().any(Slot::is_open)
    }

    /// The place of a child, to change it.
    pub fn slot_mut(&mut self, kind: ChildKind) -> &mut Slot {
        self.slots.entry(kind).or_default()
    }
}

/// A Secret that some resource names.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Secret {
    /// Whether it exists.
    pub presence: Presence,
    /// What it held when it was read last in this run.
    pub content: Option<SecretContent>,
    /// Why it could not be read.
    pub setback: Option<Setback>,
    /// The resources that name it.
    pub users: BTreeSet<Key>,
}

/// Whether an object exists: unknown is never taken for absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Presence {
    /// Nobody looked yet.
    #[default]
    Unknown,
    /// It does not.
    Absent,
    /// In this version.
    Present(Uid, ResourceVersion),
}

impl World {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(rollouts: Rollouts) -> Self {
        Self { rollouts, ..Self::default() }
    }

    /// Whether enough is known of some namespace to act there.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        let resources = self.listed.iter().filter(|(kind, _)| *kind == Watched::Memcached);
        resources
            .map(|(_, scope)| scope)
            .any(|scope| Watched::ALL.iter().all(|kind| self.is_known(*kind, |other| other == scope)))
    }

    /// Whether of every kind it is known what there is in a namespace, or, where a resource can do without, that this
    /// cannot be known: before that, absence means nothing and nothing is written.
    #[must_use]
    pub fn is_synced_in(&self, namespace: &str) -> bool {
        Watched::ALL.iter().all(|kind| self.is_known(*kind, |scope| scope.includes(namespace)))
    }

    fn is_known(&self, kind: Watched, there: impl Fn(&Scope) -> bool) -> bool {
        let unavailable = |(other, scope, _): &(ChildKind, Scope, Unavailable)| {
            !kind.is_required() && Watched::Child(*other) == kind && there(scope)
        };
        self.listed.iter().any(|(listed, scope)| *listed == kind && there(scope))
            || self.unavailable.iter().any(unavailable)
    }

    /// Whether all resources of a namespace have been seen.
    fn knows_resources(&self, namespace: &str) -> bool {
        self.is_known(Watched::Memcached, |scope| scope.includes(namespace))
    }

    /// Why a kind of child cannot be dealt with in a namespace, if so.
    #[must_use]
    pub fn unavailable(&self, kind: ChildKind, namespace: &str) -> Option<&Unavailable> {
        let found =
            self.unavailable.iter().find(|(other, scope, _)| *other == kind && scope.includes(namespace));
        found.map(|(_, _, why)| why)
    }

    /// A kind of child cannot be dealt with. Returns the resources concerned: all there, because each has to say so if it
    /// asks for one.
    pub fn lose_kind(&mut self, kind: ChildKind, scope: Scope, why: Unavailable) -> BTreeSet<Key> {
        let known = self.unavailable.iter().position(|(other, there, _)| (*other, there) == (kind, &scope));
        if known.is_some_and(|at| self.unavailable[at].2 == why) {
            return BTreeSet::new();
        }
        let there = self.resources.iter_mut().filter(|(key, _)| scope.includes(&key.namespace));
        let mut concerned = BTreeSet::new();
        for (key, resource) in there {
            if why == Unavailable::NotServed {
                resource.slots.remove(&kind);
            }
            concerned.insert(key.clone());
        }
        match known {
            Some(at) => self.unavailable[at].2 = why,
            None => self.unavailable.push((kind, scope, why)),
        }
        concerned
    }

    /// A list begins.
    pub fn begin_list(&mut self, kind: Watched, scope: Scope) {
        self.listing.retain(|(other, there, _)| (*other, there) != (kind, &scope));
        self.listing.push((kind, scope, BTreeSet::new()));
    }

    /// A list is complete; whatever it lacked is gone. Returns the resources concerned.
    pub fn end_list(&mut self, kind: Watched, scope: Scope) -> BTreeSet<Key> {
        let Some(at) = self.listing.iter().position(|(other, there, _)| (*other, there) == (kind, &scope))
        else {
            return BTreeSet::new();
        };
        let (_, _, named) = self.listing.swap_remove(at);
        let known: Vec<Key> = match kind {
            Watched::Memcached => self.resources.keys().cloned().collect(),
            Watched::Child(kind) => self
                .resources
                .iter()
                .filter(|(_, it)| it.live(kind).is_some())
                .map(|(key, _)| key.clone())
                .collect(),
            Watched::Secret => self.secrets.keys().cloned().collect(),
            Watched::Pod => self.pods.keys().cloned().collect(),
        };
        let here = |key: &Key| scope.includes(&key.namespace);
        let gone = known.iter().filter(|key| here(key) && !named.contains(key));
        let mut dirty: BTreeSet<Key> = gone.flat_map(|key| self.gone(kind, key)).collect();
        let lost = |(other, there, _): &(ChildKind, Scope, Unavailable)| {
            Watched::Child(*other) == kind && *there == scope
        };
        if let Some(at) = self.unavailable.iter().position(lost) {
            self.unavailable.swap_remove(at);
            dirty.extend(self.resources.keys().filter(|key| here(key)).cloned());
        }
        if kind == Watched::Memcached {
            self.rollouts.saw(&scope);
            self.early.retain(|child| !here(&child.key));
            self.secrets.retain(|key, secret| !here(key) || !secret.users.is_empty());
        }
        self.listed.insert((kind, scope));
        dirty
    }

    fn note_listed(&mut self, kind: Watched, key: &Key) {
        let covers = |(other, scope, _): &&mut (Watched, Scope, BTreeSet<Key>)| {
            *other == kind && scope.includes(&key.namespace)
        };
        if let Some((_, _, named)) = self.listing.iter_mut().find(covers) {
            named.insert(key.clone());
        }
    }

    /// A resource was seen. Returns whether that was news.
    pub fn see_resource(&mut self, seen: SeenResource) -> bool {
        let key = seen.key.clone();
        self.note_listed(Watched::Memcached, &key);
        let after = secret_names(&seen);
        let before = self.resources.get(&key).map(|known| secret_names(&known.seen)).unwrap_or_default();
        // Of one that is known, this operator decides, and what it wrote may come back late.
        if self.resources.get(&key).is_none_or(|known| known.seen.uid != seen.uid) {
            self.rollouts.restore(&key, seen.status.budgeted_rollout);
        }
        match self.resources.get_mut(&key) {
            Some(known) if seen.uid == known.seen.uid => {
                if seen.resource_version.is_older_than(&known.seen.resource_version) {
                    return false;
                }
                let news = known.seen != seen;
                known.setback.take_if(|_| known.seen.resource_version != seen.resource_version);
                let same = known.seen.spec == seen.spec && known.seen.restart_trigger == seen.restart_trigger;
                known.outline.take_if(|_| !same);
                known.seen = seen;
                if !news {
                    return false;
                }
            }
            Some(known) => {
                // Another incarnation: what is known of the children stays true, what was decided does not.
                let mut fresh = Resource::new(seen);
                for (kind, slot) in std::mem::take(&mut known.slots) {
                    fresh.slot_mut(kind).live = slot.live;
                }
                *known = fresh;
            }
            None => {
                let mut fresh = Resource::new(seen);
                for child in self.early.extract_if(.., |child| child.key == key) {
                    fresh.slot_mut(child.kind).see(child);
                }
                self.resources.insert(key.clone(), fresh);
            }
        }
        self.rename_secrets(&key, &before, &after);
        true
    }

    /// A resource that named the Secrets `before` names `after`.
    fn rename_secrets(&mut self, resource: &Key, before: &[Key], after: &[Key]) {
        for name in after {
            self.secrets.entry(name.clone()).or_default().users.insert(resource.clone());
        }
        let resources_known = self.knows_resources(&resource.namespace);
        for name in before.iter().filter(|name| !after.contains(name)) {
            if let Some(secret) = self.secrets.get_mut(name) {
                secret.users.remove(resource);
                if secret.users.is_empty() && resources_known {
                    self.secrets.remove(name);
                }
            }
        }
    }

    /// A child was seen. Returns the resource concerned, if that was news to one.
    pub fn see_child(&mut self, seen: SeenChild) -> Option<Key> {
        let key = seen.key.clone();
        self.note_listed(Watched::Child(seen.kind), &key);
        let resources_known = self.knows_resources(&key.namespace);
        let Some(resource) = self.resources.get_mut(&key) else {
            if !resources_known {
                self.early.retain(|child| (child.kind, &child.key) != (seen.kind, &seen.key));
                self.early.push(seen);
            }
            return None;
        };
        resource.slot_mut(seen.kind).see(seen).then_some(key)
    }

    /// A Secret exists in this version. Returns the resources that use it.
    pub fn see_secret(&mut self, seen: SeenSecret) -> BTreeSet<Key> {
        let SeenSecret { key, uid, resource_version } = seen;
        self.note_listed(Watched::Secret, &key);
        if !self.knows_resources(&key.namespace) {
            self.secrets.entry(key.clone()).or_default();
        }
        let Some(secret) = self.secrets.get_mut(&key) else { return BTreeSet::new() };
        let stale = matches!(&secret.presence, Presence::Present(known, version)
            if *known == uid && resource_version.is_older_than(version));
        let seen = Presence::Present(uid, resource_version);
        if stale || secret.presence == seen {
            return BTreeSet::new();
        }
        secret.presence = seen;
        secret.setback = None;
        secret.users.clone()
    }

    /// A pod was seen. Returns its resource, if its problem is news.
    pub fn see_pod(&mut self, seen: SeenPod) -> Option<Key> {
        self.note_listed(Watched::Pod, &seen.key);
        let resource = Key { namespace: seen.key.namespace.clone(), name: seen.instance.clone() };
        let key = seen.key.clone();
        let problem = seen.problem.clone();
        let before = if problem.is_some() { self.pods.insert(key, seen) } else { self.pods.remove(&key) };
        (before.and_then(|pod| pod.problem) != problem && self.resources.contains_key(&resource))
            .then_some(resource)
    }

    /// An object is gone. Returns the resources concerned; a resource that is gone itself is one of them.
    pub fn gone(&mut self, kind: Watched, key: &Key) -> BTreeSet<Key> {
        match kind {
            Watched::Memcached => {
                let Some(resource) = self.resources.remove(key) else { return BTreeSet::new() };
                self.rename_secrets(key, &secret_names(&resource.seen), &[]);
                self.rollouts.forget(key);
                BTreeSet::from([key.clone()])
            }
            Watched::Child(kind) => {
                self.early.retain(|child| (child.kind, &child.key) != (kind, key));
                let slot = self.resources.get_mut(key).map(|resource| resource.slot_mut(kind));
                slot.and_then(Slot::lose).map(|_: Live| key.clone()).into_iter().collect()
            }
            Watched::Secret => match self.secrets.get_mut(key) {
                Some(secret) if secret.presence != Presence::Absent => {
                    secret.presence = Presence::Absent;
                    secret.setback = None;
                    secret.users.clone()
                }
                _ => BTreeSet::new(),
            },
            Watched::Pod => {
                let pod = self.pods.remove(key);
                let resource = pod.map(|pod| Key { namespace: key.namespace.clone(), name: pod.instance });
                resource.filter(|resource| self.resources.contains_key(resource)).into_iter().collect()
            }
        }
    }

    /// Why the worst of a resource's pods is not running; of equals the first by name.
    #[must_use]
    pub fn pod_problem(&self, resource: &Key) -> Option<&str> {
        let first = Key { namespace: resource.namespace.clone(), name: String::new() };
        self.pods
            .range(first..)
            .take_while(|(key, _)| key.namespace == resource.namespace)
            .filter(|(_, pod)| pod.instance == resource.name)
            .filter_map(|(_, pod)| pod.problem.as_deref())
            .next()
    }
}

/// The Secrets that a resource names in a feature that is on.
#[must_use]
pub fn secret_names(seen: &SeenResource) -> Vec<Key> {
    let Ok(MemcachedSpec { security: Some(security), .. }) = &seen.spec else { return Vec::new() };
    let sasl = security.sasl.as_ref().filter(|sasl| sasl.enabled == Some(true));
    let tls = security.tls.as_ref().filter(|tls| tls.enabled == Some(true));
    let references = [
        sasl.and_then(|sasl| sasl.credentials_secret_ref.as_ref()),
        tls.and_then(|tls| tls.certificate_secret_ref.as_ref()),
    ];
    let names = references.into_iter().filter_map(|reference| reference?.name.clone());
    names.map(|name| Key { namespace: seen.key.namespace.clone(), name }).collect()
}
