//! What a watch by our label does not show: children that lost it, and objects of somebody else.

use jiff::{SignedDuration, Timestamp};
use memcached_operator_core::kernel::effect::Effect;
use memcached_operator_core::kernel::event::Event;
use memcached_operator_core::kernel::object::{ChildKind, Scope, Watched};
use memcached_operator_core::kernel::reconciler::{Reconciler, Settings};
use proptest::prelude::*;

use crate::history::{child, op};
use crate::simulation::{Simulation, request_name};

impl Simulation {
    /// Everything that is under way is done, time stands still. Returns the requests that were sent.
    fn requests(&mut self) -> Vec<String> {
        let mut sent = Vec::new();
        loop {
            if let Some(event) = self.model.next_event(0) {
                self.step(event);
            } else if let Some(Effect::Send { request, .. }) = self.requests.first() {
                sent.push(request_name(request));
                self.answer(0, true, None);
            } else {
                return sent;
            }
        }
    }

    /// A resource whose Service is somebody else's, and what came of it.
    fn beside_a_foreign_service() -> (Self, Vec<String>) {
        let mut simulation = Self::new();
        simulation.model.put_foreign(ChildKind::Service, false);
        simulation.model.create_resource();
        let sent = simulation.requests();
        (simulation, sent)
    }

    /// Reason and message of Stalled, where it is true.
    fn stalled(&self) -> Option<(&str, &str)> {
        let conditions = &self.model.resource().status.conditions;
        let stalled = conditions.iter().find(|it| it.type_ == "Stalled" && it.status == "True")?;
        Some((&stalled.reason, &stalled.message))
    }

    /// When the next wake is due, which comes.
    fn wake(&mut self) -> Timestamp {
        let at = self.wake.expect("it wakes");
        self.wait(at.duration_since(self.now));
        at
    }
}

proptest! {
    #[test]
    fn what_is_somebody_elses_is_named_for_as_long_as_it_is_there(
        history in proptest::collection::vec(op(), 0..40),
        (kind, labelled) in (child(), any::<bool>()),
    ) {
        let mut simulation = Simulation::new();
        simulation.model.create_resource();
        for op in &history {
            simulation.apply(op);
        }
        // A workload that waits for its policy is not asked for, so nobody would hear whose name it is.
        simulation.model.stop_opening_policies();
        simulation.model.put_foreign(kind, labelled);
        simulation.settle_beside_others(20);
        let foreign = simulation.model.foreign();
        if !foreign.is_empty() {
            let (stalled, status) = (simulation.stalled(), &simulation.model.resource().status);
            // A workload that waits for a Secret is not asked for, so nobody hears whose name it is.
            let waits = foreign.iter().all(|kind| kind.is_workload()) && simulation.model.has_refused_secret();
            let expected = if waits { &["NameConflict", "SecretInvalid"][..] } else { &["NameConflict"] };
            prop_assert!(stalled.is_some_and(|(reason, _)| expected.contains(&reason)), "{:?}", status);
            prop_assert_eq!(status.observed_generation, simulation.model.resource().generation);
        }
        simulation.settle();
        simulation.model.check_converged();
    }
}

#[test]
fn what_lost_our_label_is_found_by_the_conflict_and_gets_it_back() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.settle();
    for kind in [ChildKind::Service, ChildKind::Deployment] {
        simulation.model.take_label(kind);
        let sent = simulation.requests();
        let wanted = ["create", "read", "apply"].map(|verb| format!("{verb} {}", kind.name()));
        assert_eq!(sent, wanted);
    }
    assert_eq!((simulation.settle(), simulation.model.rollouts), (0, 0));
    simulation.model.check_converged();
}

#[test]
fn what_lost_our_label_while_nobody_looked_is_read_and_gets_it_back() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.settle();
    simulation.model.take_label(ChildKind::Deployment);
    simulation.restart();
    assert_eq!(simulation.requests(), ["read Deployment", "apply Deployment"]);
    assert_eq!((simulation.settle(), simulation.model.rollouts), (0, 0));
}

#[test]
fn what_no_list_shows_after_a_restart_is_read_before_it_is_made() {
    for kind in [ChildKind::Service, ChildKind::ConfigMap, ChildKind::Deployment] {
        let mut simulation = Simulation::new();
        simulation.model.create_resource();
        simulation.settle();
        simulation.model.delete_child(kind);
        simulation.requested.clear();
        simulation.restart();
        simulation.settle();
        let of_it = |it: &&String| it.split_once(' ').is_some_and(|(_, of)| of == kind.name());
        let sent: Vec<_> = simulation.requested.iter().filter(of_it).collect();
        let wanted = ["read", "create"].map(|verb| format!("{verb} {}", kind.name()));
        assert_eq!(sent, wanted.iter().collect::<Vec<_>>());
        simulation.model.check_converged();
    }
}

#[test]
fn an_object_of_somebody_else_costs_one_write_and_after_a_restart_none() {
    let (mut simulation, sent) = Simulation::beside_a_foreign_service();
    assert_eq!(sent, ["create Service", "create ConfigMap", "create Deployment", "read Service", "status"]);
    let (reason, message) = simulation.stalled().expect("it is stalled");
    assert_eq!(reason, "NameConflict");
    assert!(message.starts_with("Service sim/cache exists and is not controlled"), "{message}");
    simulation.settle_beside_others(10);

    let before = simulation.model.version();
    simulation.restart();
    assert_eq!(simulation.requests(), ["read Service"]);
    simulation.settle_beside_others(10);
    assert_eq!(simulation.model.version(), before, "nothing was written");
}

