//! A cache that changes from a Deployment to a StatefulSet and back: who serves meanwhile, what is waited for, and what is said of
//! it.

use memcached_operator_core::api::MemcachedSpec;
use memcached_operator_core::api::spec::STATEFUL_SET;
use memcached_operator_core::kernel::effect::Effect;
use memcached_operator_core::kernel::event::{Event, SeenPod};
use memcached_operator_core::kernel::failure::Category;
use memcached_operator_core::kernel::object::{ChildKind, Key, ResourceVersion, Uid, Watched};
use memcached_operator_core::kernel::pod_readiness::Readiness;
use rstest::rstest;
use serde_json::{Value, json};

use super::{answer_all, edited, one_step, run, with_a_secret};
use crate::history::Op;
use crate::model::{NAMED, NAMED_AND_SCALED, NAMED_WITH_SECRET, NEVER_SERVES, SCALED};
use crate::simulation::{Simulation, request_name};

/// Edits the workload and answers requests one by one until the former one is deleted; gives how many pods of the new one
/// were ready then.
fn ready_when_the_former_goes(simulation: &mut Simulation, variant: u8, former: ChildKind) -> i32 {
    simulation.model.edit(variant);
    let new = if former == ChildKind::Deployment { ChildKind::StatefulSet } else { ChildKind::Deployment };
    ready_when_the_former_is_deleted(simulation, former, new)
}

/// Answers requests one by one until the former workload is deleted; gives how many pods of the new one were ready then.
fn ready_when_the_former_is_deleted(simulation: &mut Simulation, former: ChildKind, new: ChildKind) -> i32 {
    simulation.requested.clear();
    let delete = format!("delete {}", former.name());
    for _ in 0..1_000 {
        simulation.hear();
        if simulation.requested.contains(&delete) {
            return simulation.model.ready_pods(new);
        }
        if simulation.requests.is_empty() {
            simulation.model.work();
        } else {
            simulation.answer(0, true, None);
        }
    }
    panic!("the {} stays", former.name());
}

#[test]
fn the_old_pods_serve_until_those_of_another_workload_do() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.settle();
    assert_eq!(ready_when_the_former_goes(&mut simulation, NAMED, ChildKind::Deployment), 3);
    simulation.settle();
    simulation.model.check_converged();
    assert_eq!(simulation.model.kinds().find(|kind| kind.is_workload()), Some(ChildKind::StatefulSet));
    assert_eq!(ready_when_the_former_goes(&mut simulation, 1, ChildKind::StatefulSet), 3);
    simulation.settle();
    simulation.model.check_converged();
    let switched = simulation.said.iter().filter(|reason| *reason == "WorkloadSwitched").count();
    assert_eq!(switched, 2);
}

/// A spread over nodes that has to hold, of the pods with the same value of these labels.
fn spread(keys: &[&str]) -> Value {
    let constraint = json!({
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "matchLabelKeys": keys,
    });
    json!({"topologySpreadConstraints": [constraint]})
}

/// A spread may leave room beside the old pods, and here it does.
#[rstest]
#[case::hard_anti_affinity(json!({"antiAffinityPreset": "hard"}), 0)]
#[case::spread_that_must_hold(spread(&[]), 3)]
fn the_old_pods_go_first_where_the_new_ones_would_find_no_node(
    #[case] high_availability: Value,
    #[case] ready: i32,
) {
    for (before, after) in [("Deployment", "StatefulSet"), ("StatefulSet", "Deployment")] {
        let mut simulation = Simulation::new();
        simulation.model.create_resource();
        simulation.model.change_spec(|spec| {
            spec.replicas = Some(3);
            spec.workload = Some(before.to_owned());
            spec.high_availability = Some(serde_json::from_value(high_availability.clone()).unwrap());
        });
        simulation.settle();
        simulation.model.change_spec(|spec| spec.workload = Some(after.to_owned()));
        let (former, new) = match before {
            "Deployment" => (ChildKind::Deployment, ChildKind::StatefulSet),
            _ => (ChildKind::StatefulSet, ChildKind::Deployment),
        };
        assert_eq!(ready_when_the_former_is_deleted(&mut simulation, former, new), ready);
        simulation.settle();
        simulation.model.check_converged();
    }
}

