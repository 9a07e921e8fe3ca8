//! Which requests are sent: how many a new resource costs, which of them wait, and which are tried again.

use memcached_operator_core::kernel::effect::Effect;
use memcached_operator_core::kernel::event::Event;
use memcached_operator_core::kernel::failure::Category;
use memcached_operator_core::kernel::object::{ChildKind, Scope, Watched};
use memcached_operator_core::kernel::reconciler::{Reconciler, Settings};
use serde_json::json;

use crate::held_pods::run_without;
use crate::model::{BARRED, Cluster, NAME, NAMED};
use crate::simulation::{Simulation, request_name};
use crate::workloads::pass;

#[test]
fn a_new_resource_costs_three_children_and_one_status() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    let event = simulation.model.next_event(0).unwrap();
    simulation.step(event);
    let mut writes = Vec::new();
    while let Some(Effect::Send { request, .. }) = simulation.requests.first() {
        writes.push(request_name(request));
        simulation.answer(0, true, None);
    }
    assert_eq!(writes, ["create Service", "create ConfigMap", "create Deployment", "status"]);
    assert_eq!(simulation.model.resource().key.name, NAME);
}

#[test]
fn a_resource_that_is_created_anew_waits_for_the_last_batch_of_the_one_before_it() {
    let under_way = |simulation: &Simulation| -> Vec<String> {
        let requests = simulation.requests.iter();
        let name = |it: &Effect| match it {
            Effect::Send { request, .. } => request_name(request),
            other => format!("{other:?}"),
        };
        requests.map(name).collect()
    };
    let children = ["create Service", "create ConfigMap", "create Deployment"];
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.hear();
    assert_eq!(under_way(&simulation), children);
    simulation.model.delete_resource();
    simulation.hear();
    simulation.answer(0, false, Some(Category::Transient));
    simulation.answer(0, false, Some(Category::Transient));
    simulation.model.create_resource();
    simulation.hear();
    assert_eq!(under_way(&simulation), children[2..], "of the resource that is gone");
    simulation.answer(0, false, Some(Category::Transient));
    assert_eq!(under_way(&simulation), children);
    simulation.answer(0, true, None);
    assert_eq!(under_way(&simulation), children[1..]);
    simulation.settle();
    simulation.model.check_converged();
}

#[test]
fn what_was_refused_for_good_is_tried_again_when_the_resource_or_the_child_is_another() {
    let mut simulation = Simulation::new();
    let refuse = |simulation: &mut Simulation, name: &str| {
        while let Some(event) = simulation.model.next_event(0) {
            simulation.step(event);
        }
        let named = |it: &Effect| matches!(it, Effect::Send { request, .. } if request_name(request) == name);
        let at = simulation.requests.iter().position(named).expect("it is sent");
        simulation.answer(at, false, Some(Category::Invalid));
        simulation.settle();
    };
    simulation.model.create_resource();
    refuse(&mut simulation, "create Service");
    simulation.model.edit(1); // which leaves the Service as it is
    simulation.settle();
    simulation.model.check_converged();

    simulation.model.tamper_replicas(7);
    refuse(&mut simulation, "apply Deployment");
    assert_eq!(simulation.settle(), 0, "it is not tried again for nothing");
    simulation.model.tamper_replicas(8);
    simulation.settle();
    simulation.model.check_converged();
}

#[test]
fn a_child_that_the_api_server_finds_invalid_is_named_and_all_others_are_changed() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.settle();
    simulation.model.change_spec(|spec| {
        spec.service = serde_json::from_value(json!({"annotations": {"a": "b"}})).unwrap();
        spec.memcached = serde_json::from_value(json!({"maxMemoryMB": 128})).unwrap();
    });
    let [service, deployment] = ["apply Service", "apply Deployment"].map(
        |name| move |it: &Effect| matches!(it, Effect::Send { request, .. } if request_name(request) == name),
    );
    while !simulation.requests.iter().any(service) {
        match simulation.model.next_event(0) {
            Some(event) => simulation.step(event),
            None => simulation.answer(0, true, None),
        }
    }
    let at = simulation.requests.iter().position(service).unwrap();
    simulation.answer(at, false, Some(Category::Invalid));
    assert!(simulation.requests.iter().any(deployment), "{:?}", simulation.requests);
    simulation.settle();
    let args = "/spec/template/spec/containers/0/args";
    let args = simulation.model.deployment().content.parse().pointer(args).unwrap().to_string();
    assert!(args.contains("128"), "{args}");
    let conditions = &simulation.model.resource().status.conditions;
    for (of, status) in [("Ready", "False"), ("Stalled", "True")] {
        let found = conditions.iter().find(|it| it.type_ == of).unwrap();
        assert_eq!((&*found.status, &*found.reason), (status, "InvalidSpec"));
        assert_eq!(found.message, "cannot apply Service: Invalid");
    }
}

