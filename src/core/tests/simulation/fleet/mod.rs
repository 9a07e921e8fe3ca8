//! Operators that lead in turn, and many resources: those that mount one Secret, and those whose pod template is an
//! older operator's. What has to hold at every moment is how many of them roll at a time.

mod late;
mod lists;
mod made;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use memcached_operator_core::api::status::BudgetedRollout;
use memcached_operator_core::kernel::effect::Effect;
use memcached_operator_core::kernel::event::{Event, Reply};
use memcached_operator_core::kernel::failure::{Category, Failure};
use memcached_operator_core::kernel::object::{Key, Scope, Watched};
use memcached_operator_core::kernel::observation::{Observation, RolloutCounts};
use memcached_operator_core::kernel::reconciler::{Reconciler, Settings};
use memcached_operator_core::kernel::request::Request;
use memcached_operator_core::kernel::rollout_budget::{Adoption, BudgetSettings};
use serde_json::json;

use crate::model::Model;

/// Turns at a time.
pub(crate) const LIMIT: usize = 2;
pub(crate) const BUDGET: BudgetSettings = BudgetSettings { limit: LIMIT, adoption: Adoption::Budgeted };
/// The annotation that a rotation changes.
pub(crate) const HASH: &str = "/spec/template/metadata/annotations/memcached.c5c3.io~1secret-hash";
pub(crate) const REVISION: &str = "/metadata/annotations/memcached.c5c3.io~1template-revision";

/// An operator: whether it leads or not, it hears of everything.
struct Operator {
    reconciler: Reconciler,
    requests: Vec<Effect>,
    wake: Option<Timestamp>,
    /// Whether it says that no cache adopts a newer template.
    halted: bool,
    /// How many turns count.
    rolling: usize,
}

pub(crate) struct Fleet {
    /// The first one leads.
    operators: [Operator; 2],
    /// By name; the first one's Secret is everybody's.
    pub(crate) models: BTreeMap<String, Model>,
    pub(crate) now: Timestamp,
    /// How reads of the Secret fail, while they do.
    pub(crate) unreadable: Option<Category>,
    /// How writes of the children of this resource are refused, while they are.
    pub(crate) refused: Option<(&'static str, Category)>,
    /// The resource whose status may not be written, while that is so.
    pub(crate) without_status: Option<&'static str>,
    budget: BudgetSettings,
    /// What the operators may list.
    scopes: BTreeSet<Scope>,
    /// Those of which they may list nothing for now.
    lost: BTreeSet<Scope>,
    /// Resources that rolled when their namespace was lost or etcd was restored, and roll still: they keep nobody waiting.
    hidden: BTreeSet<String>,
    /// Resources that roll since a request of the former leader arrived, where the leader may have taken their turn back by
    /// then: it saw no pod go, and no version of the workload says who has a turn. And those whose turn such a request wrote or
    /// took off the record: they roll by a turn that is off the record until the leader hears of that.
    late: BTreeSet<String>,
    /// Kinds that nobody hears of until they are listed, because etcd was restored.
    unheard: BTreeSet<Watched>,
    /// What the former leader asked for before it lost the lead: it is on its way.
    left_behind: Vec<(Key, Arc<Request>)>,
    /// Resources that were paused or had to wait with a turn on record: a leader has taken their turn back.
    turned_back: BTreeSet<String>,
}

impl Fleet {
    /// The API server says its version.
    pub(crate) fn tell_version(&mut self) {
        let version = self.secrets().says_version();
        self.tell(&version);
    }

    /// Somebody applies an older definition: the watches end, and lists come anew.
    pub(crate) fn redefine(&mut self) {
        self.models.values_mut().for_each(Model::redefine);
        self.list(Watched::Memcached);
    }

    /// Somebody applies a definition that does not know `workload`, which takes effect at once and with no new generation.
    pub(crate) fn lose_workloads(&mut self) {
        self.models.values_mut().for_each(Model::lose_workload);
        self.list(Watched::Memcached);
    }

    /// Somebody applies the newer definition again, in the same way.
    pub(crate) fn restate(&mut self) {
        self.models.values_mut().for_each(Model::restate);
        self.list(Watched::Memcached);
    }

