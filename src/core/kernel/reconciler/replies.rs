//! The handling of replies: what each one proves. Pure; a part of [`Reconciler`], whose `fold` calls it for each reply.

use jiff::{SignedDuration, Timestamp};

use super::Reconciler;
use crate::kernel::backoff::{Attempt, Backoff};
use crate::kernel::effect::{About, Effect, RequestId};
use crate::kernel::event::{Reply, SeenChild};
use crate::kernel::failure::{Category, Failure};
use crate::kernel::known_versions::Presence;
use crate::kernel::lists::Moment;
use crate::kernel::messages::{KubeEvent, LogLine};
use crate::kernel::object::{ChildKind, Key, Uid, Watched};
use crate::kernel::observation::{Observation, RotationResult};
use crate::kernel::pending_request::{
    Changes, ChildWrite, PendingRequest, PlannedRequest, PodDeletion, Replacement, SecretRead, Write,
};
use crate::kernel::queue::Lane;
use crate::kernel::rollout_cause::RolloutCause;
use crate::kernel::slot::Slot;
use crate::kernel::world::resource::{Resource, UnstorableStatus};
use crate::kernel::{altered, kube_events, live, log_lines};

/// When the deletion of a pod is sent again that was refused for good: the rule that refused it may have gone.
const REFUSED_DELETION: SignedDuration = SignedDuration::from_mins(5);

impl Reconciler {
    /// Handles a reply: stores what it proves in the world, and queues the resource again after the last reply of its
    /// batch.
    pub(super) fn handle_reply(&mut self, id: RequestId, reply: Reply, effects: &mut Vec<Effect>) {
        let Some(pending) = self.pending_requests.remove(&id) else { return };
        let PendingRequest { resource: key, uid, generation, request } = pending;
        self.count_reply(&key, &uid);
        let answered = self.world.lists.answer();
        let subject = Subject { key: &key, uid: &uid };
        // Several resources may use a Secret: what was read stays true even if the reader was deleted.
        if let PlannedRequest::ReadSecret(read) = request {
            let line = self.handle_secret_reply(read, reply, &uid);
            return effects.extend(line.map(|line| subject.log(line)));
        }
        if let PlannedRequest::DeletePod(deletion) = request {
            return effects.extend(self.handle_pod_reply(&subject, deletion, reply));
        }
        let version = self.world.server_version.clone().unwrap_or_default();
        let Some(resource) = self.world.resources.get_mut(&key).filter(|it| it.seen.uid == uid) else {
            return;
        };
        match (request, reply) {
            (request, Reply::Failed(failure)) => {
                let category = failure.category;
                effects.push(subject.log(failed(resource, &subject, request, failure, self.now)));
                self.note_failure(&key, category, effects);
            }
            (PlannedRequest::WriteChild(sent), Reply::Child(seen))
                if seen.is_some() || matches!(sent.write, Write::Delete { .. }) =>
            {
                let circumstances = Circumstances { version: &version, generation, answered, now: self.now };
                effects.append(&mut child_written(resource, &subject, sent, seen, &circumstances));
            }
            (PlannedRequest::ReadChild { kind, known }, Reply::Child(Some(seen))) => {
                self.world.find_child(*seen, &known);
                self.world.recheck_later(&key, kind, self.now);
            }
            (PlannedRequest::ReadChild { kind, known }, Reply::Child(None)) => {
                resource.slot_mut(kind).store_answered_absence(known.of_live(), answered);
            }
            (PlannedRequest::WriteChild(ChildWrite { kind, attempt, .. }), Reply::Child(None)) => {
                resource.slot_mut(kind).store_answered_absence(attempt.version.as_ref(), answered);
            }
            (
                PlannedRequest::WriteStatus {
                    status,
                    kube_events,
                    log,
                    rollout_by_others,
                    rotation,
                    attempt: _,
                },
                Reply::Status(stored),
            ) => {
                effects.extend(subject.told(log, kube_events));
                let rolls = rollout_by_others.then(|| subject.rollout(RolloutCause::Others));
                effects.extend(rolls.into_iter().chain(rotation.map(counted)));
                (resource.backoff, resource.answered) = (None, answered);
                resource.unstorable = UnstorableStatus::from_answer(*status, &stored.status).map(Box::new);
                self.world.see_answered_resource(*stored);
            }
            // A reply of another request's shape proves nothing; the next pass sees the world as it was.
            _ => {}
        }
    }

