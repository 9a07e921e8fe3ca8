//! Settings of the default images that are others after each restart: they alone roll nothing, at once or later.

use memcached_operator_core::api::spec::MonitoringSpec;
use memcached_operator_core::kernel::desired::DefaultImages;
use memcached_operator_core::kernel::reconciler::Settings;
use memcached_operator_core::kernel::rollout_budget::{Adoption, BudgetSettings};
use proptest::prelude::*;

use crate::history::op;
use crate::simulation::Simulation;

const IMAGE: &str = "/spec/template/spec/containers/0/image";

fn from_registry(number: usize) -> Settings {
    let memcached = format!("registry-{number}.example/library/memcached:1.6").into();
    Settings { images: DefaultImages { memcached, ..DefaultImages::default() }, ..Settings::default() }
}

fn text(simulation: &Simulation, pointer: &str) -> Option<String> {
    Some(simulation.model.deployment().content.parse().pointer(pointer)?.as_str()?.to_owned())
}

fn image(simulation: &Simulation) -> Option<String> {
    text(simulation, IMAGE)
}

#[test]
fn a_cache_of_before_the_settings_keeps_its_image_until_an_edit_and_then_that_of_the_edit() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.settle();
    let made = simulation.model.version();
    simulation.restart_with(from_registry(1));
    simulation.settle();
    assert_eq!((image(&simulation).as_deref(), simulation.model.version()), (Some("memcached:1.6"), made));
    simulation.model.edit(2);
    simulation.settle();
    assert_eq!(image(&simulation).as_deref(), Some("registry-1.example/library/memcached:1.6"));
    assert_eq!(simulation.model.rollouts, 1);
    let edited = simulation.model.version();
    simulation.restart();
    simulation.settle();
    assert_eq!(image(&simulation).as_deref(), Some("registry-1.example/library/memcached:1.6"));
    assert_eq!(simulation.model.version(), edited);
}

fn exporter(simulation: &Simulation) -> Option<String> {
    text(simulation, "/spec/template/spec/containers/1/image")
}

/// The images that the Deployment says its pods were made with.
fn recorded(simulation: &Simulation) -> Option<DefaultImages> {
    let record = "/metadata/annotations/memcached.c5c3.io~1default-images";
    DefaultImages::from_annotation(&text(simulation, record)?)
}

/// A cache whose spec names no image runs the Go operator's template, and the flags name images of a mirror.
#[test]
fn a_template_of_the_go_operator_gets_the_images_of_the_flags_and_their_record_when_its_turn_comes() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.model.change_spec(|spec| {
        spec.monitoring = Some(Box::new(MonitoringSpec { enabled: Some(true), ..MonitoringSpec::default() }));
    });
    simulation.settle();
    simulation.model.predate();
    let images = DefaultImages {
        memcached: "registry.example/library/memcached:1.6".into(),
        exporter: "registry.example/prom/memcached-exporter:v0.15.4".into(),
        ..DefaultImages::default()
    };
    let adoption = |adoption| Settings {
        images: images.clone(),
        rollout_budget: BudgetSettings { limit: 1, adoption },
        ..Settings::default()
    };
    simulation.restart_with(adoption(Adoption::Off));
    simulation.settle();
    assert_eq!(
        (
            image(&simulation).as_deref(),
            exporter(&simulation).as_deref(),
            recorded(&simulation),
            simulation.model.rollouts
        ),
        (Some("memcached:1.6"), Some("prom/memcached-exporter:v0.15.4"), None, 0),
        "no turn came"
    );
    simulation.restart_with(adoption(Adoption::Budgeted));
    simulation.settle();
    assert_eq!(
        (image(&simulation).as_deref(), exporter(&simulation).as_deref(), simulation.model.rollouts),
        (Some(&*images.memcached), Some(&*images.exporter), 1)
    );
    assert_eq!(recorded(&simulation), Some(images));
}

/// An apply of a former operator arrives late; the API server stores a field of it otherwise. The next operator asks once
/// how, and what it learns is true after the next restart.
#[test]
fn what_the_api_server_stores_otherwise_is_asked_once_also_where_a_late_apply_stored_it() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.restart_with(from_registry(0));
    simulation.settle();
    simulation.model.edit(7);
    let edited = simulation.model.next_event(0).expect("the edit");
    simulation.step(edited);
    simulation.restart_with(from_registry(1));
    simulation.execute_late(0);
    simulation.settle();
    assert!(!simulation.model.resource().status.altered_fields.is_empty(), "the edit is stored as it is");
    let before = simulation.model.version();
    simulation.restart_with(from_registry(2));
    simulation.settle();
    assert_eq!(simulation.model.version(), before, "a restart wrote something");
}

proptest! {
    #[test]
    fn settings_of_images_that_change_between_restarts_roll_nothing(
        histories in proptest::collection::vec(proptest::collection::vec(op(), 0..12), 1..5),
    ) {
        let mut simulation = Simulation::new();
        simulation.model.create_resource();
        for (number, history) in histories.iter().enumerate() {
            simulation.restart_with(from_registry(number));
            for op in history {
                simulation.apply(op);
            }
        }
        simulation.settle();
        let (rollouts, causes) = (simulation.model.rollouts, simulation.model.causes);
        prop_assert!(rollouts <= causes, "{rollouts} rollouts for {causes} causes");
        let before = simulation.model.version();
        simulation.restart_with(from_registry(99));
        simulation.settle();
        prop_assert_eq!(simulation.model.version(), before, "another setting wrote something");
    }
}
