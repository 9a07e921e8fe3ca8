//! What the operator would do. Runs a kernel on what the cluster holds; its writes are not sent, but answered as the API server
//! most likely would. Pure; the command feeds it and sends its reads.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::answer;
use crate::api::MemcachedStatus;
use crate::api::spec;
use crate::api::status::{OtherFieldManager, Warning};
use crate::kernel::desired::{DefaultImages, LiveTemplate, OperatorPods, Revision, meta};
use crate::kernel::diff;
use crate::kernel::effect::Effect;
use crate::kernel::event::{Event, Reply, SeenChild, SeenResource};
use crate::kernel::failure::{Category, Failure};
use crate::kernel::json_text::JsonText;
use crate::kernel::known_versions::KnownVersions;
use crate::kernel::object::{ChildKind, Key, Watched};
use crate::kernel::observation::Observation;
use crate::kernel::reconciler::{Reconciler, Settings};
use crate::kernel::request::{ChildRead, ChildWrite, Request, RequestId, StatusWrite, Write};
use crate::kernel::rollout_budget::{Adoption, BudgetSettings};
use crate::kernel::rollout_cause::RolloutCause;

/// What would become of one resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourcePlan {
    /// The namespace of the resource.
    pub namespace: String,
    /// The name of the resource.
    pub name: String,
    /// When the children would be written.
    pub when: When,
    /// The children that would be written, in the order in which that happens.
    pub children: Vec<ChildPlan>,
    /// Why its pods would be replaced, so that its contents are lost; `None` where they would not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolls: Option<&'static str>,
    /// Whether its pods would take the content of a changed Secret, so that nothing is lost.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub rotates_in_place: bool,
    /// The rules by which its pod template is rendered now; `None` without a workload that says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_revision: Option<u32>,
    /// What keeps it from being as asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What a person should know although its pods run, or would.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// Kinds of children that it asks for, and that the API server does not serve.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unserved_kinds: Vec<String>,
    /// Who sets fields of its pod template beside the operator: they stay.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_field_managers: Vec<OtherFieldManager>,
    /// What these fields weaken in the pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub weakened_by_others: Vec<String>,
}

impl ResourcePlan {
    /// A plan in which nothing would be done yet.
    #[must_use]
    pub fn new(Key { namespace, name }: Key, when: When) -> Self {
        Self {
            namespace,
            name,
            when,
            children: Vec::new(),
            rolls: None,
            rotates_in_place: false,
            template_revision: None,
            problem: None,
            warnings: Vec::new(),
            unserved_kinds: Vec::new(),
            other_field_managers: Vec::new(),
            weakened_by_others: Vec::new(),
        }
    }
}

/// When something would be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// At once, or when its turn comes.
    Now,
    /// When somebody takes the pause away.
    Unpaused,
}

/// What would become of one child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChildPlan {
    /// The kind of the child.
    pub kind: &'static str,
    /// What would be done.
    pub action: ChildAction,
    /// The fields that would be others afterwards; none of a child that is created or deleted, nor where only their
    /// owner changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
}

/// What would be done to a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChildAction {
    /// The child does not exist: it would be created.
    Create,
    /// The child would be another afterwards.
    Change,
    /// Nobody asks for it any more.
    Delete,
}

/// One field that would be another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Field {
    /// The path of the field, as [`crate::kernel::field_path::Path`] writes it.
    pub path: String,
    /// What is there; null where nothing is.
    pub from: Value,
    /// What is to be there; null where the operator sets nothing any more: it goes, unless somebody else sets it too.
    pub to: Value,
}

/// What the operator is told, and the forecast has to know.
#[derive(Clone, Debug)]
pub struct OperatorSettings {
    /// What becomes of templates of older revisions.
    pub adoption: Adoption,
    /// The images of new templates.
    pub images: DefaultImages,
    /// Where the operator's own pods are.
    pub operator_pods: Option<OperatorPods>,
}

/// Where the operator's own pods are, as live NetworkPolicies say it: whoever plans is seldom told.
#[must_use]
pub fn operator_pods(events: &[Event]) -> Option<OperatorPods> {
    let asks_pods = |event: &Event| match event {
        Event::Resource(seen) => {
            let spec = seen.spec.as_ref().ok()?;
            let rotation = spec.security.as_ref().and_then(|it| it.rotation.as_deref());
            let warmth = spec.rollout.as_ref().and_then(|it| it.warmth.as_ref());
            (rotation == Some(spec::IN_PLACE) || warmth.is_some()).then(|| seen.key.clone())
        }
        _ => None,
    };
    let keys: BTreeSet<Key> = events.iter().filter_map(asks_pods).collect();
    events.iter().find_map(|event| match event {
        Event::Child(child) if child.kind == ChildKind::NetworkPolicy && keys.contains(&child.key) => {
            OperatorPods::from_policy(&child.content.parse())
        }
        _ => None,
    })
}

