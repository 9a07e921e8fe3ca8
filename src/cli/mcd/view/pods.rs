//! The pods of a cache. Takes what was read of them and of the Deployment's ReplicaSets; gives [`PodView`]s. Pure; called
//! by `cache` and `top`.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

use super::answer::Answer;
use super::facts::{CacheFacts, PodFacts};
use super::figures::Figures;
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
    /// Which template of the Deployment it has.
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

/// Which template of the Deployment a pod has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Template {
    /// The newest.
    Current,
    /// One before.
    Old,
    /// What is needed to tell could not be read, or Kubernetes has not looked at the newest template yet.
    Unknown,
}

/// All pods, by name.
#[must_use]
pub fn of(facts: &CacheFacts) -> Answer<Vec<PodView>> {
    let current = current_hash(facts);
    facts.pods.map(|pods| {
        let mut views: Vec<_> = pods.iter().map(|facts| view(facts, current.as_deref())).collect();
        views.sort_by(|one, other| one.name.cmp(&other.name));
        views
    })
}

fn view(facts: &PodFacts, current: Option<&str>) -> PodView {
    let PodFacts { pod, figures } = facts;
    let seen = seen::pod(pod);
    let hash = label(&pod.metadata, HASH);
    PodView {
        name: pod.metadata.name.clone().unwrap_or_default(),
        created: pod.metadata.creation_timestamp.as_ref().map(|time| time.0),
        state: match &seen {
            _ if pod.metadata.deletion_timestamp.is_some() => PodState::Going,
            Some(seen) if seen.ready => PodState::Ready,
            _ => PodState::NotReady,
        },
        problem: seen.and_then(|seen| seen.problem),
        template: match (hash, current) {
            (Some(hash), Some(current)) if hash == current => Template::Current,
            (Some(_), Some(_)) => Template::Old,
            _ => Template::Unknown,
        },
        restarts: restarts(pod),
        figures: figures.clone(),
    }
}

/// The hash that pods of the Deployment's newest template carry.
fn current_hash(facts: &CacheFacts) -> Option<String> {
    let deployment = facts.deployment.known()?.as_ref().filter(|it| is_observed(it))?;
    let revision = annotation(&deployment.metadata, REVISION)?;
    let of_revision = |it: &&ReplicaSet| annotation(&it.metadata, REVISION) == Some(revision);
    let newest = facts.replica_sets.known()?.iter().find(of_revision)?;
    label(&newest.metadata, HASH).map(str::to_owned)
}

/// Whether Kubernetes has looked at the newest template: before, its number is that of the template before.
fn is_observed(deployment: &Deployment) -> bool {
    let observed = deployment.status.as_ref().and_then(|status| status.observed_generation);
    observed >= deployment.metadata.generation
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
