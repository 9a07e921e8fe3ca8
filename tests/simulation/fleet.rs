//! One kernel and many resources: those that mount one Secret, and those whose pod template is an older operator's. What
//! has to hold at every moment is how many of them roll at a time.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use memcached_operator::kernel::effect::{Effect, Request};
use memcached_operator::kernel::event::{Event, Reply};
use memcached_operator::kernel::failure::{Category, Failure};
use memcached_operator::kernel::kernel::{Kernel, Settings};
use memcached_operator::kernel::object::{Scope, Watched};
use memcached_operator::kernel::rollouts::{Adoption, Budget};
use proptest::prelude::*;

use crate::model::Model;

/// Turns at a time.
const LIMIT: usize = 2;
const BUDGET: Budget = Budget { limit: LIMIT, adoption: Adoption::Budgeted };
/// The annotation that a rotation changes.
const HASH: &str = "/spec/template/metadata/annotations/memcached.c5c3.io~1secret-hash";
const REVISION: &str = "/metadata/annotations/memcached.c5c3.io~1template-revision";

/// The variant of a spec that asks for more memory, and what asks for it.
const MORE_MEMORY: u8 = 2;
const ARGS: &str = "/spec/template/spec/containers/0/args/1";

/// One step of a history; numbers pick among what there is.
#[derive(Clone, Debug)]
enum Op {
    /// A request is executed and answered.
    Execute(usize),
    /// A request is executed, and its answer is lost.
    LoseReply(usize),
    /// The next event of a resource's watches arrives.
    Deliver(usize),
    /// A Deployment's controller works a step.
    RollOut(usize),
    /// The operator is killed and started again.
    Restart,
    /// The Secret gets one of a few contents.
    Rotate(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..64usize).prop_map(Op::Execute),
        1 => (0..64usize).prop_map(Op::LoseReply),
        8 => (0..64usize).prop_map(Op::Deliver),
        4 => (0..64usize).prop_map(Op::RollOut),
        3 => Just(Op::Restart),
        1 => (0..3u8).prop_map(Op::Rotate),
    ]
}

struct Fleet {
    kernel: Kernel,
    /// By name; the first one's Secret is everybody's.
    models: BTreeMap<String, Model>,
    now: Timestamp,
    requests: Vec<Effect>,
    wake: Option<Timestamp>,
    halted: bool,
}

impl Fleet {
    /// Resources in order, all settled, with this variant of a spec.
    fn of(size: usize, variant: u8) -> Self {
        let mut fleet = Self::unsettled(size, |_| variant);
        fleet.restart(Budget::default());
        fleet.settle();
        fleet.restart(BUDGET);
        fleet
    }

    /// Resources in order, all settled. Those before `old` carry the peer's template, those after it mount the Secret.
    fn new(size: usize, old: usize) -> Self {
        let mut fleet = Self::unsettled(size, |at| if at < old { 0 } else { 3 });
        fleet.secrets().set_secret(Some(9));
        fleet.restart(Budget::default());
        fleet.settle();
        fleet.models.values_mut().take(old).for_each(Model::predate);
        fleet
    }

    fn unsettled(size: usize, variant: impl Fn(usize) -> u8) -> Self {
        let mut models: BTreeMap<String, Model> = (0..size)
            .map(|it| format!("cache-{it:02}"))
            .map(|name| (name.clone(), Model::named(&name)))
            .collect();
        for (at, model) in models.values_mut().enumerate() {
            model.create_resource();
            model.edit(variant(at));
        }
        let kernel = Kernel::new(Settings::default());
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        Self { kernel, models, now, requests: Vec::new(), wake: None, halted: false }
    }

    /// Somebody applies an older definition: the watches end, and lists come anew.
    fn redefine(&mut self) {
        self.models.values_mut().for_each(Model::redefine);
        self.list(Watched::Memcached);
    }

    /// How often each has rolled.
    fn rolled(&self) -> Vec<usize> {
        self.models.values().map(|model| model.rollouts).collect()
    }

    fn secrets(&mut self) -> &mut Model {
        self.models.values_mut().next().unwrap()
    }

    fn restart(&mut self, rollouts: Budget) {
        self.kernel = Kernel::new(Settings { rollouts, ..Settings::default() });
        self.requests.clear();
        self.wake = None;
        self.step(Event::Leading(true));
        Watched::ALL.into_iter().for_each(|kind| self.list(kind));
    }