/// A kernel whose writes are recorded and not sent.
pub struct Forecast {
    reconciler: Reconciler,
    now: Timestamp,
    plans: BTreeMap<Key, ResourcePlan>,
    live: BTreeMap<(ChildKind, Key), SeenChild>,
    writes: VecDeque<(RequestId, Key, Arc<Request>)>,
    reads: VecDeque<(RequestId, Key, Arc<Request>)>,
    /// Creates that wait for a read: no list shows an object without our label that may have the name already.
    creates: BTreeMap<RequestId, (Key, Arc<Request>)>,
    /// Workloads that go once those in their place have pods.
    formers: Vec<(ChildKind, Key)>,
    /// What the API server said of the kinds that cannot be listed.
    unavailable: BTreeMap<ChildKind, Event>,
}

impl Forecast {
    /// A forecast that knows nothing yet. Rollouts that would wait for each other are all shown.
    #[must_use]
    pub fn new(
        now: Timestamp,
        OperatorSettings { adoption, images, operator_pods }: OperatorSettings,
    ) -> Self {
        let settings = Settings {
            max_in_flight: usize::MAX,
            rollout_budget: BudgetSettings { limit: usize::MAX, adoption },
            images,
            operator_pods,
            ..Settings::default()
        };
        Self {
            reconciler: Reconciler::new(settings),
            now,
            plans: BTreeMap::new(),
            live: BTreeMap::new(),
            writes: VecDeque::new(),
            reads: VecDeque::new(),
            creates: BTreeMap::new(),
            formers: Vec::new(),
            unavailable: BTreeMap::new(),
        }
    }

    /// Feeds an event: an object of the cluster, or the reply to a read.
    pub fn learn(&mut self, mut event: Event) {
        if let Event::Unavailable { kind, .. } = event {
            self.unavailable.insert(kind, event.clone());
        }
        match &mut event {
            Event::Resource(seen) => {
                let plan = ResourcePlan::new(seen.key.clone(), without_pause(seen));
                let plan = ResourcePlan { problem: problem(&seen.status), ..plan };
                self.plans.insert(seen.key.clone(), plan);
            }
            Event::Child(seen) | Event::Done { reply: Reply::Child(Some(seen)), .. } => self.note_child(seen),
            _ => {}
        }
        if let Some(event) = self.answered(event) {
            self.step(event);
        }
        self.write();
    }

    /// Answers what would be written, until nothing would be any more.
    fn write(&mut self) {
        while let Some((id, key, request)) = self.writes.pop_front() {
            if let Some(reply) = self.pretend(&key, &request) {
                self.step(Event::Done { id, reply });
            }
        }
    }

    fn note_child(&mut self, seen: &SeenChild) {
        if let Some(plan) = self.plans.get_mut(&seen.key).filter(|_| seen.kind.is_workload()) {
            let owned = seen.owned.as_ref().map(JsonText::parse);
            let live = LiveTemplate::from_workload(&seen.content.parse(), owned.as_ref());
            plan.template_revision = live.map(|live| live.revision.0);
        }
        self.live.insert((seen.kind, seen.key.clone()), seen.clone());
    }

    /// The event. If it answers the read that was sent in the place of a create, the answer that the create would get.
    fn answered(&mut self, event: Event) -> Option<Event> {
        let Event::Done { id, reply } = event else { return Some(event) };
        let reply = match (self.creates.remove(&id), reply) {
            (Some((key, create)), Reply::Child(None)) => self.pretend(&key, &create)?,
            (Some((key, _)), Reply::Child(Some(found))) => {
                let message = format!("{} {key} already exists", found.kind.name());
                Reply::Failed(Failure { category: Category::Conflict, message })
            }
            (_, reply) => reply,
        };
        Some(Event::Done { id, reply })
    }

    /// The next request that only the API server can answer.
    pub fn next_read(&mut self) -> Option<(RequestId, Key, Arc<Request>)> {
        self.reads.pop_front()
    }

