//! The Kubernetes Events that are published: what is no rollout has none, and that of a rollout names what changes.

use memcached_operator_core::kernel::effect::Effect;
use memcached_operator_core::kernel::event::{Event, Reply};
use memcached_operator_core::kernel::failure::Category;
use serde_json::json;

use crate::model::{Cluster, SCALED};
use crate::simulation::{Simulation, request_name};

#[test]
fn what_a_status_says_is_published_though_the_watch_tells_of_it_before_the_reply() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    loop {
        if let Some(event) = simulation.model.next_event(0) {
            simulation.step(event);
        } else if let Some(Effect::Send { id, request, .. }) = simulation.requests.pop() {
            let reply = simulation.model.execute(&request);
            while let Some(event) = simulation.model.next_event(0) {
                simulation.step(event);
            }
            simulation.step(Event::Done { id, reply });
        } else if !simulation.model.work() {
            break;
        }
    }
    assert_eq!(simulation.said, ["Created", "Created", "Created", "MemcachedReady"]);
}

#[test]
fn a_template_that_is_taken_back_and_one_that_the_api_server_stores_as_it_was_are_no_rollouts() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.settle();
    simulation.said.clear();
    simulation.model.take_template();
    assert!(simulation.settle() > 0, "it is taken back");
    assert_eq!((simulation.said.as_slice(), simulation.counted), (&[][..], 0));
    simulation.model.edit(2);
    let applies = |it: &Effect| matches!(it, Effect::Send { request, .. } if request_name(request) == "apply Deployment");
    while !simulation.requests.iter().any(applies) {
        match simulation.model.next_event(0) {
            Some(event) => simulation.step(event),
            None => simulation.answer(0, true, None),
        }
    }
    let at = simulation.requests.iter().position(applies).unwrap();
    let Effect::Send { id, .. } = simulation.requests.remove(at) else { unreachable!() };
    let as_it_was = Reply::Child(Some(Box::new(simulation.model.deployment().clone())));
    simulation.step(Event::Done { id, reply: as_it_was });
    assert_eq!((simulation.said.as_slice(), simulation.counted), (&[][..], 0));
    simulation.settle();
    assert_eq!(
        (simulation.said.as_slice(), simulation.counted),
        (&["RolloutStarted".to_owned(), "MemcachedReady".to_owned()][..], 1)
    );
}

#[test]
fn what_one_hand_adds_is_told_of_though_what_it_changed_of_ours_is_put_back() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.settle();
    simulation.said.clear();
    simulation.model.patch_image_and_network();
    simulation.settle();
    assert_eq!(simulation.said.iter().filter(|it| *it == "PodsReplacedByOthers").count(), 1);
    assert_eq!(simulation.said.iter().filter(|it| *it == "RolloutStarted").count(), 1);
    let told = &simulation.model.resource().status.other_field_managers;
    assert_eq!(told.iter().map(|it| it.manager.as_str()).collect::<Vec<_>>(), ["kubectl-patch"]);
    simulation.said.clear();
    simulation.model.edit(2);
    simulation.settle();
    assert_eq!(simulation.said, ["RolloutStarted", "MemcachedReady"]);
}

/// The network is theirs since before, and stays: nobody touches it again.
#[test]
fn what_is_put_back_as_a_whole_is_no_news_of_what_the_same_hand_set_before() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.settle();
    simulation.model.patch_image_and_network();
    simulation.settle();
    simulation.said.clear();
    simulation.model.patch_image();
    simulation.settle();
    assert_eq!(simulation.said.iter().filter(|it| *it == "PodsReplacedByOthers").count(), 0);
    assert_eq!(simulation.said.iter().filter(|it| *it == "RolloutStarted").count(), 1);
}