    /// Notes that a pod goes, or why it could not be deleted. Returns what to say.
    fn handle_pod_reply(
        &mut self,
        subject: &Subject<'_>,
        PodDeletion { pod, uid, resource_version: _, kube_event }: PodDeletion,
        reply: Reply,
    ) -> Vec<Effect> {
        let resource = self.world.resources.get_mut(subject.key).filter(|it| it.seen.uid == *subject.uid);
        let Some(resource) = resource else { return Vec::new() };
        match reply {
            Reply::PodDeleted => {
                resource.pod_backoff = None;
                self.world.mark_pod_terminating(&pod, &uid);
                subject.told(vec![log_lines::of_event(&kube_event)], vec![kube_event]).collect()
            }
            Reply::Failed(failure) => {
                let (before, said) = (resource.pod_backoff.take(), failure.clone());
                let attempt = Attempt::default();
                let mut after =
                    Backoff::from_failure(before.as_deref(), failure, attempt, subject.uid, self.now);
                // The backoff is that of all pods: which of them changes says nothing about the others.
                after.retry_at = after.retry_at.or_else(|| self.now.checked_add(REFUSED_DELETION).ok());
                let line = log_lines::of_failure(&said, before.as_deref(), Some(&after));
                resource.pod_backoff = Some(Box::new(after));
                vec![subject.log(line)]
            }
            Reply::Secret(_) | Reply::Child(_) | Reply::Status(_) | Reply::Agents(_) | Reply::Figures(_) => {
                Vec::new()
            }
        }
    }

    /// Says once of a namespace that it goes.
    fn note_failure(&mut self, key: &Key, category: Category, effects: &mut Vec<Effect>) {
        if category == Category::NamespaceTerminating {
            let Self { world, last_told, .. } = self;
            last_told.namespace_terminates(
                &key.namespace,
                || world.resources_in(&key.namespace).count(),
                effects,
            );
        }
    }

    /// Counts a reply of a batch. The batch of an earlier resource of the same name is awaited too, because it may
    /// still write the children; the active pass of that resource ends with it.
    fn count_reply(&mut self, key: &Key, uid: &Uid) {
        if !self.active_passes.answer(key) {
            return;
        }
        let present = self.world.resources.get(key).map(|resource| &resource.seen.uid);
        if present != Some(uid) {
            self.active_passes.end(key);
        }
        if present.is_some() {
            self.queue.push(key, Lane::Fresh);
        }
    }

    /// Stores what the pods of a cache said, and has the resource looked at again. A question that was dropped meanwhile is
    /// not open any more.
    pub(super) fn handle_answer(&mut self, id: RequestId, key: &Key, uid: &Uid, reply: Reply) {
        let resource = self.world.resources.get_mut(key).filter(|it| it.seen.uid == *uid);
        let Some(resource) = resource else { return };
        let (of_agents, of_figures) = match reply {
            Reply::Agents(answer) => (Some(answer), None),
            Reply::Figures(answer) => (None, Some(answer)),
            Reply::Secret(_) | Reply::Child(_) | Reply::PodDeleted | Reply::Status(_) | Reply::Failed(_) => {
                (None, None)
            }
        };
        if let Some(agents) = &mut resource.agents {
            agents.note(id, of_agents, self.now);
        }
        let asked = resource.live(ChildKind::StatefulSet).map_or(0, live::Live::asked);
        if let Some(figures) = &mut resource.figures {
            let pods: Vec<_> = (0..asked).map(|number| format!("{}-{number}", key.name)).collect();
            figures.note(id, of_figures, &pods, self.now);
        }
        self.queue.push(key, Lane::Fresh);
    }

    /// Stores what the answer to a read of a Secret proves. Returns the line about a failure.
    fn handle_secret_reply(
        &mut self,
        SecretRead { secret, keys, known }: SecretRead,
        reply: Reply,
        uid: &Uid,
    ) -> Option<LogLine> {
        let answered = self.world.lists.now();
        let entry = self.world.secrets.get_mut(&secret)?;
        let mut line = None;
        match reply {
            Reply::Secret(Some(mut content)) => {
                content.requested = keys;
                // Two resources may use different keys of the Secret: neither may drop what the other needs.
                if let Some(known) = entry.content.take_if(|known| {
                    known.uid == content.uid && known.resource_version == content.resource_version
                }) {
                    content.unite(known);
                }
                entry.answered = answered;
                let is_older = matches!(&entry.presence, Presence::Present(uid, version)
                    if *uid == content.uid && content.resource_version.is_older_than(version));
                let is_newer = matches!(&entry.presence, Presence::Present(uid, _) if *uid == content.uid);
                // The watch may have shown something newer since the request left.
                let unchanged = entry.presence == known;
                if is_older && unchanged {
                    self.world.lists.go_back(Watched::Secret, &secret);
                }
                if unchanged || (is_newer && !is_older) {
                    entry.presence = Presence::Present(content.uid.clone(), content.resource_version.clone());
                    entry.content = Some(content);
                }
                entry.backoff = None;
            }
            Reply::Secret(None) => {
                entry.answered = answered;
                // Only if the watch showed nothing newer in the meantime; otherwise the next pass reads again.
                if entry.presence == known {
                    entry.presence = Presence::Absent;
                }
                entry.backoff = None;
            }
            Reply::Failed(failure) => {
                let before = entry.backoff.take();
                let said = failure.clone();
                let after =
                    Backoff::from_failure(before.as_ref(), failure, Attempt::default(), uid, self.now);
                line = Some(log_lines::of_failure(&said, before.as_ref(), Some(&after)));
                entry.backoff = Some(after);
            }
            Reply::Child(_) | Reply::PodDeleted | Reply::Status(_) | Reply::Agents(_) | Reply::Figures(_) => {
            }
        }
        // Others wait for the same Secret.
        for user in &entry.users {
            self.queue.push(user, Lane::Fresh);
        }
        line
    }
}

