//! Candidates against a model of the Lease under every delay, loss, stop, clock and edit: no two ever lead together.
//!
//! A failing case shrinks to a short list of [`Op`]s, which is all that is needed to run it again.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::time::Duration;

use memcached_operator::shell::leader::elector::{
    Ask, Elector, LeaseAnswer, RELEASED_SECONDS, Record, RequestTimes, Step, Timing,
};
use proptest::prelude::*;

const TIMING: Timing = Timing { lease: Duration::from_secs(15) };
const CANDIDATES: usize = 3;

/// One step of a history. What is never delivered is lost; who never acts is stopped.
#[derive(Clone, Debug)]
enum Op {
    /// Time passes, in milliseconds.
    Wait(u64),
    /// A candidate looks at the time and sends what is due.
    Act(usize),
    /// A candidate asks and has its answer at once.
    Ask(usize),
    /// A request reaches the Lease, however long ago it was sent.
    Execute(usize),
    /// An answer reaches its candidate.
    Deliver(usize),
    /// A candidate gives up waiting; its request may still reach the Lease.
    GiveUp(usize),
    /// A candidate is killed, and another one starts in its place.
    Kill(usize),
    /// A candidate stops to write, lets the Lease go, and another one starts in its place.
    LetGo(usize),
    /// A person deletes the Lease.
    Delete,
    /// A person edits it.
    Edit(Edit),
    /// A person puts back what it said some versions ago.
    Restore(usize),
}

#[derive(Clone, Debug)]
enum Edit {
    NoHolder,
    Holder(usize),
    Nobody,
    Seconds(Option<i64>),
}

fn op() -> impl Strategy<Value = Op> {
    let one = 0..CANDIDATES;
    let edit = prop_oneof![
        Just(Edit::NoHolder),
        one.clone().prop_map(Edit::Holder),
        Just(Edit::Nobody),
        prop_oneof![Just(None), Just(Some(-1)), Just(Some(1)), Just(Some(15)), Just(Some(i64::MAX))]
            .prop_map(Edit::Seconds),
    ];
    prop_oneof![
        6 => (0..6_000u64).prop_map(Op::Wait),
        1 => (10_000..20_000u64).prop_map(Op::Wait),
        20 => one.clone().prop_map(Op::Ask),
        6 => one.clone().prop_map(Op::Act),
        6 => (0..4usize).prop_map(Op::Execute),
        3 => (0..4usize).prop_map(Op::Deliver),
        2 => one.clone().prop_map(Op::GiveUp),
        1 => one.clone().prop_map(Op::Kill),
        1 => one.prop_map(Op::LetGo),
        1 => Just(Op::Delete),
        1 => edit.prop_map(Op::Edit),
        1 => (1..4usize).prop_map(Op::Restore),
    ]
}

/// A clock: what it shows at the start, and how many of its milliseconds pass in a thousand real ones.
#[derive(Clone, Copy, Debug)]
struct Pace {
    offset: u64,
    rate: u64,
}

impl Pace {
    fn shows(self, real: u64) -> Duration {
        Duration::from_millis(self.offset + real * self.rate / 1_000)
    }

    /// The first real time at which it shows this.
    fn real(self, shown: Duration) -> u64 {
        let since = u64::try_from(shown.as_millis()).unwrap().saturating_sub(self.offset);
        (since * 1_000).div_ceil(self.rate)
    }
}

fn paces(spread: u64) -> impl Strategy<Value = [Pace; CANDIDATES]> {
    let rate = prop_oneof![Just(1_000 - spread), Just(1_000), Just(1_000 + spread)];
    let pace = ((0..100_000_000u64), rate).prop_map(|(offset, rate)| Pace { offset, rate });
    [pace.clone(), pace.clone(), pace]
}

/// Who asked what, and when by its own clock.
#[derive(Clone, Debug)]
struct Sent {
    candidate: usize,
    /// Its name, which is what the Lease will say.
    name: String,
    ask: Option<Ask>,
    /// The version that is let go, if this is no [`Ask`].
    let_go: Option<String>,
    at: Duration,
    /// Which of all requests.
    number: u64,
}

struct Candidate {
    name: String,
    elector: Elector,
    /// The request whose answer it waits for.
    waiting: Option<Waiting>,
    /// Its last request to hold the Lease, by number.
    last_hold: u64,
}

struct Waiting {
    number: u64,
    ask: Ask,
    sent: Duration,
}

struct Model {
    now: u64,
    paces: [Pace; CANDIDATES],
    candidates: Vec<Candidate>,
    lease: Option<Record>,
    history: Vec<Record>,
    /// By version, which request to hold the Lease put the time there that it shows.
    wrote: BTreeMap<String, u64>,
    versions: u64,
    under_way: Vec<Sent>,
    answers: Vec<(Sent, LeaseAnswer)>,
    /// Until when what each name has begun may reach the API server.
    writing: BTreeMap<String, u64>,
    grace: Duration,
    names: u64,
    sent: u64,
}

