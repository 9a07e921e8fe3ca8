//! Some namespaces instead of all: what is known of one says nothing about another. And the lead: who wins it looks at
//! everything anew.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use jiff::Timestamp;
use memcached_operator_core::kernel::effect::Effect;
use memcached_operator_core::kernel::event::{Event, SeenResource, Unavailable};
use memcached_operator_core::kernel::failure::{Category, Failure};
use memcached_operator_core::kernel::object::{ChildKind, Key, Scope, Watched};
use memcached_operator_core::kernel::reconciler::{Reconciler, Settings};
use memcached_operator_core::kernel::seen;
use serde_json::{Value, json};

struct Run {
    reconciler: Reconciler,
    /// The resources that something was asked for.
    worked_on: BTreeSet<String>,
}

fn namespace(name: &str) -> Scope {
    Scope::Namespace(name.to_owned())
}

fn key(namespace: &str) -> Key {
    Key { namespace: namespace.to_owned(), name: "cache".to_owned() }
}

fn resource(namespace: &str, version: &str, status: &Value) -> SeenResource {
    let resource = json!({
        "apiVersion": "memcached.c5c3.io/v1beta1",
        "kind": "Memcached",
        "metadata": {
            "namespace": namespace, "name": "cache", "uid": namespace, "resourceVersion": version, "generation": 1,
        },
        "spec": {"paused": false},
        "status": status,
    });
    seen::resource(&serde_json::from_value(resource).unwrap()).unwrap()
}

impl Run {
    fn leading() -> Self {
        let reconciler = Reconciler::new(Settings::default());
        let mut run = Self { reconciler, worked_on: BTreeSet::new() };
        run.step(Event::Leading(true));
        run
    }

    fn step(&mut self, event: Event) {
        // What a kernel knows has to survive a journal.
        let snapshot = serde_json::to_vec(&self.reconciler).unwrap();
        let mut twin: Reconciler = serde_json::from_slice(&snapshot).unwrap();
        let effects = self.reconciler.step(Timestamp::UNIX_EPOCH, event.clone());
        assert_eq!(twin.step(Timestamp::UNIX_EPOCH, event), effects);
        for effect in effects {
            if let Effect::Send { resource, .. } = effect {
                self.worked_on.insert(resource.namespace);
            }
        }
    }

    /// A complete list of a kind in a namespace, of resources with one of them.
    fn list(&mut self, kind: Watched, namespace: &str) {
        let scope = Scope::Namespace(namespace.to_owned());
        self.step(Event::Listing(kind, scope.clone()));
        if kind == Watched::Memcached {
            let seen = resource(namespace, "1", &json!({}));
            self.step(Event::Resource(Box::new(seen)));
        }
        self.step(Event::Listed(kind, scope));
    }

    fn list_all_but(&mut self, missing: Option<Watched>, namespace: &str) {
        let kinds = Watched::ALL.into_iter().filter(|kind| Some(*kind) != missing);
        kinds.for_each(|kind| self.list(kind, namespace));
    }

    fn known(&self) -> Vec<Key> {
        self.reconciler.world().resources.keys().cloned().collect()
    }
}

fn forbidden() -> Unavailable {
    Unavailable::Refused(Failure { category: Category::Forbidden, message: "no".into() })
}

#[test]
fn a_namespace_that_cannot_be_listed_keeps_no_other_waiting_and_is_worked_in_as_soon_as_it_can() {
    let secret = Watched::Secret;
    for early in ["a", "b"] {
        let late = if early == "a" { "b" } else { "a" };
        let mut run = Run::leading();
        run.list_all_but(Some(secret), late);
        assert_eq!(run.worked_on, BTreeSet::new());
        run.list_all_but(None, early);
        assert_eq!(run.worked_on, BTreeSet::from([early.to_owned()]));
        run.list(secret, late);
        assert_eq!(run.worked_on.len(), 2, "{:?}", run.worked_on);
    }
}

#[test]
fn a_list_of_one_namespace_takes_nothing_from_another() {
    let mut run = Run::leading();
    run.list(Watched::Memcached, "a");
    run.list(Watched::Memcached, "b");
    run.step(Event::Listing(Watched::Memcached, namespace("a")));
    run.step(Event::Listed(Watched::Memcached, namespace("a")));
    assert_eq!(run.known(), [key("b")]);
}

#[test]
fn lists_of_two_namespaces_may_be_under_way_at_once() {
    let mut run = Run::leading();
    run.step(Event::Listing(Watched::Memcached, namespace("b")));
    run.list(Watched::Memcached, "a");
    run.step(Event::Listed(Watched::Memcached, namespace("b")));
    assert_eq!(run.known(), [key("a")]);
}

#[test]
fn a_kind_that_is_forbidden_in_one_namespace_is_there_in_another() {
    let kind = ChildKind::ServiceMonitor;
    let mut run = Run::leading();
    run.list_all_but(Some(Watched::Child(kind)), "a");
    run.list_all_but(None, "b");
    let worked_on = |run: &Run| run.worked_on.iter().cloned().collect::<Vec<_>>();
    assert_eq!(worked_on(&run), ["b"]);

    run.step(Event::Unavailable { kind, scope: namespace("a"), why: forbidden() });
    assert_eq!(worked_on(&run), ["a", "b"], "it can be done without");
    let world = run.reconciler.world();
    assert_eq!(["a", "b"].map(|name| world.unavailable(kind, name).is_some()), [true, false]);

    run.list(Watched::Child(kind), "a");
    assert_eq!(run.reconciler.world().unavailable(kind, "a"), None);
}