/// What the metrics count of a rotation.
const fn counted(result: RotationResult) -> Effect {
    Effect::Observe(Observation::SecretRotation(result))
}

/// The resource that a reply and its effects are about.
struct Subject<'a> {
    key: &'a Key,
    /// The uid of the resource for which the request was sent.
    uid: &'a Uid,
}

impl Subject<'_> {
    fn publish(&self, kube_event: KubeEvent) -> Effect {
        Effect::Publish { resource: self.key.clone(), uid: self.uid.clone(), kube_event }
    }

    fn log(&self, line: LogLine) -> Effect {
        Effect::Log { about: About::Resource(self.key.clone()), line }
    }

    fn told(&self, log: Vec<LogLine>, kube_events: Vec<KubeEvent>) -> impl Iterator<Item = Effect> {
        let log = log.into_iter().map(|line| self.log(line));
        log.chain(kube_events.into_iter().map(|kube_event| self.publish(kube_event)))
    }

    fn rollout(&self, cause: RolloutCause) -> Effect {
        Effect::Observe(Observation::RolloutStarted { resource: self.key.clone(), cause })
    }
}

/// A write that succeeded.
struct Written<'a> {
    kind: ChildKind,
    write: &'a Write,
    /// The rollout that it started.
    replaces: Option<&'a Replacement>,
    changes: &'a Changes,
}

impl Written<'_> {
    /// What to say and to count of it; `more` is what the pass had to say.
    fn effects(&self, subject: &Subject<'_>, more: Vec<KubeEvent>) -> Vec<Effect> {
        let said: Vec<_> = self.kube_events(subject.key).into_iter().chain(more).collect();
        let lines: Vec<_> = said.iter().map(log_lines::of_event).chain(self.log_line()).collect();
        let started = self.replaces.map(|it| subject.rollout(it.cause()));
        let result = Observation::Child { kind: self.kind, result: self.write.result() };
        let lines = lines.into_iter().map(|line| subject.log(line));
        let said = said.into_iter().map(|kube_event| subject.publish(kube_event));
        lines.chain(said).chain(started).chain([Effect::Observe(result)]).collect()
    }

    /// The Kubernetes Events about the child.
    fn kube_events(&self, key: &Key) -> impl IntoIterator<Item = KubeEvent> {
        let Self { kind, write, replaces, changes } = *self;
        let of_child = match write {
            Write::Create { .. } => Some(kube_events::created(kind, key)),
            Write::Delete { .. } => Some(kube_events::deleted(kind, key)),
            Write::Apply { .. } if replaces.is_none() => kube_events::put_back(kind, key, changes),
            Write::Apply { .. } | Write::Patch { .. } => None,
        };
        let started = |it: &Replacement| match it.secrets.as_slice() {
            [] => kube_events::rollout_started(it.cause(), changes),
            changed => kube_events::rollout_by_secrets(changed, changes.fields.as_deref()),
        };
        of_child.into_iter().chain(replaces.map(started))
    }

    /// The line about an apply of which no Event tells.
    fn log_line(&self) -> Option<LogLine> {
        let Self { kind, write, replaces, changes } = *self;
        let Changes { fields, edits, managers: _, is_repair } = changes;
        let is_told =
            replaces.is_some() || (*is_repair && fields.as_ref().is_some_and(|all| !all.is_empty()));
        matches!(write, Write::Apply { .. } if !is_told)
            .then(|| log_lines::of_apply(kind, fields.as_deref(), edits))
    }
}

/// When, and by whom, a request was answered.
struct Circumstances<'a> {
    /// The version of the API server.
    version: &'a str,
    /// The generation of the resource that the request was made from.
    generation: i64,
    answered: Moment,
    now: Timestamp,
}