impl Model {
    fn new(paces: [Pace; CANDIDATES], grace: Duration) -> Self {
        let mut model = Self {
            now: 0,
            paces,
            candidates: Vec::new(),
            lease: None,
            history: Vec::new(),
            wrote: BTreeMap::new(),
            versions: 0,
            under_way: Vec::new(),
            answers: Vec::new(),
            writing: BTreeMap::new(),
            grace,
            names: 0,
            sent: 0,
        };
        model.candidates = (0..CANDIDATES).map(|_| model.candidate()).collect();
        model
    }

    fn candidate(&mut self) -> Candidate {
        self.names += 1;
        let name = format!("c{}", self.names);
        Candidate { elector: Elector::new(name.clone(), TIMING), name, waiting: None, last_hold: 0 }
    }

    fn store(&mut self, holder: Option<String>, seconds: Option<i64>) -> Record {
        self.versions += 1;
        let record = Record { version: self.versions.to_string(), holder, seconds, written_here: false };
        self.history.push(record.clone());
        self.lease = Some(record.clone());
        record
    }

    /// A person changes what one version says. The time that it shows stays.
    fn store_edited(&mut self, from: &Record, holder: Option<String>, seconds: Option<i64>) {
        let wrote = self.wrote.get(&from.version).copied();
        let version = self.store(holder, seconds).version;
        self.wrote.extend(wrote.map(|number| (version, number)));
    }

    /// What a read answers to this candidate.
    fn shown_to(&self, at: usize, name: &str) -> Option<Record> {
        let lease = self.lease.clone()?;
        let is_last = self.wrote.get(&lease.version) == Some(&self.candidates[at].last_hold);
        Some(Record { written_here: is_last && lease.holder.as_deref() == Some(name), ..lease })
    }

    fn take(&mut self, op: &Op) {
        match op {
            Op::Wait(millis) => self.now += millis,
            Op::Act(at) => self.act(*at),
            Op::Ask(at) => {
                let (under_way, answers) = (self.under_way.len(), self.answers.len());
                self.act(*at);
                self.execute(under_way);
                self.deliver(answers);
            }
            Op::Execute(at) => self.execute(*at),
            Op::Deliver(at) => self.deliver(*at),
            Op::GiveUp(at) => self.give_up(*at),
            Op::Kill(at) => self.candidates[*at] = self.candidate(),
            Op::LetGo(at) => self.let_go(*at),
            Op::Delete => self.lease = None,
            Op::Edit(edit) => self.edit(edit),
            Op::Restore(back) => {
                let old = self.history.iter().rev().nth(*back).cloned();
                // What says that its holder let go is true only when its holder says it.
                if let Some(old) = old.filter(|old| old.holder.is_some()) {
                    self.store_edited(&old, old.holder.clone(), old.seconds);
                }
            }
        }
        self.check();
    }

    fn act(&mut self, at: usize) {
        let shown = self.paces[at].shows(self.now);
        let Candidate { name, elector, waiting, last_hold } = &mut self.candidates[at];
        if let (None, Step::Ask(ask)) = (&*waiting, elector.step(shown)) {
            self.sent += 1;
            *waiting = Some(Waiting { number: self.sent, ask: ask.clone(), sent: shown });
            if matches!(ask, Ask::Hold(_)) {
                *last_hold = self.sent;
            }
            let (name, number) = (name.clone(), self.sent);
            self.under_way.push(Sent {
                candidate: at,
                name,
                ask: Some(ask),
                let_go: None,
                at: shown,
                number,
            });
        }
    }

    fn execute(&mut self, at: usize) {
        if at >= self.under_way.len() {
            return;
        }
        let sent = self.under_way.remove(at);
        let is_at = |version: &String| self.lease.as_ref().is_some_and(|lease| lease.version == *version);
        let answer = match (&sent.ask, &sent.let_go) {
            (None, Some(version)) if is_at(version) => {
                self.store(None, Some(RELEASED_SECONDS));
                return;
            }
            (None, _) => return,
            (Some(Ask::Read), _) => {
                self.shown_to(sent.candidate, &sent.name).map_or(LeaseAnswer::Absent, LeaseAnswer::Lease)
            }
            (Some(Ask::Create), _) if self.lease.is_some() => LeaseAnswer::Conflict,
            (Some(Ask::Create), _) => LeaseAnswer::Lease(self.store(None, Some(15))),
            (Some(Ask::Hold(version)), _) if is_at(version) => {
                let record = self.store(Some(sent.name.clone()), Some(15));
                self.wrote.insert(record.version.clone(), sent.number);
                LeaseAnswer::Lease(record)
            }
            (Some(Ask::Hold(_)), _) => LeaseAnswer::Conflict,
        };
        self.answers.push((sent, answer));
    }

