//! What the operator knew when it wrote a status, as questions about what the status says. Pure; called by
//! [`super::contradictions`].

use jiff::{SignedDuration, Timestamp};
use memcached_operator_core::api::MemcachedStatus;
use memcached_operator_core::api::spec::validate;
use memcached_operator_core::kernel::desired::default_images::BUILT_IN;
use memcached_operator_core::kernel::desired::partition::KEEPS_ALL;
use memcached_operator_core::kernel::event::Unavailable;
use memcached_operator_core::kernel::failure::Category;
use memcached_operator_core::kernel::known_versions::Presence;
use memcached_operator_core::kernel::live::Live;
use memcached_operator_core::kernel::object::{ChildKind, Key};
use memcached_operator_core::kernel::pass::{self, View};
use memcached_operator_core::kernel::reconciler::Reconciler;
use memcached_operator_core::kernel::request::Request;
use memcached_operator_core::kernel::unwatched::Absence;
use memcached_operator_core::kernel::world::resource::Resource;
use memcached_operator_core::kernel::world::secret::Secret;

/// Failures that pass by themselves.
const PASSING: [Category; 4] =
    [Category::Conflict, Category::Transient, Category::Internal, Category::NamespaceTerminating];

/// How long pods of a StatefulSet may make no progress.
const DEADLINE: SignedDuration = SignedDuration::from_mins(10);

/// What the operator knew when it wrote a status.
pub(super) struct Known<'a> {
    reconciler: &'a Reconciler,
    key: &'a Key,
    now: Timestamp,
    pub(super) workload: Option<&'a Live>,
    pub(super) former_ready: i32,
    pub(super) has_former: bool,
    /// The kinds of which there is an object of ours.
    ours: Vec<&'static str>,
    /// The kinds whose name somebody else's object has, or one that is going.
    theirs: Vec<&'static str>,
    /// What went wrong, in the words of each failure that is known.
    failures: Vec<(Category, &'a str)>,
}

impl<'a> Known<'a> {
    pub(super) fn new(reconciler: &'a Reconciler, key: &'a Key, now: Timestamp) -> Self {
        let resource = &reconciler.world().resources[key];
        let controlled =
            |live: &Live| live.controller.as_ref().is_some_and(|owner| *owner.uid() == resource.seen.uid);
        let left = |live: &Live| live.orphan.as_deref().is_some_and(|it| it.is_older_than(&resource.seen));
        let ours = |live: &&Live| left(live) || controlled(live);
        let former = ChildKind::WORKLOADS.into_iter().find(|kind| *kind != resource.workload());
        let former = former.and_then(|kind| resource.live(kind)).filter(ours);
        let former_ready = former.and_then(|live| live.rollout.as_ref()).map_or(0, |rollout| rollout.ready);
        let workload = resource.live(resource.workload()).filter(ours);
        let named = |is_ours: bool| {
            let there = ChildKind::ALL.into_iter().filter_map(|kind| Some((kind, resource.live(kind)?)));
            there
                .filter(|(_, live)| (ours(live) && !live.deleting) == is_ours)
                .map(|(kind, _)| kind.name())
                .collect()
        };
        Self {
            reconciler,
            key,
            now,
            workload,
            former_ready,
            has_former: former.is_some(),
            ours: named(true),
            theirs: named(false),
            failures: failures(reconciler, key),
        }
    }

