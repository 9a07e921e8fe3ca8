//! The live object of one child, as it was seen last: a few facts, and the result of the last comparison. Pure; part of
//! [`super::child_state`].

use std::ops::Deref;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::desired::meta::{RESTART_TRIGGER, SECRET_HASH};
use super::desired::ports::MEMCACHED_TLS;
use super::desired::{LiveTemplate, UnrecordedTemplate, template_hash};
use super::diff::Differences;
use super::event::{ScalingInactive, SeenChild, SeenRollout};
use super::field_managers::{self, OtherManager};
use super::go_operator::managed_fields::GoOperatorFields;
use super::hash::{self, BodyHash};
use super::json_text::JsonText;
use super::live_controller::LiveController;
use super::object::{MEMCACHED, ResourceVersion, Uid};
use super::orphan::Orphan;
use super::shortcuts::comparison::{Comparison, Fingerprint};
use super::unwatched::carries_label;
use super::weakened;
use crate::api::Validated;
use crate::api::few::Few;

/// The path in a record of ownership which says that a workload's number of pods is owned.
pub const REPLICAS: &str = "/f:spec/f:replicas";

/// Where a StatefulSet says which of its pods may be replaced.
pub const PARTITION: &str = "/spec/updateStrategy/rollingUpdate/partition";

/// The path in a record of ownership which says that the partition is owned.
const OWNED_PARTITION: &str = "/f:spec/f:updateStrategy/f:rollingUpdate/f:partition";

/// The live object of a child.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// The incarnation of the child.
    pub uid: Uid,
    /// The version of the child.
    pub resource_version: ResourceVersion,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether a deletionTimestamp is set.
    pub deleting: bool,
    /// Whether the object carries our label, so that the watch shows it.
    pub in_sight: bool,
    /// Who controls it.
    pub controller: Option<LiveController>,
    /// Set if this operator made the object and nobody controls it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orphan: Option<Box<Orphan>>,
    /// [`SeenChild::managers`], bounded.
    pub managers: Few<OtherManager>,
    /// What the Go operator left to us and nobody took over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub go_operator: Option<Box<GoOperatorFields>>,
    /// [`SeenChild::entry`]; a record with thousands of entries is longer than any object.
    pub(super) entry: Option<u16>,
    /// The status, if the child is a Deployment or a StatefulSet.
    pub rollout: Option<Box<SeenRollout>>,
    /// Whether all pods of a StatefulSet were once seen with the template that it has now. A pod that is away later comes back
    /// with the same template. The numbers in the status do not tell that: they count a pod that is being deleted like a pod of
    /// another template, and they do not count a pod that was just made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_rolled_out: bool,
    /// [`SeenChild::inactive`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inactive: Option<Box<ScalingInactive>>,
    /// How the live object compares with the desired one.
    pub comparison: Comparison,
    /// What was read of a workload; `None` where that is nothing, as of all other kinds. Its fields are read as those of the child.
    pub workload: Option<Box<LiveWorkload>>,
}

/// What is read of the content of a workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveWorkload {
    /// What the fields of others in its pod template weaken, in words.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub weakened: Few<String>,
    /// [`template_content_hash`].
    pub template_content_hash: Option<u64>,
    /// What the annotations of a workload say about the source of its pod template.
    pub template: Option<Box<LiveTemplate>>,
    /// The pod template, if no annotation names its source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unrecorded: Option<UnrecordedTemplate>,
    /// The Secret hash of the pod template, by our algorithm; `None` if somebody else wrote the annotation.
    pub secret_hash: Option<String>,
    /// Restart trigger on its pod template.
    pub restart_trigger: Option<String>,
    /// Whether its pod template has the port for clients with TLS.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_tls_port: bool,
    /// `spec.replicas`.
    pub replicas: Option<i64>,
    /// Whether we own that number, or the Go operator does and we take its fields over.
    pub owns_replicas: bool,
    /// `spec.updateStrategy.rollingUpdate.partition`, see [`super::desired::partition`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
    /// Whether somebody else wrote that partition: then it says nothing of how far a rollout is.
    pub partition_is_foreign: bool,
}

impl Deref for Live {
    type Target = LiveWorkload;

    fn deref(&self) -> &LiveWorkload {
        static NONE: LazyLock<LiveWorkload> = LazyLock::new(LiveWorkload::default);
        self.workload.as_deref().unwrap_or(&NONE)
    }
}

impl Live {
    /// The place of our entry in managedFields.
    #[must_use]
    pub fn entry(&self) -> Option<usize> {
        self.entry.map(usize::from)
    }

