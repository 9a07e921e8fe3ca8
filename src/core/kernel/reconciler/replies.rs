//! The handling of replies: what each one proves. Pure; the reconciler calls it for each reply.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::active_passes::ActivePasses;
use super::last_told::LastTold;
use crate::kernel::backoff::{Attempt, Backoff};
use crate::kernel::child_state::ChildState;
use crate::kernel::effect::{About, Effect};
use crate::kernel::event::{PodsReply, Reply, SecretContent, SeenChild, SeenResource};
use crate::kernel::failure::{Category, Failure};
use crate::kernel::known_versions::Presence;
use crate::kernel::lists::Moment;
use crate::kernel::messages::{KubeEvent, LogLine};
use crate::kernel::object::{ChildKind, Key, Uid, Watched};
use crate::kernel::observation::{Observation, RotationResult};
use crate::kernel::queue::{Lane, Queue};
use crate::kernel::repair_limiter::RepairLimiter;
use crate::kernel::request::{
    Changes, ChildRead, ChildWrite, PendingRequest, PodDeletion, PossibleRollout, Request, RequestId,
    SecretRead, StatusWrite, Write,
};
use crate::kernel::rollout_cause::RolloutCause;
use crate::kernel::world::World;
use crate::kernel::world::resource::{Resource, UnstorableStatus};
use crate::kernel::{altered, kube_events, live, log_lines};

/// When the deletion of a pod is sent again that was refused for good: the rule that refused it may have gone.
const REFUSED_DELETION: SignedDuration = SignedDuration::from_mins(5);

/// What a reply changes.
pub(super) struct Replies<'a> {
    pub(super) world: &'a mut World,
    pub(super) queue: &'a mut Queue,
    pub(super) active_passes: &'a mut ActivePasses,
    pub(super) last_told: &'a mut LastTold,
    pub(super) now: Timestamp,
}

