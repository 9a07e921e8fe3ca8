//! Who decides on the number of pods: the spec, or an autoscaler.

use jiff::{SignedDuration, Timestamp};
use memcached_operator_core::kernel::backoff::{Attempt, Backoff};
use memcached_operator_core::kernel::event::{ScalingInactive, SeenChild, Unavailable};
use memcached_operator_core::kernel::failure::{Category, Failure};
use memcached_operator_core::kernel::object::{ChildKind, Scope};
use memcached_operator_core::kernel::request::{ChildWrite, Request, StatusWrite};
use memcached_operator_core::kernel::seen;
use memcached_operator_core::kernel::world::{Age, World};
use serde_json::{Value, json};

use crate::support::{
    complete, condition, deployment, live, object, run, scaled_by_others, sent, service, world,
};

#[test]
fn a_number_of_pods_that_is_right_by_chance_becomes_ours() {
    let spec = json!({"replicas": 2});
    let settled = world(&spec, vec![service(&spec), deployment(&spec)]);
    assert_eq!(sent(&settled), Vec::<String>::new());
    let left_by_an_autoscaler = world(&spec, vec![service(&spec), scaled_by_others(&spec)]);
    assert_eq!(sent(&left_by_an_autoscaler), ["apply Deployment"]);
}

/// The operator may not do anything with autoscalers.
fn without_autoscalers(mut world: World) -> World {
    let message = "no HorizontalPodAutoscalers for the operator".to_owned();
    let why = Unavailable::Refused(Failure { category: Category::Forbidden, message });
    world.lose_kind(ChildKind::HorizontalPodAutoscaler, Scope::All, why, Age::OfNow);
    world
}

#[test]
fn an_autoscaler_that_cannot_be_taken_away_keeps_the_number_of_pods_and_the_status_says_so() {
    let scaled = json!({
        "autoscaling": {"enabled": true, "minReplicas": 2, "maxReplicas": 4},
        "resources": {"requests": {"cpu": "1"}},
    });
    let off = json!({"replicas": 1, "resources": {"requests": {"cpu": "1"}}});
    let deployment = complete(scaled_by_others(&with_replicas(&scaled, 2)), 2);
    let autoscaler = live(ChildKind::HorizontalPodAutoscaler, &scaled);
    let world = without_autoscalers(world(&off, vec![service(&off), deployment, autoscaler]));
    assert_eq!(sent(&world), Vec::<String>::new());
    assert_eq!(condition(&world, "Ready").as_deref(), Some("False Forbidden"));
    assert_eq!(condition(&world, "Progressing").as_deref(), Some("False RolloutHeldBack"));
}

#[test]
fn an_autoscaler_that_cannot_be_made_leaves_too_few_pods_and_nothing_is_called_in_progress() {
    let spec = autoscaled();
    let deployment = complete(scaled_by_others(&with_replicas(&spec, 3)), 3);
    let world = without_autoscalers(world(&spec, vec![service(&spec), deployment]));
    assert_eq!(sent(&world), Vec::<String>::new());
    assert_eq!(condition(&world, "Ready").as_deref(), Some("False Forbidden"));
    assert_eq!(condition(&world, "Progressing").as_deref(), Some("False RolloutHeldBack"));
}

fn autoscaled() -> Value {
    json!({
        "replicas": 3,
        "autoscaling": {"enabled": true, "minReplicas": 5, "maxReplicas": 8},
        "resources": {"requests": {"cpu": "1"}},
    })
}

#[test]
fn a_resource_is_not_ready_before_its_autoscaler_has_made_the_fewest_pods() {
    let spec = autoscaled();
    let children = |pods| {
        let deployment = complete(scaled_by_others(&with_replicas(&spec, pods)), pods);
        vec![service(&spec), deployment, live(ChildKind::HorizontalPodAutoscaler, &spec)]
    };
    assert_eq!(condition(&world(&spec, children(3)), "Ready").as_deref(), Some("False MemcachedNotReady"));
    assert_eq!(condition(&world(&spec, children(5)), "Ready").as_deref(), Some("True MemcachedReady"));
}