    fn deliver(&mut self, at: usize) {
        if at >= self.answers.len() {
            return;
        }
        let (sent, answer) = self.answers.remove(at);
        let shown = self.paces[sent.candidate].shows(self.now);
        let candidate = &mut self.candidates[sent.candidate];
        // Else nobody waits for it any more.
        if let Some(Waiting { ask, .. }) = candidate.waiting.take_if(|it| it.number == sent.number) {
            candidate.elector.answered(&ask, answer, RequestTimes { sent: sent.at, answered: shown });
        }
    }

    fn give_up(&mut self, at: usize) {
        let shown = self.paces[at].shows(self.now);
        let candidate = &mut self.candidates[at];
        if let Some(Waiting { number: _, ask, sent }) = candidate.waiting.take() {
            candidate.elector.answered(&ask, LeaseAnswer::Lost, RequestTimes { sent, answered: shown });
        }
    }

    fn let_go(&mut self, at: usize) {
        let fresh = self.candidate();
        let old = std::mem::replace(&mut self.candidates[at], fresh);
        if let Some(version) = old.elector.own_version() {
            // It has stopped to write before it says so.
            self.writing.remove(&old.name);
            let let_go = Some(version.to_owned());
            let sent =
                Sent { candidate: at, name: old.name, ask: None, let_go, at: Duration::ZERO, number: 0 };
            self.under_way.push(sent);
        }
    }

    fn edit(&mut self, edit: &Edit) {
        let Some(lease) = self.lease.clone() else { return };
        let (holder, seconds) = match edit {
            Edit::NoHolder if lease.seconds == Some(RELEASED_SECONDS) => return,
            Edit::NoHolder => (None, lease.seconds),
            Edit::Holder(at) => (Some(self.candidates[*at].name.clone()), lease.seconds),
            Edit::Nobody => (Some("nobody".into()), lease.seconds),
            Edit::Seconds(Some(RELEASED_SECONDS)) if lease.holder.is_none() => return,
            Edit::Seconds(seconds) => (lease.holder.clone(), *seconds),
        };
        self.store_edited(&lease, holder, seconds);
    }

    fn leaders(&self) -> Vec<usize> {
        let leads = |at: &usize| self.candidates[*at].elector.leads(self.paces[*at].shows(self.now));
        (0..CANDIDATES).filter(leads).collect()
    }

    fn check(&mut self) {
        for at in self.leaders() {
            let Candidate { name, elector, .. } = &self.candidates[at];
            let others = self.writing.iter().filter(|(other, until)| *other != name && **until > self.now);
            assert_eq!(others.count(), 0, "{name} leads while others may write: {:?}", self.writing);
            let until = self.paces[at].real(elector.valid_until().unwrap() + self.grace);
            self.writing.insert(name.clone(), until);
        }
    }

    /// Everybody acts and every message arrives, every 100 ms.
    fn calm(&mut self, until_good: impl Fn(&Self) -> bool, limit: Duration) -> bool {
        let end = self.now + u64::try_from(limit.as_millis()).unwrap();
        while self.now < end && !until_good(self) {
            self.take(&Op::Wait(100));
            for at in 0..CANDIDATES {
                self.take(&Op::Act(at));
            }
            while !self.under_way.is_empty() {
                self.take(&Op::Execute(0));
            }
            while !self.answers.is_empty() {
                self.take(&Op::Deliver(0));
            }
        }
        until_good(self)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn no_two_write_at_the_same_time_and_when_it_calms_down_one_leads(
        paces in paces(20),
        // Most histories begin with a leader.
        led in proptest::bool::weighted(0.8),
        ops in proptest::collection::vec(op(), 0..150),
    ) {
        let mut model = Model::new(paces, TIMING.grace());
        if led {
            prop_assert!(model.calm(|model| model.leaders().len() == 1, Duration::from_secs(20)));
        }
        ops.iter().for_each(|op| model.take(op));
        // Nobody waits longer than the longest lease; what came in the way may have to be waited for first.
        (0..CANDIDATES).for_each(|at| model.give_up(at));
        prop_assert!(model.calm(|model| model.leaders().len() == 1, Duration::from_secs(80)));
    }

    #[test]
    fn no_two_lead_at_the_same_time_though_one_clock_is_a_third_faster_than_another(
        paces in paces(150),
        ops in proptest::collection::vec(op(), 0..150),
    ) {
        let mut model = Model::new(paces, Duration::ZERO);
        model.calm(|model| model.leaders().len() == 1, Duration::from_secs(30));
        ops.iter().for_each(|op| model.take(op));
    }
}