impl Replies<'_> {
    /// Handles the reply to a request: stores what it proves in the world, and queues the resource again after the last reply
    /// of its batch.
    pub(super) fn handle_reply(&mut self, pending: PendingRequest, reply: Reply, effects: &mut Vec<Effect>) {
        let PendingRequest { resource: key, uid, generation, request } = pending;
        self.count_reply(&key, &uid);
        self.world.lists.answer();
        let subject = Subject { key: &key, uid: &uid, generation };
        // The shell dropped its share before it told of the reply, so nothing is copied.
        match (Arc::unwrap_or_clone(request), reply) {
            (request, Reply::Failed(failure)) => self.on_failure(&subject, request, failure, effects),
            (Request::ReadSecret(read), Reply::Secret(found)) => {
                self.on_secret_answer(&subject, read, Ok(found), effects);
            }
            (Request::ReadChild(read), Reply::Child(found)) => self.on_child_read(&subject, read, found),
            (Request::WriteChild(write), Reply::Child(seen)) => {
                self.on_child_written(&subject, write, seen, effects);
            }
            (Request::DeletePod(deletion), Reply::PodDeleted) => {
                self.on_pod_deleted(&subject, deletion, effects);
            }
            (Request::WriteStatus(write), Reply::Status(stored)) => {
                self.on_status_written(&subject, write, *stored, effects);
            }
            // The reply to another request proves nothing; the next pass sees the world as it was. They are named, so
            // that the compiler asks what a new request or reply means.
            (Request::ReadSecret(read), Reply::Child(_) | Reply::PodDeleted | Reply::Status(_)) => {
                self.wake_users(&read.secret);
            }
            (
                Request::ReadChild(_) | Request::WriteChild(_),
                Reply::Secret(_) | Reply::PodDeleted | Reply::Status(_),
            )
            | (Request::DeletePod(_), Reply::Secret(_) | Reply::Child(_) | Reply::Status(_))
            | (Request::WriteStatus(_), Reply::Secret(_) | Reply::Child(_) | Reply::PodDeleted) => {}
        }
    }

    /// Stores why a request failed, and says so.
    fn on_failure(
        &mut self,
        subject: &Subject<'_>,
        request: Request,
        failure: Failure,
        effects: &mut Vec<Effect>,
    ) {
        let (category, uid, now) = (failure.category, subject.uid, self.now);
        let resource = subject.find_in(&mut self.world.resources);
        let line = match request {
            // The backoffs of the Secret and of the pods count, not the resource's.
            Request::ReadSecret(read) => {
                return self.on_secret_answer(subject, read, Err(failure), effects);
            }
            Request::DeletePod(_) => return self.on_pod_kept(subject, failure, effects),
            Request::ReadChild(ChildRead { kind, .. }) => {
                resource.map(|it| read_failed(it, kind, failure, uid, now))
            }
            Request::WriteChild(write) => resource.map(|it| write_failed(it, write, failure, uid, now)),
            Request::WriteStatus(StatusWrite { attempt, .. }) => {
                resource.map(|it| back_off(&mut it.backoff, failure, attempt, uid, now))
            }
        };
        let Some(line) = line else { return };
        effects.push(subject.log(line));
        if category == Category::NamespaceTerminating {
            self.tell_of_terminating(&subject.key.namespace, effects);
        }
    }

    /// Says once of a namespace that it goes.
    fn tell_of_terminating(&mut self, namespace: &str, effects: &mut Vec<Effect>) {
        let count = || self.world.resources_in(namespace).count();
        self.last_told.namespace_terminates(namespace, count, effects);
    }

    /// Stores what the answer to a read of a Secret proves, or why there is none. Several resources may use the Secret: what
    /// was read stays true even if the reader was deleted.
    fn on_secret_answer(
        &mut self,
        subject: &Subject<'_>,
        SecretRead { secret, keys, known }: SecretRead,
        answer: Result<Option<SecretContent>, Failure>,
        effects: &mut Vec<Effect>,
    ) {
        let answered = self.world.lists.now();
        let Some(entry) = self.world.secrets.get_mut(&secret) else { return };
        match answer {
            Ok(Some(mut content)) => {
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
            Ok(None) => {
                entry.answered = answered;
                // Only if the watch showed nothing newer in the meantime; otherwise the next pass reads again.
                if entry.presence == known {
                    entry.presence = Presence::Absent;
                }
                entry.backoff = None;
            }
            Err(failure) => {
                let (after, line) =
                    back_off_from_one_of_many(entry.backoff.take(), failure, subject.uid, self.now);
                entry.backoff = Some(after);
                effects.push(subject.log(line));
            }
        }
        self.wake_users(&secret);
    }

    /// Queues all who use a Secret, as they may wait for it.
    fn wake_users(&mut self, secret: &Key) {
        let users = self.world.secrets.get(secret).into_iter().flat_map(|entry| &entry.users);
        users.for_each(|user| self.queue.push(user, Lane::Fresh));
    }

    /// Stores what a read of a child found.
    fn on_child_read(
        &mut self,
        subject: &Subject<'_>,
        ChildRead { kind, key: _, known }: ChildRead,
        found: Option<Box<SeenChild>>,
    ) {
        let answered = self.world.lists.now();
        let Some(resource) = subject.find_in(&mut self.world.resources) else { return };
        match found {
            Some(seen) => {
                self.world.find_child(*seen, &known);
                self.world.recheck_later(subject.key, kind, self.now);
            }
            None => resource.child_mut(kind).store_answered_absence(known.of_live(), answered),
        }
    }

    /// Stores what the answer to a write of a child proves.
    fn on_child_written(
        &mut self,
        subject: &Subject<'_>,
        sent: ChildWrite,
        seen: Option<Box<SeenChild>>,
        effects: &mut Vec<Effect>,
    ) {
        let (answered, now) = (self.world.lists.now(), self.now);
        let World { resources, server_version, .. } = &mut *self.world;
        let Some(resource) = subject.find_in(resources) else { return };
        // The child is gone, so the write stored nothing.
        if seen.is_none() && !matches!(sent.write, Write::Delete { .. }) {
            let ChildWrite { kind, attempt, .. } = sent;
            resource.child_mut(kind).store_answered_absence(attempt.version.as_ref(), answered);
            return;
        }
        let asked_before = resource.asked_pods();
        let version = server_version.as_deref().unwrap_or_default();
        let circumstances = Circumstances { version, answered, now };
        effects.append(&mut child_written(resource, subject, sent, seen, &circumstances));
        self.world.expect_pods(subject.key, asked_before, now);
    }

    /// Notes that a pod goes.
    fn on_pod_deleted(
        &mut self,
        subject: &Subject<'_>,
        PodDeletion { pod, uid, resource_version: _, kube_event }: PodDeletion,
        effects: &mut Vec<Effect>,
    ) {
        let Some(resource) = subject.find_in(&mut self.world.resources) else { return };
        resource.pod_backoff = None;
        self.world.pods.mark_terminating(&pod, &uid);
        effects.extend(subject.told(vec![log_lines::of_event(&kube_event)], vec![kube_event]));
    }

    /// Notes why a pod could not be deleted.
    fn on_pod_kept(&mut self, subject: &Subject<'_>, failure: Failure, effects: &mut Vec<Effect>) {
        let Some(resource) = subject.find_in(&mut self.world.resources) else { return };
        let before = resource.pod_backoff.take().map(|it| *it);
        let (mut after, line) = back_off_from_one_of_many(before, failure, subject.uid, self.now);
        // The backoff is that of all pods: which of them changes says nothing about the others.
        after.retry_at = after.retry_at.or_else(|| self.now.checked_add(REFUSED_DELETION).ok());
        resource.pod_backoff = Some(Box::new(after));
        effects.push(subject.log(line));
    }

    /// Stores the status that the API server holds now, and says what it tells.
    fn on_status_written(
        &mut self,
        subject: &Subject<'_>,
        sent: StatusWrite,
        stored: SeenResource,
        effects: &mut Vec<Effect>,
    ) {
        let answered = self.world.lists.now();
        let Some(resource) = subject.find_in(&mut self.world.resources) else { return };
        let StatusWrite { status, kube_events, log, rollout_by_others, rotation, .. } = sent;
        effects.extend(subject.told(log, kube_events));
        let rolls = rollout_by_others.then(|| subject.rollout(RolloutCause::Others));
        effects.extend(rolls.into_iter().chain(rotation.map(counted)));
        (resource.backoff, resource.answered) = (None, answered);
        resource.unstorable = UnstorableStatus::from_answer(*status, &stored.status).map(Box::new);
        self.world.see_answered_resource(stored);
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
    pub(super) fn handle_answer(&mut self, id: RequestId, key: &Key, uid: &Uid, reply: PodsReply) {
        let resource = self.world.resources.get_mut(key).filter(|it| it.seen.uid == *uid);
        let Some(resource) = resource else { return };
        let (of_agents, of_figures) = match reply {
            PodsReply::Agents(answer) => (Some(answer), None),
            PodsReply::Figures(answer) => (None, Some(answer)),
            PodsReply::Failed(_) => (None, None),
        };
        if let Some(agents) = &mut resource.agents {
            agents.note(id, of_agents, self.now);
        }
        let asked = resource.asked_pods();
        if let Some(figures) = &mut resource.figures {
            let pods: Vec<_> = (0..asked).map(|number| format!("{}-{number}", key.name)).collect();
            figures.note(id, of_figures, &pods, self.now);
        }
        self.queue.push(key, Lane::Fresh);
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
    /// The generation of the resource that the request was made from.
    generation: i64,
}

impl Subject<'_> {
    /// The resource, unless it is gone; one that was made anew under its name is another.
    fn find_in<'w>(&self, resources: &'w mut BTreeMap<Key, Box<Resource>>) -> Option<&'w mut Resource> {
        resources.get_mut(self.key).filter(|it| it.seen.uid == *self.uid).map(|it| &mut **it)
    }

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
    replaces: Option<&'a PossibleRollout>,
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
        let started = |it: &PossibleRollout| match it.secrets.as_slice() {
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
    answered: Moment,
    now: Timestamp,
}

