//! Which claims of a status cannot be true together, or not in this world. Pure.
//!
//! Two texts of the specification are excepted, because it fixes them: "Waiting for deployment to be created" wherever
//! there is no Deployment, though it may be a person who has to act before there can be one, and "Reconciling new
//! generation" while a Secret is missing. There Ready and Stalled say the rest.

use memcached_operator_core::api::MemcachedStatus;
use memcached_operator_core::api::condition::Condition;

use super::claims::{Claim, claims};
use super::known::Known;
use super::pairs;

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
    let kinds: Vec<_> = said.iter().flat_map(|it| &it.claims).map(Claim::name).collect();
    for (at, kind) in kinds.iter().enumerate() {
        kinds[at + 1..].iter().filter_map(|other| pairs::refusal(kind, other)).for_each(|why| refuse(&why));
    }
    for one in &said {
        within(one, status, &mut refuse);
        let untrue = one.claims.iter().filter_map(|claim| against(known, claim, status));
        untrue.for_each(&mut refuse);
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

/// A claim against what was known.
fn against(known: &Known<'_>, claim: &Claim, status: &MemcachedStatus) -> Option<&'static str> {
    Some(match claim {
        _ if wanted(claim).is_some_and(|pods| known.wanted().is_some_and(|it| it != pods)) => {
            "spec.replicas is another number"
        }
        Claim::InProgress(..) if known.is_still() && !known.begins(status) => {
            "a rollout is in progress and nobody does anything"
        }
        Claim::NoWorkload(kind) | Claim::LacksTemplate(kind) | Claim::Unobserved(kind)
            if *kind != known.kind() =>
        {
            "something else runs the pods"
        }
        Claim::NoWorkload(_) if known.workload.is_some() => "there is one",
        Claim::WaitsForTurn if known.workload.is_none() && !known.has_former => {
            "there are no pods to replace"
        }
        Claim::LacksTemplate(_) | Claim::Unobserved(_) if known.workload.is_none() => "there is none",
        Claim::Former(_, kind) if *kind == known.kind() => "these are not the former pods",
        Claim::Former(pods, _) if *pods != known.former_ready => "another number of pods serves",
        Claim::SecretsMissing(names) if names.iter().any(|name| known.has_secret(name)) => {
            "a Secret is there and is said to be missing"
        }
        Claim::Available(available, _) if *available != known.available() => {
            "another number of pods is available"
        }
        Claim::Unmade(first, others) if !known.does_not_make(first, *others) => {
            "pods are said not to be made, and they are, or ended a moment ago"
        }
        Claim::KeysMissing(named) if !named.iter().all(|it| known.lacks_key(it)) => {
            "a key is said to be missing, and its Secret is, or has it"
        }
        Claim::Paused(kinds) if !kinds.iter().all(|it| known.may_change(it)) => {
            "there is no such child to change"
        }
        Claim::Pending(kinds) if !kinds.iter().all(|it| known.may_change(it) || known.looks_for(it)) => {
            "there is no such child to change, and none is looked for"
        }
        Claim::Quoted(reason, words) if !known.is_source(reason, words, status) => "nobody said so",
        _ => return None,
    })
}

/// Whether `status.secretRotation` has these numbers. Before the agents were asked it has none, and all wanted pods are meant.
fn is_recorded(updated: i32, pods: i32, desired: Option<i32>, status: &MemcachedStatus) -> bool {
    status.secret_rotation.as_deref().is_some_and(|record| {
        record.updated_pods.unwrap_or(0) == updated && record.pods.or(desired).is_none_or(|it| it == pods)
    })
}

/// One condition against itself and the numbers beside it.
fn within(one: &Said<'_>, status: &MemcachedStatus, refuse: &mut dyn FnMut(&str)) {
    let Said { condition, claims } = one;
    let denies_ready = condition.type_ == "Ready" && condition.status == "False";
    let desired = claims.iter().find_map(wanted);
    for claim in claims {
        let why = match claim {
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
            Claim::AllUpdated(desired) if *desired != status.updated_replicas => {
                "updatedReplicas is another number"
            }
            Claim::Older(pods) if *pods != status.replicas - status.updated_replicas => {
                "replicas and updatedReplicas say another number"
            }
            Claim::NewGeneration(generation) if *generation != status.observed_generation => {
                "observedGeneration is another one"
            }
            Claim::Extra(pods) if Some(*pods) != desired.map(|desired| status.replicas - desired) => {
                "so many pods are not more than wanted"
            }
            // Its pods are those that ran when the agents were asked, however many are wanted, and counted, by now.
            Claim::Rotating(updated, pods) if !is_recorded(*updated, *pods, desired, status) => {
                "secretRotation has other numbers"
            }
            Claim::Available(available, desired) if available >= desired => "these are not too few",
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
        (Claim::InProgress(..), Claim::Paused(kinds))
            if still.is_some_and(|workload| names(kinds, workload)) =>
        {
            "a rollout is in progress and paused"
        }
        (Claim::InProgress(..), Claim::WaitsForTurn) if still.is_some() => {
            "a rollout is in progress and waits"
        }
        (Claim::InProgress(..), Claim::Quoted(_, words))
            if still.is_some_and(|workload| words.contains(workload)) =>
        {
            "a rollout is in progress and cannot begin"
        }
        (Claim::NewGeneration(_), Claim::Paused(kinds)) if !kinds.is_empty() => {
            "a generation is on its way and paused"
        }
        (Claim::NewGeneration(_), Claim::HeldBack(..)) if !lacks_secret => {
            "a generation is on its way and held back"
        }
        (Claim::NoWorkload(_), Claim::Ready(1.., _) | Claim::OnlyReady(1.., _)) => {
            "pods of a workload that does not exist"
        }
        (Claim::AllUpdated(1..), Claim::LacksTemplate(_) | Claim::Unobserved(_)) => {
            "all are updated and some are not"
        }
        (Claim::Paused(here), Claim::Paused(there)) if here != there => "other changes are paused",
        (Claim::Pending(here), Claim::Pending(there))
            if !here.iter().all(|it| there.contains(it)) && !there.iter().all(|it| here.contains(it)) =>
        {
            "other changes are under way"
        }
        (Claim::SecretsMissing(here), Claim::SecretsMissing(there))
        | (Claim::KeysMissing(here), Claim::KeysMissing(there))
            if here != there =>
        {
            "others are missing"
        }
        (Claim::Rotating(..), Claim::Rotating(..)) if pair.0 != pair.1 => "a rotation is elsewhere",
        (Claim::Starting, Claim::Ready(ready, desired)) if ready >= desired => {
            "pods are awaited that are ready"
        }
        (Claim::Quoted(..), Claim::Quoted(..)) if pair.0 != pair.1 => "two problems are the worst",
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
