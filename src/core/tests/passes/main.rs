//! What a pass sends in a given world: a resource and live children in, requests out.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test ends where its fixture is not as it should be"
)]

mod autoscaling;
#[path = "../fixture/mod.rs"]
mod fixture;
mod orphans;
mod other_managers;
mod rollout_causes;
mod secrets;
mod support;

use jiff::Timestamp;
use memcached_operator_core::kernel::backoff::{Attempt, Backoff};
use memcached_operator_core::kernel::failure::{Category, Failure};
use memcached_operator_core::kernel::hash::BodyHash;
use memcached_operator_core::kernel::object::{ChildKind, Uid};
use memcached_operator_core::kernel::request::Request;
use memcached_operator_core::kernel::world::World;
use serde_json::json;

use support::{deployment, live, run, sent, service, world};

#[test]
fn pods_do_not_wait_for_a_policy_that_is_to_go() {
    let before = json!({"security": {"networkPolicy": {"enabled": true}}});
    let after = json!({"memcached": {"threads": 2}});
    let policy = live(ChildKind::NetworkPolicy, &before);
    let world = world(&after, vec![policy, service(&before), deployment(&before)]);
    assert_eq!(sent(&world), ["delete NetworkPolicy", "apply Deployment"]);
}

#[test]
fn a_look_that_failed_waits_though_something_else_is_wanted_now() {
    let spec = json!({});
    let mut world = world(&spec, vec![service(&spec), deployment(&spec)]);
    let failure = Failure { category: Category::Transient, message: "connection refused".to_owned() };
    let child = world.resources.values_mut().next().unwrap().child_mut(ChildKind::Service);
    child.must_read = true;
    assert_eq!(looks(&world), 1);
    let sent =
        Attempt { body: Some(BodyHash::from_body(&json!("what was wanted before"))), ..Attempt::default() };
    let uid = Uid::from("uid");
    let child = world.resources.values_mut().next().unwrap().child_mut(ChildKind::Service);
    child.backoff = Some(Box::new(Backoff::from_failure(None, failure, sent, &uid, Timestamp::UNIX_EPOCH)));
    assert_eq!(looks(&world), 0);
}

fn looks(world: &World) -> usize {
    let is_read = |it: &&Request| matches!(it, Request::ReadSecret(_) | Request::ReadChild(_));
    run(world).requests.iter().filter(is_read).count()
}
