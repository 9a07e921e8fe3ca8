//! The kernel beside the model of an API server, and what is on its way between the two. Time is virtual.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use memcached_operator_core::kernel::effect::{Effect, PodQuestion};
use memcached_operator_core::kernel::event::{Departure, Event, PodsReply, Reply, Unavailable};
use memcached_operator_core::kernel::failure::{Category, Failure};
use memcached_operator_core::kernel::hash::BodyHash;
use memcached_operator_core::kernel::instance_metrics::InstanceMetrics;
use memcached_operator_core::kernel::object::{ChildKind, Scope, Watched};
use memcached_operator_core::kernel::observation::{Observation, RotationResult};
use memcached_operator_core::kernel::reconciler::{Reconciler, Settings};
use memcached_operator_core::kernel::request::{ChildRead, ChildWrite, Request, RequestId, Write};

use crate::disasters::bars;
use crate::follower::{Departures, Follower};
use crate::model::{Model, START};
use crate::words;

/// The operator, the API server, and what is between them.
pub(crate) struct Simulation {
    pub(crate) reconciler: Reconciler,
    /// The other operator, once the lead has changed.
    pub(crate) follower: Option<Follower>,
    pub(crate) departures: Departures,
    pub(crate) model: Model,
    pub(crate) now: Timestamp,
    pub(crate) requests: Vec<Effect>,
    /// Requests of operators that are gone, on their way. Nobody waits for their answers.
    pub(crate) left_behind: Vec<Effect>,
    /// The lists that were asked for and are not answered.
    pub(crate) asked: BTreeMap<Watched, Departure>,
    /// The kinds that the operator asks for because they were not served, where the API server has not answered.
    pub(crate) looked_for: BTreeSet<ChildKind>,
    /// Whether the operator knows that it may not list the resources.
    pub(crate) barred: bool,
    /// How often the operator asked for every list again, because versions had gone back.
    pub(crate) relists: usize,
    /// Whether the operator has had a complete list of the resources: before that it is told of nothing else.
    pub(crate) knows_resources: bool,
    /// Questions to pods without an answer.
    pub(crate) questions: Vec<(RequestId, PodQuestion)>,
    /// How many there were.
    pub(crate) questions_asked: usize,
    /// What the metrics count of rotations.
    pub(crate) rotations: Vec<RotationResult>,
    /// Answers on their way.
    pub(crate) late: Vec<(RequestId, Reply)>,
    pub(crate) wake: Option<Timestamp>,
    /// Whether each step is also taken by a kernel that was written down and read back right before.
    pub(crate) with_twin: bool,
    /// Whether it may write.
    pub(crate) leads: bool,
    /// Reasons of the Events that were published.
    pub(crate) said: Vec<String>,
    /// What was asked of the API server.
    pub(crate) requested: Vec<String>,
    /// Whether a workload was applied last that had been compared with something else and is not kept, and that could not be
    /// read either: what the apply changes is not known.
    pub(crate) workload_was_unreadable: bool,
    /// What the resource came to rest with last, as the metrics count it.
    pub(crate) failure: Option<Category>,
    /// What the metrics show of the resource.
    pub(crate) shown: Option<InstanceMetrics>,
    /// Rollouts that the metrics count.
    pub(crate) counted: usize,
    /// What the Events say of rollouts.
    pub(crate) told: Vec<String>,
    /// What the conditions claimed.
    pub(crate) claims: BTreeSet<String>,
}

impl Simulation {
    pub(crate) fn new() -> Self {
        let mut simulation = Self {
            reconciler: Reconciler::new(Settings::default()),
            follower: None,
            departures: Departures::default(),
            model: Model::default(),
            now: START,
            requests: Vec::new(),
            left_behind: Vec::new(),
            asked: BTreeMap::new(),
            looked_for: BTreeSet::new(),
            barred: false,
            knows_resources: false,
            relists: 0,
            questions: Vec::new(),
            questions_asked: 0,
            rotations: Vec::new(),
            late: Vec::new(),
            wake: None,
            with_twin: false,
            leads: false,
            said: Vec::new(),
            requested: Vec::new(),
            workload_was_unreadable: false,
            failure: None,
            shown: None,
            counted: 0,
            told: Vec::new(),
            claims: BTreeSet::new(),
        };
        simulation.restart();
        simulation
    }

