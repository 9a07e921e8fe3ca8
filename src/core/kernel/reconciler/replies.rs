//! The handling of replies: what each one proves. Pure; a part of [`Reconciler`], whose `fold` calls it for each reply.

use jiff::Timestamp;

use super::Reconciler;
use crate::kernel::backoff::{Attempt, Backoff};
use crate::kernel::effect::{Effect, KubeEvent, Observation, RequestId};
use crate::kernel::event::{Reply, SeenChild};
use crate::kernel::failure::{Category, Failure};
use crate::kernel::object::{ChildKind, Key, Uid, Watched};
use crate::kernel::pending_request::{
    ChildWrite, PendingRequest, PlannedRequest, Replacement, SecretRead, Write,
};
use crate::kernel::queue::Lane;
use crate::kernel::slot::Slot;
use crate::kernel::world::resource::Resource;
use crate::kernel::world::secret::Presence;
use crate::kernel::{altered, kube_events, live};

impl Reconciler {
    /// Handles a reply: stores what it proves in the world, and queues the resource again after the last reply of its
    /// batch.
    pub(super) fn handle_reply(&mut self, id: RequestId, reply: Reply, effects: &mut Vec<Effect>) {
        let Some(PendingRequest { resource: key, uid, request }) = self.pending_requests.remove(&id) else {
            return;
        };
        self.count_reply(&key, &uid);
        let answered = self.world.lists.answer();
        // Several resources may use a Secret: what was read stays true even if the reader was deleted.
        if let PlannedRequest::ReadSecret(read) = request {
            self.handle_secret_reply(read, reply, &uid);
            return;
        }
        let version = self.world.server_version.clone().unwrap_or_default();
        let Some(resource) = self.world.resources.get_mut(&key).filter(|it| it.seen.uid == uid) else {
            return;
        };
        let publish = |kube_event| Effect::Publish { resource: key.clone(), uid: uid.clone(), kube_event };
        match (request, reply) {
            (request, Reply::Failed(failure)) => failed(resource, request, failure, (&uid, self.now)),
            (PlannedRequest::WriteChild(sent), Reply::Child(seen))
                if seen.is_some() || matches!(sent.write, Write::Delete { .. }) =>
            {
                let ChildWrite { kind, write, attempt, kube_events } = sent;
                let print = seen.as_ref().map(|seen| live::template_print(&seen.content));
                let is_another = |it: &&Replacement| print.is_some_and(|print| print != it.template);
                let replaces = write.replaces().filter(is_another);
                let said = of_write(&key, kind, &write, replaces).into_iter().chain(kube_events);
                effects.extend(said.map(publish));
                let started = replaces.map(|it| Observation::RolloutStarted(it.cause()));
                let result = Observation::Child { kind, result: write.result() };
                effects.extend(started.into_iter().chain([result]).map(Effect::Observe));
                let slot = resource.slot_mut(kind);
                slot.answered = answered;
                let answer = Answer { key: &key, kind, attempt, write, seen, version: &version };
                written(slot, answer, (&uid, self.now));
                slot.look_if_deleted_meanwhile();
            }
            (PlannedRequest::ReadChild { kind, known }, Reply::Child(Some(seen))) => {
                self.world.find_child(*seen, &known);
                self.world.recheck_later(&key, kind, self.now);
            }
            (
                PlannedRequest::WriteChild(ChildWrite { kind, .. }) | PlannedRequest::ReadChild { kind, .. },
                Reply::Child(None),
            ) => {
                let slot = resource.slot_mut(kind);
                slot.answered = answered;
                slot.store_absence();
            }
            (PlannedRequest::WriteStatus { status, kube_events, .. }, Reply::Status(stored)) => {
                effects.extend(kube_events.into_iter().map(publish));
                (resource.backoff, resource.answered) = (None, answered);
                resource.unstorable =
                    (*status != stored.status).then(|| Box::new((*status, stored.status.clone())));
                self.world.see_resource(*stored);
            }
            // A reply of another request's shape proves nothing; the next pass sees the world as it was.
            _ => {}
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

    fn handle_secret_reply(
        &mut self,
        SecretRead { secret, keys, known }: SecretRead,
        reply: Reply,
        uid: &Uid,
    ) {
        let answered = self.world.lists.now();
        let Some(entry) = self.world.secrets.get_mut(&secret) else { return };
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
                let backoff =
                    Backoff::from_failure(entry.backoff.as_ref(), failure, Attempt::default(), uid, self.now);
                entry.backoff = Some(backoff);
            }
            Reply::Child(_) | Reply::Status(_) => {}
        }
        // Others wait for the same Secret.
        for user in &entry.users {
            self.queue.push(user, Lane::Fresh);
        }
    }
}

