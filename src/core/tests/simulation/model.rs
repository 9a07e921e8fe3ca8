//! A model API server with one resource, its children and one Secret, a Deployment controller and a garbage
//! collector. It keeps the rules that the kernel relies on: uids, resourceVersions, generations, create-only
//! applies, and watches that deliver in order per kind and late.

mod disasters;
mod objects;
mod others;
mod rollouts;
mod specs;
mod stages;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use disasters::Backup;
use jiff::Timestamp;
use memcached_operator_core::api::MemcachedStatus;
use memcached_operator_core::kernel::diff;
use memcached_operator_core::kernel::effect::Request;
use memcached_operator_core::kernel::event::{
    Event, Reply, SecretContent, SeenChild, SeenResource, SeenRollout, SeenSecret,
};
use memcached_operator_core::kernel::failure::{Category, Failure};
use memcached_operator_core::kernel::hash;
use memcached_operator_core::kernel::object::{ChildKind, Key, ResourceVersion, Uid, Watched};
pub(crate) use objects::{Cluster, merged};
use objects::{
    applied, conflict, content, controller, edit, give_up_owner, give_up_replicas, is_labelled, owned,
    take_in, template,
};
use serde_json::{Value, json};
use specs::{spec, wanted};
pub(crate) use stages::{LACKING, Report};

pub(crate) const NAME: &str = "cache";
const SECRET: &str = "credentials";

fn key(name: &str) -> Key {
    Key { namespace: "sim".into(), name: name.into() }
}

/// What a Secret with this content says of its keys.
fn digests(content: u8, keys: &[String]) -> BTreeMap<String, String> {
    let there = keys.iter().filter(|_| content != LACKING);
    there.map(|key| (key.clone(), hash::of_bytes(&[content]))).collect()
}

pub(crate) struct Model {
    /// Of the resource and its children.
    key: Key,
    version: u64,
    /// How often etcd was restored: each history has versions of its own.
    pub(crate) history: u64,
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
    /// What it makes of what is applied.
    cluster: Cluster,
    /// Which version it has.
    release: u8,
    /// Pod templates that replaced another one on a live Deployment.
    pub(crate) rollouts: usize,
    /// Rollouts that happened, and that a restore took back.
    pub(crate) undone: usize,
    /// Things that somebody did which may make pods roll.
    pub(crate) causes: usize,
    /// Whether the definition is an older one, which knows neither `memcached` nor the newest fields of the status.
    older: bool,
}

impl Default for Model {
    fn default() -> Self {
        Self::named(NAME)
    }
}

impl Model {
    pub(crate) fn named(name: &str) -> Self {
        Self {
            key: key(name),
            version: 0,
            history: 0,
            born: 0,
            resource: None,
            children: BTreeMap::new(),
            secret: None,
            watches: BTreeMap::new(),
            cut: BTreeSet::new(),
            backup: None,
            has_role: true,
            cluster: Cluster::default(),
            release: 34,
            rollouts: 0,
            undone: 0,
            causes: 0,
            older: false,
        }
    }

    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn resource(&self) -> &SeenResource {
        self.resource.as_ref().unwrap()
    }

    /// Somebody installs a webhook, or takes it away: what is applied next is another template for it.
    pub(crate) fn become_another(&mut self, cluster: Cluster) {
        self.causes += usize::from(self.cluster != cluster);
        self.cluster = cluster;
    }

    pub(crate) fn upgrade(&mut self) {
        self.release += 1;
    }

    /// What it says of itself.
    pub(crate) fn says_version(&self) -> Event {
        Event::ServerVersion(format!("v1.{}.0", self.release))
    }

    fn tick(&mut self) -> ResourceVersion {
        self.version += 1;
        ResourceVersion((1_000 * self.version + self.history).to_string())
    }

    /// When the last object was created: they come a second apart.
    fn age(&self) -> Option<Timestamp> {
        Timestamp::from_second(i64::try_from(self.born).ok()?).ok()
    }