/// Only one pod serves. Old pods do not count for those of a Deployment that are spread for each template alone; pods of a
/// StatefulSet have no such label. Whoever lacks memory gets it from another node.
#[rstest]
#[case::to_named_pods(&[], "StatefulSet", BY_SPREAD, true)]
#[case::to_a_deployment(&[], "Deployment", BY_SPREAD, true)]
#[case::for_want_of_memory(&[], "StatefulSet", "3 Insufficient memory", false)]
#[case::of_each_template_alone(&["pod-template-hash"], "Deployment", BY_SPREAD, false)]
#[case::of_each_template_alone_to_named_pods(&["pod-template-hash"], "StatefulSet", BY_SPREAD, true)]
fn the_old_pods_of_a_spread_stay_until_the_scheduler_finds_no_node_for_a_new_one(
    #[case] keys: &[&str],
    #[case] after: &str,
    #[case] nodes: &str,
    #[case] goes: bool,
) {
    let is_named = after == STATEFUL_SET;
    let (before, former) = match is_named {
        true => ("Deployment", ChildKind::Deployment),
        false => (STATEFUL_SET, ChildKind::StatefulSet),
    };
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.model.change_spec(|spec| {
        spec.workload = Some(before.to_owned());
        spec.high_availability = Some(serde_json::from_value(spread(keys)).unwrap());
    });
    simulation.settle();
    simulation.requested.clear();
    simulation.model.change_spec(|spec| spec.workload = Some(after.to_owned()));
    answer_all(&mut simulation);
    assert!(ChildKind::WORKLOADS.into_iter().all(|kind| simulation.model.has(kind)));
    assert_eq!(ChildKind::WORKLOADS.map(|kind| simulation.model.ready_pods(kind)).iter().sum::<i32>(), 1);
    let pod = unscheduled(&simulation, is_named, nodes);
    let gone = Event::Gone { kind: Watched::Pod, key: pod.key.clone() };
    simulation.step(Event::Pod(pod));
    answer_all(&mut simulation);
    let deleted = simulation.requested.contains(&format!("delete {}", former.name()));
    assert_eq!(deleted, goes, "{:?}", simulation.requested);
    simulation.step(gone);
    simulation.settle();
    simulation.model.check_converged();
}

/// What the scheduler says where the old pods are on all nodes but one, which takes none of them.
const BY_SPREAD: &str =
    "1 node(s) were unschedulable, 3 node(s) didn't match pod topology spread constraints";

/// A pod of a new workload without a node.
fn unscheduled(simulation: &Simulation, is_named: bool, nodes: &str) -> SeenPod {
    let Key { namespace, name } = simulation.model.resource_key().clone();
    SeenPod {
        key: Key { namespace, name: format!("{name}-{}", if is_named { "0" } else { "5d4f8-x2x7q" }) },
        uid: Uid::from("pending"),
        resource_version: ResourceVersion::default(),
        instance: name,
        revision: is_named.then(|| "first".to_owned()),
        ip: None,
        readiness: Readiness::Empty { since: simulation.now },
        deleting: false,
        problem: Some(format!("cannot be scheduled: 0/4 nodes are available: {nodes}")),
    }
}

/// The new pods find no node beside the old ones, and would wait for the Secret if they did.
#[rstest]
#[case::to_named_pods("StatefulSet", ChildKind::Deployment)]
#[case::to_a_deployment("Deployment", ChildKind::StatefulSet)]
fn the_old_pods_stay_while_the_new_ones_would_wait_for_a_secret(
    #[case] after: &str,
    #[case] former: ChildKind,
) {
    let mut simulation = with_a_secret(if former == ChildKind::Deployment { 3 } else { NAMED_WITH_SECRET });
    simulation.model.change_spec(|spec| {
        spec.high_availability = Some(serde_json::from_value(json!({"antiAffinityPreset": "hard"})).unwrap());
    });
    simulation.settle();
    simulation.model.set_secret(None);
    simulation.settle();
    let ready = simulation.model.ready_pods(former);
    assert!(ready > 0);
    simulation.model.change_spec(|spec| spec.workload = Some(after.to_owned()));
    simulation.settle();
    assert_eq!(simulation.model.ready_pods(former), ready);
    simulation.model.set_secret(Some(0));
    simulation.settle();
    simulation.model.check_converged();
    assert_eq!(simulation.model.ready_pods(former), 0);
}

/// Somebody deletes the new one in the foreground: its pods serve until they end, and the others are needed after that.
#[test]
fn the_old_pods_stay_while_the_workload_that_takes_their_place_is_being_deleted() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.settle();
    simulation.model.edit(NAMED);
    while !simulation.model.kinds().any(|kind| kind == ChildKind::StatefulSet) {
        one_step(&mut simulation);
    }
    simulation.model.begin_deletion(ChildKind::StatefulSet);
    run(&mut simulation);
    assert_eq!(simulation.model.ready_pods(ChildKind::StatefulSet), 3);
    assert!(!simulation.requested.iter().any(|it| it == "delete Deployment"), "{:?}", simulation.requested);
    simulation.model.delete_child(ChildKind::StatefulSet);
    run(&mut simulation);
    simulation.settle();
    simulation.model.check_converged();
}

/// The gauge behind the alert that no pod serves.
#[test]
fn the_metrics_count_the_old_pods_while_those_of_another_workload_do_not_start() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.model.edit(1);
    simulation.settle();
    simulation.model.edit(NEVER_SERVES);
    run(&mut simulation);
    let serving = [ChildKind::Deployment, ChildKind::StatefulSet].map(|it| simulation.model.ready_pods(it));
    assert_eq!(serving, [3, 0]);
    assert_eq!(simulation.shown.unwrap().ready, 3);
    assert_eq!(simulation.model.resource().status.ready_replicas, 0, "of the workload that is asked for");
}

