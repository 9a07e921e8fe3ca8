//! The pods of a cache. Takes what was read of them and of what runs them; gives [`PodView`]s. Pure; called by `cache` and
//! `top`.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

use super::answer::Answer;
use super::facts::{CacheFacts, PodFacts, WorkloadFacts};
use super::stateful_set::StatefulSetRevision;
use crate::api::spec::Workload;
use crate::figures::Figures;
use crate::kernel::event::SeenPod;
use crate::kernel::object::MEMCACHED;
use crate::kernel::pod_readiness::Readiness;
use crate::kernel::seen;

/// Where Kubernetes numbers the templates of a Deployment: on the Deployment the newest, on each ReplicaSet its own.
const REVISION: &str = "deployment.kubernetes.io/revision";
/// The label by which a pod belongs to its ReplicaSet.
const HASH: &str = "pod-template-hash";

/// One pod.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodView {
    /// Its name.
    pub name: String,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// Whether it serves.
    pub state: PodState,
    /// Why it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Memcached's image in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// From which template it was made.
    pub template: Template,
    /// How often its containers were restarted: each time the cache was empty afterwards.
    pub restarts: i32,
    /// What its memcached counts.
    pub figures: Answer<Figures>,
}

/// Whether a pod serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PodState {
    /// It serves.
    Ready,
    /// It does not serve, or not yet.
    NotReady,
    /// It is being deleted.
    Going,
}

/// From which template a pod was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Template {
    /// The one that it is to have.
    Current,
    /// One before, or one of the kind of workload that ran the pods before.
    Old,
    /// What is needed to tell could not be read, or Kubernetes has not looked at the newest template yet.
    Unknown,
}

/// All pods, by name.
#[must_use]
pub fn from_facts(facts: &CacheFacts) -> Answer<Vec<PodView>> {
    let current = current(&facts.workload);
    let kind = facts.workload.kind();
    facts.pods.map(|pods| {
        let mut views: Vec<_> = pods.iter().map(|facts| view(facts, kind, current)).collect();
        views.sort_by(|one, other| one.name.cmp(&other.name));
        views
    })
}

fn view(facts: &PodFacts, kind: Workload, current: Option<&str>) -> PodView {
    let PodFacts { pod, figures } = facts;
    let seen = seen::pod(pod);
    PodView {
        name: pod.metadata.name.clone().unwrap_or_default(),
        created: pod.metadata.creation_timestamp.as_ref().map(|time| time.0),
        state: match &seen {
            _ if pod.metadata.deletion_timestamp.is_some() => PodState::Going,
            Some(seen) if seen.readiness == Readiness::Ready => PodState::Ready,
            _ => PodState::NotReady,
        },
        image: image(pod).map(str::to_owned),
        template: template(pod, seen.as_ref(), kind, current),
        problem: seen.and_then(|seen| seen.problem),
        restarts: restarts(pod),
        figures: figures.clone(),
    }
}

fn image(pod: &Pod) -> Option<&str> {
    let memcached = pod.spec.as_ref()?.containers.iter().find(|it| it.name == MEMCACHED)?;
    memcached.image.as_deref()
}

fn template(pod: &Pod, seen: Option<&SeenPod>, kind: Workload, current: Option<&str>) -> Template {
    let of_deployment = label(&pod.metadata, HASH);
    let of_stateful_set = seen.and_then(|seen| seen.revision.as_deref());
    let (own, other) = match kind {
        Workload::Deployment => (of_deployment, of_stateful_set),
        Workload::StatefulSet => (of_stateful_set, of_deployment),
    };
    match (own, current) {
        (Some(own), Some(current)) if own == current => Template::Current,
        (Some(_), Some(_)) => Template::Old,
        (None, _) if other.is_some() => Template::Old,
        _ => Template::Unknown,
    }
}

/// What pods of the current template carry; `None` until Kubernetes has looked at it: before, it tells of the one before.
fn current(workload: &WorkloadFacts) -> Option<&str> {
    match workload {
        WorkloadFacts::Deployment { deployment, replica_sets } => {
            current_hash(deployment.known()?.as_ref()?, replica_sets.known()?)
        }
        WorkloadFacts::StatefulSet(stateful_set) => current_revision(stateful_set.known()?.as_ref()?),
    }
}

fn current_hash<'a>(deployment: &Deployment, replica_sets: &'a [ReplicaSet]) -> Option<&'a str> {
    let observed = deployment.status.as_ref().and_then(|status| status.observed_generation);
    if observed < deployment.metadata.generation {
        return None;
    }
    let revision = annotation(&deployment.metadata, REVISION)?;
    let newest = replica_sets.iter().find(|it| annotation(&it.metadata, REVISION) == Some(revision))?;
    label(&newest.metadata, HASH)
}

fn current_revision(stateful_set: &StatefulSet) -> Option<&str> {
    let observed = stateful_set.status.as_ref().and_then(|status| status.observed_generation);
    if observed < stateful_set.metadata.generation {
        return None;
    }
    StatefulSetRevision::from_stateful_set(stateful_set).name
}

fn annotation<'a>(meta: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(name).map(String::as_str)
}

fn label<'a>(meta: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    meta.labels.as_ref()?.get(name).map(String::as_str)
}

fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_deref());
    statuses.into_iter().flatten().map(|status| status.restart_count).sum()
}