/// The Kubernetes Events about a child that was written.
fn of_write(
    key: &Key,
    kind: ChildKind,
    write: &Write,
    replaces: Option<&Replacement>,
) -> impl IntoIterator<Item = KubeEvent> {
    let of_child = match write {
        Write::Create { .. } => Some(kube_events::created(kind, key)),
        Write::Apply { .. } | Write::Patch { .. } => None,
        Write::Delete { .. } => Some(kube_events::deleted(kind, key)),
    };
    let started = |it: &Replacement| kube_events::rollout_started(it.cause(), it.fields.as_deref());
    of_child.into_iter().chain(replaces.map(started))
}

/// The answer to a write of a child.
struct Answer<'a> {
    /// Where the child is.
    key: &'a Key,
    /// Which child.
    kind: ChildKind,
    /// What identifies the attempt.
    attempt: Attempt,
    /// What was sent.
    write: Write,
    /// The child as it is now.
    seen: Option<Box<SeenChild>>,
    /// Of the API server.
    version: &'a str,
}

/// Stores what the answer to a write proves about the child.
fn written(slot: &mut Slot, answer: Answer<'_>, (uid, now): (&Uid, Timestamp)) {
    let Answer { key, kind, attempt, write, seen, version } = answer;
    let before = slot.backoff.take();
    slot.repairs.note(&attempt.body, now);
    let Some(seen) = seen else {
        slot.store_absence();
        return;
    };
    if let Some(body) = write.applied() {
        let altered = altered::of_answer(altered::AnsweredApply {
            kind,
            hash: &attempt.body,
            body,
            answer: &seen.content,
            server_version: version,
        });
        let refused = slot.store_altered(kind, key, altered);
        slot.backoff =
            refused.map(|failure| Backoff::from_failure(before.as_ref(), failure, attempt, uid, now));
    }
    slot.store_from_write(*seen);
}

/// Stores the failure of a request in its backoff, which says when it may be sent again.
fn failed(resource: &mut Resource, request: PlannedRequest, failure: Failure, (uid, now): (&Uid, Timestamp)) {
    match request {
        PlannedRequest::WriteChild(ChildWrite { kind, attempt, .. }) => {
            let slot = resource.slot_mut(kind);
            // If the watch has shown the conflicting write in the meantime, the child need not be read.
            let is_news = slot.live.as_ref().map(|live| &live.resource_version) == attempt.version.as_ref();
            slot.look = failure.category == Category::Conflict && is_news;
            if failure.category != Category::Conflict {
                slot.on_create_without_conflict();
            }
            if failure.category == Category::Invalid {
                slot.on_invalid_apply(&attempt.body);
            }
            slot.backoff = Some(Backoff::from_failure(slot.backoff.as_ref(), failure, attempt, uid, now));
        }
        PlannedRequest::ReadChild { kind, .. } => {
            resource.recheck_later(kind, now);
            let slot = resource.slot_mut(kind);
            // What was known of the child holds until it can be read.
            if slot.is_out_of_sight() && !slot.look {
                return;
            }
            let attempt = slot.backoff.as_ref().map(|backoff| backoff.sent.clone()).unwrap_or_default();
            slot.backoff = Some(Backoff::from_failure(slot.backoff.as_ref(), failure, attempt, uid, now));
        }
        PlannedRequest::WriteStatus { attempt, .. } => {
            let before = resource.backoff.as_ref();
            resource.backoff = Some(Backoff::from_failure(before, failure, attempt, uid, now));
        }
        PlannedRequest::ReadSecret(_) => {} // the Secret's backoff, not the resource's
    }
}
