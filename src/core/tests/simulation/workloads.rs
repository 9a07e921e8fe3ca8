//! A cache that changes from a Deployment to a StatefulSet and back: who serves meanwhile, and what is said of it.

use memcached_operator_core::kernel::object::ChildKind;

use crate::model::NAMED;
use crate::simulation::Simulation;

/// Edits the workload and answers requests one by one until the former one is deleted; gives how many pods of the new one
/// were ready then.
fn ready_when_the_former_goes(simulation: &mut Simulation, variant: u8, former: ChildKind) -> i32 {
    simulation.model.edit(variant);
    simulation.requested.clear();
    let new = if former == ChildKind::Deployment { ChildKind::StatefulSet } else { ChildKind::Deployment };
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
