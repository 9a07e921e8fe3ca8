//! Caches whose pods take changed Secrets in place: no pod is replaced for them.

use memcached_operator_core::kernel::desired::DefaultImages;
use memcached_operator_core::kernel::reconciler::Settings;
use memcached_operator_core::kernel::rollout_budget::{Adoption, BudgetSettings};
use rstest::rstest;
use serde_json::Value;

use crate::model::{Model, NAMED_WITH_SECRET};
use crate::simulation::Simulation;

/// The hash of the Secrets on the workload, and on its template.
fn hashes(model: &Model) -> [Option<String>; 2] {
    let content = model.workload().content.parse();
    ["/metadata", "/spec/template/metadata"].map(|at| {
        let annotations = content.pointer(at)?.get("annotations")?;
        annotations.get("memcached.c5c3.io/secret-hash").and_then(Value::as_str).map(str::to_owned)
    })
}

fn in_place(model: &mut Model, word: &str) {
    model.change_spec(|spec| spec.security.as_mut().unwrap().rotation = Some(word.to_owned()));
}

/// A cache with passwords whose pods take them in place, ready.
fn running() -> Simulation {
    running_as(3)
}

/// A cache of one of the variants with passwords, whose pods take them in place, ready.
fn running_as(variant: u8) -> Simulation {
    let mut simulation = Simulation::new();
    simulation.model.set_secret(Some(1));
    simulation.model.create_resource();
    simulation.model.edit(variant);
    in_place(&mut simulation.model, "InPlace");
    simulation.settle();
    simulation.model.rollouts = 0;
    simulation.requested.clear();
    simulation.told.clear();
    simulation
}

#[rstest]
#[case::in_a_deployment(3)]
#[case::with_names(NAMED_WITH_SECRET)]
fn a_changed_secret_replaces_no_pod_and_the_workload_says_which_content_is_wanted(#[case] variant: u8) {
    let mut simulation = running_as(variant);
    let [before, on_template] = hashes(&simulation.model);
    assert_eq!((before.is_some(), on_template), (true, None));
    simulation.model.set_secret(Some(2));
    simulation.settle();
    let [after, on_template] = hashes(&simulation.model);
    assert_eq!((after.is_some(), on_template, simulation.model.rollouts), (true, None, 0));
    assert_ne!(before, after);
    assert_eq!(simulation.told, Vec::<String>::new());
    simulation.requested.clear();
    simulation.restart();
    simulation.settle();
    assert_eq!(simulation.requested, Vec::<String>::new());
    simulation.model.set_secret(None);
    simulation.settle();
    simulation.model.set_secret(Some(3));
    simulation.settle();
    assert_eq!(simulation.model.rollouts, 0, "neither a Secret that goes nor one that comes back");
}

#[test]
fn another_way_of_taking_secrets_replaces_the_pods_once_as_an_edit_of_the_users() {
    let mut simulation = running();
    for word in ["Restart", "InPlace"] {
        in_place(&mut simulation.model, word);
        simulation.settle();
    }
    assert_eq!(simulation.model.rollouts, 2);
    let fields = "spec.template.spec.containers[name=agent]";
    assert!(simulation.told.iter().all(|told| told.contains(fields)), "{:?}", simulation.told);
    simulation.model.set_secret(Some(2));
    simulation.settle();
    assert_eq!(simulation.model.rollouts, 2);
}

/// What the operator is told of new pods is for new pods.
#[test]
fn a_changed_secret_brings_no_pod_the_images_of_other_settings_or_newer_rules() {
    let mut simulation = running();
    let images = DefaultImages { operator: "registry.example/operator:2".into(), ..DefaultImages::default() };
    let rollout_budget = BudgetSettings { adoption: Adoption::Budgeted, ..BudgetSettings::default() };
    simulation.restart_with(Settings { images, rollout_budget, ..Settings::default() });
    simulation.settle();
    for content in [2, 3] {
        simulation.model.set_secret(Some(content));
        simulation.settle();
    }
    assert_eq!(simulation.model.rollouts, 0);
    let content = simulation.model.deployment().content.parse();
    let image = content.pointer("/spec/template/spec/containers/1/image");
    assert_eq!(image.and_then(Value::as_str), Some("ghcr.io/c5c3/memcached-operator-rs:0.1.0"));
}