#[test]
fn an_event_names_the_fields_of_the_template_that_an_edit_a_secret_and_a_trigger_change() {
    let mut simulation = Simulation::new();
    simulation.model.set_secret(Some(1));
    simulation.model.create_resource();
    simulation.settle();
    simulation.model.edit(3);
    simulation.settle();
    simulation.model.set_secret(Some(2));
    simulation.settle();
    simulation.model.trigger(1);
    simulation.settle();
    simulation.model.edit(2);
    simulation.settle();
    let fields = |told: &String| {
        let of_secret = told.split_once("(password-file): ");
        let fields = of_secret.or_else(|| told.split_once(" (")).unwrap().1;
        fields.trim_end_matches(')').replace("spec.template.", "")
    };
    let told: Vec<_> = simulation.told.iter().map(fields).collect();
    let of_memcached = |field: &str| format!("spec.containers[name=memcached].{field}");
    let [args, mounts] = ["args", "volumeMounts"].map(of_memcached);
    assert_eq!(
        told,
        [
            format!("metadata.annotations, {args}, {mounts}, spec.volumes"),
            "metadata.annotations[memcached.c5c3.io/secret-hash]".to_owned(),
            "metadata.annotations[memcached.c5c3.io/restart-trigger]".to_owned(),
            format!("{args}, metadata.annotations[memcached.c5c3.io/secret-hash], {mounts}, spec.volumes"),
        ]
    );
}

/// The new operator has compared the Deployment before it knows the Secret, and has dropped it: it reads it once more.
#[test]
fn an_event_names_the_fields_also_where_the_operator_restarts_between_an_edit_and_its_rollout() {
    let mut simulation = Simulation::new();
    simulation.model.set_secret(Some(1));
    simulation.model.create_resource();
    simulation.model.edit(5);
    simulation.settle();
    simulation.model.edit(3);
    simulation.restart();
    simulation.settle();
    let [told] = simulation.told.as_slice() else { panic!("{:?}", simulation.told) };
    assert!(told.contains("spec.template.spec.containers[name=memcached].volumeMounts"), "{told}");
}

/// A Deployment of a paused resource is compared and dropped. Then the edit asks for another one, with the same template.
#[test]
fn an_event_names_what_is_put_back_also_where_an_edit_beside_the_template_does_it() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.settle();
    simulation.model.pause(true);
    simulation.settle();
    simulation.model.tamper_template();
    simulation.settle();
    simulation.requested.clear();
    simulation.model.change_spec(|spec| (spec.paused, spec.replicas) = (None, Some(3)));
    simulation.settle();
    let told = "Replacing pods, cause drift: somebody else changed the pod template, and it is put back \
                (spec.template.spec.containers[name=memcached].image)";
    assert_eq!(simulation.told, [told]);
    assert_eq!(simulation.requested.iter().filter(|it| *it == "read Deployment").count(), 1);
}

#[test]
fn an_edit_costs_no_read_of_a_template_that_is_as_it_was_written_or_as_the_cluster_rewrote_it() {
    for cluster in [Cluster::Faithful, Cluster::RewritesImages] {
        let mut simulation = Simulation::new();
        simulation.model.become_another(cluster);
        simulation.model.create_resource();
        simulation.settle();
        simulation.requested.clear();
        simulation.model.change_spec(|spec| spec.replicas = Some(2));
        simulation.settle();
        edit_threads(&mut simulation, 3);
        simulation.settle();
        let requested = |name| simulation.requested.iter().filter(|it| *it == name).count();
        assert_eq!(["apply Deployment", "read Deployment"].map(requested), [2, 0], "{cluster:?}");
    }
}

/// The search for histories found it, when the model took away what somebody else owned.
#[test]
fn what_somebody_else_owns_in_the_template_of_an_orphan_stays_and_replaces_no_pod() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.model.edit(SCALED);
    simulation.settle();
    let (told, counted) = (simulation.told.len(), simulation.counted);
    simulation.model.orphan();
    simulation.model.create_resource();
    simulation.model.take_template();
    let rollouts = simulation.model.rollouts;
    simulation.settle();
    simulation.model.check_converged();
    assert_eq!((simulation.told.len(), simulation.counted), (told, counted), "{:?}", simulation.told);
    assert_eq!(simulation.model.rollouts, rollouts);
}