    /// The resources from this one on ask for more memory, and have it.
    pub(crate) fn ask_for_more_memory(&mut self, from: usize) {
        for model in self.models.values_mut().skip(from) {
            model.change_spec(|spec| {
                spec.memcached = serde_json::from_value(json!({"maxMemoryMB": 128})).unwrap();
            });
        }
        self.settle();
    }

    /// The model that keeps everybody's Secret.
    pub(crate) fn secrets(&mut self) -> &mut Model {
        self.models.values_mut().next().unwrap()
    }

    pub(crate) fn model(&mut self, name: &str) -> &mut Model {
        self.models.get_mut(name).unwrap()
    }

    /// The operators are killed, and others start. What was asked for never arrives.
    pub(crate) fn restart(&mut self, rollout_budget: BudgetSettings) {
        self.left_behind.clear();
        self.operators =
            [Operator::new(rollout_budget, &self.scopes), Operator::new(rollout_budget, &self.scopes)];
        self.budget = rollout_budget;
        self.step(0, Event::Leading(true));
        self.list_all();
    }

    /// The operators are killed, and others start. What was asked for last is on its way.
    pub(crate) fn kill(&mut self) {
        let under_way = std::mem::take(&mut self.operators[0].requests);
        let sent = under_way.into_iter().filter_map(|effect| match effect {
            Effect::Send { resource, request, .. } => Some((resource, request)),
            _ => None,
        });
        let left_behind: Vec<_> = std::mem::take(&mut self.left_behind).into_iter().chain(sent).collect();
        self.restart(self.budget);
        self.left_behind = left_behind;
    }

    /// The other operator wins the lead, and knows what there is by then. What the former one sent last is on its way.
    pub(crate) fn change_leader(&mut self) {
        self.step(0, Event::Leading(false));
        while !self.operators[0].requests.is_empty() {
            self.leave_behind();
        }
        self.operators.swap(0, 1);
        self.list_all();
        self.step(0, Event::Leading(true));
    }

    pub(crate) fn pause(&mut self, at: usize, paused: Option<bool>) {
        let model = self.models.values_mut().nth(at).unwrap();
        model.change_spec(|spec| spec.paused = paused);
        self.turned_back.insert(model.resource_key().name.clone());
    }

    pub(crate) fn back_up(&mut self) {
        self.models.values_mut().for_each(Model::back_up);
    }

    /// Etcd is as it was at the last backup. What is under way fails, and nobody hears of anything until it is listed.
    pub(crate) fn restore(&mut self) {
        if self.models.values().any(|model| !model.is_backed_up()) {
            return;
        }
        self.left_behind.clear();
        while !self.operators[0].requests.is_empty() {
            self.fail(0);
        }
        self.models.values_mut().for_each(Model::restore);
        self.unheard = Watched::ALL.into();
        // A leader that has not heard of it goes on with the turns that it gave, and their records are gone.
        self.hidden = self.models.keys().filter(|name| self.is_under_way(name)).cloned().collect();
    }

    fn tell(&mut self, event: &Event) {
        (0..self.operators.len()).for_each(|who| self.step(who, event.clone()));
    }

    fn step(&mut self, who: usize, event: Event) {
        let operator = &mut self.operators[who];
        for effect in operator.reconciler.step(self.now, event) {
            match effect {
                Effect::Send { .. } => {
                    assert_eq!(who, 0, "a follower asks for {effect:?}");
                    operator.requests.push(effect);
                }
                Effect::Ask { .. } => panic!("the caches of a fleet have nothing to ask their pods"),
                Effect::Wake(at) => operator.wake = Some(at),
                Effect::Observe(Observation::RolloutCounts(counts)) => {
                    let is_told = who == 0 || counts == RolloutCounts::default();
                    assert!(
                        is_told,
                        "a follower tells of {counts:?}: it would go on to, whatever becomes of them"
                    );
                    (operator.halted, operator.rolling) = (counts.adoption_halted, counts.rolling);
                }
                Effect::RelistAll => self.unheard = Watched::ALL.into(),
                Effect::Publish { .. }
                | Effect::PollMissingKind { .. }
                | Effect::Observe(_)
                | Effect::Log { .. } => {}
            }
        }
    }

