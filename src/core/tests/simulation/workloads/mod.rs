//! Caches whose pods are replaced, by another workload or by other pods with the same names: how a simulation comes there, and how
//! it goes on. The model checks each partition that is written.

mod named_pods;
mod switched;

use jiff::SignedDuration;
use memcached_operator_core::kernel::object::ChildKind;

use crate::simulation::Simulation;

/// A StatefulSet of three full pods, and then an edit of its template.
pub(crate) fn edited(before: u8, after: u8) -> Simulation {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.model.edit(before);
    simulation.settle();
    simulation.model.fill_pods(100);
    simulation.requested.clear();
    simulation.model.edit(after);
    simulation
}

/// Pods that mount a Secret, all full.
pub(crate) fn with_a_secret(variant: u8) -> Simulation {
    let mut simulation = Simulation::new();
    simulation.model.set_secret(Some(0));
    simulation.model.create_resource();
    simulation.model.edit(variant);
    simulation.settle();
    simulation.model.fill_pods(100);
    simulation.model.rollouts = 0;
    simulation
}

/// The number of ready pods, and the reason of Ready.
pub(crate) fn readiness(simulation: &Simulation, kind: ChildKind) -> (i32, String) {
    let conditions = &simulation.model.resource().status.conditions;
    let ready = conditions.iter().find(|it| it.type_ == "Ready").unwrap();
    (simulation.model.ready_pods(kind), ready.reason.to_string())
}

/// Until nothing happens but by time, or by an answer of pods.
pub(crate) fn run(simulation: &mut Simulation) {
    while one_step(simulation) {}
}

/// A request is answered or, where there is none, a controller works. Says whether anything happened.
pub(crate) fn one_step(simulation: &mut Simulation) -> bool {
    simulation.hear();
    if simulation.requests.is_empty() {
        return simulation.model.work();
    }
    simulation.answer(0, true, None);
    true
}

/// Time passes, second by second, and the pods answer.
pub(crate) fn pass(simulation: &mut Simulation, seconds: usize) {
    for _ in 0..seconds {
        simulation.wait(SignedDuration::from_secs(1));
        run(simulation);
        simulation.answer_question(0, false);
        run(simulation);
    }
}

/// Until the operator has no request left; no time passes, and no pod changes.
pub(crate) fn answer_all(simulation: &mut Simulation) {
    loop {
        simulation.hear();
        if simulation.requests.is_empty() {
            break;
        }
        simulation.answer(0, true, None);
    }
}