#[test]
fn an_object_of_somebody_else_is_looked_at_again_with_a_backoff_up_to_a_minute() {
    let (mut simulation, _) = Simulation::beside_a_foreign_service();
    simulation.settle_beside_others(2);
    let mut looked = Vec::new();
    while looked.len() < 12 {
        let at = simulation.wake();
        if simulation.requests() == ["read Service"] {
            looked.push(at);
        }
    }
    let pauses: Vec<_> = looked.windows(2).map(|two| two[1].duration_since(two[0])).collect();
    let minute = SignedDuration::from_secs(60);
    assert!(pauses.iter().all(|pause| *pause <= minute), "{pauses:?}");
    assert!(pauses[0] < minute / 4, "{pauses:?}");
    assert!(pauses[8..].iter().all(|pause| *pause >= minute * 3 / 4), "{pauses:?}");

    simulation.model.remove_foreign(ChildKind::Service);
    let gone = simulation.now;
    assert_eq!(simulation.requests(), Vec::<String>::new(), "no watch tells");
    let told = simulation.wake();
    assert!(told.duration_since(gone) <= minute);
    assert_eq!(simulation.requests()[..2], ["read Service", "create Service"]);
    simulation.settle();
    simulation.model.check_converged();
}

#[test]
fn an_edit_is_a_reason_to_look_at_once() {
    let (mut simulation, _) = Simulation::beside_a_foreign_service();
    simulation.settle_beside_others(10);
    simulation.model.edit(1);
    assert_eq!(simulation.requests()[0], "read Service");
}

#[test]
fn a_feature_that_is_switched_off_takes_along_what_lost_our_label() {
    let scaled = |simulation: &mut Simulation| {
        simulation.model.create_resource();
        simulation.model.edit(6);
        simulation.settle();
        simulation.model.take_label(ChildKind::HorizontalPodAutoscaler);
    };
    let mut simulation = Simulation::new();
    scaled(&mut simulation);
    simulation.requested.clear();
    simulation.lead(false); // so that it hears of both before it does anything
    simulation.model.edit(0);
    assert_eq!(simulation.requests(), Vec::<String>::new());
    simulation.lead(true);
    let wanted = ["read HorizontalPodAutoscaler", "apply Deployment", "delete HorizontalPodAutoscaler"];
    // Who wins the lead between an edit and its status reads the other kinds too.
    let reads_another = |it: &String| it.starts_with("read ") && it != wanted[0];
    let sent: Vec<_> = simulation.requests().into_iter().filter(|it| !reads_another(it)).collect();
    assert_eq!(sent[..3], wanted, "{sent:?}");
    simulation.settle();
    simulation.model.check_converged();
    simulation.model.edit(2);
    simulation.settle();
    let reads = simulation.requested.iter().filter(|it| *it == wanted[0]).count();
    assert_eq!(reads, 1, "of what nobody asks for any more");

    let mut simulation = Simulation::new();
    scaled(&mut simulation);
    simulation.model.edit(0);
    simulation.restart();
    simulation.settle();
    simulation.model.check_converged();
}

#[test]
fn a_feature_that_was_switched_off_before_the_first_status_takes_along_what_lost_our_label() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.model.edit(6);
    simulation.restart();
    simulation.hear();
    let creates = |it: &Effect| matches!(it, Effect::Send { request, .. } if request_name(request) == "create HorizontalPodAutoscaler");
    let place = loop {
        match simulation.requests.iter().position(creates) {
            Some(place) => break place,
            None => simulation.answer(0, true, None),
        }
    };
    simulation.answer(place, true, None);
    assert!(
        !simulation.requested.contains(&"status".to_owned()),
        "nothing but the generation tells of the edit"
    );
    simulation.model.take_label(ChildKind::HorizontalPodAutoscaler);
    simulation.model.edit(0);
    simulation.restart();
    simulation.settle();
    simulation.model.check_converged();
}

#[test]
fn what_was_never_asked_for_is_looked_for_once_and_only_after_an_edit_that_nobody_saw() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.settle();
    simulation.model.edit(2);
    assert!(!simulation.requests().iter().any(|it| it.starts_with("read")), "this run has seen the edit");
    simulation.settle();
    simulation.model.edit(0);
    simulation.restart();
    let reads = simulation.requests().iter().filter(|it| it.starts_with("read")).count();
    assert_eq!(reads, 5, "the kinds that a resource can do without");
    simulation.model.edit(1);
    assert!(!simulation.requests().iter().any(|it| it.starts_with("read")));
}

#[test]
fn nothing_is_kept_of_what_has_no_resource() {
    let mut simulation = Simulation::new();
    simulation.model.set_secret(Some(1));
    simulation.model.create_resource();
    simulation.settle();
    for resources_first in [false, true] {
        simulation.reconciler = Reconciler::new(Settings::default());
        let size = |simulation: &Simulation| serde_json::to_vec(&simulation.reconciler).unwrap().len();
        for listed in [Watched::Memcached].into_iter().filter(|_| resources_first) {
            simulation.step(Event::Listing(listed, Scope::All));
            simulation.step(Event::Listed(listed, Scope::All));
        }
        let before = size(&simulation);
        for kind in [Watched::Child(ChildKind::Deployment), Watched::Secret] {
            simulation.step(Event::Listing(kind, Scope::All));
            let seen = simulation.model.list(kind).remove(0);
            for number in 0..200 {
                let mut seen = seen.clone();
                match &mut seen {
                    Event::Child(child) => child.key.name = format!("other-{number}"),
                    Event::Secret(secret) => secret.key.name = format!("other-{number}"),
                    other => panic!("{other:?}"),
                }
                simulation.step(seen);
            }
            simulation.step(Event::Listed(kind, Scope::All));
        }
        let more = size(&simulation) - before;
        assert!(more < 500, "{more} bytes more, resources listed: {resources_first}");
    }
}