/// The definition refuses it in this form; an older one, or a stored resource, does not.
#[test]
fn an_edit_to_what_only_a_pattern_refuses_is_told_and_changes_nothing() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.settle();
    simulation.requested.clear();
    simulation.model.change_spec(|spec| spec.image = Some("no image".to_owned()));
    simulation.settle();
    assert_eq!(simulation.requested, ["status"]);
    let resource = simulation.model.resource();
    let ready = resource.status.conditions.iter().find(|it| it.type_ == "Ready").unwrap();
    assert_eq!((&*ready.status, &*ready.reason), ("False", "InvalidSpec"), "{}", ready.message);
    assert!(ready.message.contains("spec.image"), "{}", ready.message);
    assert_eq!(simulation.model.rollouts, 0);
}

/// What the edit asks for beside the broken rule changes two children, makes one and deletes another.
#[test]
fn an_edit_that_breaks_a_rule_asks_for_a_status_and_nothing_else_until_it_is_mended() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.model.edit(5); // with a NetworkPolicy
    simulation.settle();
    simulation.requested.clear();
    simulation.model.change_spec(|spec| {
        let edited = json!({
            "replicas": 3,
            "image": "memcached:1.6.38",
            "memcached": {"threads": 1_000},
            "service": {"annotations": {"a": "b"}},
            "highAvailability": {"podDisruptionBudget": {"enabled": true, "minAvailable": 1}},
        });
        *spec = serde_json::from_value(edited).unwrap();
    });
    simulation.settle();
    assert_eq!(simulation.requested, ["status"]);
    let conditions = &simulation.model.resource().status.conditions;
    let ready = conditions.iter().find(|it| it.type_ == "Ready").unwrap();
    assert_eq!((&*ready.status, &*ready.reason), ("False", "InvalidSpec"), "{}", ready.message);
    assert!(ready.message.contains("spec.memcached.threads"), "{}", ready.message);
    simulation.restart();
    simulation.settle();
    assert!(simulation.requested.iter().all(|it| it == "status"), "{:?}", simulation.requested);
    simulation.model.change_spec(|spec| spec.memcached = None);
    simulation.settle();
    let requested = &simulation.requested;
    for name in ["apply Service", "apply Deployment", "create PodDisruptionBudget", "delete NetworkPolicy"] {
        assert!(requested.iter().any(|it| it == name), "{requested:?}");
    }
    simulation.model.check_converged();
}

#[test]
fn no_object_is_kept_while_the_lists_are_not_complete() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.settle();
    let (own, [service, deployment]) =
        (Watched::Memcached, [ChildKind::Service, ChildKind::Deployment].map(Watched::Child));
    simulation.reconciler = Reconciler::new(Settings::default());
    for kind in [own, service, deployment] {
        simulation.step(Event::Listing(kind, Scope::All));
        for event in simulation.model.list(kind) {
            simulation.step(event);
        }
    }
    let known = simulation.reconciler.world().resources.values().next().unwrap();
    assert!(known.live(ChildKind::Deployment).is_some() && known.live(ChildKind::Service).is_some());
    assert!(!known.is_open());
}

/// `kubectl edit` of a workload. The API server takes one way to ask only, and would refuse an apply of ours beside theirs.
#[test]
fn a_field_that_excludes_ours_goes_once_ours_was_refused_beside_it() {
    for (variant, kind) in [(0, "Deployment"), (NAMED, "StatefulSet")] {
        let mut simulation = Simulation::new();
        simulation.model.create_resource();
        simulation.model.edit(variant);
        simulation.settle();
        let probe = |simulation: &Simulation| {
            let content = simulation.model.workload().content.parse();
            content["spec"]["template"]["spec"]["containers"][0]["livenessProbe"].clone()
        };
        let before = probe(&simulation);
        simulation.requested.clear();
        simulation.model.replace_probe();
        assert_ne!(probe(&simulation), before);
        simulation.settle();
        assert_eq!(probe(&simulation), before);
        let written: Vec<_> = simulation.requested.iter().filter(|it| it.ends_with(kind)).collect();
        assert_eq!(written, [&format!("apply {kind}"), &format!("patch {kind}"), &format!("apply {kind}")]);
    }
}

/// A webhook writes the probe again whatever is sent, and the edit is refused for another reason.
#[test]
fn a_field_that_comes_back_in_the_place_of_ours_is_taken_away_once_and_a_refusal_for_another_reason_stays() {
    let mut simulation = Simulation::new();
    simulation.model.become_another(Cluster::ReplacesProbes);
    simulation.model.create_resource();
    simulation.settle();
    simulation.requested.clear();
    simulation.model.change_spec(|spec| spec.image = Some(BARRED.to_owned()));
    pass(&mut simulation, 60);
    assert_eq!(simulation.requested, ["apply Deployment", "read Deployment", "patch Deployment", "status"]);
    let version = simulation.model.resource().resource_version.clone();
    pass(&mut simulation, 600);
    assert_eq!(simulation.model.resource().resource_version, version, "{:?}", simulation.requested);
    simulation.model.change_spec(|spec| spec.image = Some("memcached:1.6.38".to_owned()));
    simulation.settle();
    simulation.model.check_converged();
}

/// No condition can tell of it.
#[test]
fn a_status_that_is_refused_counts_as_a_failure_until_it_is_written() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.settle();
    simulation.model.edit(1);
    run_without(&mut simulation, "status");
    assert_eq!(simulation.failure, Some(Category::Forbidden));
    simulation.settle();
    simulation.model.check_converged();
    assert_eq!(simulation.failure, None);
}