#[test]
fn where_resources_may_not_be_listed_any_more_nothing_is_asked_for_until_they_were_and_the_others_go_on() {
    let mut run = Run::leading();
    run.step(Event::Leading(false));
    for name in ["a", "b"] {
        run.list_all_but(None, name);
    }
    run.step(Event::Unlistable(Watched::Memcached, namespace("b")));
    run.step(Event::Leading(true));
    assert_eq!(run.worked_on, BTreeSet::from(["a".to_owned()]), "what is known of the other is old");
    run.list(Watched::Secret, "b");
    assert_eq!(run.worked_on.len(), 1, "another kind says nothing about that");
    run.list(Watched::Memcached, "b");
    assert_eq!(run.worked_on.len(), 2);
}

#[test]
fn a_rollout_in_a_namespace_where_something_may_not_be_listed_any_more_keeps_no_others_waiting() {
    for kind in [Watched::Memcached, Watched::Secret] {
        let mut run = Run::leading();
        run.step(Event::Leading(false));
        // Without these no pass finds out that there are no pods.
        run.list_all_but(Some(Watched::Child(ChildKind::Deployment)), "b");
        let status = json!({"observedGeneration": 1, "budgetedRollout": "Secret"});
        run.step(Event::Resource(Box::new(resource("b", "2", &status))));
        run.step(Event::Leading(true));
        let rolling = |run: &Run| run.reconciler.world().rollout_budget.counts().rolling;
        assert_eq!(rolling(&run), 1);
        run.step(Event::Unlistable(kind, namespace("b")));
        assert_eq!(rolling(&run), 0, "without {kind:?}");
        run.list(Watched::Child(ChildKind::Service), "b");
        assert_eq!(rolling(&run), 0, "{kind:?} is still refused");
        run.step(Event::Listing(kind, namespace("b")));
        if kind == Watched::Memcached {
            run.step(Event::Resource(Box::new(resource("b", "2", &status))));
        }
        run.step(Event::Listed(kind, namespace("b")));
        assert_eq!(rolling(&run), 1);
    }
}

#[test]
fn a_turn_in_a_namespace_that_could_not_be_listed_when_the_lead_was_won_is_known_once_it_is() {
    let mut run = Run::leading();
    run.step(Event::Leading(false));
    // Without these no pass finds out that there are no pods.
    run.list_all_but(Some(Watched::Child(ChildKind::Deployment)), "b");
    run.step(Event::Resource(Box::new(resource("b", "2", &json!({"observedGeneration": 1})))));
    run.step(Event::Unlistable(Watched::Memcached, namespace("b")));
    run.step(Event::Leading(true));
    run.step(Event::Listing(Watched::Memcached, namespace("b")));
    let status = json!({"observedGeneration": 1, "budgetedRollout": "Secret"});
    run.step(Event::Resource(Box::new(resource("b", "3", &status))));
    run.step(Event::Listed(Watched::Memcached, namespace("b")));
    assert_eq!(run.reconciler.world().rollout_budget.counts().rolling, 1);
}

#[test]
fn who_wins_the_lead_again_looks_at_every_resource() {
    let mut run = Run::leading();
    run.step(Event::Leading(false));
    run.list_all_but(None, "a");
    run.list_all_but(None, "b");
    assert_eq!(run.worked_on, BTreeSet::new(), "a follower asks for nothing");

    run.step(Event::Leading(true));
    assert_eq!(run.worked_on.len(), 2);
}

#[test]
fn resources_that_come_and_go_leave_nothing_behind_where_nobody_works_on_them() {
    let follower = || {
        let mut run = Run::leading();
        run.step(Event::Leading(false));
        run.list_all_but(None, "a");
        run
    };
    let of_a_namespace_that_is_not_listed = || {
        let mut run = Run::leading();
        run.list_all_but(None, "b");
        run.list(Watched::Memcached, "a");
        run
    };
    for mut run in [follower(), of_a_namespace_that_is_not_listed()] {
        let snapshot = |run: &Run| serde_json::to_value(&run.reconciler).unwrap();
        let mut before = serde_json::Value::Null;
        for number in 0..100 {
            if number == 1 {
                before = snapshot(&run);
            }
            let key = Key { namespace: "a".to_owned(), name: format!("job-{number}") };
            let resource = json!({
                "metadata": {
                    "namespace": key.namespace, "name": key.name, "uid": key.name, "resourceVersion": "2", "generation": 1,
                },
                "spec": {},
            });
            let seen = seen::resource(&serde_json::from_value(resource).unwrap()).unwrap();
            run.step(Event::Resource(Box::new(seen)));
            run.step(Event::Gone { kind: Watched::Memcached, key });
        }
        let after = snapshot(&run);
        // Numbers that only grow.
        for counter in ["passes_since_backlog", "next"] {
            before["queue"][counter] = after["queue"][counter].clone();
        }
        assert_eq!(before, after);
    }
}