    fn step(&mut self, event: Event) {
        let mut asked = Vec::new();
        for effect in self.reconciler.step(self.now, event) {
            match effect {
                Effect::Send { id, resource, request } => self.note_request(id, resource, request),
                Effect::Observe(Observation::RolloutStarted { resource, cause }) => {
                    self.note_rollout(&resource, cause);
                }
                Effect::PollMissingKind { kind, wanted: true } => asked.push(kind),
                // A plan does not wait for pods.
                Effect::Ask { .. }
                | Effect::Publish { .. }
                | Effect::Wake(_)
                | Effect::PollMissingKind { .. }
                | Effect::RelistAll
                | Effect::Observe(_)
                | Effect::Log { .. } => {}
            }
        }
        // The API server has been asked just now.
        let answers: Vec<Event> =
            asked.iter().filter_map(|kind| self.unavailable.get(kind).cloned()).collect();
        answers.into_iter().for_each(|answer| self.step(answer));
    }

    /// Queues a request. Before a create the object is read that may have its name.
    fn note_request(&mut self, id: RequestId, resource: Key, request: Arc<Request>) {
        match &*request {
            Request::WriteChild(ChildWrite { kind, key, write: Write::Create { .. }, .. }) => {
                let known = KnownVersions::default();
                let read = Request::ReadChild(ChildRead { kind: *kind, key: key.clone(), known });
                self.reads.push_back((id, resource.clone(), Arc::new(read)));
                self.creates.insert(id, (resource, request));
            }
            Request::ReadSecret(_) | Request::ReadChild(_) => self.reads.push_back((id, resource, request)),
            Request::WriteChild(_) | Request::DeletePod(_) | Request::WriteStatus(_) => {
                self.writes.push_back((id, resource, request));
            }
        }
    }

    fn note_rollout(&mut self, resource: &Key, cause: RolloutCause) {
        if let Some(plan) = self.plans.get_mut(resource) {
            plan.rolls = Some(cause.label());
        }
    }

    /// Records a write and answers it; `None` for a read, or a child that would be written a second time.
    fn pretend(&mut self, resource: &Key, request: &Request) -> Option<Reply> {
        match request {
            Request::DeletePod(_) => Some(Reply::PodDeleted),
            Request::WriteStatus(StatusWrite { patch, .. }) => {
                let seen = &self.reconciler.world().resources.get(resource)?.seen;
                Some(answer::to_status(seen, patch))
            }
            Request::WriteChild(write) => self.pretend_write(resource, write),
            Request::ReadSecret(_) | Request::ReadChild(_) => None,
        }
    }

    /// Records a write of a child and answers it. `None` when it would be written a second time: then the first answer was
    /// not quite what an API server gives, and nothing more can be learned.
    fn pretend_write(
        &mut self,
        resource: &Key,
        ChildWrite { kind, key, write, .. }: &ChildWrite,
    ) -> Option<Reply> {
        let kind = *kind;
        let before = self.live.get(&(kind, resource.clone()));
        let (action, after, fields) = match write {
            Write::Create { body } => {
                (ChildAction::Create, Some(answer::to_create(kind, key, body)?), Vec::new())
            }
            Write::Apply { body, .. } => {
                (ChildAction::Change, Some(answer::to_apply(before?, body)), fields(kind, body, before?))
            }
            Write::Patch { edits, .. } => {
                (ChildAction::Change, Some(answer::to_patch(before?, edits)), Vec::new())
            }
            Write::Delete { .. } => (ChildAction::Delete, None, Vec::new()),
        };
        let ends = matches!(write, Write::Apply { .. } | Write::Delete { .. });
        let switched =
            (action == ChildAction::Create).then(|| self.former_workload(kind, resource)).flatten();
        let plan = self.plans.get_mut(resource)?;
        match plan.children.iter_mut().find(|child| child.kind == kind.name()) {
            // What comes before an apply or a deletion belongs to it.
            Some(known) if ends && known.fields.is_empty() && known.action == ChildAction::Change => {
                (known.action, known.fields) = (action, fields);
            }
            Some(_) => return None,
            None => plan.children.push(ChildPlan { kind: kind.name(), action, fields }),
        }
        if let Some(former) = switched {
            // It goes once the new pods are there, which a plan does not wait for: `finish` tells the kernel.
            self.formers.push((former, resource.clone()));
            plan.rolls = Some(RolloutCause::Spec.label());
            if plan.children.iter().all(|child| child.kind != former.name()) {
                plan.children.push(ChildPlan {
                    kind: former.name(),
                    action: ChildAction::Delete,
                    fields: Vec::new(),
                });
            }
        }
        match &after {
            Some(child) => drop(self.live.insert((kind, resource.clone()), child.clone())),
            None => drop(self.live.remove(&(kind, resource.clone()))),
        }
        Some(Reply::Child(after.map(Box::new)))
    }

