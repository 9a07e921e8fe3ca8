//! Which claims of a status cannot be true together, or not in this world. Pure.
//!
//! Two texts of the specification are excepted, because it fixes them: "Waiting for deployment to be created" wherever
//! there is no Deployment, though it may be a person who has to act before there can be one, and "Reconciling new
//! generation" while a Secret is missing. There Ready and Stalled say the rest.

use jiff::Timestamp;
use memcached_operator_core::api::MemcachedStatus;
use memcached_operator_core::api::condition::Condition;
use memcached_operator_core::kernel::desired::default_images::BUILT_IN;
use memcached_operator_core::kernel::live::Live;
use memcached_operator_core::kernel::object::{ChildKind, Key};
use memcached_operator_core::kernel::pass::{self, View};
use memcached_operator_core::kernel::pending_request::PlannedRequest;
use memcached_operator_core::kernel::reconciler::Reconciler;
use memcached_operator_core::kernel::unwatched::Absence;
use memcached_operator_core::kernel::world::secret::Presence;

use super::claims::{Claim, claims};

/// What the operator knew when it wrote a status.
pub(super) struct Known<'a> {
    reconciler: &'a Reconciler,
    key: &'a Key,
    now: Timestamp,
    workload: Option<&'a Live>,
    former_ready: i32,
}

impl<'a> Known<'a> {
    pub(super) fn new(reconciler: &'a Reconciler, key: &'a Key, now: Timestamp) -> Self {
        let resource = &reconciler.world().resources[key];
        let controlled =
            |live: &Live| live.controller.as_ref().is_some_and(|owner| owner.uid == resource.seen.uid);
        let left = |live: &Live| live.orphan.is_some_and(|it| it.is_older_than(&resource.seen));
        let ours = |live: &&Live| left(live) || controlled(live);
        let former = ChildKind::WORKLOADS.into_iter().find(|kind| *kind != resource.workload());
        let former = former.and_then(|kind| resource.live(kind)).filter(ours);
        let former_ready = former.and_then(|live| live.rollout.as_ref()).map_or(0, |rollout| rollout.ready);
        Self { reconciler, key, now, workload: resource.live(resource.workload()).filter(ours), former_ready }
    }

    /// What is to run the pods.
    fn kind(&self) -> &'static str {
        self.reconciler.world().resources[self.key].workload().name()
    }

    /// Whether the workload's own controller has something to do.
    fn moves(&self) -> bool {
        self.workload.is_some_and(|live| {
            let rollout = live.rollout.clone().unwrap_or_default();
            let asked = live.replicas.and_then(|asked| i32::try_from(asked).ok()).unwrap_or(1);
            rollout.observed_generation < live.generation || [rollout.replicas, rollout.updated] != [asked; 2]
        })
    }

    /// Whether neither the workload's own controller nor an autoscaler has anything to do. An autoscaler has where the
    /// Deployment asks for another number than it would.
    fn is_still(&self) -> bool {
        !self.moves() && self.wanted().is_some()
    }

    /// Whether the operator writes the workload as soon as this status is stored: it says that pods are to roll
    /// before it makes them.
    fn begins(&self, status: &MemcachedStatus) -> bool {
        let mut resource = self.reconciler.world().resources[self.key].clone();
        // As the answer to its write leaves it.
        (resource.seen.status, resource.backoff) = (status.clone(), None);
        // Children that nobody read yet are looked for first. Here there are none.
        for kind in ChildKind::ALL {
            resource.slot_mut(kind).absence = Absence::Proven;
        }
        let next = pass::run(&View {
            world: self.reconciler.world(),
            resource: &resource,
            now: self.now,
            images: &BUILT_IN,
            operator_pods: None,
        });
        let writes =
            |it: &PlannedRequest| matches!(it, PlannedRequest::WriteChild(it) if it.kind.is_workload());
        next.requests.iter().any(writes)
    }

    /// Pods that the resource asks for, where that is its own decision and can be read.
    fn wanted(&self) -> Option<i32> {
        let spec = self.reconciler.world().resources[self.key].seen.spec.as_ref().ok()?;
        spec.autoscaling.is_none().then(|| spec.replicas.unwrap_or(1))
    }

    fn has_secret(&self, name: &str) -> bool {
        let key = Key { namespace: self.key.namespace.clone(), name: name.to_owned() };
        let secret = self.reconciler.world().secrets.get(&key);
        secret.is_some_and(|secret| matches!(secret.presence, Presence::Present(..)))
    }
}

/// A condition and what it claims.
struct Said<'a> {
    condition: &'a Condition,
    claims: Vec<Claim>,
}

impl Said<'_> {
    fn is_true(&self, of: &str) -> bool {
        self.condition.type_ == of && self.condition.status == "True"
    }

    fn denies_ready(&self) -> bool {
        let degraded = self.is_true("Degraded") && self.condition.reason == "Degraded";
        degraded || self.is_true("Stalled") || self.is_true("Progressing")
    }
}