    /// Whether the leader tells that adoption is halted.
    pub(crate) const fn is_halted(&self) -> bool {
        self.operators[0].halted
    }

    /// Whether the follower does.
    pub(crate) const fn follower_tells_of_a_halt(&self) -> bool {
        self.operators[1].halted
    }

    /// How many turns count.
    pub(crate) const fn rolling(&self) -> usize {
        self.operators[0].rolling
    }

    /// What the leader asked for first of what is not answered.
    pub(crate) fn next_request(&self) -> Option<&Request> {
        self.requests().next().map(|(_, request)| request)
    }

    /// What the leader asked for and is not answered, with the name of the resource.
    pub(crate) fn requests(&self) -> impl Iterator<Item = (&str, &Request)> {
        self.operators[0].requests.iter().filter_map(|effect| match effect {
            Effect::Send { resource, request, .. } => Some((resource.name.as_str(), &**request)),
            _ => None,
        })
    }

    /// Answers one of the leader's requests as this says.
    fn reply(&mut self, at: usize, how: impl FnOnce(&mut Self, &(Key, Arc<Request>)) -> Reply) {
        let Some(at) = at.checked_rem(self.operators[0].requests.len()) else { return };
        let Effect::Send { id, resource, request } = self.operators[0].requests.remove(at) else { return };
        let reply = how(self, &(resource, request));
        self.step(0, Event::Done { id, reply });
    }

    pub(crate) fn answer(&mut self, at: usize) {
        self.reply(at, Self::execute);
    }

    fn execute(&mut self, (resource, request): &(Key, Arc<Request>)) -> Reply {
        if self.lost.iter().any(|scope| scope.includes(&resource.namespace)) {
            return failed(Category::Forbidden);
        }
        if matches!(**request, Request::WriteStatus(_)) && self.without_status == Some(resource.name.as_str())
        {
            return failed(Category::Forbidden);
        }
        match (&**request, self.unreadable, self.refused) {
            (Request::ReadSecret(_), Some(category), _) => failed(category),
            (Request::WriteChild(write), _, Some((name, category)))
                if resource.name == name && write.write.applied().is_some() =>
            {
                failed(category)
            }
            (Request::ReadSecret(_), ..) => self.secrets().execute(request),
            _ => self.model(&resource.name).execute(request),
        }
    }

    pub(crate) fn lose_reply(&mut self, at: usize) {
        self.reply(at, |fleet, sent| {
            fleet.execute(sent);
            failed(Category::Transient)
        });
    }

    /// A request gets lost on its way.
    pub(crate) fn fail(&mut self, at: usize) {
        self.reply(at, |_, _| failed(Category::Transient));
    }

    pub(crate) fn deliver(&mut self, at: usize) -> bool {
        let event = self.models.values_mut().nth(at).and_then(|model| model.next_event(0));
        event.iter().for_each(|event| self.tell(event));
        event.is_some()
    }

    pub(crate) fn settle(&mut self) {
        self.settle_after(usize::MAX, |_| ());
    }

    /// Everything that the operators hear and ask for happens, and nothing else. What the leader knows of a halt is on record then.
    pub(crate) fn quiet(&mut self) {
        while self.hear() || self.ask() {}
        let is_on_record = self.models.values().any(Model::records_halt);
        assert!(self.without_status.is_some() || self.is_halted() == is_on_record, "{is_on_record}");
    }

    pub(crate) fn hear(&mut self) -> bool {
        (0..self.models.len()).any(|at| self.deliver(at))
    }

    pub(crate) fn ask(&mut self) -> bool {
        let any = !self.operators[0].requests.is_empty();
        self.answer(0);
        any
    }

    /// As [`Fleet::settle`], but when this many requests were executed, something else happens. Returns whether it did.
    pub(crate) fn settle_after(&mut self, requests: usize, then: impl FnOnce(&mut Self)) -> bool {
        let mut then = Some(then);
        let mut left = requests;
        for _ in 0..100_000 {
            if self.hear() || self.list_unheard() {
            } else if self.ask() {
                left = left.saturating_sub(1);
                if left == 0
                    && let Some(then) = then.take()
                {
                    then(self);
                }
            } else if self.models.values_mut().any(Model::work) || self.wait() {
            } else {
                return then.is_none();
            }
            self.check();
        }
        panic!("no rest after 100,000 steps");
    }