/// The backoff after a request failed of which several are under way at a time, and the line about it: each cache reads a Secret
/// that it shares. What fails while the backoff holds was sent before that began, and is no further failure in a row.
fn back_off_from_one_of_many(
    before: Option<Backoff>,
    failure: Failure,
    uid: &Uid,
    now: Timestamp,
) -> (Backoff, LogLine) {
    let attempt = Attempt::default();
    match before {
        Some(before) if before.holds(&attempt, now) => (before, log_lines::of_failure_meanwhile(&failure)),
        before => {
            let after = Backoff::from_failure(before.as_ref(), failure, attempt, uid, now);
            let line = log_lines::of_failure(&after.failure, before.as_ref(), Some(&after));
            (after, line)
        }
    }
}

/// Stores what the answer to a write of a child proves. Returns what to say and to count.
fn child_written(
    resource: &mut Resource,
    subject: &Subject<'_>,
    sent: ChildWrite,
    seen: Option<Box<SeenChild>>,
    circumstances: &Circumstances<'_>,
) -> Vec<Effect> {
    let ChildWrite { kind, key: _, write, attempt, changes, kube_events } = sent;
    let is_another = |it: &&PossibleRollout| {
        seen.as_ref().is_some_and(|seen| live::template_content_hash(seen.content.tree()) != it.template)
    };
    let replaces = write.replaces().filter(is_another);
    let effects = Written { kind, write: &write, replaces, changes: &changes }.effects(subject, kube_events);
    // A patch gives up or takes away single fields before the apply that says what the edit asks for.
    let carries_spec = matches!(write, Write::Create { .. } | Write::Apply { .. });
    if kind == resource.workload() && seen.is_some() && carries_spec {
        resource.note_workload_written(subject.generation);
    }
    let child = resource.child_mut(kind);
    child.answered = circumstances.answered;
    store_written(child, subject, WriteAnswer { kind, attempt, write, seen }, circumstances);
    child.read_if_deleted_meanwhile();
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
    child: &mut ChildState,
    subject: &Subject<'_>,
    WriteAnswer { kind, attempt, write, seen }: WriteAnswer,
    &Circumstances { version, answered: _, now }: &Circumstances<'_>,
) {
    let before = child.backoff.take();
    child.repairs.note(attempt.body, now);
    let Some(seen) = seen else {
        child.store_absence(attempt.version.as_ref());
        return;
    };
    if let Some((body, hash)) = write.applied().zip(attempt.body) {
        let altered = altered::of_answer(altered::AnsweredApply {
            kind,
            hash,
            body,
            answer: seen.content.tree(),
            server_version: version,
        });
        let refused = child.store_altered(kind, subject.key, altered);
        let backoff = |failure| Backoff::from_failure(before.as_deref(), failure, attempt, subject.uid, now);
        child.backoff = refused.map(backoff).map(Box::new);
    } else if attempt.version.as_ref() == Some(&seen.resource_version) {
        // A patch that changed nothing: a webhook puts back what was in the way, and the apply would be refused as before.
        child.backoff = before.map(|before| Box::new(Backoff { sent: attempt, ..*before }));
    }
    child.store_from_write(*seen);
}