/// An alert compares the pods that are wanted with those that are ready, and knows of none that are wanted where none are shown.
#[test]
fn the_metrics_show_how_many_pods_a_running_cache_wants_also_under_an_invalid_spec() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.model.edit(1);
    simulation.settle();
    simulation.model.break_rule(true);
    simulation.model.change_spec(|spec| spec.replicas = Some(5));
    simulation.settle();
    let shown = simulation.shown.unwrap();
    assert_eq!((shown.pods_wanted(), shown.ready, shown.wanted), (Some(3), 3, None), "none of 5 pods");
}

/// An autoscaler multiplies by the pods that it sees, and a Deployment's selector has those of the StatefulSet too.
#[rstest]
#[case::to_a_deployment(NAMED_AND_SCALED, SCALED)]
#[case::to_named_pods(SCALED, NAMED_AND_SCALED)]
fn autoscaler_and_budget_see_the_named_pods_for_as_long_as_there_are_any(
    #[case] before: u8,
    #[case] after: u8,
) {
    let mut simulation = edited(before, before);
    run(&mut simulation);
    simulation.model.edit(after);
    let budget = json!({"podDisruptionBudget": {"enabled": true, "minAvailable": 1}});
    simulation.model.change_spec(|spec| spec.high_availability = serde_json::from_value(budget).unwrap());
    let mut stood_beside = 0;
    while one_step(&mut simulation) {
        let [has_named, has_others] =
            [ChildKind::StatefulSet, ChildKind::Deployment].map(|it| simulation.model.has(it));
        if has_named && has_others && simulation.requests.is_empty() {
            assert_eq!(simulation.model.scale_target(), "StatefulSet");
            assert!(simulation.model.resource().status.selector.to_string().contains("StatefulSet"));
            assert!(simulation.model.budget_selects().to_string().contains("StatefulSet"));
            stood_beside += 1;
        }
    }
    assert!(stood_beside > 0);
    let expected = if after == SCALED { "Deployment" } else { "StatefulSet" };
    assert_eq!(simulation.model.scale_target(), expected);
    let selects_named = simulation.model.budget_selects().to_string().contains("StatefulSet");
    assert_eq!(selects_named, after != SCALED);
    simulation.model.check_converged();
}

/// A quota admits no StatefulSet, or a pause comes with the edit: the pods of the Deployment are all that there are.
#[rstest]
#[case::it_is_refused(false)]
#[case::it_is_paused(true)]
fn autoscaler_and_budget_see_the_pods_of_before_while_the_stateful_set_cannot_be_made(
    #[case] is_paused: bool,
) {
    let budget = |spec: &mut MemcachedSpec| {
        let budget = json!({"podDisruptionBudget": {"enabled": true, "minAvailable": 1}});
        spec.high_availability = serde_json::from_value(budget).unwrap();
    };
    let mut simulation = edited(SCALED, SCALED);
    simulation.model.change_spec(budget);
    run(&mut simulation);
    simulation.model.change_spec(|spec| {
        spec.workload = Some(STATEFUL_SET.to_owned());
        spec.paused = Some(is_paused);
    });
    simulation.hear();
    if !is_paused {
        while !simulation.requests.iter().any(is_creation_of_set) {
            one_step(&mut simulation);
            simulation.hear();
        }
        let at = simulation.requests.iter().position(is_creation_of_set).unwrap();
        simulation.answer(at, false, Some(Category::QuotaExceeded));
    }
    answer_all(&mut simulation);
    assert!(!simulation.model.has(ChildKind::StatefulSet));
    let selectors = [
        simulation.model.resource().status.selector.to_string(),
        simulation.model.budget_selects().to_string(),
    ];
    let names_set = selectors.iter().any(|it| it.contains("StatefulSet"));
    assert_eq!((simulation.model.scale_target().as_str(), names_set), ("Deployment", false), "{selectors:?}");
    simulation.model.pause(false);
    simulation.settle();
    simulation.model.check_converged();
    assert_eq!(simulation.model.scale_target(), "StatefulSet");
}

fn is_creation_of_set(effect: &Effect) -> bool {
    matches!(effect, Effect::Send { request, .. } if request_name(request) == "create StatefulSet")
}

/// The search for histories found it: who leads next has seen the resource since its first generation, and knows nothing of
/// what the former leader began.
#[test]
fn a_former_workload_without_our_label_is_found_by_who_leads_next() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    let made = [Op::ChangeLeader, Op::Execute(0), Op::Edit(NAMED), Op::LoseReply(1)];
    let hidden = [Op::TakeLabel(ChildKind::Deployment), Op::Restart, Op::ChangeLeader];
    made.iter().chain(&hidden).for_each(|op| simulation.apply(op));
    simulation.settle();
    simulation.model.check_converged();
}