    /// Time passes until an operator has something to do, where that is soon.
    fn wait(&mut self) -> bool {
        let soon = |at: &Timestamp| at.duration_since(self.now).as_mins() < 5;
        let next = self.operators.iter().filter_map(|it| it.wake).filter(soon).min();
        let Some(at) = next else { return false };
        self.pass_time(at.duration_since(self.now).max(SignedDuration::ZERO));
        true
    }

    /// Everybody does their work for so many minutes.
    pub(crate) fn let_pass(&mut self, minutes: usize) {
        for _ in 0..minutes {
            while self.hear() || self.ask() || self.models.values_mut().any(Model::work) {
                self.check();
            }
            self.pass_time(SignedDuration::from_mins(1));
        }
    }

    pub(crate) fn pass_time(&mut self, duration: SignedDuration) {
        self.now += duration;
        self.models.values_mut().for_each(|model| model.now = self.now);
        for who in 0..self.operators.len() {
            if self.operators[who].wake.take_if(|at| *at <= self.now).is_some() {
                self.step(who, Event::Tick);
            }
        }
    }

    /// At no moment do more roll than may.
    pub(crate) fn check(&mut self) {
        let hidden = std::mem::take(&mut self.hidden);
        self.hidden = hidden.into_iter().filter(|name| self.is_under_way(name)).collect();
        self.forget_late();
        self.remember_turned_back();
        let counts = |(name, model): &(&String, &Model)| {
            model.is_rolling() && !self.is_excused(name) && !self.is_suspended(name)
        };
        let rolling = self.models.iter().filter(counts).count();
        assert!(rolling <= self.budget.limit, "{rolling} roll at once");
    }

    /// Whoever leads next knows of all that roll.
    pub(crate) fn check_records(&self) {
        let unrecorded = |(name, model): &(&String, &Model)| {
            let is_excused = self.is_late(name) || self.is_excused(name);
            model.is_rolling() && model.recorded_turn().is_none() && !is_excused
        };
        let names: Vec<_> = self.models.iter().filter(unrecorded).map(|(name, _)| name).collect();
        assert!(names.is_empty(), "{names:?} roll and have no turn on record");
    }

    /// The turns on record.
    pub(crate) fn turns(&self) -> Vec<Option<BudgetedRollout>> {
        self.models.values().map(Model::recorded_turn).collect()
    }

    /// The resources in the namespaces that may be listed which have a turn on record, or wait for one.
    pub(crate) fn turns_in_sight(&self) -> Vec<&str> {
        let is_lost =
            |model: &Model| self.lost.iter().any(|scope| scope.includes(&model.resource_key().namespace));
        let waits = |model: &Model| {
            let conditions = &model.resource().status.conditions;
            let ready = conditions.iter().find(|it| it.type_ == "Ready");
            model.recorded_turn().is_some() || ready.is_none_or(|it| it.status != "True")
        };
        let in_sight = self.models.iter().filter(|(_, model)| !is_lost(model) && waits(model));
        in_sight.map(|(name, _)| name.as_str()).collect()
    }

    /// The text at this place of each workload; empty where there is none.
    pub(crate) fn at(&self, pointer: &str) -> Vec<String> {
        let content = self.models.values().map(|model| model.workload().content.parse());
        let text = |content: serde_json::Value| content.pointer(pointer)?.as_str().map(str::to_owned);
        content.map(|content| text(content).unwrap_or_default()).collect()
    }

    /// How often the pods of each were replaced.
    pub(crate) fn rollouts(&self) -> Vec<usize> {
        self.models.values().map(|model| model.rollouts).collect()
    }
}

impl Operator {
    fn new(rollout_budget: BudgetSettings, scopes: &BTreeSet<Scope>) -> Self {
        let settings = Settings { rollout_budget, scopes: scopes.clone(), ..Settings::default() };
        let reconciler = Reconciler::new(settings);
        Self { reconciler, requests: Vec::new(), wake: None, halted: false, rolling: 0 }
    }
}

fn failed(category: Category) -> Reply {
    Reply::Failed(Failure { category, message: format!("{category:?}") })
}
