//! The reconciler: an event and the time in, effects out. Pure and synchronous.
//!
//! The shell owns one [`Reconciler`], calls [`Reconciler::step`] for every event and executes the effects that it
//! returns; `replay` calls it and only compares the effects. A reconciler is serialised completely: that is the
//! journal's snapshot.

mod active_passes;
mod last_told;
mod missing_kinds;
mod replies;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::backoff::{Attempt, Backoff};
use super::desired::{DefaultImages, OperatorPods};
use super::effect::{About, Effect, PodQuestion};
use super::event::{Event, SeenResource, Unavailable};
use super::failure::{Category, Failure};
use super::instance_metrics::Reported;
use super::lists::Moment;
use super::log_lines;
use super::object::{ChildKind, Key, Scope, Uid, Watched};
use super::observation::{ChildResult, Observation, RolloutCounts};
use super::pass;
use super::pass::outcome::{ComparedChild, Pass, PassFindings, Settled};
use super::pass::view::View;
use super::pod_figures::AskedFigures;
use super::queue::{Lane, Queue};
use super::request::{PendingRequest, Request, RequestId};
use super::rollout_budget::{BudgetSettings, RolloutBudget};
use super::shortcuts::half_pass;
use super::world::resource::Resource;
use super::world::{Age, World};
use active_passes::ActivePasses;
use last_told::LastTold;
use missing_kinds::MissingKinds;
use replies::Replies;

/// [`Settings::max_in_flight`], unless somebody says otherwise.
pub const DEFAULT_MAX_IN_FLIGHT: u16 = 32;

/// Settings from the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// With so many requests under way, over all resources, no further pass begins; at least 1. The requests of one pass leave
    /// together, so there may be a few more.
    pub max_in_flight: usize,
    /// Limits for rollouts without an edit of the user.
    pub rollout_budget: BudgetSettings,
    /// The namespaces to work in.
    pub scopes: BTreeSet<Scope>,
    /// The images of new pod templates where a spec names none. Journals of before have the built-in ones.
    #[serde(default)]
    pub images: DefaultImages,
    /// Where the operator's own pods are; `None` where it is no pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_pods: Option<OperatorPods>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_in_flight: DEFAULT_MAX_IN_FLIGHT.into(),
            rollout_budget: BudgetSettings::default(),
            scopes: [Scope::All].into(),
            images: DefaultImages::default(),
            operator_pods: None,
        }
    }
}

/// Whose pods are asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Asker {
    /// The resource.
    key: Key,
    /// Its incarnation.
    uid: Uid,
}

/// The state of the operator: a fold over its events.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reconciler {
    settings: Settings,
    world: World,
    queue: Queue,
    /// Resources that were taken from the queue before their namespace was synced.
    unsynced: BTreeSet<Key>,
    leading: bool,
    now: Timestamp,
    next_id: u64,
    pending_requests: BTreeMap<RequestId, PendingRequest>,
    /// Questions to pods without an answer. No pass waits for them, and they take no other request's place.
    #[serde(default)]
    open_questions: BTreeMap<RequestId, Asker>,
    active_passes: ActivePasses,
    missing_kinds: MissingKinds,
    last_told: LastTold,
}