    /// Pods that a workload asks for.
    #[must_use]
    pub fn asked(&self) -> i32 {
        self.replicas.and_then(|replicas| i32::try_from(replicas).ok()).unwrap_or(1)
    }

    /// Whether its pod template was rendered from this spec, whatever somebody changed in it since. The Secrets and the restart
    /// trigger do not count.
    #[must_use]
    pub fn is_rendered_from(&self, spec: &Validated) -> bool {
        let hash =
            || template_hash::of_spec(spec, self.secret_hash.as_deref(), self.restart_trigger.as_deref());
        self.template.as_ref().is_some_and(|template| template.hash == hash())
    }

    /// Identifies a version of the spec: the generation or, for a kind without one, a hash of what is compared. The
    /// resourceVersion does not serve: it also changes with the status, for an autoscaler a few times a minute.
    #[must_use]
    pub fn spec_version(&self) -> String {
        match self.generation {
            1.. => self.generation.to_string(),
            _ => self.comparison.fingerprint().to_string(),
        }
    }

    /// What is new in an object that was seen again.
    #[must_use]
    pub fn news_of(&self, seen: &SeenChild) -> News {
        let SeenChild {
            kind: _,
            key,
            uid,
            resource_version: _,
            created: _,
            generation,
            deleting,
            controller,
            content: _,
            owned: _,
            entry,
            go_operator,
            managers,
            rollout,
            inactive,
        } = seen;
        let has_same_controller = match (&self.controller, controller) {
            (Some(known), Some(seen)) => known.is(seen, &key.name),
            (known, seen) => known.is_none() && seen.is_none(),
        };
        let is_same = self.uid == *uid
            && has_same_controller
            && self.orphan.is_none()
            && self.entry() == *entry
            && self.go_operator.is_none()
            && go_operator.is_none()
            && self.managers == *managers
            && self.comparison.is_of(Fingerprint::from_seen(seen));
        let is_same_status = self.generation == *generation
            && self.deleting == *deleting
            && self.rollout.as_deref() == rollout.as_ref()
            && self.inactive.as_deref() == inactive.as_ref();
        match (is_same, is_same_status) {
            (true, true) => News::Version,
            (true, false) => News::Status,
            (false, _) => News::Object,
        }
    }

    /// This object with what is remembered of the one that was known before.
    #[must_use]
    pub fn after(self, before: &Self) -> Self {
        let is_same = self.uid == before.uid && self.template_content_hash == before.template_content_hash;
        let has_rolled_out = self.has_rolled_out || is_same && before.still_has_rolled_out(self.generation);
        Self { has_rolled_out, ..self }
    }

    /// Whether [`Self::has_rolled_out`] still holds at this generation with the same template. Within two generations another
    /// template may have come and gone unseen. An earlier generation comes from a restored etcd.
    fn still_has_rolled_out(&self, generation: i64) -> bool {
        self.has_rolled_out && matches!(generation - self.generation, 0 | 1)
    }

    /// Whether the status counts as many pods of the newest template as are asked for, and no others.
    fn counts_new_pods_only(&self) -> bool {
        self.rollout.as_deref().is_some_and(|seen| {
            seen.observed_generation >= self.generation
                && seen.revisions.as_deref().is_some_and(|it| it.current == it.update)
                && seen.updated == seen.replicas
                && seen.replicas == self.asked()
        })
    }

    /// This object with another status. What was found in its content stays.
    #[must_use]
    pub fn with_status_of(self, seen: SeenChild) -> Self {
        let SeenChild {
            kind: _,
            key: _,
            uid: _,
            resource_version,
            created: _,
            generation,
            deleting,
            controller: _,
            content,
            owned,
            entry: _,
            go_operator: _,
            managers: _,
            rollout,
            inactive,
        } = seen;
        let over = self.still_has_rolled_out(generation);
        let comparison = self.comparison.of_same(content, owned);
        let (rollout, inactive) = (rollout.map(Box::new), inactive.map(Box::new));
        let live = Self { resource_version, generation, deleting, rollout, inactive, comparison, ..self };
        Self { has_rolled_out: over || live.counts_new_pods_only(), ..live }
    }

    /// Keeps the outcome of a comparison and drops the object.
    pub fn keep_comparison(&mut self, desired: BodyHash, differences: Differences) {
        self.comparison.keep(desired, differences);
    }
}

/// What is new in an object that was seen again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Only its version: somebody wrote a field that decides nothing here. Such events are frequent and need no pass.
    Version,
    /// Its status, or that it is being deleted.
    Status,
    /// Anything.
    Object,
}