    /// All memory is lost, or another operator leads, which is the same; lists come anew. What was sent is on its way.
    pub(crate) fn restart(&mut self) {
        self.restart_with(Settings::default());
    }

    /// The same, and the lists of the children and their pods come the other way round: all but that of the resources are asked
    /// for at once.
    pub(crate) fn restart_listing_backwards(&mut self) {
        let [first, others @ ..] = Watched::ALL;
        let order = [first].into_iter().chain(others.into_iter().rev());
        self.restart_in_order(Settings::default(), order);
    }

    pub(crate) fn restart_with(&mut self, settings: Settings) {
        self.restart_in_order(settings, Watched::ALL);
    }

    fn restart_in_order(&mut self, settings: Settings, kinds: impl IntoIterator<Item = Watched>) {
        self.reconciler = Reconciler::new(settings);
        self.left_behind.append(&mut self.requests);
        self.late.clear();
        self.questions.clear();
        self.asked.clear();
        self.looked_for.clear();
        self.wake = None;
        self.knows_resources = self.model.has_role;
        self.lead(true);
        self.step(self.model.says_version());
        for kind in kinds {
            if !self.model.has_role {
                if kind == Watched::Memcached {
                    self.step(Event::Unlistable(kind, Scope::All));
                } else {
                    self.model.cut(kind);
                }
                continue;
            }
            self.list(kind);
        }
    }

    fn list(&mut self, kind: Watched) {
        if let Watched::Child(kind) = kind
            && self.model.unserved.contains(&kind)
        {
            return self.step(Event::Unavailable { kind, scope: Scope::All, why: Unavailable::NotServed });
        }
        self.step(Event::Listing(kind, Scope::All));
        for event in self.model.list(kind) {
            self.step(event);
        }
        self.step(Event::Listed(kind, Scope::All));
    }

    /// The leader, and nobody else, hears again whether a kind is served. Returns whether it asks for one.
    pub(crate) fn look_for_kinds(&mut self) -> bool {
        let Some(kind) = self.looked_for.pop_first() else { return false };
        let follower = self.follower.take();
        self.list(Watched::Child(kind));
        self.follower = follower;
        true
    }

    pub(crate) fn step(&mut self, event: Event) {
        let event = self.tell_follower(event);
        self.knows_resources |= matches!(event, Event::Listed(Watched::Memcached, _));
        let twin = self.with_twin.then(|| {
            let snapshot = serde_json::to_vec(&self.reconciler).unwrap();
            serde_json::from_slice::<Reconciler>(&snapshot).unwrap().step(self.now, event.clone())
        });
        self.barred = bars(&event).unwrap_or(self.barred);
        let unanswered = self.requests.len() + self.late.len();
        let effects = self.reconciler.step(self.now, event);
        assert_eq!(twin.unwrap_or_else(|| effects.clone()), effects);
        let sends = effects.iter().any(|effect| matches!(effect, Effect::Send { .. }));
        assert!(!sends || unanswered == 0, "two batches at once: {effects:?} beside {unanswered} requests");
        assert!(!sends || !self.barred, "{effects:?} where the resources may not be listed");
        let of_batch = sends.then(|| self.applies_unreadable(&effects));
        for effect in effects {
            self.claims.append(&mut words::check(&self.reconciler, self.now, &effect));
            match effect {
                Effect::Ask { id, question, .. } => {
                    assert!(self.leads, "a follower asks pods");
                    self.questions_asked += 1;
                    self.questions.push((id, question));
                }
                Effect::Send { ref request, .. } => {
                    assert!(self.leads, "a follower asks for {effect:?}");
                    let seen = &self.reconciler.world().resources[self.model.resource_key()].seen;
                    self.model.check_config_map(seen, request);
                    self.requested.push(request_name(request));
                    self.requests.push(effect);
                }
                Effect::Wake(at) => self.wake = Some(at),
                Effect::Publish { kube_event, .. } => {
                    if kube_event.reason == "RolloutStarted" {
                        self.check_fields_are_told(&kube_event.message);
                        self.told.push(kube_event.message);
                    }
                    self.said.push(kube_event.reason);
                }
                Effect::Observe(Observation::SecretRotation(result)) => self.rotations.push(result),
                Effect::Observe(Observation::RolloutStarted { .. }) => self.counted += 1,
                Effect::Observe(Observation::Reconciled { failure, .. }) => self.failure = failure,
                Effect::Observe(Observation::Instance { instance_metrics, .. }) => {
                    self.shown = Some(instance_metrics);
                }
                Effect::RelistAll => {
                    assert!(self.model.history > 0, "versions did not go back");
                    self.relists += 1;
                    Watched::ALL.into_iter().for_each(|kind| self.ask(kind));
                }
                Effect::PollMissingKind { kind, wanted: true } => drop(self.looked_for.insert(kind)),
                Effect::PollMissingKind { kind, wanted: false } => drop(self.looked_for.remove(&kind)),
                Effect::Observe(_) | Effect::Log { .. } => {}
            }
        }
        // What was said before was about the batch before.
        if let Some(of_batch) = of_batch {
            self.workload_was_unreadable = of_batch;
        }
    }

