//! A model API server with one resource, its children and one Secret, a Deployment controller and a garbage
//! collector. It keeps the rules that the kernel relies on: uids, resourceVersions, generations, create-only
//! applies, and watches that deliver in order per kind and late.

mod agents;
mod checks;
mod controllers;
mod disasters;
mod objects;
mod others;
mod requests;
mod rollouts;
mod specs;
mod stages;
mod stateful_sets;
mod users;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(crate) use agents::Agent;
use disasters::Backup;
use jiff::Timestamp;
use memcached_operator_core::kernel::event::{Event, SeenChild, SeenResource, SeenSecret};
use memcached_operator_core::kernel::object::{ChildKind, Key, ResourceVersion, Uid, Watched};
pub(crate) use objects::{Cluster, merged};
use objects::{is_labelled, template};
pub(crate) use requests::BARRED;
use serde_json::Value;
pub(crate) use specs::{
    NAMED, NAMED_AND_SCALED, NAMED_WITH_SECRET, NEVER_SERVES, SCALED, TWO_NAMED, VARIANTS, WARM,
};
pub(crate) use stages::{LACKING, REFUSED, Report};
use stateful_sets::keeps_all_pods;

pub(crate) const NAME: &str = "cache";
const SECRET: &str = "credentials";

/// Where the resource is, and the Secret.
pub(crate) const NAMESPACE: &str = "sim";

fn key(name: &str) -> Key {
    Key { namespace: NAMESPACE.into(), name: name.into() }
}

pub(crate) struct Model {
    /// Of the resource and its children.
    key: Key,
    version: u64,
    /// How often etcd was restored.
    pub(crate) history: u64,
    /// What tells the versions of this history from those of the ones before it.
    pub(crate) salt: u64,
    /// How many objects there ever were: a uid is not given out a second time.
    born: u64,
    resource: Option<SeenResource>,
    children: BTreeMap<ChildKind, SeenChild>,
    secret: Option<(SeenSecret, u8)>,
    watches: BTreeMap<Watched, VecDeque<Event>>,
    /// The kinds whose watch hears of nothing.
    cut: BTreeSet<Watched>,
    backup: Option<Box<Backup>>,
    /// Whether the operator may do anything.
    pub(crate) has_role: bool,
    /// The kinds that it does not serve.
    pub(crate) unserved: BTreeSet<ChildKind>,
    /// What it makes of what is applied.
    cluster: Cluster,
    /// The workloads whose pod template, as it was stored last, is another one than the applied.
    rewritten_templates: BTreeSet<ChildKind>,
    /// The pod template that was asked for last of each kind, as it was written.
    asked_templates: BTreeMap<ChildKind, Value>,
    /// Whether a cluster that rewrites, or that no longer does, changed a live template with an apply that asked for the same
    /// one as before, and no rollout was told of since.
    pub(crate) template_was_rewritten: bool,
    /// Whether a definition that does not know `workload` was applied, which no edit asked for.
    has_lost_workload: bool,
    /// Which version it has.
    release: u8,
    /// Pod templates that replaced another one on a live Deployment.
    pub(crate) rollouts: usize,
    /// Rollouts that happened, and that a restore took back.
    pub(crate) undone: usize,
    /// Things that somebody did which may make pods roll.
    pub(crate) causes: usize,
    /// Whether the Secret is kept by another model, and there.
    pub(crate) finds_secret_elsewhere: bool,
    /// Whether the definition is an older one, which knows neither `memcached` nor the newest fields of the status.
    older: bool,
    /// Whether its pods were replaced last because the cluster rewrote a template that was applied as it stood.
    pub(crate) rolls_by_rewriter: bool,
    /// The resource as it is stored, while the older definition hides a part of it.
    unpruned: Option<SeenResource>,
    /// Whether somebody else's Service ever had the name: what the operator then sends of it may arrive when it is gone.
    had_foreign_service: bool,
    /// What the agents of the pods answer; those that are not named take everything.
    pub(crate) agents: Vec<Agent>,
    /// Whether the operator judges the content of Secrets. Earlier releases did not.
    pub(crate) judges: bool,
    /// The pods of its StatefulSet.
    named: stateful_sets::NamedPods,
    /// What the clock says.
    pub(crate) now: Timestamp,
}

/// When a simulation begins.
pub(crate) const START: Timestamp = Timestamp::constant(1_800_000_000, 0);

impl Default for Model {
    fn default() -> Self {
        Self::new(NAMESPACE, NAME)
    }
}