/// Everything in a status that contradicts something else in it, or what was known.
pub(super) fn contradictions(status: &MemcachedStatus, known: &Known<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let mut said = Vec::new();
    for condition in &status.conditions {
        match claims(condition, &status.conditions) {
            Ok(claims) => said.push(Said { condition, claims }),
            Err(text) => found.push(format!("nobody knows what this means: {text}")),
        }
    }
    let lines = || said.iter().map(|it| line(it.condition)).collect::<Vec<_>>().join("\n  ");
    let mut refuse = |why: &str| found.push(format!("{why}\n  {}", lines()));
    let still = known.is_still().then(|| known.kind());
    let missing = |claim: &Claim| matches!(claim, Claim::SecretsMissing(_) | Claim::KeysMissing(_));
    let lacks_secret = said.iter().any(|it| it.claims.iter().any(missing));
    for one in &said {
        within(one, status, known, &mut refuse);
        for other in &said {
            let pairs = one.claims.iter().flat_map(|claim| other.claims.iter().map(move |it| (claim, it)));
            for why in pairs.filter_map(|pair| disagreement(pair, still, lacks_secret)) {
                refuse(why);
            }
            if one.is_true("Ready") && other.denies_ready() {
                refuse("ready, and not at its end");
            }
        }
    }
    found
}

fn line(condition: &Condition) -> String {
    format!("{}={} {}: {}", condition.type_, condition.status, condition.reason, condition.message)
}

/// One condition against itself, the numbers beside it, and what was known.
fn within(one: &Said<'_>, status: &MemcachedStatus, known: &Known<'_>, refuse: &mut dyn FnMut(&str)) {
    let Said { condition, claims } = one;
    let denies_ready = condition.type_ == "Ready" && condition.status == "False";
    for claim in claims {
        let why = match claim {
            _ if wanted(claim).is_some_and(|pods| known.wanted().is_some_and(|it| it != pods)) => {
                "spec.replicas is another number"
            }
            Claim::Ready(ready, _) | Claim::OnlyReady(ready, _) if *ready != status.ready_replicas => {
                "readyReplicas is another number"
            }
            Claim::Ready(ready, desired) if denies_ready && ready >= desired && claims.len() == 1 => {
                "not ready, and nothing is said to be missing"
            }
            Claim::OnlyReady(ready, desired) if ready >= desired => "these are not too few",
            Claim::AllReady(desired) if status.ready_replicas < *desired => "readyReplicas is fewer",
            Claim::AllReady(_) if denies_ready => "not ready, and all are",
            Claim::InProgress(updated, _) | Claim::HeldBack(updated, _)
                if *updated != status.updated_replicas =>
            {
                "updatedReplicas is another number"
            }
            Claim::InProgress(..) if known.is_still() && !known.begins(status) => {
                "a rollout is in progress and nobody does anything"
            }
            Claim::AllUpdated(desired) if *desired != status.updated_replicas => {
                "updatedReplicas is another number"
            }
            Claim::NoWorkload if known.workload.is_some() => "there is one",
            Claim::Former(pods) if *pods != known.former_ready => "another number of pods serves",
            Claim::Older(pods) if *pods != status.replicas - status.updated_replicas => {
                "replicas and updatedReplicas say another number"
            }
            Claim::NewGeneration(generation) if *generation != status.observed_generation => {
                "observedGeneration is another one"
            }
            Claim::SecretsMissing(names) if names.iter().any(|name| known.has_secret(name)) => {
                "a Secret is there and is said to be missing"
            }
            Claim::Starting if status.updated_replicas != status.replicas => "some are of an older template",
            Claim::Pending(kinds) if kinds.is_empty() => "it is not said which changes",
            _ => continue,
        };
        refuse(why);
    }
}

/// Why a claim and one of another condition exclude each other. `still`: the workload, where neither its own
/// controller nor an autoscaler has anything to do.
fn disagreement(pair: (&Claim, &Claim), still: Option<&str>, lacks_secret: bool) -> Option<&'static str> {
    if let (Some(here), Some(there)) = (wanted(pair.0), wanted(pair.1))
        && here != there
    {
        return Some("two numbers of pods are wanted");
    }
    Some(match pair {
        (Claim::InProgress(..), Claim::AllUpdated(_)) => "a rollout is in progress and over",
        (Claim::InProgress(..), Claim::Paused(kinds))
            if still.is_some_and(|workload| names(kinds, workload)) =>
        {
            "a rollout is in progress and paused"
        }
        (Claim::InProgress(..), Claim::WaitsForTurn) if still.is_some() => {
            "a rollout is in progress and waits"
        }
        (Claim::InProgress(..), Claim::Quoted(words))
            if still.is_some_and(|workload| words.contains(workload)) =>
        {
            "a rollout is in progress and cannot begin"
        }
        (Claim::NewGeneration(_), Claim::WaitsForTurn) => "a generation is on its way and waits",
        (Claim::NewGeneration(_), Claim::Paused(kinds)) if !kinds.is_empty() => {
            "a generation is on its way and paused"
        }
        (Claim::NewGeneration(_), Claim::HeldBack(..)) if !lacks_secret => {
            "a generation is on its way and held back"
        }
        (Claim::NoWorkload, Claim::Ready(1.., _) | Claim::OnlyReady(1.., _)) => {
            "pods of a workload that does not exist"
        }
        (Claim::AllReady(_), Claim::OnlyReady(..)) => "all are ready and only some",
        (Claim::AllUpdated(1..), Claim::Older(_) | Claim::LacksTemplate | Claim::Unobserved) => {
            "all are updated and some are not"
        }
        _ => return None,
    })
}

fn names(kinds: &[String], kind: &str) -> bool {
    kinds.iter().any(|it| it == kind)
}

/// How many pods a claim says are wanted.
const fn wanted(claim: &Claim) -> Option<i32> {
    match claim {
        Claim::Ready(_, desired)
        | Claim::OnlyReady(_, desired)
        | Claim::AllReady(desired)
        | Claim::InProgress(_, desired)
        | Claim::HeldBack(_, desired)
        | Claim::AllUpdated(desired)
        | Claim::Available(_, desired) => Some(*desired),
        _ => None,
    }
}