    fn list(&mut self, kind: Watched) {
        self.step(Event::Listing(kind, Scope::All));
        let listed: Vec<Event> = self.models.values_mut().flat_map(|model| model.list(kind)).collect();
        listed.into_iter().for_each(|event| self.step(event));
        self.step(Event::Listed(kind, Scope::All));
    }

    fn step(&mut self, event: Event) {
        for effect in self.kernel.step(self.now, event) {
            match effect {
                Effect::Send { .. } => self.requests.push(effect),
                Effect::Wake(at) => self.wake = Some(at),
                Effect::Observe(memcached_operator::kernel::effect::Observation::Rollouts(standing)) => {
                    self.halted = standing.adoption_halted;
                }
                Effect::Publish { .. } | Effect::Seek { .. } | Effect::ListAnew | Effect::Observe(_) => {}
            }
        }
    }

    fn answer(&mut self, at: usize, lost: bool) {
        let Some(at) = at.checked_rem(self.requests.len()) else { return };
        let Effect::Send { id, resource, request } = self.requests.remove(at) else { return };
        let executed = match &request {
            Request::ReadSecret { .. } => self.secrets().execute(&request),
            _ => self.models.get_mut(&resource.name).unwrap().execute(&request),
        };
        let failure = Failure { category: Category::Transient, message: "lost".to_owned() };
        self.step(Event::Done { id, reply: if lost { Reply::Failed(failure) } else { executed } });
    }

    fn deliver(&mut self, at: usize) -> bool {
        let event = self.models.values_mut().nth(at).and_then(|model| model.next_event(0));
        let any = event.is_some();
        event.into_iter().for_each(|event| self.step(event));
        any
    }

    fn apply(&mut self, op: &Op) {
        let size = self.models.len();
        match op {
            Op::Execute(at) => self.answer(*at, false),
            Op::LoseReply(at) => self.answer(*at, true),
            Op::Deliver(at) => drop(self.deliver(at % size)),
            Op::RollOut(at) => self.models.values_mut().nth(at % size).unwrap().roll_out(),
            Op::Restart => self.restart(BUDGET),
            Op::Rotate(content) => self.secrets().set_secret(Some(*content)),
        }
    }

    fn settle(&mut self) {
        self.settle_after(usize::MAX);
    }

    /// As [`Fleet::settle`], but the operator is killed when this many requests were executed. Returns whether it was.
    fn settle_after(&mut self, mut left: usize) -> bool {
        let mut killed = false;
        for _ in 0..100_000 {
            let size = self.models.len();
            let delivered = (0..size).any(|at| self.deliver(at));
            if delivered {
            } else if !self.requests.is_empty() {
                self.answer(0, false);
                left = left.wrapping_sub(1);
                if left == 0 {
                    self.restart(BUDGET);
                    killed = true;
                }
            } else if self.models.values_mut().any(Model::work) {
            } else if let Some(at) = self.wake.filter(|at| at.duration_since(self.now).as_mins() < 5) {
                self.now = self.now.max(at);
                self.wake = None;
                self.step(Event::Tick);
            } else {
                return killed;
            }
            self.check();
        }
        panic!("no rest after 100,000 steps");
    }

    /// At no moment do more roll than may.
    fn check(&self) {
        if self.kernel.world().rollouts.adopts() {
            let rolling = self.models.values().filter(|model| model.is_rolling()).count();
            assert!(rolling <= LIMIT, "{rolling} roll at once");
        }
    }