/// Stores what the answer to a write of a child proves. Returns what to say and to count.
fn child_written(
    resource: &mut Resource,
    subject: &Subject<'_>,
    sent: ChildWrite,
    seen: Option<Box<SeenChild>>,
    circumstances: &Circumstances<'_>,
) -> Vec<Effect> {
    let ChildWrite { kind, write, attempt, changes, kube_events } = sent;
    let is_another = |it: &&Replacement| {
        seen.as_ref().is_some_and(|seen| live::template_content_hash(&seen.content.parse()) != it.template)
    };
    let replaces = write.replaces().filter(is_another);
    let effects = Written { kind, write: &write, replaces, changes: &changes }.effects(subject, kube_events);
    // A patch gives up or takes away single fields before the apply that says what the edit asks for.
    let carries_spec = matches!(write, Write::Create { .. } | Write::Apply { .. });
    if kind == resource.workload() && seen.is_some() && carries_spec {
        resource.note_workload_written(circumstances.generation);
    }
    let slot = resource.slot_mut(kind);
    slot.answered = circumstances.answered;
    store_written(slot, subject, WriteAnswer { kind, attempt, write, seen }, circumstances);
    slot.read_if_deleted_meanwhile();
    effects
}

/// The answer to a write of a child.
struct WriteAnswer {
    /// Which child.
    kind: ChildKind,
    /// What identifies the attempt.
    attempt: Attempt,
    /// What was sent.
    write: Write,
    /// The child as it is now.
    seen: Option<Box<SeenChild>>,
}

/// Stores what the answer to a write proves about the child.
fn store_written(
    slot: &mut Slot,
    subject: &Subject<'_>,
    WriteAnswer { kind, attempt, write, seen }: WriteAnswer,
    &Circumstances { version, generation: _, answered: _, now }: &Circumstances<'_>,
) {
    let before = slot.backoff.take();
    slot.repairs.note(attempt.body, now);
    let Some(seen) = seen else {
        slot.store_absence(attempt.version.as_ref());
        return;
    };
    if let Some((body, hash)) = write.applied().zip(attempt.body) {
        let altered = altered::of_answer(altered::AnsweredApply {
            kind,
            hash,
            body,
            answer: &seen.content.parse(),
            server_version: version,
        });
        let refused = slot.store_altered(kind, subject.key, altered);
        let backoff = |failure| Backoff::from_failure(before.as_deref(), failure, attempt, subject.uid, now);
        slot.backoff = refused.map(backoff).map(Box::new);
    }
    slot.store_from_write(*seen);
}

/// Stores the failure of a request in its backoff, which says when it may be sent again. Returns the line for the log.
fn failed(
    resource: &mut Resource,
    subject: &Subject<'_>,
    request: PlannedRequest,
    failure: Failure,
    now: Timestamp,
) -> LogLine {
    let said = failure.clone();
    let line = |before: Option<&Backoff>, after: &Backoff| log_lines::of_failure(&said, before, Some(after));
    match request {
        PlannedRequest::WriteChild(ChildWrite { kind, attempt, .. }) => {
            let slot = resource.slot_mut(kind);
            // If the watch has shown the conflicting write in the meantime, the child need not be read.
            let is_news = slot.live.as_ref().map(|live| &live.resource_version) == attempt.version.as_ref();
            slot.must_read = false;
            match failure.category {
                Category::Conflict => slot.must_read = is_news,
                Category::Invalid => {
                    slot.on_create_without_conflict();
                    slot.on_invalid_apply(attempt.body);
                }
                Category::ImmutableField
                | Category::Forbidden
                | Category::QuotaExceeded
                | Category::AdmissionDenied
                | Category::NamespaceTerminating
                | Category::Transient
                | Category::Internal => slot.on_create_without_conflict(),
            }
            let before = slot.backoff.take();
            let after = Backoff::from_failure(before.as_deref(), failure, attempt, subject.uid, now);
            let line = line(before.as_deref(), &after);
            slot.backoff = Some(Box::new(after));
            line
        }
        PlannedRequest::ReadChild { kind, .. } => {
            resource.recheck_later(kind, now);
            let slot = resource.slot_mut(kind);
            // What was known of the child holds until it can be read.
            if slot.is_out_of_sight() && !slot.must_read {
                return log_lines::of_failure(&said, None, None);
            }
            let before = slot.backoff.take();
            let attempt = before.as_ref().map(|backoff| backoff.sent.clone()).unwrap_or_default();
            let after = Backoff::from_failure(before.as_deref(), failure, attempt, subject.uid, now);
            let line = line(before.as_deref(), &after);
            slot.backoff = Some(Box::new(after));
            line
        }
        PlannedRequest::WriteStatus { attempt, .. } => {
            let before = resource.backoff.take();
            let after = Backoff::from_failure(before.as_deref(), failure, attempt, subject.uid, now);
            let line = line(before.as_deref(), &after);
            resource.backoff = Some(Box::new(after));
            line
        }
        // The backoffs of the Secret and of the pods count, not the resource's.
        PlannedRequest::ReadSecret(_) | PlannedRequest::DeletePod(_) => {
            log_lines::of_failure(&said, None, None)
        }
    }
}
