//! What a list proves, and what an event does not: a complete list is what there is.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use jiff::Timestamp;
use memcached_operator_core::kernel::effect::Effect;
use memcached_operator_core::kernel::event::{Departure, Event, Reply, SecretContent, SeenSecret};
use memcached_operator_core::kernel::failure::{Category, Failure};
use memcached_operator_core::kernel::known_versions::Presence;
use memcached_operator_core::kernel::lists::Moment;
use memcached_operator_core::kernel::object::{ChildKind, Key, ResourceVersion, Scope, Uid, Watched};
use memcached_operator_core::kernel::reconciler::{Reconciler, Settings};
use memcached_operator_core::kernel::request::{Request, RequestId};
use memcached_operator_core::kernel::seen;
use serde_json::json;

struct Run {
    reconciler: Reconciler,
    requests: Vec<(RequestId, Arc<Request>)>,
    relists: usize,
}

fn key(name: &str) -> Key {
    Key { namespace: "n".into(), name: name.into() }
}

/// A resource with a Secret.
fn resource(version: u64, generation: i64, threads: i32) -> Event {
    let object = json!({
        "metadata": {
            "namespace": "n", "name": "cache", "uid": "u", "resourceVersion": version.to_string(), "generation": generation,
        },
        "spec": {
            "memcached": {"threads": threads},
            "security": {"sasl": {"enabled": true, "credentialsSecretRef": {"name": "users"}}},
        },
    });
    Event::Resource(Box::new(seen::resource(&serde_json::from_value(object).unwrap()).unwrap()))
}

/// Its Deployment.
fn deployment(version: u64, replicas: i64) -> Event {
    let object = json!({
        "metadata": {
            "namespace": "n", "name": "cache", "uid": "d", "resourceVersion": version.to_string(),
            "labels": {"app.kubernetes.io/managed-by": "memcached-operator"},
            "ownerReferences": [{
                "apiVersion": "memcached.c5c3.io/v1beta1", "kind": "Memcached", "name": "cache", "uid": "u", "controller": true,
            }],
        },
        "spec": {"replicas": replicas},
    });
    let object = serde_json::from_value(object).unwrap();
    Event::Child(Box::new(seen::child(ChildKind::Deployment, &object).unwrap()))
}

fn secret(version: &str) -> SeenSecret {
    SeenSecret { key: key("users"), uid: Uid::from("s"), resource_version: ResourceVersion::from(version) }
}

fn content(version: &str) -> Reply {
    let keys = vec!["password-file".to_owned()];
    Reply::Secret(Some(SecretContent {
        uid: Uid::from("s"),
        resource_version: ResourceVersion::from(version),
        digests: keys.iter().map(|key| (key.clone(), version.to_owned())).collect(),
        requested: keys,
        findings: Default::default(),
        not_after: Default::default(),
    }))
}

impl Run {
    /// One that leads and has listed everything: the resource and its Secret.
    fn synced() -> Self {
        let mut run =
            Self { reconciler: Reconciler::new(Settings::default()), requests: Vec::new(), relists: 0 };
        run.step(Event::Leading(true));
        run.list_all(1_000);
        run
    }

    fn list_all(&mut self, version: u64) {
        for kind in Watched::ALL {
            match kind {
                Watched::Memcached => self.list(kind, vec![resource(version, 3, 4)]),
                Watched::Secret => self.list(kind, vec![Event::Secret(secret(&version.to_string()))]),
                _ => self.list(kind, Vec::new()),
            }
        }
    }

    fn step(&mut self, event: Event) {
        for effect in self.reconciler.step(Timestamp::UNIX_EPOCH, event) {
            match effect {
                Effect::Send { id, request, .. } => self.requests.push((id, request)),
                Effect::RelistAll => self.relists += 1,
                _ => {}
            }
        }
    }

    fn list(&mut self, kind: Watched, named: Vec<Event>) {
        self.step(Event::Listing(kind, Scope::All));
        named.into_iter().for_each(|event| self.step(event));
        self.step(Event::Listed(kind, Scope::All));
    }

    /// Answers the one request that is under way, which is a read of the Secret.
    fn answer(&mut self, reply: Reply) {
        let (id, request) = self.requests.remove(0);
        assert!(matches!(*request, Request::ReadSecret(_)) && self.requests.is_empty(), "{request:?}");
        self.step(Event::Done { id, reply });
    }

    /// Refuses everything until nothing is asked for any more.
    fn refuse_all(&mut self) {
        while let Some((id, _)) = self.requests.pop() {
            let failure = Failure { category: Category::Forbidden, message: "no".into() };
            self.step(Event::Done { id, reply: Reply::Failed(failure) });
        }
    }

    fn generation(&self) -> i64 {
        self.reconciler.world().resources[&key("cache")].seen.generation
    }

    fn resource(&self) -> Event {
        Event::Resource(Box::new(self.reconciler.world().resources[&key("cache")].seen.clone()))
    }

    /// How many pods the Deployment asks for.
    fn replicas(&self) -> Option<i64> {
        self.reconciler.world().resources[&key("cache")].live(ChildKind::Deployment)?.replicas
    }

    fn presence(&self) -> &Presence {
        &self.reconciler.world().secrets[&key("users")].presence
    }
}

fn present(version: &str) -> Presence {
    Presence::Present(Uid::from("s"), ResourceVersion::from(version))
}

#[test]
fn a_list_overrules_what_is_newer_by_its_version_and_a_single_event_does_not() {
    let mut run = Run::synced();
    run.step(resource(900, 2, 8));
    assert_eq!(run.generation(), 3, "an event may be late");
    run.list(Watched::Memcached, vec![resource(900, 2, 8)]);
    assert_eq!(run.generation(), 2, "a list is what there is");
    run.step(resource(901, 3, 16));
    assert_eq!(run.generation(), 3, "and the watch goes on from there");
}

