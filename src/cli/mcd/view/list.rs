//! Many caches in one table, the worst first: takes the resources, gives a [`ListView`]. Pure; `status` without a name shows
//! it. It is made of the resources alone: one request, however many caches there are.

use jiff::Timestamp;
use kube::core::DynamicObject;
use serde::{Deserialize as _, Serialize};
use serde_json::Value;

use super::answer::Answer;
use super::health::Health;
use super::waits::{self, WaitReason};
use super::wanted::{Bounds, Wanted};
use crate::api::MemcachedStatus;

/// Many caches.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ListView {
    /// When they were looked at.
    pub at: Timestamp,
    /// One row each, the worst first.
    pub caches: Vec<Row>,
}

/// One cache.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// In one word.
    pub health: Health,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Pods that are ready.
    pub ready: i32,
    /// Pods that are wanted: their number, or the bounds of an autoscaler; unknown where the spec breaks a rule.
    pub wanted: Answer<WantedPods>,
    /// When the resource was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// By which revision of the operator's rules its pod template was rendered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_revision: Option<u32>,
    /// Why it is not as it is to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How many pods are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum WantedPods {
    /// So many.
    Fixed(i32),
    /// As many as an autoscaler decides.
    Autoscaled(Bounds),
}

impl ListView {
    /// The table of these resources.
    #[must_use]
    pub fn from_resources(now: Timestamp, resources: &[DynamicObject]) -> Self {
        let mut caches: Vec<_> = resources.iter().map(row).collect();
        caches.sort_by(|one, other| {
            (one.health, &one.namespace, &one.name).cmp(&(other.health, &other.namespace, &other.name))
        });
        Self { at: now, caches }
    }
}

fn row(resource: &DynamicObject) -> Row {
    let meta = &resource.metadata;
    let raw = resource.data.get("status").unwrap_or(&Value::Null);
    let status = MemcachedStatus::deserialize(raw).unwrap_or_default();
    let generation = meta.generation.unwrap_or_default();
    let health = Health::from_status(&status, generation);
    let waits = waits::from_status(&status, generation);
    Row {
        health,
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        ready: status.ready_replicas,
        wanted: Wanted::from_resource(resource)
            .map(|it| it.autoscaling.map_or(WantedPods::Fixed(it.replicas), WantedPods::Autoscaled)),
        created: meta.creation_timestamp.as_ref().map(|time| time.0),
        template_revision: status.template_revision,
        why: waits.into_iter().next().map(|WaitReason { condition: _, reason, since: _, message }| {
            match reason {
                Some(reason) => format!("{reason}: {message}"),
                None => message,
            }
        }),
    }
}
