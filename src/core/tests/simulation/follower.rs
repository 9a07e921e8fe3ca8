//! Two operators in one simulation: one leads, and the other follows. The follower hears what the watches tell, and remembers
//! what it did while it led.

use jiff::Timestamp;
use memcached_operator_core::kernel::effect::Effect;
use memcached_operator_core::kernel::event::{Departure, Event, PodsReply, Reply};
use memcached_operator_core::kernel::failure::{Category, Failure};
use memcached_operator_core::kernel::lists::Moment;
use memcached_operator_core::kernel::object::Watched;
use memcached_operator_core::kernel::reconciler::Reconciler;

use crate::model::NAMESPACE;
use crate::simulation::Simulation;

/// The operator that follows.
pub(crate) struct Follower {
    pub(crate) reconciler: Reconciler,
    /// Its place in [`Departures`]; the leader has the other one.
    number: usize,
    /// When it wants to be woken.
    wake: Option<Timestamp>,
}

impl Follower {
    /// It hears of something and asks for nothing. Says whether it wants all lists anew.
    fn step(&mut self, now: Timestamp, event: Event) -> bool {
        let mut relists = false;
        for effect in self.reconciler.step(now, event) {
            match effect {
                Effect::Wake(at) => self.wake = Some(at),
                Effect::RelistAll => relists = true,
                sent @ Effect::Send { .. } => panic!("a follower sends {sent:?}"),
                _ => {}
            }
        }
        relists
    }

    /// Whether it watches no such objects, because the API server did not serve their kind when it asked.
    fn is_deaf_to(&self, event: &Event) -> bool {
        let kind = match event {
            Event::Child(seen) => seen.kind,
            Event::Gone { kind: Watched::Child(kind), .. } => *kind,
            _ => return false,
        };
        self.reconciler.world().unavailable(kind, NAMESPACE).is_some()
    }

    /// Time has passed.
    pub(crate) fn wait(&mut self, now: Timestamp) {
        if self.wake.take_if(|at| *at <= now).is_some() {
            self.step(now, Event::Tick);
        }
    }
}

/// When the requests of lists left, by the count of each operator. The number of one stands in `Departure::relists`, which
/// only the shell reads.
#[derive(Default)]
pub(crate) struct Departures(Vec<[Moment; 2]>);

impl Departures {
    /// The event as this operator hears it.
    fn heard_by(&self, number: usize, event: Event) -> Event {
        let Event::Asked { kind, scope, left } = event else { return event };
        let of_all = usize::try_from(left.relists).ok().and_then(|at| self.0.get(at));
        let answers = of_all.map_or(left.answers, |of_all| of_all[number]);
        Event::Asked { kind, scope, left: Departure { answers, ..left } }
    }
}

impl Simulation {
    /// The request of a list leaves now.
    pub(crate) fn departure(&mut self) -> Departure {
        let answers = self.reconciler.answers();
        let mut of_all = [answers; 2];
        if let Some(follower) = &self.follower {
            of_all[follower.number] = follower.reconciler.answers();
        }
        let number = self.departures.0.len();
        self.departures.0.push(of_all);
        Departure { answers, relists: u64::try_from(number).unwrap() }
    }

    /// The event as the leader hears it; the follower hears of it too, where a watch tells it.
    pub(crate) fn tell_follower(&mut self, event: Event) -> Event {
        let Some(follower) = &mut self.follower else { return event };
        if matches!(event, Event::Done { .. } | Event::Answered { .. } | Event::Leading(_) | Event::Tick) {
            return event;
        }
        if follower.is_deaf_to(&event) {
            return event;
        }
        let relists = follower.step(self.now, self.departures.heard_by(follower.number, event.clone()));
        let event = self.departures.heard_by(1 - follower.number, event);
        if relists {
            Watched::ALL.into_iter().for_each(|kind| self.ask(kind));
        }
        event
    }

    /// The other operator wins the lead; the first time it is a new one. Requests of the former leader are on their way, and
    /// their answers do not arrive.
    pub(crate) fn change_leader(&mut self) {
        self.lead(false);
        self.looked_for.clear();
        let lost = || {
            let message = "no answer".to_owned();
            Failure { category: Category::Transient, message }
        };
        for sent in std::mem::take(&mut self.requests) {
            let Effect::Send { id, .. } = sent else { continue };
            self.left_behind.push(sent);
            self.step(Event::Done { id, reply: Reply::Failed(lost()) });
        }
        for (id, reply) in std::mem::take(&mut self.late) {
            self.step(Event::Done { id, reply });
        }
        for (id, _) in std::mem::take(&mut self.questions) {
            self.step(Event::Answered { id, reply: PodsReply::Failed(lost()) });
        }
        let Some(Follower { reconciler, number, wake }) = self.follower.take() else {
            let (reconciler, wake) = (self.reconciler.clone(), self.wake);
            self.follower = Some(Follower { reconciler, number: 0, wake });
            return self.restart();
        };
        let former = std::mem::replace(&mut self.reconciler, reconciler);
        let of_former = std::mem::replace(&mut self.wake, wake);
        self.follower = Some(Follower { reconciler: former, number: 1 - number, wake: of_former });
        self.lead(true);
    }
}