fn with_replicas(spec: &Value, replicas: i32) -> Value {
    let mut spec = spec.clone();
    spec["replicas"] = json!(replicas);
    spec
}

#[test]
fn an_autoscaler_that_cannot_be_seen_may_be_there_and_keeps_the_number_that_it_set() {
    let off = json!({"replicas": 1, "resources": {"requests": {"cpu": "1"}}});
    let scaled = with_replicas(&off, 20);
    let children = vec![service(&off), scaled_by_others(&scaled)];
    let unseen = without_autoscalers(world(&off, children.clone()));
    assert_eq!(sent(&unseen), Vec::<String>::new());
    assert_eq!(sent(&world(&off, children)), ["apply Deployment"], "nobody else decides");
}

/// An autoscaler after somebody set how many pods it makes at most.
fn with_most(version: &str, most: i32) -> SeenChild {
    let mut object = object(ChildKind::HorizontalPodAutoscaler, &autoscaled());
    object["metadata"]["resourceVersion"] = json!(version);
    object["spec"]["maxReplicas"] = json!(most);
    seen::child(ChildKind::HorizontalPodAutoscaler, &serde_json::from_value(object).unwrap()).unwrap()
}

/// The attempts to write the autoscaler.
fn attempts(world: &World) -> Vec<Attempt> {
    let of_autoscaler = |request: Request| match request {
        Request::WriteChild(ChildWrite { kind: ChildKind::HorizontalPodAutoscaler, attempt, .. }) => {
            Some(attempt)
        }
        _ => None,
    };
    run(world).requests.into_iter().filter_map(of_autoscaler).collect()
}

/// It has no generation, and its controller writes its status again and again.
#[test]
fn an_apply_of_an_autoscaler_that_was_refused_for_good_is_sent_again_for_another_spec_and_not_for_its_status()
{
    let spec = autoscaled();
    let deployment = complete(scaled_by_others(&with_replicas(&spec, 5)), 5);
    let mut world = world(&spec, vec![service(&spec), deployment, with_most("7", 9)]);
    let sent = attempts(&world).pop().unwrap();
    let failure = Failure { category: Category::Invalid, message: "no".to_owned() };
    let refused = Backoff { failure, attempts: 1, races: 0, retry_at: None, sent };
    let resource = world.resources.values_mut().next().unwrap();
    resource.child_mut(ChildKind::HorizontalPodAutoscaler).backoff = Some(Box::new(refused));
    for (seen, expected) in [(with_most("8", 9), 0), (with_most("9", 10), 1)] {
        world.see_child(seen, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(attempts(&world).len(), expected);
    }
}

/// A settled autoscaled cache whose autoscaler has had no metrics for this long, and what a pass over it then says.
fn without_metrics_for(seconds: i64) -> (Vec<String>, Vec<String>) {
    let spec = json!({
        "autoscaling": {"enabled": true, "minReplicas": 1, "maxReplicas": 3},
        "resources": {"requests": {"cpu": "100m"}},
    });
    let since = Timestamp::UNIX_EPOCH - SignedDuration::from_secs(seconds);
    let inactive = Some(ScalingInactive { since, message: "no metrics".to_owned() });
    let autoscaler = SeenChild { inactive, ..live(ChildKind::HorizontalPodAutoscaler, &spec) };
    let world = world(&spec, vec![service(&spec), complete(scaled_by_others(&spec), 1), autoscaler]);
    let (mut warnings, mut events) = (Vec::new(), Vec::new());
    for request in run(&world).requests {
        let Request::WriteStatus(StatusWrite { status, kube_events, .. }) = request else { continue };
        warnings.extend(status.warnings.into_iter().map(|it| it.message));
        events.extend(kube_events.into_iter().map(|it| it.reason).filter(|it| it == "AutoscalerInactive"));
    }
    (warnings, events)
}

#[test]
fn an_autoscaler_that_has_no_metrics_for_two_minutes_is_a_warning() {
    assert_eq!(without_metrics_for(119), (vec![], vec![]));
    let words = "The HorizontalPodAutoscaler does not scale: no metrics".to_owned();
    assert_eq!(without_metrics_for(120), (vec![words], vec!["AutoscalerInactive".to_owned()]));
}