    /// Whether one of these applies is of a workload that was compared with something else and is not kept, and that could not
    /// be read: no watch shows it, or its last request failed and has to wait.
    fn applies_unreadable(&self, effects: &[Effect]) -> bool {
        let resource = &self.reconciler.world().resources[self.model.resource_key()];
        effects.iter().any(|effect| {
            let Effect::Send { request, .. } = effect else { return false };
            let Request::WriteChild(ChildWrite { kind, write: Write::Apply { body, .. }, .. }) = &**request
            else {
                return false;
            };
            let (child, hash) = (resource.child(*kind), BodyHash::from_body(body));
            let is_dropped = child.live.as_ref().is_some_and(|live| !live.comparison.is_with(Some(hash)));
            let waits = child.backoff.as_deref().is_some_and(|it| it.retry_at.is_none_or(|at| self.now < at));
            kind.is_workload() && is_dropped && (waits || child.is_out_of_sight())
        })
    }

    /// The Event about a rollout names the fields of the template that change.
    fn check_fields_are_told(&mut self, message: &str) {
        // Where a cluster begins or ends to rewrite, an apply of the same template may change it.
        let was_rewritten = std::mem::take(&mut self.model.template_was_rewritten);
        let is_excused = was_rewritten || self.workload_was_unreadable;
        assert!(
            is_excused || !message.contains("which fields of the template change is not known"),
            "{message}"
        );
    }

    pub(crate) fn answer(&mut self, at: usize, execute: bool, lost: Option<Category>) {
        if self.requests.is_empty() {
            return;
        }
        let at = at % self.requests.len();
        let Effect::Send { id, request, .. } = self.requests.remove(at) else { return };
        let executed = execute.then(|| self.model.respond(&request));
        let failed = |category| {
            let message = format!("cannot {}: {category:?}", request_name(&request));
            Reply::Failed(Failure { category, message })
        };
        let reply = lost.map(failed).or(executed).unwrap();
        self.step(Event::Done { id, reply });
    }

    /// The pods answer a question, or none does in time.
    pub(crate) fn answer_question(&mut self, at: usize, lost: bool) {
        let Some(at) = at.checked_rem(self.questions.len()) else { return };
        let (id, question) = self.questions.remove(at);
        let message = "no answer".to_owned();
        let reply = match lost {
            true => PodsReply::Failed(Failure { category: Category::Transient, message }),
            false => self.model.answer_question(&question),
        };
        self.step(Event::Answered { id, reply });
    }

    pub(crate) fn execute_late(&mut self, at: usize) {
        let Some(at) = at.checked_rem(self.left_behind.len()) else { return };
        let Effect::Send { request, .. } = self.left_behind.remove(at) else { return };
        self.model.respond(&request);
    }

