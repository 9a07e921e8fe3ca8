//! Specs that say the same in other words: the Go operator's webhook rewrote what users sent, and Git sends it again. No pod is
//! replaced for that.

use memcached_operator_core::api::MemcachedSpec;
use rstest::rstest;
use serde_json::{Value, json};

use crate::fleet::REVISION;
use crate::simulation::Simulation;

fn revision(simulation: &Simulation) -> Value {
    simulation.model.deployment().content.parse().pointer(REVISION).expect("a revision").clone()
}

fn resources(cpu: &str, memory: &str) -> Value {
    json!({"resources": {"requests": {"cpu": cpu}, "limits": {"memory": memory}}})
}

fn exporter(cpu: &str) -> Value {
    json!({"monitoring": {"enabled": true, "exporterResources": {"requests": {"cpu": cpu}}}})
}

fn context(capabilities: &Value) -> Value {
    json!({"security": {"containerSecurityContext": {"runAsUser": 7, "capabilities": capabilities}}})
}

#[rstest]
#[case::memory_and_a_half(resources("500m", "1Gi"), resources("0.5", "1024Mi"))]
#[case::a_thousandth(resources("1", "1Gi"), resources("1000m", "1073741824"))]
#[case::of_the_exporter(exporter("500m"), exporter("0.5"))]
#[case::an_empty_list(context(&json!({})), context(&json!({"add": []})))]
fn a_spec_that_says_the_same_in_other_words_replaces_no_pod(
    #[case] stored: Value,
    #[case] sent: Value,
    #[values(false, true)] is_of_the_go_operator: bool,
) {
    let spec = |raw: &Value| MemcachedSpec::parse(Some(raw)).expect("a spec");
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.model.change_spec(|it| *it = spec(&stored));
    simulation.settle();
    if is_of_the_go_operator {
        simulation.model.predate();
        simulation.restart();
        simulation.settle();
    }
    let seen = |simulation: &Simulation| {
        (revision(simulation), simulation.model.rollouts, simulation.told.clone(), simulation.counted)
    };
    let before = seen(&simulation);
    assert_eq!(before.0 == json!("0"), is_of_the_go_operator);
    simulation.model.change_spec(|it| *it = spec(&sent));
    simulation.settle();
    assert_eq!(seen(&simulation), before);
}