/// A short hash of the pod template, to see whether the template changed. It stands in the status of caches whose pods take
/// Secrets in place, so it has to be the same in every process and release.
#[must_use]
pub fn template_content_hash(content: &Value) -> Option<u64> {
    let hash = hash::of_json(content.pointer("/spec/template")?);
    u64::from_str_radix(hash.get(..16)?, 16).ok()
}

/// Whether the container of memcached has the port for clients with TLS.
fn has_tls_port(content: &Value) -> bool {
    let containers = content.pointer("/spec/template/spec/containers").and_then(Value::as_array);
    let memcached = containers.into_iter().flatten().find(|it| it["name"] == MEMCACHED);
    let ports = memcached.and_then(|it| it["ports"].as_array());
    ports.into_iter().flatten().any(|it| it["containerPort"] == MEMCACHED_TLS.number)
}

impl From<SeenChild> for Live {
    fn from(seen: SeenChild) -> Self {
        let orphan = Orphan::from_seen(&seen);
        // Of the other kinds nothing is read here: what they contain is only compared.
        let is_read = seen.kind.is_workload() || seen.go_operator.is_some();
        let (content, owned) = match is_read {
            true => (seen.content.tree(), seen.owned.as_ref().map(JsonText::tree)),
            false => (&Value::Null, seen.owned.as_ref().map(|_| &Value::Null)),
        };
        let annotation = |of: &str, name: &str| {
            let annotations = content.pointer(of)?.pointer("/metadata/annotations")?;
            annotations.get(name)?.as_str().map(str::to_owned)
        };
        let by_us = |of: &str, name: &str| {
            let record = of.replace('/', "/f:") + "/f:metadata/f:annotations";
            let ours = |owned: &Value| owned.pointer(&record)?.get(format!("f:{name}")).cloned();
            owned.is_none_or(|owned| ours(owned).is_some())
        };
        let go_operator = seen.go_operator.map(|entry| GoOperatorFields::from_entry(entry, content, owned));
        let said = || LiveTemplate::from_workload(content, owned);
        let template = GoOperatorFields::annotations_hold(go_operator.as_ref()).then(said).flatten();
        let ours = GoOperatorFields::with_ours(go_operator.as_ref(), owned);
        let unrecorded =
            template.is_none().then(|| UnrecordedTemplate::from_content(content, ours)).flatten();
        let hash_at = template.as_ref().map(|template| match template.revision.hash_is_on_deployment() {
            true => "",
            false => "/spec/template",
        });
        let secret_hash =
            hash_at.and_then(|of| annotation(of, SECRET_HASH).filter(|_| by_us(of, SECRET_HASH)));
        let workload = LiveWorkload {
            // A revision that only a newer operator knows may have the hash in either place.
            secret_hash: secret_hash.or_else(|| template.as_ref()?.secret_hash.clone()),
            restart_trigger: annotation("/spec/template", RESTART_TRIGGER),
            template_content_hash: template_content_hash(content),
            has_tls_port: has_tls_port(content),
            replicas: content.pointer("/spec/replicas").and_then(Value::as_i64),
            partition: content.pointer(PARTITION).and_then(Value::as_i64).and_then(|it| it.try_into().ok()),
            owns_replicas: ours.is_some_and(|it| it.pointer(REPLICAS).is_some()),
            partition_is_foreign: content.pointer(PARTITION).is_some()
                && ours.is_some_and(|it| it.pointer(OWNED_PARTITION).is_none()),
            template: template.map(Box::new),
            unrecorded,
            weakened: weakened::weakened(content, &seen.managers).into(),
        };
        let live = Self {
            workload: (workload != LiveWorkload::default()).then(|| Box::new(workload)),
            entry: seen.entry.and_then(|at| at.try_into().ok()),
            uid: seen.uid,
            resource_version: seen.resource_version,
            generation: seen.generation,
            deleting: seen.deleting,
            in_sight: carries_label(&seen.content),
            controller: seen.controller.map(|it| LiveController::new(it, &seen.key.name)),
            orphan: orphan.map(Box::new),
            managers: field_managers::bounded(seen.managers).into(),
            rollout: seen.rollout.map(Box::new),
            has_rolled_out: false,
            inactive: seen.inactive.map(Box::new),
            go_operator: go_operator.map(Box::new),
            comparison: Comparison::new(seen.content, seen.owned),
        };
        Self { has_rolled_out: live.counts_new_pods_only(), ..live }
    }
}