impl Reconciler {
    /// A reconciler that knows nothing: it writes nothing until every list is complete and this process leads.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            world: World::new(RolloutBudget::new(settings.rollout_budget, settings.scopes.clone())),
            settings,
            queue: Queue::default(),
            unsynced: BTreeSet::new(),
            leading: false,
            now: Timestamp::UNIX_EPOCH,
            next_id: 0,
            pending_requests: BTreeMap::new(),
            open_questions: BTreeMap::new(),
            active_passes: ActivePasses::default(),
            missing_kinds: MissingKinds::default(),
            last_told: LastTold::default(),
        }
    }

    /// Whether every required list of some namespace has been complete once.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.world.is_synced()
    }

    /// How many requests have been answered: what the shell says when the request of a list leaves.
    #[must_use]
    pub const fn answers(&self) -> Moment {
        self.world.lists.now()
    }

    /// Everything known, for observers.
    #[must_use]
    pub const fn world(&self) -> &World {
        &self.world
    }

    /// Folds one event, runs as many passes as requests may be sent, and returns what to do.
    pub fn step(&mut self, at: Timestamp, event: Event) -> Vec<Effect> {
        self.now = at;
        let mut effects = Vec::new();
        let dirty = self.fold(event, &mut effects);
        if self.world.has_gone_back() {
            self.queue_all();
            effects.push(Effect::RelistAll);
        }
        self.queue.fire(at);
        let mut called = BTreeSet::new();
        self.queue_called(&mut called);
        let may_write = self.leading && self.is_synced();
        while may_write
            && self.pending_requests.len() < self.settings.max_in_flight
            && let Some(key) = self.queue.pop()
        {
            if self.world.is_synced_in(&key.namespace) {
                self.pass(&key, &mut effects);
                self.queue_called(&mut called);
            } else {
                self.active_passes.leave(&key);
                self.unsynced.insert(key);
            }
        }
        dirty.iter().for_each(|key| self.compare(key));
        // The queue of a follower does not count, nor do its turns: it decides none, so it would tell of them as they were when it
        // began to follow.
        let (depth, rollouts) = match self.leading {
            true => (self.queue.depth(), self.world.rollout_budget.counts()),
            false => (0, RolloutCounts::default()),
        };
        self.last_told.queue_depth(depth, &mut effects);
        self.last_told.wake(self.queue.next_fire(), &mut effects);
        self.last_told.rollouts(rollouts, &mut effects);
        effects
    }

    /// Queues the resources that may get their turn to roll, behind those that were edited. Who was called in this step before is
    /// looked at in the next one: whatever the budget says, a step ends.
    fn queue_called(&mut self, called: &mut BTreeSet<Key>) {
        for key in self.world.rollout_budget.call_next() {
            if called.insert(key.clone()) {
                self.queue.push(&key, Lane::Backlog);
            } else {
                self.queue.set_timer(&key, Some(self.now));
            }
        }
    }

    /// Folds an event into the world; queues and returns the affected resources.
    fn fold(&mut self, event: Event, effects: &mut Vec<Effect>) -> BTreeSet<Key> {
        let lane = if self.is_synced() { Lane::Fresh } else { Lane::Backlog };
        let dirty: BTreeSet<Key> = match event {
            Event::Asked { kind, scope, left } => {
                self.world.lists.ask(kind, scope, left.answers);
                BTreeSet::new()
            }
            Event::Listing(kind, scope) => {
                self.world.lists.begin(kind, scope);
                BTreeSet::new()
            }
            Event::Listed(kind, scope) => self.end_list(kind, &scope),
            Event::Unlistable(kind, scope) => {
                self.world.lose_list(kind, scope);
                BTreeSet::new()
            }
            Event::Unavailable { kind, scope, why } => self.lose_kind(kind, &scope, why),
            Event::Resource(seen) => {
                let key = seen.key.clone();
                if self.world.see_resource(*seen) { BTreeSet::from([key]) } else { BTreeSet::new() }
            }
            Event::Child(seen) => self.world.see_child(*seen, self.now).into_iter().collect(),
            Event::Secret(seen) => self.world.see_secret(seen),
            Event::Pod(seen) => self.world.see_pod(seen, self.now).into_iter().collect(),
            Event::Gone { kind, key } => self.world.gone(kind, &key, self.now),
            Event::Done { id, reply } => {
                if let Some(pending) = self.pending_requests.remove(&id) {
                    self.replies().handle_reply(pending, reply, effects);
                }
                BTreeSet::new()
            }
            Event::Answered { id, reply } => {
                if let Some(Asker { key, uid }) = self.open_questions.remove(&id) {
                    self.replies().handle_answer(id, &key, &uid, reply);
                }
                BTreeSet::new()
            }
            Event::Leading(leading) => {
                if leading && !self.leading {
                    self.on_leadership_acquired();
                }
                self.leading = leading;
                BTreeSet::new()
            }
            Event::ServerVersion(version) => self.world.meet_server(version),
            Event::Tick => {
                self.last_told.woken();
                BTreeSet::new()
            }
        };
        for key in &dirty {
            if self.world.resources.contains_key(key) {
                self.queue.push(key, lane);
            } else {
                self.forget(key);
                self.note_missing_kinds(key, &[], effects);
                effects.push(Effect::Observe(Observation::InstanceGone(key.clone())));
            }
        }
        dirty
    }

    /// What a reply changes.
    fn replies(&mut self) -> Replies<'_> {
        let Self { world, queue, active_passes, last_told, now, .. } = self;
        Replies { world, queue, active_passes, last_told, now: *now }
    }

    fn queue_all(&mut self) {
        self.world.resources.keys().for_each(|key| self.queue.push(key, Lane::Backlog));
    }

    /// Forgets a deleted resource. Requests of its last batch may be under way: the active pass ends with their
    /// answers.
    fn forget(&mut self, key: &Key) {
        self.queue.forget(key);
        self.unsynced.remove(key);
        self.active_passes.leave(key);
        if self.world.resources_in(&key.namespace).next().is_none() {
            self.last_told.namespace_is_empty(&key.namespace);
        }
    }

    /// Another replica may have written in the meantime: decisions from before are dropped.
    fn on_leadership_acquired(&mut self) {
        self.world.follow_status(&Scope::All);
        self.world.let_unavailable_age(|_| true);
        self.open_questions.clear();
        self.active_passes.on_leadership_acquired(self.now);
        self.queue_all();
    }

    /// A list is complete. Returns the affected resources.
    fn end_list(&mut self, kind: Watched, scope: &Scope) -> BTreeSet<Key> {
        let dirty = self.world.end_list(kind, scope, self.now);
        self.requeue_synced(scope);
        dirty
    }

    /// A kind of child cannot be listed. Returns the affected resources.
    fn lose_kind(&mut self, kind: ChildKind, scope: &Scope, why: Unavailable) -> BTreeSet<Key> {
        let age = if self.missing_kinds.are_polled(kind) { Age::OfNow } else { Age::Any };
        let dirty = self.world.lose_kind(kind, scope.clone(), why, age);
        self.requeue_synced(scope);
        dirty
    }

    /// A pass over this resource asks for these kinds, which the API server does not serve as far as is known.
    fn note_missing_kinds(&mut self, key: &Key, unserved: &[ChildKind], effects: &mut Vec<Effect>) {
        let Self { missing_kinds, world, .. } = self;
        missing_kinds.note(key, unserved, effects);
        world.let_unavailable_age(|kind| !missing_kinds.are_polled(kind));
    }

    /// Queues the resources of a scope that waited for their namespace to be synced, where it is by now. Those of other
    /// namespaces are not looked at: with many namespaces, each of their lists would queue the resources of all.
    fn requeue_synced(&mut self, scope: &Scope) {
        let there = self.unsynced.range(scope.keys());
        let synced: Vec<Key> = there.filter(|key| self.world.is_synced_in(&key.namespace)).cloned().collect();
        for key in synced {
            self.queue.push(&key, Lane::Backlog);
            self.unsynced.remove(&key);
        }
    }

    /// What a pass over this resource sees.
    const fn view<'a>(&'a self, resource: &'a Resource) -> View<'a> {
        View {
            world: &self.world,
            resource,
            now: self.now,
            images: &self.settings.images,
            operator_pods: self.settings.operator_pods.as_ref(),
        }
    }

    /// Compares the children of a resource that still waits in the queue. While a batch is under way, the pass after it
    /// does that with newer knowledge.
    fn compare(&mut self, key: &Key) {
        let under_way = self.active_passes.is_under_way(key);
        let Some(resource) = self.world.resources.get(key).filter(|it| it.is_open() && !under_way) else {
            return;
        };
        let view = self.view(resource);
        // A panic is ignored here: the pass will panic too, and reports it.
        if let Ok(findings) = catch_unwind(AssertUnwindSafe(|| half_pass::run(&view))) {
            self.remember(key, findings);
        }
    }

    fn remember(&mut self, key: &Key, PassFindings { compared_children, rendered_hashes }: PassFindings) {
        let Some(resource) = self.world.resources.get_mut(key) else { return };
        for ComparedChild { kind, desired, differences } in compared_children {
            if let Some(live) = &mut resource.child_mut(kind).live {
                live.keep_comparison(desired, differences);
            }
        }
        resource.let_trees_go();
        if rendered_hashes.is_some() {
            resource.rendered_hashes = rendered_hashes.map(Box::new);
        }
    }

    /// Runs the pass of one resource, unless its last batch is under way: the last answer queues the resource again.
    fn pass(&mut self, key: &Key, effects: &mut Vec<Effect>) {
        let Some(resource) = self.world.resources.get(key) else { return };
        let panicked = |backoff: &Backoff| {
            backoff.failure.category == Category::Internal && backoff.holds(&Attempt::default(), self.now)
        };
        if self.active_passes.is_under_way(key) || resource.backoff.as_deref().is_some_and(panicked) {
            return;
        }
        self.active_passes.begin(key, self.now);
        let view = self.view(resource);
        match catch_unwind(AssertUnwindSafe(|| pass::run(&view))) {
            Ok(pass) => self.carry_out(key, pass, effects),
            Err(_) => {
                let turn_state = pass::turn_without_writes(&view);
                self.world.rollout_budget.note(key, turn_state);
                self.back_off_after_panic(key, effects);
            }
        }
    }

    fn carry_out(&mut self, key: &Key, pass: Pass, effects: &mut Vec<Effect>) {
        self.remember(key, pass.findings);
        // Before the writes are answered: the status that follows them can say what the API server says then.
        if let Some(unserved) = &pass.unserved {
            self.note_missing_kinds(key, unserved, effects);
        }
        if let Some(turn_state) = pass.turn_state {
            self.world.rollout_budget.note(key, turn_state);
        }
        let Some(resource) = self.world.resources.get_mut(key) else { return };
        if let Some(found) = pass.secret_hash {
            resource.note_secret_hash(found);
        }
        if pass.requests.is_empty() {
            self.settle(key, pass.settled, effects);
            for question in pass.questions {
                self.ask_pods(key, question, effects);
            }
            return;
        }
        self.active_passes.send(key, pass.requests.len());
        resource.note_requests();
        for kind in pass.requests.iter().filter_map(Request::child) {
            resource.child_mut(kind).on_request();
        }
        let SeenResource { uid, generation, .. } = &resource.seen;
        for request in pass.requests.into_iter().map(Arc::new) {
            let id = RequestId(self.next_id);
            self.next_id += 1;
            effects.push(Effect::Send { id, resource: key.clone(), request: Arc::clone(&request) });
            let (resource, uid, generation) = (key.clone(), uid.clone(), *generation);
            self.pending_requests.insert(id, PendingRequest { resource, uid, generation, request });
        }
    }

    fn ask_pods(&mut self, key: &Key, question: PodQuestion, effects: &mut Vec<Effect>) {
        let Some(resource) = self.world.resources.get_mut(key) else { return };
        let id = RequestId(self.next_id);
        match &question {
            PodQuestion::Rotation(question) => {
                resource.agents.get_or_insert_default().ask(id, &question.wanted);
            }
            PodQuestion::Figures => {
                let Some(warming) = &resource.seen.status.warming else { return };
                let figures = resource.figures.get_or_insert_with(|| Box::new(AskedFigures::new(warming)));
                figures.ask(id, warming);
            }
        }
        self.next_id += 1;
        self.open_questions.insert(id, Asker { key: key.clone(), uid: resource.seen.uid.clone() });
        effects.push(Effect::Ask { id, resource: key.clone(), question });
    }

    fn settle(&mut self, key: &Key, settled: Option<Settled>, effects: &mut Vec<Effect>) {
        let since = self.active_passes.end(key).unwrap_or(self.now);
        let Some(resource) = self.world.resources.get_mut(key) else { return };
        // It may stay for long, as a foreground deletion with a pod on a dead node, and nobody looks at it any more.
        if resource.seen.deleting && resource.reported.take().is_some() {
            effects.push(Effect::Observe(Observation::InstanceGone(key.clone())));
        }
        let Some(settled) = settled else { return };
        self.queue.set_timer(key, settled.wake_at);
        resource.may_be_unfinished &= settled.children_fail;
        resource.former_may_stand &= settled.children_fail;
        for kind in &settled.unchanged {
            // The child is as desired without that write: the next conflict is a first one again.
            let resolved = |backoff: &mut Box<Backoff>| backoff.failure.category == Category::Conflict;
            resource.child_mut(*kind).backoff.take_if(resolved);
        }
        let workload = resource.workload();
        if resource.child(workload).template_changed {
            resource.child_mut(workload).forget_template_change();
        }
        if settled.unchanged.contains(&workload) {
            resource.spec_before_edit = None;
            resource.requested_spec = None;
        }
        let unchanged = settled
            .unchanged
            .into_iter()
            .map(|kind| Observation::Child { kind, result: ChildResult::Unchanged });
        effects.extend(unchanged.map(Effect::Observe));
        let instance_metrics = settled.instance_metrics;
        let now = Some(Reported::from(&instance_metrics));
        if resource.reported != now {
            resource.reported = now;
            effects.push(Effect::Observe(Observation::Instance { resource: key.clone(), instance_metrics }));
        }
        effects.push(Effect::Observe(Observation::Reconciled {
            resource: key.clone(),
            millis: self.now.as_millisecond() - since.as_millisecond(),
            failure: settled.failure,
        }));
    }

    fn back_off_after_panic(&mut self, key: &Key, effects: &mut Vec<Effect>) {
        self.active_passes.end(key);
        let Some(resource) = self.world.resources.get_mut(key) else { return };
        let failure = Failure {
            category: Category::Internal,
            message: format!(
                "the pass over Memcached {key} panicked: this is a defect of the operator, please report it"
            ),
        };
        let (before, uid) = (resource.backoff.as_deref(), &resource.seen.uid);
        let backoff = Backoff::from_failure(before, failure.clone(), Attempt::default(), uid, self.now);
        let line = log_lines::of_failure(&failure, before, Some(&backoff));
        effects.push(Effect::Log { about: About::Resource(key.clone()), line });
        self.queue.set_timer(key, backoff.retry_at);
        resource.backoff = Some(Box::new(backoff));
        effects.push(Effect::Observe(Observation::Reconciled {
            resource: key.clone(),
            millis: 0,
            failure: Some(Category::Internal),
        }));
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use kube_core::DynamicObject;
    use serde_json::json;

    use super::*;
    use crate::api::status::BudgetedRollout;
    use crate::kernel::instance_metrics::InstanceMetrics;
    use crate::kernel::messages::{LogLevel, LogLine};
    use crate::kernel::rollout_budget::TurnState;
    use crate::kernel::seen;

    fn with_a_resource() -> (Reconciler, Key) {
        let object: DynamicObject = serde_json::from_value(json!({
            "metadata": {"namespace": "n", "name": "x", "uid": "u", "resourceVersion": "1", "generation": 1},
            "spec": {},
        }))
        .unwrap();
        let resource = seen::resource(&object).unwrap();
        let key = resource.key.clone();
        let mut reconciler = Reconciler::new(Settings::default());
        reconciler.step(Timestamp::UNIX_EPOCH, Event::Resource(Box::new(resource)));
        (reconciler, key)
    }

    #[test]
    fn a_resource_that_is_being_deleted_is_gone_from_the_metrics_once() {
        let (mut reconciler, key) = with_a_resource();
        let resource = reconciler.world.resources.get_mut(&key).unwrap();
        resource.seen.deleting = true;
        resource.reported = Some(Reported::from(&InstanceMetrics::default()));
        let mut effects = Vec::new();
        reconciler.pass(&key, &mut effects);
        reconciler.pass(&key, &mut effects);
        assert_eq!(effects, [Effect::Observe(Observation::InstanceGone(key))]);
    }

    #[test]
    fn the_time_in_which_another_one_led_counts_towards_no_pass() {
        for is_answered in [true, false] {
            let (mut reconciler, key) = with_a_resource();
            reconciler.active_passes.begin(&key, Timestamp::UNIX_EPOCH);
            reconciler.active_passes.send(&key, 1);
            if is_answered {
                reconciler.active_passes.answer(&key);
            }
            let later = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1);
            reconciler.step(later, Event::Leading(true));
            reconciler.active_passes.begin(&key, later);
            assert_eq!(reconciler.active_passes.end(&key), Some(later));
        }
    }

    #[test]
    fn who_is_called_again_in_one_step_is_looked_at_in_the_next_one() {
        let (mut reconciler, key) = with_a_resource();
        reconciler.world.rollout_budget.saw(&Scope::All);
        reconciler.queue.pop();
        let mut called = BTreeSet::new();
        let mut queued_and_timed = || {
            let budget = &mut reconciler.world.rollout_budget;
            budget.note(&key, TurnState::Waiting(BudgetedRollout::Secret));
            reconciler.queue_called(&mut called);
            (reconciler.queue.pop(), reconciler.queue.next_fire())
        };
        assert_eq!(queued_and_timed(), (Some(key.clone()), None));
        assert_eq!(queued_and_timed(), (None, Some(Timestamp::UNIX_EPOCH)));
    }

    #[test]
    fn a_pass_that_panics_is_in_the_log_with_its_resource_and_is_no_news_the_next_time() {
        let (mut reconciler, key) = with_a_resource();
        let words = "the pass over Memcached n/x panicked: this is a defect of the operator, please report it \
                     (internal)";
        for level in [LogLevel::Warn, LogLevel::Debug] {
            let mut effects = Vec::new();
            reconciler.back_off_after_panic(&key, &mut effects);
            let line = LogLine { level, words: words.to_owned() };
            let told = Effect::Log { about: About::Resource(key.clone()), line };
            assert!(effects.contains(&told), "{effects:?}");
        }
    }
}
