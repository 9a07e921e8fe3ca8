//! All about one cache on one screen: takes what was read, gives a [`CacheView`]. Pure; `status NAME` shows it.

use jiff::Timestamp;
use serde::{Deserialize as _, Serialize};
use serde_json::Value;

use super::answer::Answer;
use super::certificates::{self, Certificate};
use super::events::{self, EventView};
use super::facts::CacheFacts;
use super::health::{Health, condition};
use super::pods::{self, PodView};
use super::waits::{self, WaitReason};
use super::wanted::{Running, Wanted};
use crate::api::MemcachedStatus;
use crate::api::reason::Type;
use crate::cli::others;
use crate::kernel::altered;
use crate::kernel::object::ChildKind;

/// How many rollouts, and how many Events of rotations, are told of.
const NEWEST: usize = 3;

/// All about one cache.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CacheView {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// When it was looked at.
    pub at: Timestamp,
    /// When the resource was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// In one word.
    pub health: Health,
    /// What the operator says of a cache that is ready; of another, `waits` tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What the spec asks for.
    pub wanted: Answer<Wanted>,
    /// The kind that is to run the pods.
    pub workload: ChildKind,
    /// What the object of that kind has; `null` where there is none.
    pub running: Answer<Option<Running>>,
    /// Addresses for clients.
    pub servers: Vec<String>,
    /// The ends of the certificates.
    pub certificates: Vec<Certificate>,
    /// The pods.
    pub pods: Answer<Vec<PodView>>,
    /// What waits, and why.
    pub waits: Vec<WaitReason>,
    /// What a person should know, though nothing waits for it.
    pub warnings: Vec<String>,
    /// The last causes of rollouts that the cluster still has Events of, the newest first.
    pub rollouts: Answer<Vec<EventView>>,
    /// The last Events of Secrets that the pods take in place, the newest first; none for pods that restart instead.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rotations: Vec<EventView>,
}

impl CacheView {
    /// The view of what was read.
    #[must_use]
    pub fn from_facts(facts: &CacheFacts) -> Self {
        let CacheFacts { now, resource, workload, pods: _, events } = facts;
        let meta = &resource.metadata;
        let name = meta.name.clone().unwrap_or_default();
        let raw = resource.data.get("status").unwrap_or(&Value::Null);
        let status = MemcachedStatus::deserialize(raw).unwrap_or_default();
        let wanted = Wanted::from_resource(resource);
        let tls = wanted.known().and_then(|wanted| wanted.tls.as_ref()).map(|tls| tls.secret.clone());
        let newest = |mut all: Vec<EventView>| {
            all.truncate(NEWEST);
            all
        };
        let rollouts = events.map(|events| newest(events::rollouts(events, &name)));
        let rotations = events.known().map(|events| newest(events::rotations(events, &name)));
        let health = Health::from_status(&status, meta.generation.unwrap_or_default());
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name,
            at: *now,
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            health,
            message: condition(&status, Type::Ready)
                .filter(|it| it.status == "True" && health != Health::Unseen)
                .map(|it| it.message.clone()),
            wanted,
            workload: workload.kind().into(),
            running: Running::from_workload(workload),
            servers: status.server_list.clone(),
            certificates: certificates::from_status(&status, tls.as_deref()),
            pods: pods::from_facts(facts),
            waits: waits::from_status(&status, meta.generation.unwrap_or_default()),
            warnings: warnings(&status),
            rollouts,
            rotations: rotations.unwrap_or_default(),
        }
    }
}

/// What a person should know, though nothing waits for it.
fn warnings(status: &MemcachedStatus) -> Vec<String> {
    let told = status.warnings.iter().map(|it| format!("{}: {}", it.reason, it.message));
    let others = others::sentences(&status.other_field_managers, &status.weakened_by_others);
    let unserved = status
        .unserved_kinds
        .iter()
        .map(|kind| format!("No {kind} was made: the API server does not serve this kind."));
    let altered = status.altered_fields.iter().map(|it| {
        let paths = altered::paths(it);
        format!("The cluster holds fields of {} otherwise than they were applied: {paths}", it.kind)
    });
    told.chain(others).chain(unserved).chain(altered).collect()
}