impl Model {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self {
            key: Key { namespace: namespace.to_owned(), name: name.to_owned() },
            version: 0,
            history: 0,
            salt: 0,
            born: 0,
            resource: None,
            children: BTreeMap::new(),
            secret: None,
            watches: BTreeMap::new(),
            cut: BTreeSet::new(),
            backup: None,
            has_role: true,
            unserved: BTreeSet::new(),
            cluster: Cluster::default(),
            rewritten_templates: BTreeSet::new(),
            asked_templates: BTreeMap::new(),
            template_was_rewritten: false,
            has_lost_workload: false,
            release: 34,
            rollouts: 0,
            undone: 0,
            causes: 0,
            finds_secret_elsewhere: false,
            older: false,
            rolls_by_rewriter: false,
            unpruned: None,
            had_foreign_service: false,
            agents: Vec::new(),
            judges: true,
            named: stateful_sets::NamedPods::default(),
            now: START,
        }
    }

    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    pub(crate) const fn has_resource(&self) -> bool {
        self.resource.is_some()
    }

    pub(crate) fn resource(&self) -> &SeenResource {
        self.resource.as_ref().unwrap()
    }

    /// Somebody installs a webhook, or takes it away: what is applied next is another template for it, or another policy.
    pub(crate) fn become_another(&mut self, cluster: Cluster) {
        self.causes += usize::from(self.cluster.of_templates() != cluster.of_templates());
        self.cluster = cluster;
    }

    /// Whoever opens policies stops that: for as long as it goes on, pods wait. What becomes of templates is accepted.
    pub(crate) fn stop_opening_policies(&mut self) {
        if self.cluster == Cluster::OpensPolicies {
            self.become_another(Cluster::Faithful);
        }
    }

    pub(crate) fn upgrade(&mut self) {
        self.release += 1;
    }

    /// What it says of itself.
    pub(crate) fn says_version(&self) -> Event {
        Event::ServerVersion(format!("v1.{}.0", self.release))
    }

    /// The version that is given out next.
    pub(crate) fn next_version(&self) -> ResourceVersion {
        ResourceVersion::from((1_000 * (self.version + 1) + self.salt).to_string())
    }

    fn tick(&mut self) -> ResourceVersion {
        let version = self.next_version();
        self.version += 1;
        version
    }

    /// In which version an object is stored, of the kinds that have one.
    pub(crate) fn version_of(&self, kind: Watched) -> Option<&ResourceVersion> {
        match kind {
            Watched::Memcached => self.resource.as_ref().map(|it| &it.resource_version),
            Watched::Child(kind) => self.children.get(&kind).map(|it| &it.resource_version),
            Watched::Secret => self.secret.as_ref().map(|(it, _)| &it.resource_version),
            Watched::Pod => None,
        }
    }

    /// When the last object was created: they come a second apart.
    fn age(&self) -> Option<Timestamp> {
        Timestamp::from_second(i64::try_from(self.born).ok()?).ok()
    }

    fn uid(&mut self, what: &str) -> Uid {
        self.born += 1;
        Uid::from(format!("{what}-{}", self.born))
    }

    fn tell(&mut self, kind: Watched, event: Event) {
        if !self.cut.contains(&kind) {
            self.watches.entry(kind).or_default().push_back(event);
        }
    }

    /// The next event of the `at`-th watch that has one.
    pub(crate) fn next_event(&mut self, at: usize) -> Option<Event> {
        let mut waiting: Vec<_> = self.watches.values_mut().filter(|events| !events.is_empty()).collect();
        let at = at.checked_rem(waiting.len())?;
        waiting[at].pop_front()
    }

    /// The next event of one watch.
    pub(crate) fn next_event_of(&mut self, kind: Watched) -> Option<Event> {
        self.watches.get_mut(&kind)?.pop_front()
    }

    /// A complete list of a kind; events that wait on its watch are contained in it.
    pub(crate) fn list(&mut self, kind: Watched) -> Vec<Event> {
        self.watches.remove(&kind);
        self.cut.remove(&kind);
        self.listed(kind)
    }

    /// What a list of a kind shows.
    pub(crate) fn listed(&self, kind: Watched) -> Vec<Event> {
        match kind {
            Watched::Memcached => {
                self.resource.iter().map(|it| Event::Resource(Box::new(it.clone()))).collect()
            }
            Watched::Child(kind) => {
                let labelled = self.children.get(&kind).filter(|child| is_labelled(child));
                labelled.map(|it| Event::Child(Box::new(it.clone()))).into_iter().collect()
            }
            Watched::Secret => self.secret.iter().map(|(it, _)| Event::Secret(it.clone())).collect(),
            Watched::Pod => self.list_pods(),
        }
    }

    fn store_resource(&mut self, mut resource: SeenResource) -> SeenResource {
        resource.resource_version = self.tick();
        self.unpruned = None;
        self.tell(Watched::Memcached, Event::Resource(Box::new(resource.clone())));
        self.resource = Some(resource.clone());
        resource
    }

    /// The kinds of the children that there are.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = ChildKind> {
        self.children.keys().copied()
    }

    /// The incarnations of the children.
    pub(crate) fn uids(&self) -> Vec<Uid> {
        self.children.values().map(|child| child.uid.clone()).collect()
    }

    fn change_child(&mut self, kind: ChildKind, change: impl FnOnce(&mut SeenChild)) {
        if let Some(mut child) = self.children.get(&kind).cloned() {
            let before = child.clone();
            change(&mut child);
            if child == before {
                return;
            }
            self.rollouts += usize::from(template(&before) != template(&child) && !keeps_all_pods(&child));
            let meant = |it: &SeenChild| {
                let content = it.content.parse();
                (content["spec"].clone(), content["metadata"]["annotations"].clone())
            };
            child.generation += i64::from(meant(&before) != meant(&child));
            child.resource_version = self.tick();
            self.put(kind, Some(child));
        }
    }

    /// Stores a child, or takes it away, and tells what a watch by label does: what loses its label is gone for it.
    fn put(&mut self, kind: ChildKind, child: Option<SeenChild>) {
        let before = match child.clone() {
            Some(child) => self.children.insert(kind, child),
            None => self.children.remove(&kind),
        };
        let watched = Watched::Child(kind);
        if let Some(child) = child.filter(is_labelled) {
            self.tell(watched, Event::Child(Box::new(child)));
        } else if before.is_some_and(|before| is_labelled(&before)) {
            self.tell(watched, Event::Gone { kind: watched, key: self.key.clone() });
        }
    }

    pub(crate) fn delete_child(&mut self, kind: ChildKind) {
        if self.children.contains_key(&kind) {
            self.tick();
            self.put(kind, None);
        }
    }
}