#[test]
fn nothing_is_decided_between_the_list_that_shows_a_restore_and_those_of_all_other_kinds() {
    let mut run = Run::synced();
    run.answer(content("1000"));
    run.refuse_all();
    for _ in 0..2 {
        run.list(Watched::Memcached, vec![resource(900, 4, 8)]);
        assert_eq!((run.relists, run.requests.len()), (1, 0), "{:?}", run.requests);
    }
    run.list_all(900);
    assert_eq!(run.relists, 1, "it is known");
    assert!(!run.requests.is_empty());
}

#[test]
fn the_same_version_of_a_secret_is_read_anew_where_versions_went_back() {
    for goes_back in [false, true] {
        let mut run = Run::synced();
        run.answer(content("1000"));
        run.refuse_all();
        let version = if goes_back { 900 } else { 1_000 };
        // Once more, because the first list that shows it may have begun before.
        for kind in Watched::ALL.into_iter().chain(Watched::ALL) {
            match kind {
                Watched::Memcached => run.list(kind, vec![resource(version, 3, 4)]),
                // It was written after the restore, and got the version that it had before.
                Watched::Secret => run.list(kind, vec![Event::Secret(secret("1000"))]),
                _ => run.list(kind, Vec::new()),
            }
        }
        let reads = run.requests.iter().filter(|(_, it)| matches!(**it, Request::ReadSecret(_))).count();
        assert_eq!(reads, usize::from(goes_back));
    }
}

#[test]
fn the_same_version_of_a_child_replaces_the_known_one_where_versions_went_back() {
    for goes_back in [Watched::Memcached, Watched::Secret] {
        let mut run = Run::synced();
        run.list(Watched::Child(ChildKind::Deployment), vec![deployment(1_000, 1)]);
        assert_eq!(run.replicas(), Some(1));
        let version = |kind: Watched| if kind == goes_back { 900_u64 } else { 1_000 };
        // Once more, because nothing had shown the restore yet where the first list of it came.
        for kind in Watched::ALL.into_iter().chain(Watched::ALL) {
            match kind {
                Watched::Memcached => run.list(kind, vec![resource(version(kind), 3, 4)]),
                Watched::Secret => run.list(kind, vec![Event::Secret(secret(&version(kind).to_string()))]),
                // It was written after the restore, and got the version that it had before.
                Watched::Child(ChildKind::Deployment) => run.list(kind, vec![deployment(1_000, 3)]),
                _ => run.list(kind, Vec::new()),
            }
        }
        assert_eq!((run.relists, run.replicas()), (1, Some(3)), "{goes_back:?}");
    }
}

#[test]
fn the_same_version_of_a_resource_replaces_the_known_one_where_versions_went_back() {
    let mut run = Run::synced();
    assert_eq!(run.resource(), resource(1_000, 3, 4));
    for kind in Watched::ALL {
        match kind {
            // It was edited after the restore, and got the version and the generation that it had before.
            Watched::Memcached => run.list(kind, vec![resource(1_000, 3, 8)]),
            Watched::Secret => run.list(kind, vec![Event::Secret(secret("900"))]),
            _ => run.list(kind, Vec::new()),
        }
    }
    assert_eq!((run.relists, run.resource()), (1, resource(1_000, 3, 8)));
}

#[test]
fn what_a_read_said_after_the_lists_request_left_is_not_taken_back_by_the_list() {
    let listed = |left: u64, named: &[&str]| {
        let mut run = Run::synced();
        // A rotation, and its read.
        run.answer(content("1005"));
        assert_eq!(run.presence(), &present("1005"));
        let left = Departure { answers: Moment(left), relists: 0 };
        run.step(Event::Asked { kind: Watched::Secret, scope: Scope::All, left });
        run.list(Watched::Secret, named.iter().map(|version| Event::Secret(secret(version))).collect());
        run.presence().clone()
    };
    assert_eq!(listed(0, &["1000"]), present("1005"), "the list may be older");
    assert_eq!(listed(0, &["1006"]), present("1006"));
    assert_eq!(listed(1, &["1000"]), present("1000"), "versions went back");
    assert_eq!(listed(1, &[]), Presence::Absent);
    assert_eq!(listed(0, &[]), Presence::Unknown, "it may have come since, or gone since: it is read again");
}

#[test]
fn a_read_says_what_there_is_where_nothing_was_heard_since_it_was_asked_for() {
    let mut run = Run::synced();
    run.answer(content("900"));
    assert_eq!(run.presence(), &present("900"));
    assert_eq!(run.relists, 1, "versions went back");

    let mut run = Run::synced();
    run.step(Event::Secret(secret("1010")));
    run.answer(content("900"));
    assert_eq!(run.presence(), &present("1010"), "the watch has told something newer meanwhile");
    assert_eq!(run.relists, 0);
}

#[test]
fn a_list_that_breaks_off_takes_nothing_back() {
    let mut run = Run::synced();
    let failure = Failure { category: Category::Transient, message: "no answer".into() };
    run.answer(Reply::Failed(failure));
    run.step(Event::Listing(Watched::Memcached, Scope::All));
    run.list(Watched::Memcached, vec![resource(1_001, 5, 4)]);
    assert_eq!(run.generation(), 5);
    run.step(Event::Listed(Watched::Memcached, Scope::All));
    assert_eq!(run.generation(), 5, "an end without a beginning");
}