    /// What runs the pods of a resource, where another kind is to run them from now on.
    fn former_workload(&self, kind: ChildKind, resource: &Key) -> Option<ChildKind> {
        let former = ChildKind::WORKLOADS.into_iter().find(|it| kind.is_workload() && *it != kind)?;
        let live = self.live.get(&(former, resource.clone()))?;
        let uid = &self.reconciler.world().resources.get(resource)?.seen.uid;
        live.controller.as_ref().is_some_and(|owner| owner.uid == *uid).then_some(former)
    }

    /// All resources, by namespace and name.
    #[must_use]
    pub fn finish(mut self) -> Vec<ResourcePlan> {
        for (key, resource) in &self.reconciler.world().resources {
            if let Some(plan) = self.plans.get_mut(key) {
                let status = &resource.seen.status;
                plan.problem = problem(status).map(|now| with_cause(now, plan.problem.take()));
                plan.rotates_in_place = plan.rolls.is_none() && plan.children.iter().any(names_new_secrets);
                plan.warnings = status.warnings.to_vec();
                plan.unserved_kinds = status.unserved_kinds.to_vec();
                plan.other_field_managers = status.other_field_managers.to_vec();
                plan.weakened_by_others = status.weakened_by_others.to_vec();
            }
        }
        // The list of servers names the new pods when the former ones are gone, and it is what clients go by.
        for (kind, key) in std::mem::take(&mut self.formers) {
            self.live.remove(&(kind, key.clone()));
            self.step(Event::Gone { kind: Watched::Child(kind), key });
            self.write();
        }
        while let Some((id, key, request)) = self.reads.pop_front()
            && let Request::ReadChild(ChildRead { kind, .. }) = &*request
        {
            let there = self.live.get(&(*kind, key)).cloned();
            self.learn(Event::Done { id, reply: Reply::Child(there.map(Box::new)) });
        }
        self.plans.into_values().collect()
    }
}

/// Takes the pause away: what waits is what would be done without it.
fn without_pause(seen: &mut SeenResource) -> When {
    let paused = seen.spec.as_mut().ok().and_then(|spec| spec.paused.take());
    if paused == Some(true) { When::Unpaused } else { When::Now }
}

/// The fields that an apply would change, and those that go because it lacks them.
fn fields(kind: ChildKind, body: &Value, live: &SeenChild) -> Vec<Field> {
    let content = live.content.parse();
    let changed = diff::changes(kind, body, &content).into_iter().map(|change| Field {
        path: change.path,
        from: change.live.cloned().unwrap_or_default(),
        to: change.desired.clone(),
    });
    let gone =
        live.owned.as_ref().map(|owned| diff::let_go(body, &content, &owned.parse())).unwrap_or_default();
    let gone = gone.into_iter().map(|(path, from)| Field { path, from, to: Value::Null });
    changed.chain(gone).collect()
}

/// Whether the workload would name other content of Secrets than it does: then its pods take it in place.
fn names_new_secrets(child: &ChildPlan) -> bool {
    let path = format!("metadata.annotations[{}]", meta::SECRET_HASH);
    let named = |field: &Field| field.path == path && !field.from.is_null() && !field.to.is_null();
    ChildKind::WORKLOADS.iter().any(|kind| child.kind == kind.name()) && child.fields.iter().any(named)
}

/// Why a resource is not as its spec asks, where that does not pass by itself.
fn problem(status: &MemcachedStatus) -> Option<String> {
    let holds = |of: &str, value: &str| {
        status.conditions.iter().find(|condition| condition.type_ == of && condition.status == value)
    };
    let reasons = ["SecretNotFound", "SecretUnreadable", "Forbidden"];
    let lacks = || holds("Ready", "False").filter(|ready| reasons.contains(&ready.reason.as_str()));
    let condition = holds("Stalled", "True").or_else(lacks)?;
    Some(format!("{}: {}", condition.reason, condition.message))
}

/// The problem as the running operator says it, where that is the same one: it also sees the pods, which a plan does not.
fn with_cause(now: String, stored: Option<String>) -> String {
    stored.filter(|stored| stored.starts_with(now.trim_end_matches('.'))).unwrap_or(now)
}

/// Whether the rules by which a pod template is rendered are older than this build's newest.
#[must_use]
pub fn is_outdated(revision: Option<u32>) -> bool {
    revision.is_some_and(|revision| Revision(revision).is_outdated())
}

#[cfg(test)]
pub(super) mod tests;
