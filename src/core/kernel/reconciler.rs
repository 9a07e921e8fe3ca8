//! The reconciler: an event and the time in, effects out. Pure and synchronous.
//!
//! The shell owns one [`Reconciler`], calls [`Reconciler::step`] for every event and carries out the effects that it
//! returns; `replay` calls it and only compares the effects. A reconciler is serialised completely: that is the
//! journal's snapshot.

mod replies;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::backoff::{Attempt, Backoff};
use super::effect::{ChildResult, Effect, Observation, Request, RequestId, RolloutCounts};
use super::event::Event;
use super::failure::{Category, Failure};
use super::lists::Moment;
use super::object::{ChildKind, Key, Scope};
use super::pass;
use super::pass::outcome::{ComparedChild, Pass, Send};
use super::pass::view::View;
use super::pending_request::{PendingRequest, Sent};
use super::queue::{Lane, Queue};
use super::rollout_budget::{BudgetSettings, RolloutBudget};
use super::shortcuts::rendered_hashes::RenderedHashes;
use super::world::World;

/// Settings from the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Requests under way at once, over all resources; at least 1.
    pub max_in_flight: usize,
    /// Limits for rollouts without an edit of the user.
    pub rollout_budget: BudgetSettings,
    /// The namespaces to work in.
    pub scopes: BTreeSet<Scope>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_in_flight: 64, rollout_budget: BudgetSettings::default(), scopes: [Scope::All].into() }
    }
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
    active_passes: BTreeMap<Key, ActivePass>,
    /// The resources that ask for a kind that the API server does not serve.
    missing_kinds: BTreeMap<ChildKind, BTreeSet<Key>>,
    /// The wake-up time that the shell was asked for last.
    wake: Option<Timestamp>,
    reported_depth: usize,
    reported_rollouts: RolloutCounts,
}

