//! Kinds of children that the API server does not serve: what is said of them is true now, also where the kind came meanwhile.

use memcached_operator_core::api::MemcachedSpec;
use memcached_operator_core::api::spec::{MonitoringSpec, ServiceMonitorSpec};
use memcached_operator_core::kernel::object::ChildKind::ServiceMonitor;

use crate::simulation::Simulation;

/// An operator of a cache without a ServiceMonitor, which has heard that the API server serves none.
fn without_monitors() -> Simulation {
    let mut simulation = Simulation::new();
    simulation.model.unserved.insert(ServiceMonitor);
    simulation.restart();
    simulation.model.create_resource();
    simulation.settle();
    simulation
}

fn is_monitored(spec: &mut MemcachedSpec) {
    let service_monitor = Some(ServiceMonitorSpec::default());
    let monitoring = MonitoringSpec { enabled: Some(true), service_monitor, ..MonitoringSpec::default() };
    spec.monitoring = Some(Box::new(monitoring));
}

fn told_as_unserved(simulation: &Simulation) -> usize {
    simulation.said.iter().filter(|reason| *reason == "NotServed").count()
}

#[test]
fn a_kind_that_came_after_the_start_is_not_told_of_as_missing() {
    let mut simulation = without_monitors();
    simulation.model.unserved.clear();
    simulation.model.change_spec(is_monitored);
    simulation.settle();
    simulation.model.check_converged();
    assert!(simulation.requested.contains(&"create ServiceMonitor".to_owned()), "it is made");
    assert_eq!(told_as_unserved(&simulation), 0);
}

#[test]
fn a_kind_that_is_missing_is_told_of_once_whoever_leads_and_made_when_it_comes() {
    let mut simulation = without_monitors();
    simulation.model.change_spec(is_monitored);
    simulation.settle();
    assert_eq!(simulation.model.resource().status.unserved_kinds, ["ServiceMonitor"]);
    let version = simulation.model.version();
    simulation.restart();
    simulation.settle();
    simulation.change_leader();
    simulation.settle();
    assert_eq!((simulation.model.version(), told_as_unserved(&simulation)), (version, 1));

    simulation.model.unserved.clear();
    simulation.looked_for.insert(ServiceMonitor);
    simulation.settle();
    simulation.model.check_converged();
    assert_eq!(simulation.model.resource().status.unserved_kinds, [""; 0]);
    assert_eq!(told_as_unserved(&simulation), 1);
}

#[test]
fn who_leads_again_writes_nothing_of_a_kind_that_came_while_it_followed() {
    let mut simulation = without_monitors();
    simulation.change_leader();
    simulation.settle();
    simulation.model.unserved.clear();
    simulation.model.change_spec(is_monitored);
    simulation.settle();
    simulation.model.check_converged();
    let version = simulation.model.version();
    // The first one followed meanwhile. It asks for no kind, so it knows only what it heard at its start.
    simulation.change_leader();
    simulation.settle();
    assert_eq!((simulation.model.version(), told_as_unserved(&simulation)), (version, 0));
}

#[test]
fn who_asked_for_a_kind_before_it_followed_knows_nothing_of_now() {
    let mut simulation = without_monitors();
    simulation.model.change_spec(is_monitored);
    simulation.settle();
    simulation.change_leader();
    simulation.settle();
    simulation.model.unserved.clear();
    simulation.looked_for.insert(ServiceMonitor);
    simulation.settle();
    simulation.model.check_converged();
    let version = simulation.model.version();
    simulation.change_leader();
    simulation.settle();
    // Its next question is due within half a minute.
    simulation.looked_for.insert(ServiceMonitor);
    simulation.settle();
    assert_eq!((simulation.model.version(), told_as_unserved(&simulation)), (version, 1));
}
