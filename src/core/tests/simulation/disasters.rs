//! Histories in which lists take their time, etcd is restored from a backup and the operator loses its rights.

use memcached_operator_core::kernel::effect::Effect;
use memcached_operator_core::kernel::event::Event;
use memcached_operator_core::kernel::failure::Category;
use memcached_operator_core::kernel::known_versions::Presence;
use memcached_operator_core::kernel::object::{ChildKind, Watched};
use memcached_operator_core::kernel::reconciler::Reconciler;
use proptest::prelude::*;

use crate::model::Model;
use crate::simulation::{Simulation, request_name};

/// One step of such a history.
#[derive(Clone, Debug)]
pub(crate) enum Disaster {
    /// A kind is listed anew: the request leaves.
    Ask(usize),
    /// A request for a list is answered.
    Serve(usize),
    /// Somebody backs etcd up.
    BackUp,
    /// Etcd is restored. What is under way fails, and the watches hear of nothing any more.
    Restore,
    /// Etcd is restored, and the API server gives the versions since the backup out again. A list that shows the restore, one of those
    /// that do, is answered before anybody writes; where none does, versions are others, as after [`Self::Restore`].
    RestoreAndRepeatVersions(usize),
    /// The operator's Role is taken away.
    TakeRole,
    /// It gets its Role back.
    GiveRole,
    /// Somebody applies an older definition: the watch of the resources ends.
    Redefine,
    /// Somebody applies the newer one again.
    Restate,
}

pub(crate) fn disaster() -> impl Strategy<Value = Disaster> {
    prop_oneof![
        3 => (0..Watched::ALL.len()).prop_map(Disaster::Ask),
        3 => (0..Watched::ALL.len()).prop_map(Disaster::Serve),
        1 => Just(Disaster::BackUp),
        1 => Just(Disaster::Restore),
        1 => (0..Watched::ALL.len()).prop_map(Disaster::RestoreAndRepeatVersions),
        1 => Just(Disaster::TakeRole),
        2 => Just(Disaster::GiveRole),
        1 => Just(Disaster::Redefine),
        1 => Just(Disaster::Restate),
    ]
}

impl Simulation {
    pub(crate) fn befall(&mut self, disaster: &Disaster) {
        match disaster {
            Disaster::Ask(at) => self.ask(Watched::ALL[*at]),
            Disaster::Serve(at) => {
                if let Some(at) = at.checked_rem(self.asked.len()) {
                    let kind = *self.asked.keys().nth(at).unwrap();
                    self.serve(kind);
                }
            }
            Disaster::BackUp => self.model.back_up(),
            Disaster::Restore => self.restore(),
            Disaster::RestoreAndRepeatVersions(at) => self.restore_and_repeat_versions(*at),
            Disaster::TakeRole => {
                self.asked.remove(&Watched::Memcached);
                let left = self.departure();
                self.model.take_role(left);
            }
            Disaster::GiveRole => self.give_role(),
            Disaster::Redefine => {
                self.model.redefine();
                self.ask(Watched::Memcached);
            }
            Disaster::Restate => {
                self.model.restate();
                self.ask(Watched::Memcached);
            }
        }
    }

    pub(crate) fn ask(&mut self, kind: Watched) {
        if kind != Watched::Memcached || self.model.has_role {
            self.model.cut(kind);
            let left = self.departure();
            self.asked.insert(kind, left);
        }
    }

    /// Answers a list; that of anything else only once the resources are known, as the shell does.
    fn serve(&mut self, kind: Watched) {
        if (self.knows_resources || kind == Watched::Memcached)
            && let Some(left) = self.asked.remove(&kind)
        {
            self.model.serve(kind, left);
        }
    }

    fn give_role(&mut self) {
        if !std::mem::replace(&mut self.model.has_role, true) {
            self.ask(Watched::Memcached);
        }
    }

    fn restore(&mut self) {
        while !self.late.is_empty() {
            self.arrive(0);
        }
        for _ in 0..self.requests.len() {
            self.answer(0, false, Some(Category::Transient));
        }
        self.left_behind.clear();
        self.asked.clear();
        self.model.restore();
        // What was counted since the backup was of a history that is gone.
        self.counted = self.counted.min(self.model.rollouts);
        self.told.truncate(self.counted);
    }

    /// As [`Self::restore`], but versions of the lost history come again. What is promised then rests on a list that shows an
    /// older version than is known: nobody can tell a restore without one from no restore at all.
    fn restore_and_repeat_versions(&mut self, at: usize) {
        let salt = self.model.salt;
        self.restore();
        let all = Watched::ALL.into_iter();
        let show_it: Vec<Watched> = all.filter(|kind| self.would_show_a_restore(*kind)).collect();
        let Some(at) = at.checked_rem(show_it.len()) else { return };
        self.model.salt = salt;
        let (kind, relists) = (show_it[at], self.relists);
        self.ask(kind);
        self.serve(kind);
        while let Some(event) = self.model.next_event_of(kind) {
            self.step(event);
        }
        assert!(self.relists > relists, "a list of {kind:?} does not show a restore");
        // What was sent when requests failed was decided on the lost history, and may name a version that comes again.
        for _ in 0..self.requests.len() {
            self.answer(0, false, Some(Category::Transient));
        }
    }