    fn at(&self, pointer: &str) -> Vec<Option<&str>> {
        let content = self.models.values().map(|model| &model.deployment().content);
        content.map(|content| content.pointer(pointer).and_then(serde_json::Value::as_str)).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        // One takes as long as many of the others.
        cases: ProptestConfig::default().cases / 16,
        max_shrink_iters: 500,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_rotation_and_an_adoption_roll_a_few_at_a_time_and_everybody_in_the_end_wherever_the_operator_is_killed(
        history in proptest::collection::vec(op(), 0..200),
    ) {
        let mut fleet = Fleet::new(8, 4);
        fleet.restart(BUDGET);
        fleet.secrets().set_secret(Some(5));
        for op in &history {
            fleet.apply(op);
            fleet.check();
        }
        fleet.secrets().set_secret(Some(7));
        fleet.settle();
        prop_assert_eq!(fleet.at(REVISION), vec![Some("1"); 8]);
        let hashes = fleet.at(HASH);
        prop_assert!(hashes[4].is_some() && hashes[4..].iter().all(|hash| *hash == hashes[4]), "{:?}", hashes);
        let turns = fleet.models.values().filter(|model| model.resource().status.budgeted_rollout.is_some());
        prop_assert_eq!(turns.count(), 0);
    }
}

#[test]
fn a_turn_outlives_an_operator_that_is_killed_at_any_request_of_a_rotation_and_an_adoption() {
    let mut cut = 1;
    loop {
        let mut fleet = Fleet::new(6, 2);
        fleet.restart(BUDGET);
        fleet.secrets().set_secret(Some(5));
        if !fleet.settle_after(cut) {
            break;
        }
        assert_eq!(fleet.at(REVISION), [Some("1"); 6], "killed at request {cut}");
        cut += 1;
    }
    assert!(cut > 30, "{cut} requests are too few to show anything");
}

#[test]
fn one_that_adopts_and_stalls_keeps_the_others_from_it_also_after_a_restart_and_until_it_is_repaired() {
    let mut fleet = Fleet::new(4, 4);
    fleet.restart(BUDGET);
    for _ in 0..2 {
        while fleet.models.values().all(|model| model.rollouts == 0) {
            if fleet.requests.is_empty() {
                (0..4).any(|at| fleet.deliver(at));
            }
            fleet.answer(0, false);
        }
        // Whatever has begun fails.
        for _ in 0..50 {
            for model in fleet.models.values_mut().filter(|model| model.is_rolling()) {
                model.fail_rollout();
            }
            (0..4).any(|at| fleet.deliver(at));
            fleet.answer(0, false);
        }
        assert!(fleet.halted);
        let rolled: Vec<usize> = fleet.models.values().map(|model| model.rollouts).collect();
        assert_eq!(rolled, [1, 1, 0, 0]);
        let stalled = &fleet.models["cache-00"].resource().status.conditions;
        let stalled = stalled.iter().find(|condition| condition.type_ == "Stalled").unwrap();
        assert!(stalled.message.contains("no other cache adopts"), "{}", stalled.message);
        fleet.restart(BUDGET);
    }
    fleet.settle();
    assert!(!fleet.halted);
    assert_eq!(fleet.at(REVISION), [Some("1"); 4]);
}

#[test]
fn who_is_told_to_leave_templates_alone_leaves_them_alone() {
    let mut fleet = Fleet::new(3, 3);
    fleet.restart(Budget::default());
    fleet.settle();
    assert_eq!(fleet.at(REVISION), [Some("0"); 3]);
    fleet.now += SignedDuration::from_mins(1);
    fleet.restart(BUDGET);
    fleet.settle();
    assert_eq!(fleet.at(REVISION), [Some("1"); 3]);
}

#[test]
fn an_older_definition_that_drops_a_field_of_many_rolls_a_few_at_a_time_wherever_the_operator_is_killed() {
    let mut fleet = Fleet::of(30, MORE_MEMORY);
    assert_eq!(fleet.rolled(), [0; 30]);
    fleet.redefine();
    fleet.settle();
    assert_eq!((fleet.at(ARGS), fleet.rolled()), (vec![Some("64"); 30], vec![1; 30]));
    let mut cut = 1;
    loop {
        let mut fleet = Fleet::of(4, MORE_MEMORY);
        fleet.redefine();
        if !fleet.settle_after(cut) {
            break;
        }
        assert_eq!(
            (fleet.at(ARGS), fleet.rolled()),
            (vec![Some("64"); 4], vec![1; 4]),
            "killed at request {cut}"
        );
        cut += 1;
    }
    assert!(cut > 12, "{cut} requests are too few to show anything");
}

#[test]
fn an_edit_does_not_wait_behind_those_that_nobody_edited() {
    let mut fleet = Fleet::of(6, MORE_MEMORY);
    fleet.redefine();
    // The first two have their turn; their pods stay away.
    while fleet.rolled().iter().sum::<usize>() < LIMIT || !fleet.requests.is_empty() {
        (0..6).any(|at| fleet.deliver(at));
        fleet.answer(0, false);
    }
    assert_eq!(fleet.rolled(), [1, 1, 0, 0, 0, 0]);
    fleet.models.get_mut("cache-04").unwrap().edit(6);
    while fleet.deliver(4) || !fleet.requests.is_empty() {
        fleet.answer(0, false);
    }
    assert_eq!(fleet.rolled(), [1, 1, 0, 0, 1, 0]);
    while fleet.models.get_mut("cache-04").unwrap().work() {}
    fleet.settle();
    assert_eq!(fleet.rolled(), [1; 6]);
}
