//! A cluster that makes something else of what is applied: the answer says so, and that is what the apply means there.

use memcached_operator_core::api::status::AlteredFields;
use memcached_operator_core::kernel::effect::Effect;
use memcached_operator_core::kernel::failure::Category;
use serde_json::json;

use crate::fleet::Fleet;
use crate::model::Cluster;
use crate::simulation::{Simulation, request_name};

const IMAGE: &str = "spec.template.spec.containers[name=memcached].image";

/// A resource of this spec that has come to rest in such a cluster.
fn settled(variant: u8, cluster: Cluster) -> Simulation {
    let mut simulation = Simulation::new();
    simulation.model.become_another(cluster);
    simulation.model.create_resource();
    simulation.model.edit(variant);
    simulation.settle();
    simulation.requested.clear();
    simulation
}

fn altered(simulation: &Simulation) -> Vec<(String, Vec<String>)> {
    let paths = |it: &AlteredFields| it.fields.iter().map(|field| field.path.clone()).collect();
    let status = &simulation.model.resource().status;
    status.altered_fields.iter().map(|it| (it.kind.clone(), paths(it))).collect()
}

fn only(path: &str) -> Vec<(String, Vec<String>)> {
    vec![("Deployment".to_owned(), vec![path.to_owned()])]
}

fn ready(simulation: &Simulation) -> (String, String) {
    let ready = simulation.model.resource().status.conditions.iter().find(|it| it.type_ == "Ready").unwrap();
    (ready.reason.to_string(), ready.message.clone())
}

#[test]
fn what_the_api_server_makes_of_an_apply_is_left_so_and_the_status_says_it_once() {
    for (variant, cluster, path) in
        [(7, Cluster::Faithful, "spec.template.spec.tolerations"), (0, Cluster::RewritesImages, IMAGE)]
    {
        let mut simulation = settled(variant, cluster);
        assert_eq!(altered(&simulation), only(path));
        simulation.model.check_converged();
        let said = |reason: &str| simulation.said.iter().filter(|it| *it == reason).count();
        assert_eq!((said("FieldsAltered"), said("RolloutStarted")), (1, usize::from(variant == 7)));
        simulation.restart();
        simulation.settle();
        assert_eq!(simulation.requested, [""; 0], "a restart costs nothing");
        simulation.model.trigger(1);
        simulation.settle();
        assert_eq!(simulation.said.iter().filter(|it| *it == "FieldsAltered").count(), 1);
    }
}

#[test]
fn what_somebody_else_puts_into_such_a_field_is_put_back() {
    let mut simulation = settled(0, Cluster::RewritesImages);
    let before = simulation.model.deployment().content.clone();
    simulation.model.tamper_template();
    simulation.settle();
    assert_eq!(simulation.requested.iter().filter(|it| *it == "apply Deployment").count(), 1);
    assert_eq!(simulation.model.deployment().content, before);
    assert_eq!((simulation.counted, altered(&simulation)), (1, only(IMAGE)));
}

#[test]
fn a_change_of_scale_in_such_a_cluster_replaces_no_pods() {
    let mut simulation = settled(0, Cluster::RewritesImages);
    simulation.model.edit(1); // another number of pods
    simulation.settle();
    assert_eq!(simulation.requested, ["apply Deployment", "status", "status"]);
    assert_eq!((simulation.counted, simulation.model.rollouts), (0, 0));
    simulation.restart();
    simulation.requested.clear();
    simulation.settle();
    assert_eq!(simulation.requested, [""; 0], "what the newest apply means is remembered");
}

#[test]
fn a_change_of_scale_that_waits_in_such_a_cluster_is_no_change_of_the_template() {
    let mut simulation = settled(0, Cluster::RewritesImages);
    simulation.model.change_spec(|spec| (spec.paused, spec.replicas) = (Some(true), Some(3)));
    simulation.restart();
    simulation.settle();
    let conditions = &simulation.model.resource().status.conditions;
    let progressing = conditions.iter().find(|it| it.type_ == "Progressing").unwrap();
    assert_eq!(progressing.message, "Rollout paused: 1/3 replicas updated");
}

#[test]
fn another_version_of_the_api_server_is_asked_once_what_it_makes_of_it() {
    let mut simulation = settled(0, Cluster::RewritesImages);
    simulation.model.upgrade();
    simulation.step(simulation.model.says_version());
    simulation.settle();
    assert_eq!(simulation.requested.iter().filter(|it| *it == "apply Deployment").count(), 1);
    assert_eq!((simulation.counted, simulation.model.rollouts), (0, 0), "it makes the same of it");
    simulation.requested.clear();
    simulation.step(simulation.model.says_version());
    simulation.restart();
    simulation.settle();
    assert_eq!(simulation.requested, [""; 0]);
}

