//! Secrets that hold what memcached would refuse: no pod is started with them, and pods that run with them already are left
//! alone.

use jiff::SignedDuration;
use memcached_operator_core::kernel::object::ChildKind;

use crate::model::{Model, REFUSED};
use crate::simulation::Simulation;

/// Status and reason of a condition: `False SecretInvalid`.
fn condition(model: &Model, of: &str) -> Option<String> {
    let conditions = &model.resource().status.conditions;
    conditions.iter().find(|it| it.type_ == of).map(|it| format!("{} {}", it.status, it.reason))
}

fn readiness(model: &Model) -> [Option<String>; 2] {
    ["Ready", "Stalled"].map(|of| condition(model, of))
}

fn invalid() -> [Option<String>; 2] {
    [Some("False SecretInvalid".to_owned()), Some("True SecretInvalid".to_owned())]
}

fn well() -> [Option<String>; 2] {
    [Some("True MemcachedReady".to_owned()), None]
}

/// A cache with passwords, ready, after what the Secret held was found to be this.
fn running(content: u8) -> Simulation {
    let mut simulation = Simulation::new();
    simulation.model.judges = content != REFUSED;
    simulation.model.set_secret(Some(content));
    simulation.model.create_resource();
    simulation.model.edit(3);
    simulation.settle();
    assert_eq!(readiness(&simulation.model), well());
    (simulation.model.rollouts, simulation.model.judges) = (0, true);
    simulation.requested.clear();
    simulation.said.clear();
    simulation.told.clear();
    simulation
}

#[test]
fn pods_stay_as_they_are_until_the_secret_is_mended() {
    let mut simulation = running(1);
    simulation.model.set_secret(Some(REFUSED));
    simulation.settle();
    assert_eq!((simulation.model.rollouts, readiness(&simulation.model)), (0, invalid()));
    assert_eq!(simulation.said, ["SecretInvalid"]);
    // New pods would mount the Secret, whatever they are made for.
    simulation.model.edit(4);
    simulation.model.trigger(1);
    simulation.model.tamper_template();
    simulation.settle();
    assert_eq!(
        (simulation.model.rollouts, readiness(&simulation.model)),
        (1, invalid()),
        "only what others do"
    );
    simulation.requested.clear();
    simulation.restart();
    simulation.settle();
    // Until Ready is said, the workload of before an edit may stand.
    assert_eq!(simulation.requested, ["read StatefulSet"], "the status remembers what was found");
    simulation.model.set_secret(Some(2));
    simulation.settle();
    assert_eq!((simulation.model.rollouts, readiness(&simulation.model)), (2, well()));
}

#[test]
fn what_a_secret_held_before_rolls_nothing_when_it_comes_back() {
    let mut simulation = running(1);
    simulation.model.set_secret(Some(REFUSED));
    simulation.settle();
    simulation.model.set_secret(Some(1));
    simulation.settle();
    assert_eq!((simulation.model.rollouts, readiness(&simulation.model)), (0, well()));
}

#[test]
fn a_new_resource_gets_no_pods_and_everything_else() {
    let mut simulation = Simulation::new();
    simulation.model.set_secret(Some(REFUSED));
    simulation.model.create_resource();
    simulation.model.edit(3);
    // The operator sees the resource with this spec for the first time.
    simulation.restart();
    simulation.settle();
    assert_eq!(readiness(&simulation.model), invalid());
    let children: Vec<_> = simulation.model.kinds().collect();
    assert_eq!(children, [ChildKind::Service, ChildKind::ConfigMap]);
    simulation.requested.clear();
    simulation.restart();
    simulation.settle();
    assert_eq!(simulation.requested, ["read Deployment", "read StatefulSet"]);
    simulation.model.set_secret(Some(1));
    simulation.settle();
    assert_eq!(readiness(&simulation.model), well());
}

#[test]
fn a_cache_is_scaled_and_its_other_children_are_kept_while_its_secret_is_invalid() {
    let mut simulation = running(1);
    simulation.model.set_secret(Some(REFUSED));
    simulation.settle();
    simulation.model.ask_for(3);
    simulation.model.tamper_port();
    simulation.settle();
    assert_eq!(simulation.model.deployment().content.parse()["spec"]["replicas"], 3);
    assert_eq!((simulation.model.rollouts, readiness(&simulation.model)), (0, invalid()));
    assert!(simulation.requested.contains(&"apply Service".to_owned()));
}

#[test]
fn content_that_already_runs_is_never_called_invalid() {
    let mut simulation = running(REFUSED);
    simulation.restart();
    assert_eq!(simulation.settle(), 0, "an upgrade reads nothing");
    simulation.model.touch_secret();
    simulation.settle();
    let warnings = |simulation: &Simulation| {
        let status = &simulation.model.resource().status;
        status.warnings.iter().map(|it| it.reason.clone()).collect::<Vec<_>>()
    };
    assert_eq!(readiness(&simulation.model), well());
    assert_eq!(warnings(&simulation), ["PasswordFileMalformed"]);
    simulation.restart();
    assert_eq!(simulation.settle(), 0, "nor does a restart after that");
    // The model would not let a pod be started with this content: what it holds is not asked here.
    simulation.model.judges = false;
    simulation.model.edit(4);
    simulation.settle();
    assert_eq!((simulation.model.rollouts, readiness(&simulation.model)), (1, well()));
}

#[test]
fn under_an_older_definition_a_restart_reads_again_and_nothing_loops() {
    let mut simulation = running(1);
    simulation.model.redefine();
    simulation.model.set_secret(Some(REFUSED));
    simulation.settle();
    assert_eq!(readiness(&simulation.model), invalid());
    simulation.requested.clear();
    simulation.restart();
    simulation.settle();
    assert_eq!(simulation.requested, ["read Secret", "read StatefulSet", "status"]);
    simulation.wait(SignedDuration::from_hours(1));
    assert_eq!(simulation.settle(), 0);
    assert_eq!((simulation.model.rollouts, readiness(&simulation.model)), (0, invalid()));
}

#[test]
fn the_event_of_a_rollout_names_the_secret_and_its_key_also_after_a_restart() {
    let mut simulation = running(0);
    simulation.model.set_secret(Some(1));
    simulation.settle();
    simulation.restart();
    simulation.model.set_secret(Some(2));
    simulation.settle();
    let changed = "Replacing pods, cause secret: the content changed of Secret credentials";
    // The pods mount one key of it, so that the second one is known although the operator had restarted.
    let field = "spec.template.metadata.annotations[memcached.c5c3.io/secret-hash]";
    let told = format!("{changed} (password-file): {field}");
    assert_eq!(simulation.told, [told.clone(), told]);
}