    pub(crate) fn delay(&mut self, at: usize) {
        let Some(at) = at.checked_rem(self.requests.len()) else { return };
        let Effect::Send { id, request, .. } = self.requests.remove(at) else { return };
        let reply = self.model.respond(&request);
        self.late.push((id, reply));
    }

    pub(crate) fn arrive(&mut self, at: usize) {
        let Some(at) = at.checked_rem(self.late.len()) else { return };
        let (id, reply) = self.late.remove(at);
        self.step(Event::Done { id, reply });
    }

    pub(crate) fn wait(&mut self, duration: SignedDuration) {
        self.now += duration;
        self.model.now = self.now;
        if let Some(follower) = &mut self.follower {
            follower.wait(self.now);
        }
        if self.wake.is_some_and(|at| at <= self.now) {
            self.wake = None;
            self.step(Event::Tick);
        }
    }

    pub(crate) fn lead(&mut self, leads: bool) {
        self.leads = leads;
        self.step(Event::Leading(leads));
    }

    /// The watches tell all that they have to tell.
    pub(crate) fn hear(&mut self) {
        while let Some(event) = self.model.next_event(0) {
            self.step(event);
        }
    }

    /// Whatever is somebody else's goes, faults stop, everybody does their work, time passes. Returns the requests that
    /// were sent meanwhile.
    pub(crate) fn settle(&mut self) -> usize {
        ChildKind::ALL.into_iter().for_each(|kind| self.model.remove_foreign(kind));
        self.model.stop_opening_policies();
        self.model.mend_secret_of_lost_deployment();
        self.model.agents.clear();
        self.model.cure_pods();
        self.model.mend_image();
        self.settle_beside_others(usize::MAX)
    }

    /// As [`Self::settle`], but what is somebody else's stays, and so many times are awaited.
    pub(crate) fn settle_beside_others(&mut self, mut times: usize) -> usize {
        if !self.leads {
            self.lead(true);
        }
        let mut sent = 0;
        for _ in 0..10_000 {
            if let Some(event) = self.model.next_event(0) {
                self.step(event);
            } else if !self.late.is_empty() {
                self.arrive(0);
            } else if !self.requests.is_empty() {
                sent += 1;
                self.answer(0, true, None);
            } else if !self.questions.is_empty() {
                self.answer_question(0, false);
            } else if self.look_for_kinds() {
                // A list is answered within seconds, and the controllers of the cluster always find something to do.
            } else if self.catch_up() || self.model.work() {
            } else if let Some(at) = self.wake
                && at.duration_since(self.now) < SignedDuration::from_mins(20)
                && times > 0
            {
                times -= 1;
                self.wait(at.duration_since(self.now));
            } else {
                self.check_knows_whether_the_resource_is_there();
                return sent;
            }
        }
        panic!("no rest after 10,000 steps");
    }
}

impl Simulation {
    /// A resource that is gone and still known has children for ever, as the garbage collector removes what is made anew.
    fn check_knows_whether_the_resource_is_there(&self) {
        let key = self.model.resource_key();
        let knows = self.reconciler.world().resources.contains_key(key);
        assert_eq!(knows, self.model.has_resource(), "whether {key:?} is there");
    }
}

/// A request in two words: `apply Deployment`.
pub(crate) fn request_name(request: &Request) -> String {
    match request {
        Request::ReadSecret(_) => "read Secret".into(),
        Request::ReadChild(ChildRead { kind, .. }) => format!("read {}", kind.name()),
        Request::WriteChild(ChildWrite { kind, write, .. }) => {
            let verb = match write {
                Write::Create { .. } => "create",
                Write::Apply { .. } => "apply",
                Write::Patch { .. } => "patch",
                Write::Delete { .. } => "delete",
            };
            format!("{verb} {}", kind.name())
        }
        Request::DeletePod(_) => "delete Pod".into(),
        Request::WriteStatus(_) => "status".into(),
    }
}