#[test]
fn what_one_version_of_the_api_server_refused_for_good_is_sent_once_more_to_another_one() {
    let mut simulation = settled(0, Cluster::Faithful);
    simulation.model.tamper_replicas(7);
    simulation.hear();
    let apply = |it: &Effect| matches!(it, Effect::Send { request, .. } if request_name(request) == "apply Deployment");
    let at = simulation.requests.iter().position(apply).unwrap();
    simulation.answer(at, false, Some(Category::Invalid));
    simulation.settle();
    simulation.requested.clear();
    simulation.step(simulation.model.says_version());
    assert_eq!(simulation.settle(), 0, "it is the same one");
    simulation.model.upgrade();
    simulation.step(simulation.model.says_version());
    simulation.settle();
    assert_eq!(simulation.requested.iter().filter(|it| *it == "apply Deployment").count(), 1);
    simulation.model.check_converged();
}

#[test]
fn what_the_cluster_no_longer_changes_is_no_longer_said() {
    let mut simulation = settled(0, Cluster::RewritesImages);
    simulation.model.become_another(Cluster::Faithful);
    simulation.settle();
    assert_eq!(simulation.requested, [""; 0], "nobody says that a webhook is gone");
    simulation.model.edit(2); // another template
    simulation.settle();
    assert_eq!(altered(&simulation), []);
    simulation.model.check_converged();
}

#[test]
fn an_answer_that_is_lost_costs_one_more_apply() {
    let mut simulation = settled(0, Cluster::RewritesImages);
    simulation.model.edit(2);
    while let Some(event) = simulation.model.next_event(0) {
        simulation.step(event);
    }
    let apply = |it: &Effect| matches!(it, Effect::Send { request, .. } if request_name(request) == "apply Deployment");
    let at = simulation.requests.iter().position(apply).unwrap();
    simulation.answer(at, true, Some(Category::Transient));
    simulation.settle();
    assert_eq!(simulation.requested.iter().filter(|it| *it == "apply Deployment").count(), 2);
    assert_eq!(altered(&simulation), only(IMAGE));
    simulation.model.check_converged();
}

#[test]
fn pods_wait_for_a_policy_that_the_cluster_changes_and_the_status_names_the_fields() {
    let mut simulation = Simulation::new();
    simulation.model.become_another(Cluster::OpensPolicies);
    simulation.model.create_resource();
    simulation.model.edit(5);
    simulation.restart();
    for _ in 0..100 {
        while let Some(event) = simulation.model.next_event(0) {
            simulation.step(event);
        }
        simulation.answer(0, true, None);
    }
    let (reason, message) = ready(&simulation);
    assert_eq!(reason, "AdmissionDenied");
    assert!(message.contains("spec.ingress"), "{message}");
    let makes_pods = |it: &String| ["create Deployment", "apply Deployment"].contains(&it.as_str());
    assert!(!simulation.requested.iter().any(makes_pods), "{:?}", simulation.requested);
    simulation.model.become_another(Cluster::Faithful);
    simulation.settle();
    simulation.model.check_converged();
}

/// The policy was in place as it was written, and the pods that it guards run. One edit changes both.
#[test]
fn pods_that_run_wait_for_an_edited_policy_that_the_cluster_changes_also_after_a_restart() {
    let mut simulation = settled(5, Cluster::Faithful);
    simulation.model.become_another(Cluster::OpensPolicies);
    simulation.model.change_spec(|spec| {
        let policy = json!({"enabled": true, "allowedSources": [{"podSelector": {}}]});
        spec.security.as_mut().unwrap().network_policy = serde_json::from_value(policy).unwrap();
        spec.memcached = serde_json::from_value(json!({"threads": 3})).unwrap();
    });
    for restarts in [false, true] {
        if restarts {
            simulation.restart();
        }
        simulation.settle_beside_others(5);
        let (reason, message) = ready(&simulation);
        assert_eq!(reason, "AdmissionDenied");
        assert!(message.contains("spec.ingress"), "{message}");
        let requested = std::mem::take(&mut simulation.requested);
        assert!(requested.iter().any(|it| it == "apply NetworkPolicy"), "{requested:?}");
        assert!(!requested.iter().any(|it| it == "apply Deployment"), "{requested:?}");
    }
    assert_eq!(simulation.model.rollouts, 0);
    simulation.model.become_another(Cluster::Faithful);
    simulation.settle();
    simulation.model.check_converged();
    assert_eq!(simulation.model.rollouts, 1);
}

#[test]
fn who_leads_again_forgets_what_the_cluster_altered_before_another_led() {
    let mut fleet = Fleet::with_rewritten_images(1);
    fleet.change_leader();
    fleet.settle();
    let only_model =
        |fleet: &mut Fleet| fleet.models.values_mut().next().unwrap().resource().status.altered_fields.len();
    assert_eq!(only_model(&mut fleet), 1);
    fleet.models.values_mut().for_each(|model| model.become_another(Cluster::Faithful));
    fleet.models.values_mut().for_each(|model| model.trigger(1));
    fleet.settle();
    assert_eq!(only_model(&mut fleet), 0);
    fleet.change_leader();
    fleet.settle();
    assert_eq!(only_model(&mut fleet), 0);
}