    fn uid(&mut self, what: &str) -> Uid {
        self.born += 1;
        Uid(format!("{what}-{}", self.born))
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

    /// A complete list of a kind; events that wait on its watch are contained in it.
    pub(crate) fn list(&mut self, kind: Watched) -> Vec<Event> {
        self.watches.remove(&kind);
        self.cut.remove(&kind);
        match kind {
            Watched::Memcached => {
                self.resource.iter().map(|it| Event::Resource(Box::new(it.clone()))).collect()
            }
            Watched::Child(kind) => {
                let labelled = self.children.get(&kind).filter(|child| is_labelled(child));
                labelled.map(|it| Event::Child(Box::new(it.clone()))).into_iter().collect()
            }
            Watched::Secret => self.secret.iter().map(|(it, _)| Event::Secret(it.clone())).collect(),
            Watched::Pod => Vec::new(),
        }
    }

    fn store_resource(&mut self, mut resource: SeenResource) -> SeenResource {
        resource.resource_version = self.tick();
        self.tell(Watched::Memcached, Event::Resource(Box::new(resource.clone())));
        self.resource = Some(resource.clone());
        resource
    }

    pub(crate) fn create_resource(&mut self) {
        if self.resource.is_some() {
            return;
        }
        self.causes += 1;
        let (version, uid) = (self.tick(), self.uid("mcd"));
        self.store_resource(SeenResource {
            key: self.key.clone(),
            uid,
            created: self.age(),
            resource_version: version,
            generation: 1,
            deleting: false,
            restart_trigger: None,
            spec: Ok(spec(0)),
            status: MemcachedStatus::default(),
        });
    }

    pub(crate) fn delete_resource(&mut self) {
        if self.resource.take().is_some() {
            self.tick();
            self.tell(Watched::Memcached, Event::Gone { kind: Watched::Memcached, key: self.key.clone() });
        }
    }

    /// `kubectl delete --cascade=orphan`: who controls the children is taken away from them.
    pub(crate) fn orphan(&mut self) {
        let Some(uid) = self.resource.as_ref().map(|resource| resource.uid.clone()) else { return };
        if !self.children.values().all(is_labelled) {
            return;
        }
        self.delete_resource();
        for kind in ChildKind::ALL {
            self.change_child(kind, |child| {
                if child.controller.as_ref().is_some_and(|owner| owner.uid == uid) {
                    give_up_owner(child);
                }
            });
        }
    }

    /// The incarnations of the children.
    pub(crate) fn uids(&self) -> Vec<Uid> {
        self.children.values().map(|child| child.uid.clone()).collect()
    }

    pub(crate) fn edit(&mut self, variant: u8) {
        if let Some(mut resource) = self.resource.clone()
            && resource.spec != Ok(spec(variant))
        {
            self.causes += 1;
            resource.spec = Ok(spec(variant));
            resource.generation += 1;
            self.store_resource(resource);
        }
    }

    pub(crate) fn trigger(&mut self, value: u8) {
        if let Some(mut resource) = self.resource.clone() {
            self.causes += 1;
            resource.restart_trigger = Some(value.to_string());
            self.store_resource(resource);
        }
    }

    pub(crate) fn set_secret(&mut self, content: Option<u8>) {
        match content {
            Some(content) => {
                let version = self.tick();
                let uid = match &self.secret {
                    Some((secret, before)) => {
                        self.causes += usize::from(*before != content);
                        secret.uid.clone()
                    }
                    None => {
                        self.causes += 1;
                        self.uid("secret")
                    }
                };
                let secret = SeenSecret { key: key(SECRET), uid, resource_version: version };
                self.secret = Some((secret.clone(), content));
                self.tell(Watched::Secret, Event::Secret(secret));
            }
            None if self.secret.take().is_some() => {
                self.tick();
                self.tell(Watched::Secret, Event::Gone { kind: Watched::Secret, key: key(SECRET) });
            }
            None => {}
        }
    }

    pub(crate) fn touch_secret(&mut self) {
        if let Some((_, content)) = &self.secret {
            self.set_secret(Some(*content));
        }
    }

    fn change_child(&mut self, kind: ChildKind, change: impl FnOnce(&mut SeenChild)) {
        if let Some(mut child) = self.children.get(&kind).cloned() {
            let before = child.clone();
            change(&mut child);
            if child == before {
                return;
            }
            self.rollouts += usize::from(template(&before) != template(&child));
            let meant =
                |it: &SeenChild| (it.content["spec"].clone(), it.content["metadata"]["annotations"].clone());
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

    pub(crate) fn tamper_template(&mut self) {
        // The tampering rolls once, and so does putting it back.
        self.causes += 2;
        let mark = self.version;
        self.change_own(ChildKind::Deployment, |child| {
            child.content["spec"]["template"]["spec"]["containers"][0]["image"] =
                json!(format!("evil:{mark}"));
        });
    }

    /// Who sets a field owns it, and we do not any more.
    pub(crate) fn take_template(&mut self) {
        self.change_child(ChildKind::Deployment, |child| {
            let ours = child.owned.as_mut().and_then(|it| it.pointer_mut("/f:spec/f:template/f:spec"));
            ours.and_then(Value::as_object_mut).map(|fields| fields.remove("f:containers"));
        });
    }

    pub(crate) fn tamper_replicas(&mut self, replicas: u8) {
        self.scale(i64::from(replicas));
    }

    /// Whoever scales owns the number.
    fn scale(&mut self, replicas: i64) {
        self.change_own(ChildKind::Deployment, |child| {
            if child.content["spec"]["replicas"] != json!(replicas) {
                child.content["spec"]["replicas"] = json!(replicas);
                give_up_replicas(child);
            }
        });
    }

    pub(crate) fn tamper_port(&mut self) {
        self.change_own(ChildKind::Service, |child| {
            // Between an eviction and the apply after it there is none.
            if let Some(port) = child.content.pointer_mut("/spec/ports/0/port") {
                *port = json!(11311);
            }
        });
    }

    fn delete_child(&mut self, kind: ChildKind) {
        if self.children.contains_key(&kind) {
            self.tick();
            self.put(kind, None);
        }
    }

    pub(crate) fn delete_service(&mut self) {
        self.delete_child(ChildKind::Service);
    }

    pub(crate) fn collect_garbage(&mut self) {
        let alive = self.resource.as_ref().map(|resource| resource.uid.clone());
        for kind in ChildKind::ALL {
            let owner = self.children.get(&kind).and_then(|child| child.controller.clone());
            if owner.is_some_and(|owner| Some(&owner.uid) != alive.as_ref()) {
                self.delete_child(kind);
            }
        }
    }

    /// The Deployment controller: observes first, then everything is rolled out.
    pub(crate) fn roll_out(&mut self) {
        self.change_own(ChildKind::Deployment, |child| {
            let wanted = i32::try_from(child.content["spec"]["replicas"].as_i64().unwrap()).unwrap();
            let done = SeenRollout {
                observed_generation: child.generation,
                replicas: wanted,
                ready: wanted,
                updated: wanted,
                available: wanted,
                ..SeenRollout::default()
            };
            let rollout = child.rollout.get_or_insert_default();
            if rollout.observed_generation < child.generation {
                rollout.observed_generation = child.generation;
                rollout.updated = 0;
            } else {
                *rollout = done;
            }
        });
    }

    /// What the cluster does by itself. Returns whether anything was left to do.
    pub(crate) fn work(&mut self) -> bool {
        let before = self.version;
        self.collect_garbage();
        self.autoscale();
        self.roll_out();
        self.version != before
    }

    pub(crate) fn execute(&mut self, request: &Request) -> Reply {
        self.check_touches_own(request);
        match request {
            Request::ReadSecret { secret, keys } => {
                Reply::Secret(self.secret.as_ref().filter(|(seen, _)| seen.key == *secret).map(
                    |(seen, content)| SecretContent {
                        uid: seen.uid.clone(),
                        resource_version: seen.resource_version.clone(),
                        requested: keys.clone(),
                        digests: digests(*content, keys),
                        without_newline: BTreeSet::new(),
                    },
                ))
            }
            Request::ReadChild { kind, .. } => Reply::Child(self.children.get(kind).cloned().map(Box::new)),
            Request::Create { kind, .. } if self.children.contains_key(kind) => conflict("already exists"),
            Request::Create { kind, body, .. } => self.create_child(*kind, body),
            // An empty version is none, to an API server.
            Request::Apply { kind, resource_version: looked_at, .. }
                if !looked_at.0.is_empty()
                    && self.children.get(kind).is_some_and(|it| it.resource_version != *looked_at) =>
            {
                conflict("the object has been modified")
            }
            Request::Apply { kind, uid, body, .. } => match self.children.get(kind) {
                Some(child) if !diff::in_the_way(*kind, body, &child.content).is_empty() => {
                    let message = "spec.ports[1].name: Duplicate value".to_owned();
                    Reply::Failed(Failure { category: Category::Invalid, message })
                }
                Some(child) if child.uid == *uid => {
                    let content = self.cluster.stores(applied(*kind, body, child));
                    self.change_child(*kind, |child| take_in(child, content, body));
                    Reply::Child(self.children.get(kind).cloned().map(Box::new))
                }
                _ => conflict("uid mismatch"),
            },
            Request::Patch { kind, resource_version, edits, .. } => match self.children.get(kind) {
                Some(child) if child.resource_version == *resource_version => {
                    self.change_child(*kind, |child| edits.iter().for_each(|it| edit(child, it)));
                    Reply::Child(self.children.get(kind).cloned().map(Box::new))
                }
                _ => conflict("the object has been modified"),
            },
            Request::Delete { kind, uid, resource_version, .. } => match self.children.get(kind) {
                Some(child) if child.uid == *uid && child.resource_version == *resource_version => {
                    self.delete_child(*kind);
                    Reply::Child(None)
                }
                Some(_) => conflict("the object has been modified"),
                None => Reply::Child(None),
            },
            Request::PatchStatus { resource_version, status } => match self.resource.clone() {
                Some(mut resource) if resource.resource_version == *resource_version => {
                    resource.status = merged(&resource.status, status);
                    self.prune(&mut resource);
                    self.check_claim(&resource);
                    Reply::Status(Box::new(self.store_resource(resource)))
                }
                _ => conflict("the object has been modified"),
            },
        }
    }

    fn create_child(&mut self, kind: ChildKind, body: &Value) -> Reply {
        let version = self.tick();
        let child = SeenChild {
            kind,
            key: self.key.clone(),
            uid: self.uid("child"),
            created: self.age(),
            resource_version: version,
            generation: 1,
            deleting: false,
            controller: Some(controller(&body["metadata"]["ownerReferences"][0])),
            content: self.cluster.stores(content(body)),
            owned: owned(kind, body),
            entry: Some(0),
            go_operator: None,
            managers: Vec::new(),
            rollout: (kind == ChildKind::Deployment).then(SeenRollout::default),
        };
        self.put(kind, Some(child.clone()));
        Reply::Child(Some(Box::new(child)))
    }

    /// No tool may read "ready" while the Deployment does not run what its own annotations promise.
    fn check_claim(&self, resource: &SeenResource) {
        let status = &resource.status;
        let claims = status.observed_generation == resource.generation
            && status.conditions.iter().any(|it| it.type_ == "Ready" && it.status == "True");
        if claims {
            let deployment = self.children.get(&ChildKind::Deployment).expect("Ready without a Deployment");
            let owner = deployment.controller.as_ref();
            assert!(owner.is_none_or(|it| it.uid == resource.uid), "Ready on another's Deployment");
        }
    }

    /// The children that are wanted and that no list shows: a restarted operator reads each once, because something without
    /// our label may be there.
    pub(crate) fn missing_reads(&self) -> usize {
        let Some(resource) = &self.resource else { return 0 };
        wanted(resource).iter().filter(|(kind, wanted)| *wanted && !self.children.contains_key(kind)).count()
    }

    pub(crate) fn check_converged(&self) {
        let Some(resource) = &self.resource else {
            let orphans = self.children.values().all(|child| child.controller.is_none());
            assert!(orphans, "children of a deleted resource");
            return;
        };
        for (kind, wanted) in wanted(resource) {
            assert_eq!(self.children.contains_key(&kind), wanted, "{}", kind.name());
        }
        for child in self.children.values() {
            assert_eq!(child.controller.as_ref().unwrap().uid, resource.uid);
            assert!(is_labelled(child), "{}", child.kind.name());
        }
        let spec = resource.spec.as_ref().unwrap();
        let deployment = &self.children[&ChildKind::Deployment].content;
        let replicas = deployment["spec"]["replicas"].as_i64().unwrap();
        match &spec.autoscaling {
            // Whoever scaled to zero switched the autoscaler off.
            Some(_) => assert!(replicas == 0 || (2..=4).contains(&replicas), "{replicas} pods"),
            None => assert_eq!(replicas, i64::from(spec.replicas.unwrap_or(1))),
        }
        let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
        let memory = spec.memcached.as_ref().and_then(|it| it.max_memory_mb).unwrap_or(64);
        assert!(args.contains(&format!("\"-m\",\"{memory}\"")), "{args}");
        let trigger =
            &deployment["spec"]["template"]["metadata"]["annotations"]["memcached.c5c3.io/restart-trigger"];
        assert_eq!(trigger.as_str(), resource.restart_trigger.as_deref());
        assert_eq!(diff::drift(ChildKind::Deployment, deployment, deployment), Vec::<String>::new());
        let status = &resource.status;
        assert_eq!(status.observed_generation, resource.generation);
        let ready = status.conditions.iter().find(|it| it.type_ == "Ready").unwrap();
        let wants_secret = spec.security.as_ref().is_some_and(|it| it.sasl.is_some());
        let expected = match (&self.secret, wants_secret) {
            (None, true) => ("False", "SecretNotFound"),
            _ => ("True", "MemcachedReady"),
        };
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), expected, "{}", ready.message);
    }
}