/// `highAvailability` keeps pods off each other's nodes by being there, and the budget is within it.
#[test]
fn the_first_budget_replaces_pods_and_an_event_names_the_field() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.model.edit(1); // three pods
    simulation.settle();
    let budget = json!({"podDisruptionBudget": {"enabled": true, "minAvailable": 1}});
    simulation.model.change_spec(|spec| spec.high_availability = serde_json::from_value(budget).unwrap());
    simulation.settle();
    let fields = simulation.told.iter().map(|told| told.split_once(" (").unwrap().1);
    assert_eq!(fields.collect::<Vec<_>>(), ["spec.template.spec.affinity)"]);
}

fn edit_threads(simulation: &mut Simulation, threads: u8) {
    let memcached = json!({"threads": threads});
    simulation.model.change_spec(|spec| spec.memcached = serde_json::from_value(memcached).unwrap());
}

/// What Events say of two edits, from 2 threads to 3 and to 4.
const EDITS: [&str; 2] = [
    "Replacing pods, cause spec: memcached.threads 2 -> 3 (spec.template.spec.containers[name=memcached].args)",
    "Replacing pods, cause spec: memcached.threads 3 -> 4 (spec.template.spec.containers[name=memcached].args)",
];

/// What the cluster stores differs from what is applied all the time, and hides nothing of what an edit changes.
#[test]
fn an_event_names_the_fields_also_where_the_cluster_rewrites_the_template() {
    for cluster in [Cluster::RewritesImages, Cluster::RewritesArguments] {
        let mut simulation = Simulation::new();
        simulation.model.become_another(cluster);
        simulation.model.create_resource();
        edit_threads(&mut simulation, 2);
        simulation.settle();
        simulation.told.clear();
        for threads in [3, 4] {
            edit_threads(&mut simulation, threads);
            simulation.settle();
        }
        assert_eq!(simulation.told, EDITS, "{cluster:?}");
    }
}

#[test]
fn an_edit_that_comes_before_the_status_of_the_one_before_is_told_with_the_values_that_the_pods_have() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    edit_threads(&mut simulation, 2);
    simulation.settle();
    simulation.told.clear();
    edit_threads(&mut simulation, 3);
    while simulation.told.is_empty() {
        match simulation.model.next_event(0) {
            Some(event) => simulation.step(event),
            None => simulation.answer(0, true, None),
        }
    }
    let writes_status =
        |it: &Effect| matches!(it, Effect::Send { request, .. } if request_name(request) == "status");
    assert!(simulation.requests.iter().any(writes_status), "{:?}", simulation.requests);
    edit_threads(&mut simulation, 4);
    simulation.settle();
    assert_eq!(simulation.told, EDITS);
}

#[test]
fn who_begins_to_lead_tells_of_an_edit_with_the_values_that_the_pods_have_by_the_leader_before() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    edit_threads(&mut simulation, 2);
    simulation.settle();
    simulation.change_leader();
    simulation.settle();
    simulation.told.clear();
    edit_threads(&mut simulation, 3);
    simulation.settle();
    edit_threads(&mut simulation, 4);
    // Both hear of it. What the leader sends never arrives.
    simulation.hear();
    simulation.change_leader();
    simulation.settle();
    assert_eq!(simulation.told, EDITS);
}

/// The first write of the Deployment is refused, and the second is under way when the next edit comes.
#[test]
fn an_edit_that_comes_while_the_one_before_is_written_is_told_with_the_values_that_the_pods_have() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.hear();
    let creates = |simulation: &Simulation| {
        let is_create = |it: &Effect| matches!(it, Effect::Send { request, .. } if request_name(request) == "create Deployment");
        simulation.requests.iter().position(is_create)
    };
    let at = creates(&simulation).unwrap();
    simulation.answer(at, false, Some(Category::Conflict));
    edit_threads(&mut simulation, 2);
    simulation.hear();
    while creates(&simulation).is_none() {
        simulation.answer(0, true, None);
    }
    edit_threads(&mut simulation, 3);
    simulation.hear();
    simulation.settle();
    assert_eq!(simulation.told, EDITS[..1]);
}