    /// What is to run the pods.
    pub(super) fn kind(&self) -> &'static str {
        self.reconciler.world().resources[self.key].workload().name()
    }

    /// Whether the workload's own controller has something to do.
    pub(super) fn moves(&self) -> bool {
        self.workload.is_some_and(|live| {
            let rollout = live.rollout.clone().unwrap_or_default();
            let asked = live.replicas.and_then(|asked| i32::try_from(asked).ok()).unwrap_or(1);
            // In a rollout of a StatefulSet its controller leaves those below the partition alone.
            let kept = live.partition.filter(|at| *at != KEEPS_ALL).map_or(0, |at| at.min(asked));
            let is_another_number = rollout.replicas != asked || rollout.updated < asked - kept;
            rollout.observed_generation < live.generation || is_another_number
        })
    }

    /// Whether the StatefulSet lacks this pod, and so many others. For how long, an operator that started anew does not know.
    pub(super) fn does_not_make(&self, first: &str, others: usize) -> bool {
        let missing = self.reconciler.world().pods.missing_of(self.key);
        let numbers: Vec<i32> = missing.map(|(number, _)| number).collect();
        let is_lacking = numbers.iter().any(|number| self.key.pod(*number).name == first);
        self.kind() == "StatefulSet" && is_lacking && others < numbers.len()
    }

    /// Whether the operator waits for pods of a StatefulSet before it lets the next one go.
    fn waits_for_pods(&self) -> bool {
        let resource = &self.reconciler.world().resources[self.key];
        let view = self.view(resource);
        let spec = resource.seen.spec.as_ref().ok().and_then(|spec| validate(&self.key.name, spec).ok());
        let is_warming = |spec| view.warmth_wait(&spec).is_some_and(|wait| wait.is_awaited(self.now));
        let lacks_pods = self.workload.is_some_and(|live| {
            let asked = live.replicas.and_then(|asked| i32::try_from(asked).ok()).unwrap_or(1);
            live.partition.is_some_and(|at| at != KEEPS_ALL) && self.available() < asked
        });
        lacks_pods || view.lacks_pods() || spec.is_some_and(is_warming)
    }

    /// Whether neither the workload's own controller nor an autoscaler has anything to do, and the operator waits for no pod.
    pub(super) fn is_still(&self) -> bool {
        !self.moves() && self.is_left_by_autoscaler() && !self.waits_for_pods()
    }

    /// Whether the resource asks for no autoscaler, or for one that leaves the workload's number of pods: that is within its bounds.
    fn is_left_by_autoscaler(&self) -> bool {
        let asked = self.workload.and_then(|live| live.replicas);
        let spec = self.reconciler.world().resources[self.key].seen.spec.as_ref();
        spec.is_ok_and(|spec| spec.autoscaling.is_none() || asked == Some(i64::from(self.expected())))
    }

    fn view<'b>(&'b self, resource: &'b Resource) -> View<'b> {
        View {
            world: self.reconciler.world(),
            resource,
            now: self.now,
            images: &BUILT_IN,
            operator_pods: None,
        }
    }

    /// Whether the operator writes the workload as soon as this status is stored: it says that pods are to roll
    /// before it makes them.
    pub(super) fn begins(&self, status: &MemcachedStatus) -> bool {
        let mut resource = self.reconciler.world().resources[self.key].clone();
        // As the answer to its write leaves it.
        (resource.seen.status, resource.backoff) = (status.clone(), None);
        // Children that nobody read yet are looked for first. Here there are none.
        for kind in ChildKind::ALL {
            resource.child_mut(kind).absence = Absence::Proven;
        }
        let next = pass::run(&self.view(&resource));
        let writes = |it: &Request| matches!(it, Request::WriteChild(it) if it.kind.is_workload());
        next.requests.iter().any(writes)
    }

    /// Pods that the resource asks for, where that is its own decision and can be read.
    pub(super) fn wanted(&self) -> Option<i32> {
        let spec = self.reconciler.world().resources[self.key].seen.spec.as_ref().ok()?;
        spec.autoscaling.is_none().then(|| spec.replicas.unwrap_or(1))
    }

    /// Pods that serve by the workload's own word.
    pub(super) fn available(&self) -> i32 {
        self.workload.and_then(|live| live.rollout.as_ref()).map_or(0, |rollout| rollout.available)
    }

    /// Whether a change to a child of this kind can be left to do: the resource may have one, or has one that goes.
    pub(super) fn may_change(&self, kind: &str) -> bool {
        let runs_pods = ChildKind::WORKLOADS.into_iter().any(|it| it.name() == kind);
        let is_child = ChildKind::ALL.into_iter().any(|it| it.name() == kind);
        is_child && (!runs_pods || kind == self.kind() || self.ours.contains(&kind))
    }

    /// Whether it is not known yet whether there is a child of this kind: after a restart it is read.
    pub(super) fn looks_for(&self, kind: &str) -> bool {
        let kind = ChildKind::ALL.into_iter().find(|it| it.name() == kind);
        let child = kind.map(|kind| self.reconciler.world().resources[self.key].child(kind));
        child.is_some_and(|child| child.must_read || child.absence != Absence::Proven)
    }

    /// `name (key KEY)`: whether the Secret is there, and was not read with this key.
    pub(super) fn lacks_key(&self, named: &str) -> bool {
        let Some((name, key)) = named.strip_suffix(')').and_then(|it| it.split_once(" (key ")) else {
            return false;
        };
        let at = Key { namespace: self.key.namespace.clone(), name: name.to_owned() };
        let content = self.reconciler.world().secrets.get(&at).and_then(|secret| secret.content.as_ref());
        self.has_secret(name) && content.is_none_or(|it| !it.digests.contains_key(key))
    }

    /// Whether what is quoted was said by what its reason names.
    pub(super) fn is_source(&self, reason: &str, words: &str, status: &MemcachedStatus) -> bool {
        let failed = |of: &[Category]| {
            self.failures.iter().any(|(category, said)| of.contains(category) && words.contains(said))
        };
        let rollout = self.workload.and_then(|live| live.rollout.as_deref()).cloned().unwrap_or_default();
        let problem = status.secret_rotation.as_ref().and_then(|it| it.problem.as_ref());
        let rotates_no_more = problem
            .is_some_and(|it| it.reason == reason && words.starts_with(it.message.trim_end_matches('.')));
        let begins =
            |said: Option<String>| said.is_some_and(|it| words.starts_with(it.trim_end_matches('.')));
        let stands = || self.theirs.iter().any(|kind| words.starts_with(&format!("{kind} ")));
        match reason {
            "NameConflict" | "WaitingForGarbageCollection" => stands(),
            "Forbidden" => failed(&[Category::Forbidden]),
            "QuotaExceeded" => failed(&[Category::QuotaExceeded]),
            "AdmissionDenied" => failed(&[Category::AdmissionDenied]),
            "ImmutableField" => failed(&[Category::ImmutableField]),
            "InvalidSpec" => match self.broken_rules() {
                Some(findings) => words == findings,
                None => failed(&[Category::Invalid]),
            },
            "RetryingAfterError" if words.starts_with("somebody keeps changing fields of ") => {
                self.keeps_changing(words)
            }
            "RetryingAfterError" => failed(&PASSING),
            "SecretUnreadable" => self.failures.iter().any(|(_, said)| words.contains(said)),
            "SecretInvalid" => (rotates_no_more && self.has_all_secrets()) || words == self.invalid_secrets(),
            "AgentUnreachable" => rotates_no_more,
            "ReplicaFailure" => rollout.replica_failure.as_deref() == Some(words),
            // The controller of a StatefulSet knows no deadline: the words are the operator's.
            "ProgressDeadlineExceeded" if self.kind() == "StatefulSet" => {
                rotates_no_more || self.makes_no_progress(words, status)
            }
            "ProgressDeadlineExceeded" => rotates_no_more || begins(rollout.deadline_exceeded),
            _ => false,
        }
    }

    /// Each rule that the spec breaks, with its field, or why it cannot be read; `None` where it is valid.
    fn broken_rules(&self) -> Option<String> {
        let spec = match &self.reconciler.world().resources[self.key].seen.spec {
            Ok(spec) => spec,
            Err(error) => return Some(format!("spec cannot be read: {error}")),
        };
        let violations = validate(&self.key.name, spec).err()?;
        let findings = violations.iter().map(|it| format!("{}: {}", it.path, it.message));
        Some(findings.collect::<Vec<_>>().join("; "))
    }

    /// Whether these words name a child that was put back as often as it may be within a minute, and all who write it.
    fn keeps_changing(&self, words: &str) -> bool {
        let resource = &self.reconciler.world().resources[self.key];
        let Key { namespace, name } = self.key;
        ChildKind::ALL.into_iter().any(|kind| {
            let child = resource.child(kind);
            let wanted = resource.rendered_hashes.as_ref().and_then(|hashes| hashes.hash(kind));
            let managers = child.live.iter().flat_map(|live| &live.managers).map(|it| it.name.as_str());
            let said = format!(
                "somebody keeps changing fields of {} {namespace}/{} that this operator sets, and it puts them back \
                 only a few times a minute; other field managers: {}",
                kind.name(),
                kind.name_of_child(name),
                managers.collect::<Vec<_>>().join(", ")
            );
            words == said && child.repairs.exhausted_until(wanted, self.now).is_some()
        })
    }

    /// What is wrong with the Secrets that the resource names, in the order of their names.
    fn invalid_secrets(&self) -> String {
        let secrets = self.reconciler.world().secrets.iter().filter(|(_, it)| it.users.contains(self.key));
        let invalid = secrets.filter_map(|(key, secret)| self.invalid_secret(&key.name, secret));
        invalid.collect::<Vec<_>>().join("; ")
    }

    /// What was found in this version of a Secret: by what was read of it, or, after a restart, by the status that is stored.
    fn invalid_secret(&self, name: &str, secret: &Secret) -> Option<String> {
        let Presence::Present(uid, version) = &secret.presence else { return None };
        let content = secret.content.as_ref();
        if let Some(content) = content.filter(|it| it.uid == *uid && it.resource_version == *version) {
            let findings = content.findings.iter().filter(|it| it.is_invalid());
            let findings: Vec<_> = findings.map(|it| format!("{}: {}", it.key(), it.words())).collect();
            let all = findings.join("; ");
            return (!all.is_empty())
                .then(|| format!("Secret {name}, {all}; no rollout starts with it: correct the Secret"));
        }
        let recorded = &self.reconciler.world().resources[self.key].seen.status.secrets;
        let of_version = Some(version.to_string());
        let judged = recorded.iter().find(|it| it.name == name && it.invalid_resource_version == of_version);
        judged.and_then(|it| it.invalid.clone())
    }

    /// Whether these words are those of the operator's own deadline, which is over, with the pods that there are. A pod's own
    /// reason, and what else waits for this resource, stand behind them.
    fn makes_no_progress(&self, words: &str, status: &MemcachedStatus) -> bool {
        let since = status.progressing_since.as_ref();
        let is_over = since.is_some_and(|since| self.now.duration_since(since.0) >= DEADLINE);
        let rollout = self.workload.and_then(|live| live.rollout.as_deref());
        let (exist, expected) = (rollout.map_or(0, |rollout| rollout.replicas), self.expected());
        let missing = match exist < expected {
            true => {
                format!("; {exist}/{expected} pods exist, and the Events of the StatefulSet say why no more")
            }
            false => String::new(),
        };
        let said = format!("StatefulSet {} has made no progress for 10 minutes{missing}", self.key.name);
        let ends = [": ", "; no other cache adopts a newer pod template until this one is available"];
        let is_end = |rest: &str| rest.is_empty() || ends.iter().any(|end| rest.starts_with(end));
        is_over && words.strip_prefix(&said).is_some_and(is_end)
    }

    /// Pods that are expected: those that the resource asks for or, within its bounds, an autoscaler.
    fn expected(&self) -> i32 {
        let spec = self.reconciler.world().resources[self.key].seen.spec.as_ref();
        let bounds = spec.ok().and_then(|spec| spec.autoscaling.as_ref());
        match (bounds, self.workload.and_then(|live| live.replicas)) {
            (None, _) => self.wanted().unwrap_or(1),
            (Some(_), Some(0)) => 0,
            (Some(bounds), asked) => {
                let least = bounds.min_replicas.unwrap_or(1);
                let asked = asked.and_then(|it| i32::try_from(it).ok()).unwrap_or(least);
                asked.min(bounds.max_replicas.unwrap_or(i32::MAX)).max(least)
            }
        }
    }

    /// Whether each Secret that the resource names is there.
    fn has_all_secrets(&self) -> bool {
        let named = self.reconciler.world().secrets.values().filter(|it| it.users.contains(self.key));
        { named }.all(|it| matches!(it.presence, Presence::Present(..)))
    }

    pub(super) fn has_secret(&self, name: &str) -> bool {
        let key = Key { namespace: self.key.namespace.clone(), name: name.to_owned() };
        let secret = self.reconciler.world().secrets.get(&key);
        secret.is_some_and(|secret| matches!(secret.presence, Presence::Present(..)))
    }
}

/// Every failure that is remembered: of the children, of the resource itself, of its pods and Secrets, and of lists.
fn failures<'a>(reconciler: &'a Reconciler, key: &Key) -> Vec<(Category, &'a str)> {
    let resource = &reconciler.world().resources[key];
    let children = ChildKind::ALL.into_iter().map(|kind| resource.child(kind).backoff.as_deref());
    let own = [resource.backoff.as_deref(), resource.pod_backoff.as_deref()];
    let secrets = reconciler.world().secrets.values().filter(|it| it.users.contains(key));
    let all = children.chain(own).chain(secrets.map(|it| it.backoff.as_ref()));
    let refused = ChildKind::ALL.into_iter().filter_map(|kind| {
        match reconciler.world().unavailable(kind, &key.namespace)? {
            Unavailable::Refused(failure) => Some(failure),
            Unavailable::NotServed => None,
        }
    });
    let all = all.flatten().map(|it| &it.failure).chain(refused);
    all.map(|it| (it.category, it.message.as_str())).collect()
}