/// Stores that a child could not be written. Returns the line for the log.
fn write_failed(
    resource: &mut Resource,
    ChildWrite { kind, attempt, .. }: ChildWrite,
    failure: Failure,
    uid: &Uid,
    now: Timestamp,
) -> LogLine {
    let child = resource.child_mut(kind);
    // If the watch has shown the conflicting write in the meantime, the child need not be read.
    let is_news = child.live.as_ref().map(|live| &live.resource_version) == attempt.version.as_ref();
    child.must_read = false;
    // Either body may be stored now: to write one of them is not to put back what somebody else changed.
    if failure.category == Category::Transient {
        child.repairs = RepairLimiter::default();
    }
    match failure.category {
        Category::Conflict => child.must_read = is_news,
        Category::Invalid => {
            child.on_create_without_conflict();
            child.on_invalid_apply(attempt.body);
        }
        Category::ImmutableField
        | Category::Forbidden
        | Category::QuotaExceeded
        | Category::AdmissionDenied
        | Category::NamespaceTerminating
        | Category::Transient
        | Category::Internal => child.on_create_without_conflict(),
    }
    back_off(&mut child.backoff, failure, attempt, uid, now)
}

/// Stores that a child could not be read. Returns the line for the log.
fn read_failed(
    resource: &mut Resource,
    kind: ChildKind,
    failure: Failure,
    uid: &Uid,
    now: Timestamp,
) -> LogLine {
    resource.recheck_later(kind, now);
    let child = resource.child_mut(kind);
    // What was known of the child holds until it can be read.
    if child.is_out_of_sight() && !child.must_read {
        return log_lines::of_failure(&failure, None, None);
    }
    let attempt = child.backoff.as_ref().map(|backoff| backoff.sent.clone()).unwrap_or_default();
    back_off(&mut child.backoff, failure, attempt, uid, now)
}