/// The number of pods is given up by a patch, before the apply that has the rest of the edit.
#[test]
fn an_edit_that_comes_while_a_field_is_given_up_is_told_with_the_values_that_the_pods_have() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    edit_threads(&mut simulation, 2);
    simulation.settle();
    simulation.told.clear();
    simulation.model.change_spec(|spec| {
        let scaled = json!({"enabled": true, "minReplicas": 2, "maxReplicas": 4,
            "metrics": [{"type": "External", "external": {
                "metric": {"name": "hits"}, "target": {"type": "Value", "value": "1"}}}]});
        spec.autoscaling = serde_json::from_value(scaled).unwrap();
        spec.memcached = serde_json::from_value(json!({"threads": 3})).unwrap();
    });
    let patches = |it: &Effect| matches!(it, Effect::Send { request, .. } if request_name(request) == "patch Deployment");
    while !simulation.requests.iter().any(patches) {
        match simulation.model.next_event(0) {
            Some(event) => simulation.step(event),
            None => simulation.answer(0, true, None),
        }
    }
    edit_threads(&mut simulation, 4);
    simulation.hear();
    simulation.settle();
    let [told] = simulation.told.as_slice() else { panic!("{:?}", simulation.told) };
    assert!(told.contains("memcached.threads 2 -> 4"), "{told}");
}

/// What follows has seen each rollout and told of none.
#[test]
fn who_begins_to_lead_tells_of_no_rollout_that_the_leader_before_told_of() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.settle();
    simulation.change_leader();
    simulation.settle();
    simulation.model.restart_pods();
    simulation.settle();
    let told =
        |simulation: &Simulation| simulation.said.iter().filter(|it| *it == "PodsReplacedByOthers").count();
    assert_eq!(told(&simulation), 1);
    // Objects come a second apart, and this one is written later.
    simulation.model.set_secret(Some(1));
    simulation.model.label_deployment();
    simulation.settle();
    simulation.requested.clear();
    simulation.change_leader();
    simulation.settle();
    assert_eq!((told(&simulation), simulation.requested.as_slice()), (1, &[][..]));
}

fn scale(simulation: &mut Simulation, replicas: i32) {
    simulation.model.change_spec(|spec| spec.replicas = Some(replicas));
}

/// The Deployment is seen again before the next pass, which so knows in what it differs: in the number that the edit asks for.
fn scale_back_to_three(simulation: &mut Simulation) {
    simulation.model.delete_service();
    simulation.hear();
    assert!(!simulation.requests.is_empty());
    simulation.model.label_deployment();
    scale(simulation, 3);
    simulation.settle();
    assert!(!simulation.said.contains(&"FieldsPutBack".to_owned()), "{:?}", simulation.said);
}

#[test]
fn an_edit_that_asks_for_what_an_earlier_leader_wrote_last_puts_nothing_back() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    for replicas in [3, 5] {
        scale(&mut simulation, replicas);
        simulation.settle();
        simulation.change_leader();
        simulation.settle();
    }
    scale_back_to_three(&mut simulation);
}

#[test]
fn an_edit_back_to_what_was_before_a_write_without_an_answer_puts_nothing_back() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    scale(&mut simulation, 3);
    simulation.settle();
    scale(&mut simulation, 5);
    simulation.hear();
    let applies = |it: &Effect| matches!(it, Effect::Send { request, .. } if request_name(request) == "apply Deployment");
    let at = simulation.requests.iter().position(applies).unwrap();
    simulation.answer(at, true, Some(Category::Transient));
    simulation.settle();
    scale_back_to_three(&mut simulation);
}