    /// Whether each operator knows something in a newer version than a list of this kind would show it now, and would see by it
    /// that versions went back. Between two restores one that waits for lists expects older versions.
    fn would_show_a_restore(&self, kind: Watched) -> bool {
        let listed = self.model.listed(kind);
        let follower = self.follower.as_ref().map(|it| &it.reconciler);
        let mut operators = [&self.reconciler].into_iter().chain(follower);
        let sees_it =
            |it: &Reconciler| it.is_synced() && listed.iter().any(|event| knows_newer_than(it, event));
        self.model.has_role && operators.all(sees_it)
    }

    /// Lists that were asked for are answered; at last the kinds are listed that nobody hears of. Returns whether there was
    /// anything to list.
    pub(crate) fn catch_up(&mut self) -> bool {
        self.give_role();
        // Nothing else is answered before the resources are known.
        let resources = Some(Watched::Memcached).filter(|_| !self.knows_resources);
        let asked = || self.asked.keys().next().copied();
        let kind = resources.or_else(asked).or_else(|| self.model.any_cut());
        if let Some(kind) = kind {
            let left = self.departure();
            self.asked.entry(kind).or_insert(left);
            self.serve(kind);
        }
        kind.is_some()
    }

    pub(crate) fn sent(&self) -> Vec<String> {
        let name = |it: &Effect| match it {
            Effect::Send { request, .. } => request_name(request),
            other => format!("{other:?}"),
        };
        self.requests.iter().map(name).collect()
    }
}

/// Whether an operator knows a newer version of what an event shows.
fn knows_newer_than(operator: &Reconciler, event: &Event) -> bool {
    let world = operator.world();
    match event {
        Event::Resource(seen) => {
            let known = world.resources.get(&seen.key).map(|it| &it.seen.resource_version);
            known.is_some_and(|known| seen.resource_version.is_older_than(known))
        }
        Event::Child(seen) => {
            world.resources.get(&seen.key).is_some_and(|it| it.child(seen.kind).is_ahead_of(seen))
        }
        Event::Secret(seen) => match world.secrets.get(&seen.key).map(|it| &it.presence) {
            Some(Presence::Present(uid, known)) => {
                *uid == seen.uid && seen.resource_version.is_older_than(known)
            }
            _ => false,
        },
        _ => false,
    }
}

fn settled() -> Simulation {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.settle();
    simulation
}

#[test]
fn after_a_restore_of_etcd_the_next_lists_say_what_there_is_and_no_pod_rolls() {
    for order in [0, 3, 7] {
        let mut simulation = settled();
        simulation.model.set_secret(Some(1));
        simulation.model.edit(3);
        simulation.settle();
        simulation.model.back_up();
        let rollouts = simulation.model.rollouts;
        simulation.model.set_secret(Some(2));
        simulation.model.trigger(1);
        simulation.settle();
        simulation.model.edit(1);
        simulation.settle();
        assert!(simulation.model.rollouts > rollouts);

        simulation.restore();
        // Whichever kind shows it first.
        simulation.ask(Watched::ALL[order]);
        simulation.settle();
        simulation.model.check_converged();
        assert_eq!(simulation.model.rollouts, rollouts, "every pod ran what it should");
        simulation.model.edit(4);
        simulation.settle();
        simulation.model.check_converged();
    }
}

/// An object, what is done to it after the backup and, otherwise, after the restore, and the request that comes of that.
struct Repeated {
    kind: Watched,
    lost: fn(&mut Model),
    after: fn(&mut Model),
    request: &'static str,
}

const REPEATED: [Repeated; 3] = [
    Repeated {
        kind: Watched::Memcached,
        lost: |model| model.edit(4),
        after: |model| model.edit(1),
        request: "apply Deployment",
    },
    Repeated {
        kind: Watched::Secret,
        lost: |model| model.set_secret(Some(2)),
        after: |model| model.set_secret(Some(5)),
        request: "read Secret",
    },
    Repeated {
        // It is put back before the restore.
        kind: Watched::Child(ChildKind::Service),
        lost: Model::tamper_port,
        after: Model::tamper_port,
        request: "apply Service",
    },
];

#[test]
fn after_a_restore_the_very_version_that_is_known_is_looked_at_anew_where_it_comes_again() {
    for Repeated { kind, lost, after, request } in REPEATED {
        // The list of another kind shows the restore each time: of those that changed, in the order of all kinds.
        for shown_by in 0..3 {
            let mut simulation = settled();
            simulation.model.set_secret(Some(1));
            simulation.model.edit(3);
            simulation.settle();
            simulation.model.back_up();
            lost(&mut simulation.model);
            simulation.model.touch_secret();
            simulation.model.trigger(1);
            simulation.settle();
            let known = simulation.model.version_of(kind).unwrap().clone();
            simulation.befall(&Disaster::RestoreAndRepeatVersions(shown_by));
            while simulation.model.next_version().is_older_than(&known) {
                simulation.model.touch_secret();
            }
            after(&mut simulation.model);
            assert_eq!(simulation.model.version_of(kind), Some(&known), "with other content");
            simulation.requested.clear();
            simulation.settle();
            assert!(simulation.requested.iter().any(|it| it == request), "{:?}", simulation.requested);
            simulation.model.check_converged();
            simulation.model.check_carries_its_secret();
        }
    }
}