/// Stores a failure in a backoff, which says when the request may be sent again. Returns the line for the log.
fn back_off(
    backoff: &mut Option<Box<Backoff>>,
    failure: Failure,
    attempt: Attempt,
    uid: &Uid,
    now: Timestamp,
) -> LogLine {
    let before = backoff.take();
    let after = Backoff::from_failure(before.as_deref(), failure, attempt, uid, now);
    let line = log_lines::of_failure(&after.failure, before.as_deref(), Some(&after));
    *backoff = Some(Box::new(after));
    line
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::kernel::seen;

    fn key(name: &str) -> Key {
        Key { namespace: "shop".to_owned(), name: name.to_owned() }
    }

    /// Two resources that use the one Secret `users`.
    fn world() -> World {
        let mut world = World::default();
        for name in ["carts", "sessions"] {
            let sasl = json!({"enabled": true, "credentialsSecretRef": {"name": "users"}});
            let resource = json!({
                "metadata": {"namespace": "shop", "name": name, "uid": name, "resourceVersion": "7"},
                "spec": {"security": {"sasl": sasl}},
            });
            world.see_resource(seen::resource(&serde_json::from_value(resource).unwrap()).unwrap());
        }
        world
    }

    #[rstest]
    #[case::of_a_child(Reply::Child(None))]
    #[case::of_a_pod(Reply::PodDeleted)]
    fn a_read_of_a_secret_with_the_reply_to_another_request_proves_nothing_and_wakes_all_users(
        #[case] reply: Reply,
    ) {
        let mut world = world();
        let known = format!("{:?}", world.secrets);
        let read = SecretRead { secret: key("users"), keys: Vec::new(), known: Presence::Unknown };
        let pending = PendingRequest {
            resource: key("sessions"),
            uid: Uid::from("sessions"),
            generation: 1,
            request: Arc::new(Request::ReadSecret(read)),
        };
        let (mut queue, mut effects) = (Queue::default(), Vec::new());
        let mut replies = Replies {
            world: &mut world,
            queue: &mut queue,
            active_passes: &mut ActivePasses::default(),
            last_told: &mut LastTold::default(),
            now: Timestamp::UNIX_EPOCH,
        };
        replies.handle_reply(pending, reply, &mut effects);
        assert_eq!(format!("{:?}", world.secrets), known);
        assert_eq!(
            [queue.pop(), queue.pop(), queue.pop()],
            [Some(key("carts")), Some(key("sessions")), None]
        );
        assert_eq!(effects, []);
    }
}