/// A resource between the moment when it was taken from the queue and the moment when nothing is left to send.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct ActivePass {
    /// Requests of its batch without an answer.
    outstanding: usize,
    /// When it was taken from the queue.
    since: Timestamp,
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
            active_passes: BTreeMap::new(),
            missing_kinds: BTreeMap::new(),
            wake: None,
            reported_depth: 0,
            reported_rollouts: RolloutCounts::default(),
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
        self.queue_permitted();
        while self.leading
            && self.is_synced()
            && self.pending_requests.len() < self.settings.max_in_flight
            && let Some(key) = self.queue.pop()
        {
            if self.world.is_synced_in(&key.namespace) {
                self.pass(&key, &mut effects);
                self.queue_permitted();
            } else {
                self.unsynced.insert(key);
            }
        }
        dirty.iter().for_each(|key| self.compare(key));
        self.report_queue(&mut effects);
        self.report_rollouts(&mut effects);
        effects
    }

    /// Queues the resources that may get a rollout permit, behind those that were edited.
    fn queue_permitted(&mut self) {
        for key in self.world.rollout_budget.take_permitted() {
            self.queue.push(&key, Lane::Backlog);
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
            Event::Listed(kind, scope) => {
                self.requeue_unsynced();
                self.world.end_list(kind, &scope)
            }
            Event::Unlistable(kind, scope) => {
                self.world.lose_list(kind, scope);
                BTreeSet::new()
            }
            Event::Unavailable { kind, scope, why } => {
                self.requeue_unsynced();
                self.world.lose_kind(kind, scope, why)
            }
            Event::Resource(seen) => {
                let key = seen.key.clone();
                if self.world.see_resource(*seen) { BTreeSet::from([key]) } else { BTreeSet::new() }
            }
            Event::Child(seen) => self.world.see_child(*seen).into_iter().collect(),
            Event::Secret(seen) => self.world.see_secret(seen),
            Event::Pod(seen) => self.world.see_pod(seen).into_iter().collect(),
            Event::Gone { kind, key } => self.world.gone(kind, &key),
            Event::Done { id, reply } => {
                self.handle_reply(id, reply, effects);
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
                self.wake = None;
                BTreeSet::new()
            }
        };
        for key in &dirty {
            if self.world.resources.contains_key(key) {
                self.queue.push(key, lane);
            } else {
                self.forget(key);
                self.poll_missing_kinds(key, &[], effects);
                effects.push(Effect::Observe(Observation::InstanceGone(key.clone())));
            }
        }
        dirty
    }

    fn queue_all(&mut self) {
        self.world.resources.keys().for_each(|key| self.queue.push(key, Lane::Backlog));
    }

    /// Forgets a deleted resource. Requests of its last batch may be under way: the active pass ends with their
    /// answers.
    fn forget(&mut self, key: &Key) {
        self.queue.forget(key);
        self.unsynced.remove(key);
        if self.active_passes.get(key).is_some_and(|active_pass| active_pass.outstanding == 0) {
            self.active_passes.remove(key);
        }
    }

    /// Another replica may have written in the meantime: decisions from before are dropped, and the metrics of each
    /// resource are reported again.
    fn on_leadership_acquired(&mut self) {
        for (key, resource) in &mut self.world.resources {
            resource.reported = None;
            resource.recall();
            resource.secret_hash = None;
            self.world.rollout_budget.restore(key, &resource.seen.status);
        }
        self.queue_all();
    }

    /// Queues the resources that waited for their namespace to be synced.
    fn requeue_unsynced(&mut self) {
        for key in std::mem::take(&mut self.unsynced) {
            self.queue.push(&key, Lane::Backlog);
        }
    }

    /// Compares the children of a resource that still waits in the queue. While a batch is under way, the pass after it
    /// does that with newer knowledge.
    fn compare(&mut self, key: &Key) {
        let under_way = self.active_passes.get(key).is_some_and(|active_pass| active_pass.outstanding > 0);
        let Some(resource) = self.world.resources.get(key).filter(|it| it.is_open() && !under_way) else {
            return;
        };
        let view = View { world: &self.world, resource, now: self.now };
        // A panic is ignored here: the pass will panic too, and reports it.
        if let Ok(Pass { compared_children, rendered_hashes, .. }) =
            catch_unwind(AssertUnwindSafe(|| pass::compare(&view)))
        {
            self.remember(key, compared_children, rendered_hashes);
        }
    }

    fn remember(
        &mut self,
        key: &Key,
        compared_children: Vec<ComparedChild>,
        rendered_hashes: Option<RenderedHashes>,
    ) {
        let Some(resource) = self.world.resources.get_mut(key) else { return };
        for ComparedChild { kind, desired, differences } in compared_children {
            if let Some(live) = &mut resource.slot_mut(kind).live {
                live.keep_comparison(desired, differences);
            }
        }
        if rendered_hashes.is_some() {
            resource.rendered_hashes = rendered_hashes;
        }
    }

    /// Runs the pass of one resource, unless its last batch is under way: the last answer queues the resource again.
    fn pass(&mut self, key: &Key, effects: &mut Vec<Effect>) {
        let Some(resource) = self.world.resources.get(key) else { return };
        let active_pass =
            self.active_passes.entry(key.clone()).or_insert(ActivePass { outstanding: 0, since: self.now });
        let panicked = |backoff: &Backoff| {
            backoff.failure.category == Category::Internal && backoff.holds(&Attempt::default(), self.now)
        };
        if active_pass.outstanding > 0 || resource.backoff.as_ref().is_some_and(panicked) {
            return;
        }
        let view = View { world: &self.world, resource, now: self.now };
        match catch_unwind(AssertUnwindSafe(|| pass::run(&view))) {
            Ok(pass) => self.carry_out(key, pass, effects),
            Err(_) => {
                let permit_state = pass::permit_without_writes(&view);
                self.world.rollout_budget.note(key, permit_state);
                self.back_off_after_panic(key, effects);
            }
        }
    }

    fn carry_out(&mut self, key: &Key, pass: Pass, effects: &mut Vec<Effect>) {
        self.remember(key, pass.compared_children, pass.rendered_hashes);
        if let Some(permit_state) = pass.permit_state {
            self.world.rollout_budget.note(key, permit_state);
        }
        let Some(resource) = self.world.resources.get_mut(key) else { return };
        if pass.secret_hash.is_some() {
            resource.secret_hash = pass.secret_hash;
        }
        let uid = resource.seen.uid.clone();
        let outstanding = pass.sends.len();
        for kind in pass.sends.iter().filter_map(Send::child) {
            // The answer will be newer than the deletion that is known.
            resource.slot_mut(kind).lost = None;
        }
        for send in pass.sends {
            let (request, sent) = self.prepare(key, send);
            let id = RequestId(self.next_id);
            self.next_id += 1;
            self.pending_requests
                .insert(id, PendingRequest { resource: key.clone(), uid: uid.clone(), sent });
            effects.push(Effect::Send { id, resource: key.clone(), request });
        }
        if outstanding == 0 {
            self.settle(key, pass.settled, effects);
        } else if let Some(active_pass) = self.active_passes.get_mut(key) {
            active_pass.outstanding = outstanding;
        }
    }

    /// The request, and what is needed to understand its reply.
    fn prepare(&self, key: &Key, send: Send) -> (Request, Sent) {
        match send {
            Send::Write { request, kind, attempt, change, replaces, kube_events } => {
                let body = match &request {
                    Request::Create { body, .. } | Request::Apply { body, .. } => Some(body.clone()),
                    _ => None,
                };
                (request, Sent::Write { kind, attempt, change, replaces, kube_events, body })
            }
            Send::Status { status, attempt, kube_events, request } => {
                (request, Sent::Status { status, attempt, kube_events })
            }
            Send::Read(request) => {
                let sent = match &request {
                    Request::ReadSecret { secret, keys } => {
                        let presence = self.world.secrets.get(secret).map(|it| it.presence.clone());
                        Sent::ReadSecret {
                            key: secret.clone(),
                            keys: keys.clone(),
                            known: presence.unwrap_or_default(),
                        }
                    }
                    Request::ReadChild { kind, .. }
                    | Request::Create { kind, .. }
                    | Request::Apply { kind, .. }
                    | Request::Patch { kind, .. }
                    | Request::Delete { kind, .. } => {
                        let resource = self.world.resources.get(key);
                        Sent::ReadChild(*kind, resource.map(|it| it.slot(*kind).sight()).unwrap_or_default())
                    }
                    Request::PatchStatus { .. } => Sent::Status {
                        status: Box::default(),
                        attempt: Attempt::default(),
                        kube_events: Vec::new(),
                    },
                };
                (request, sent)
            }
        }
    }

    fn settle(&mut self, key: &Key, settled: Option<pass::Settled>, effects: &mut Vec<Effect>) {
        let active_pass = self.active_passes.remove(key);
        let unserved = settled.as_ref().map(|settled| settled.unserved.as_slice()).unwrap_or_default();
        self.poll_missing_kinds(key, unserved, effects);
        let Some((settled, resource)) = settled.zip(self.world.resources.get_mut(key)) else { return };
        self.queue.set_timer(key, settled.wake_at);
        resource.inherited &= settled.failure.is_some();
        for kind in &settled.unchanged {
            // The child is as desired without that write: the next conflict is a first one again.
            let resolved = |backoff: &mut Backoff| backoff.failure.category == Category::Conflict;
            resource.slot_mut(*kind).backoff.take_if(resolved);
        }
        resource.edited.take_if(|_| settled.unchanged.contains(&ChildKind::Deployment));
        let since = active_pass.map_or(self.now, |active_pass| active_pass.since);
        let unchanged = settled
            .unchanged
            .into_iter()
            .map(|kind| Observation::Child { kind, result: ChildResult::Unchanged });
        effects.extend(unchanged.map(Effect::Observe));
        if resource.reported.as_ref() != Some(&settled.instance_metrics) {
            resource.reported = Some(settled.instance_metrics.clone());
            let instance_metrics = settled.instance_metrics;
            effects.push(Effect::Observe(Observation::Instance { resource: key.clone(), instance_metrics }));
        }
        effects.push(Effect::Observe(Observation::Reconciled {
            resource: key.clone(),
            millis: self.now.as_millisecond() - since.as_millisecond(),
            failure: settled.failure,
        }));
    }

    /// Notes which kinds a resource asks for that the API server does not serve, and has the shell poll for them.
    fn poll_missing_kinds(&mut self, key: &Key, unserved: &[ChildKind], effects: &mut Vec<Effect>) {
        for kind in ChildKind::ALL.into_iter().filter(|kind| !kind.is_required()) {
            let users = self.missing_kinds.entry(kind).or_default();
            let before = users.is_empty();
            if unserved.contains(&kind) {
                users.insert(key.clone());
            } else {
                users.remove(key);
            }
            if users.is_empty() != before {
                effects.push(Effect::PollMissingKind { kind, wanted: before });
            }
        }
    }

    fn back_off_after_panic(&mut self, key: &Key, effects: &mut Vec<Effect>) {
        self.active_passes.remove(key);
        let Some(resource) = self.world.resources.get_mut(key) else { return };
        let failure = Failure {
            category: Category::Internal,
            message: format!(
                "the pass over Memcached {key} panicked: this is a defect of the operator, please report it"
            ),
        };
        let before = resource.backoff.as_ref();
        let backoff =
            Backoff::from_failure(before, failure, Attempt::default(), &resource.seen.uid, self.now);
        self.queue.set_timer(key, backoff.retry_at);
        resource.backoff = Some(backoff);
        effects.push(Effect::Observe(Observation::Reconciled {
            resource: key.clone(),
            millis: 0,
            failure: Some(Category::Internal),
        }));
    }

    fn report_rollouts(&mut self, effects: &mut Vec<Effect>) {
        let counts = self.world.rollout_budget.counts();
        if counts != self.reported_rollouts {
            self.reported_rollouts = counts;
            effects.push(Effect::Observe(Observation::Rollouts(counts)));
        }
    }

    fn report_queue(&mut self, effects: &mut Vec<Effect>) {
        // The queue of a follower does not count.
        let depth = if self.leading { self.queue.depth() } else { 0 };
        if depth != self.reported_depth {
            self.reported_depth = depth;
            effects.push(Effect::Observe(Observation::QueueDepth(depth)));
        }
        let next = self.queue.next_fire();
        if next.is_some() && next != self.wake {
            self.wake = next;
            effects.extend(next.map(Effect::Wake));
        }
    }
}