#[test]
fn a_restore_that_no_list_has_shown_yet_shows_in_the_first_conflict_and_what_was_lost_is_not_written_again() {
    let mut simulation = settled();
    simulation.model.back_up();
    let (rollouts, before) = (simulation.model.rollouts, simulation.model.deployment().clone());
    simulation.model.edit(1);
    simulation.hear();
    assert_eq!(simulation.sent(), ["apply Deployment"]);
    simulation.restore();
    simulation.settle();
    simulation.model.check_converged();
    assert_eq!(simulation.model.rollouts, rollouts);
    assert_eq!(simulation.model.deployment().content, before.content);
}

#[test]
fn a_list_that_left_before_an_answer_takes_nothing_back() {
    let mut simulation = settled();
    let service = Watched::Child(ChildKind::Service);
    simulation.model.delete_service();
    simulation.hear();
    assert_eq!(simulation.sent(), ["create Service"]);
    // The list is answered before the Service is there, and told after the operator knows that it is.
    simulation.ask(service);
    simulation.serve(service);
    simulation.answer(0, true, None);
    simulation.hear();
    assert!(simulation.sent().iter().all(|name| name != "create Service"), "{:?}", simulation.sent());
    simulation.settle();
    simulation.model.check_converged();
}

/// The answer was under way when the resource was deleted, and the watch that goes on from the list tells nothing of that.
#[test]
fn a_resource_that_a_list_lacks_is_gone_also_where_an_answer_about_it_comes_in_the_midst_of_the_list() {
    let mut simulation = settled();
    simulation.model.edit(1);
    simulation.hear();
    while simulation.sent() != ["status"] {
        simulation.answer(0, true, None);
        simulation.hear();
    }
    simulation.delay(0);
    simulation.ask(Watched::Memcached);
    simulation.model.delete_resource();
    simulation.serve(Watched::Memcached);
    // The list begins, and before its end the answer arrives.
    for _ in ["asked", "listing"] {
        let event = simulation.model.next_event_of(Watched::Memcached).unwrap();
        simulation.step(event);
    }
    simulation.arrive(0);
    simulation.settle();
}

#[test]
fn nothing_is_asked_for_while_the_resources_may_not_be_listed() {
    let mut simulation = settled();
    simulation.befall(&Disaster::TakeRole);
    simulation.hear();
    simulation.model.edit(1);
    simulation.model.tamper_replicas(9);
    simulation.hear();
    assert_eq!(simulation.sent(), Vec::<String>::new(), "the resource may be another by now");
    simulation.befall(&Disaster::GiveRole);
    simulation.settle();
    simulation.model.check_converged();
}

#[test]
fn a_child_that_went_before_the_resources_were_listed_is_made_anew() {
    let mut simulation = settled();
    simulation.befall(&Disaster::TakeRole);
    simulation.restart();
    simulation.model.delete_service();
    let service = Watched::Child(ChildKind::Service);
    simulation.ask(service);
    simulation.serve(service);
    simulation.hear();
    simulation.settle();
    simulation.model.check_converged();
}

#[test]
fn versions_that_went_back_are_noticed_once() {
    let mut simulation = settled();
    simulation.model.back_up();
    simulation.model.trigger(1);
    simulation.settle();
    simulation.restore();
    let before = simulation.relists;
    simulation.settle();
    assert_eq!(simulation.relists, before + 1);
    for kind in Watched::ALL {
        simulation.ask(kind);
    }
    assert_eq!(simulation.settle(), 0, "lists that tell nothing new");
    assert_eq!(simulation.relists, before + 1);
}

/// Whether an event changes what is known of the resources' list.
pub(crate) fn bars(event: &Event) -> Option<bool> {
    match event {
        Event::Unlistable(Watched::Memcached, _) => Some(true),
        Event::Listed(Watched::Memcached, _) => Some(false),
        _ => None,
    }
}

#[test]
fn a_doubt_about_a_child_outlives_the_resource_that_it_was_about() {
    let mut simulation = Simulation::new();
    simulation.model.create_resource();
    simulation.hear();
    simulation.ask(Watched::Child(ChildKind::Service));
    simulation.answer(0, true, None);
    simulation.model.delete_service();
    // The list lacks the Service, but its request left before the create was answered.
    simulation.serve(Watched::Child(ChildKind::Service));
    simulation.hear();
    // The next thing that the operator hears of the resources is a list with another one of that name.
    simulation.befall(&Disaster::TakeRole);
    simulation.model.delete_resource();
    simulation.model.create_resource();
    simulation.settle();
    simulation.model.check_converged();
}
