//! `status` of the resource as the operator writes it and reads it back. Pure data.
//!
//! It is also the operator's only memory across restarts: what was applied last, which Secrets were hashed and what was
//! found in them, since when something fails. The rules for every field are in `kernel::status`.
//!
//! Reading is total. The API server keeps the schema, but an older or edited CRD lets anything through, and a
//! resource must not become unreadable by what stands in its status: what has the wrong type counts as absent.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{self as meta, Time};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::condition::Condition;
use super::few::Few;
use super::schema::embedded;
use super::secret_rotation::SecretRotation;
use super::selector::Selector;
use super::warming::Warming;

/// `observedGeneration` of a resource that no operator has seen: kstatus calls an object without any status
/// ready, so the schema defaults to this.
pub const NEVER_OBSERVED: i64 = -1;

/// What the operator reports about a resource.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemcachedStatus {
    /// The generation that the operator saw last; -1 until it saw any.
    pub observed_generation: i64,
    /// The last generation that was fully reached or ended stalled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconciled_generation: Option<i64>,
    /// The last generation at which the pods' template was in place; 0 where it never was. Only a newer generation
    /// announces another template as the user's own edit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_generation: Option<i64>,
    /// Available, Progressing, Degraded, Ready; Reconciling, Stalled or Paused only while true.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        with = "Vec<meta::Condition>",
        transform = embedded,
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,
    /// Pods that exist, as the Deployment counts them.
    pub replicas: i32,
    /// Pods that are ready.
    pub ready_replicas: i32,
    /// Pods that run the current template.
    pub updated_replicas: i32,
    /// Label selector of the pods, for the scale subresource.
    #[serde(skip_serializing_if = "Selector::is_empty")]
    #[schemars(with = "String")]
    pub selector: Selector,
    /// Revision of the rules by which the live pod template was rendered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_revision: Option<u32>,
    /// Addresses for clients, host:port: of a StatefulSet one for each pod, of a Deployment the Service's name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub server_list: Vec<String>,
    /// Kinds of children that the spec asks for and the API server does not serve; each is made when it does.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub unserved_kinds: Few<String>,
    /// The Secrets that went into the pod template's hash, in the version that was hashed.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub secrets: Few<SecretVersion>,
    /// How far pods are with the content of Secrets that they take in place; absent where a changed Secret replaces pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_rotation: Option<Box<SecretRotation>>,
    /// What a person should know about the cache although it runs; Events of type Warning say the same when pods are made.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["reason"]))]
    pub warnings: Few<Warning>,
    /// Why its pods roll although nobody edited the resource: at most a few caches do so at a time, and this one is among
    /// them until all its pods are available again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budgeted_rollout: Option<RecordedRollout>,
    /// The exact cause, where budgetedRollout can only say Secret. Definition: the stored spec means something else now,
    /// though nobody edited it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budgeted_rollout_cause: Option<String>,
    /// True where this cache keeps all others from adopting newer pod templates, absent otherwise: it stalled or was refused since
    /// it adopts one (budgetedRollout is Adoption). It stays until all pods are available, also while no condition says so any more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub budgeted_rollout_stalled: bool,
    /// Fields of children that the cluster holds otherwise than they were applied: the API server drops or rewrites them, or
    /// a webhook or policy does. They are left so.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["kind"]))]
    pub altered_fields: Few<AlteredFields>,
    /// Field managers that set fields of the pod template beside this operator, which leaves those fields as they are. Each
    /// of their changes replaces pods.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub other_field_managers: Few<OtherFieldManager>,
    /// What those fields weaken in the pods: a privileged container, the network of the node ...
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub weakened_by_others: Few<String>,
    /// Since when the operator has been refused what it needs; after 10 minutes the resource is stalled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Time>,
    /// Since when no further pod was replaced or became ready, while that is awaited; after 10 minutes the resource is
    /// stalled. A Deployment counts by itself, but not while it is scaled, and not always on the way back to an earlier template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progressing_since: Option<Time>,
    /// The new pod of a StatefulSet that has to be warm before the next one is replaced; it stays until the next one goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warming: Option<Box<Warming>>,
}

/// Why pods roll although nobody edited the resource. That concerns many resources at once, so each waits for its turn.
/// Secret stands for what budgetedRolloutCause says, where that is there.
// Older definitions accept these two values only, and refuse a status with a third. A turn has to be on record under
// every definition, or another operator would not know of it. So a newer cause is stored as Secret, whose turns end
// in the same way; the real cause goes into budgetedRolloutCause, which an older definition drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum RecordedRollout {
    /// The content of a Secret that the pods mount changed.
    Secret,
    /// The operator renders pod templates by newer rules, and was told to adopt them.
    Adoption,
}

/// Why pods roll although nobody edited the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum BudgetedRollout {
    /// The content of a Secret that the pods mount changed.
    Secret,
    /// The operator renders pod templates by newer rules, and was told to adopt them.
    Adoption,
    /// What the stored spec means changed: another definition, or another release of the operator, reads it otherwise.
    Definition,
}

/// [`BudgetedRollout::Definition`] on record.
const DEFINITION: &str = "Definition";

impl BudgetedRollout {
    /// The cause in words that every released definition accepts.
    #[must_use]
    pub const fn recorded(self) -> RecordedRollout {
        match self {
            Self::Secret | Self::Definition => RecordedRollout::Secret,
            Self::Adoption => RecordedRollout::Adoption,
        }
    }

    /// What the record leaves open.
    #[must_use]
    pub fn recorded_cause(self) -> Option<String> {
        (self == Self::Definition).then(|| DEFINITION.to_owned())
    }
}

impl MemcachedStatus {
    /// Why the resource has a turn at rolling its pods, if it has one.
    #[must_use]
    pub fn turn_cause(&self) -> Option<BudgetedRollout> {
        Some(match (self.budgeted_rollout?, self.budgeted_rollout_cause.as_deref()) {
            (RecordedRollout::Adoption, _) => BudgetedRollout::Adoption,
            (RecordedRollout::Secret, Some(DEFINITION)) => BudgetedRollout::Definition,
            (RecordedRollout::Secret, _) => BudgetedRollout::Secret,
        })
    }
}

/// One version of one Secret: enough to know after a restart that nothing has to be read again.
// Uid and version are required in every released definition. So they are empty, and not absent, where only `invalid` is
// known: then an older definition, which drops `invalid`, leaves nothing behind that looks like a version that was hashed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretVersion {
    /// Name of the Secret.
    pub name: String,
    /// Its uid; empty while no pod was started with any version of it.
    pub uid: String,
    /// Its resourceVersion; empty while no pod was started with any version of it.
    pub resource_version: String,
    /// The keys that the pods mount.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub keys: Vec<String>,
    /// When the certificate in tls.crt ends, or the last one in ca.crt where clients need certificates: whichever is first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_not_after: Option<Time>,
    /// What was found in its content, one word each; status.warnings says it in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub warnings: Vec<String>,
    /// What memcached would refuse in a newer version, so that no pod is started with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
    /// The resourceVersion of that newer version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid_resource_version: Option<String>,
}

impl SecretVersion {
    /// Whether pods were started with this version.
    #[must_use]
    pub const fn is_hashed(&self) -> bool {
        !self.resource_version.is_empty()
    }
}

/// Something that a person should know about a cache that runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Warning {
    /// One word: MemoryLimitTight.
    pub reason: String,
    /// A sentence: what it is about, what may come of it, what to do.
    pub message: String,
}

/// Fields of one child that the cluster holds otherwise than they were applied: with these hashes a restart knows that to
/// apply them again would change nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AlteredFields {
    /// Kind of the child.
    pub kind: String,
    /// Hash of the child as it was applied.
    pub applied_hash: String,
    /// Version of the API server that answered.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub server_version: String,
    /// Which fields; a single one with the path * stands for more than fit here.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub fields: Vec<AlteredField>,
}

/// One field that the cluster holds otherwise than it was applied.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AlteredField {
    /// Where: spec.template.spec.containers[name=memcached].image.
    pub path: String,
    /// Digest of what was applied there and of what is there instead.
    pub digest: String,
}

/// A field manager that sets fields of the pod template beside this operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OtherFieldManager {
    /// Its name: kubectl-rollout.
    pub manager: String,
    /// When it changed the Deployment, at the last change of the pods that the operator saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// The first of its fields: spec.template.spec.containers[name=debug].
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub fields: Vec<String>,
}

impl Default for MemcachedStatus {
    fn default() -> Self {
        Self {
            observed_generation: NEVER_OBSERVED,
            reconciled_generation: None,
            template_generation: None,
            conditions: Vec::new(),
            replicas: 0,
            ready_replicas: 0,
            updated_replicas: 0,
            selector: Selector::default(),
            template_revision: None,
            server_list: Vec::new(),
            unserved_kinds: Few::default(),
            secrets: Few::default(),
            secret_rotation: None,
            warnings: Few::default(),
            budgeted_rollout: None,
            budgeted_rollout_cause: None,
            budgeted_rollout_stalled: false,
            altered_fields: Few::default(),
            other_field_managers: Few::default(),
            weakened_by_others: Few::default(),
            failing_since: None,
            progressing_since: None,
            warming: None,
        }
    }
}

impl<'de> Deserialize<'de> for MemcachedStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Value::deserialize(deserializer)?;
        Ok(Self {
            observed_generation: value(&raw, "observedGeneration").unwrap_or(NEVER_OBSERVED),
            reconciled_generation: value(&raw, "reconciledGeneration"),
            template_generation: value(&raw, "templateGeneration"),
            conditions: values(&raw, "conditions"),
            replicas: value(&raw, "replicas").unwrap_or_default(),
            ready_replicas: value(&raw, "readyReplicas").unwrap_or_default(),
            updated_replicas: value(&raw, "updatedReplicas").unwrap_or_default(),
            selector: value(&raw, "selector").unwrap_or_default(),
            template_revision: value(&raw, "templateRevision"),
            server_list: values(&raw, "serverList"),
            unserved_kinds: values(&raw, "unservedKinds").into(),
            secrets: values(&raw, "secrets").into(),
            secret_rotation: value(&raw, "secretRotation"),
            warnings: values(&raw, "warnings").into(),
            budgeted_rollout: value(&raw, "budgetedRollout"),
            budgeted_rollout_cause: value(&raw, "budgetedRolloutCause"),
            budgeted_rollout_stalled: value(&raw, "budgetedRolloutStalled").unwrap_or_default(),
            altered_fields: values(&raw, "alteredFields").into(),
            other_field_managers: values(&raw, "otherFieldManagers").into(),
            weakened_by_others: values(&raw, "weakenedByOthers").into(),
            failing_since: value(&raw, "failingSince"),
            progressing_since: value(&raw, "progressingSince"),
            warming: value(&raw, "warming"),
        })
    }
}

fn value<T: DeserializeOwned>(raw: &Value, name: &str) -> Option<T> {
    T::deserialize(raw.get(name)?).ok()
}

/// The items that can be read. They take no more room than they need: the status is kept of every resource.
fn values<T: DeserializeOwned>(raw: &Value, name: &str) -> Vec<T> {
    let items = raw.get(name).and_then(Value::as_array).into_iter().flatten();
    let mut items: Vec<T> = items.filter_map(|item| T::deserialize(item).ok()).collect();
    items.shrink_to_fit();
    items
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use schemars::SchemaGenerator;
    use serde_json::json;

    use super::*;

    /// A status with every field.
    fn full() -> Value {
        serde_json::from_str(include_str!("../tests/golden/status.json")).unwrap()
    }

    #[test]
    fn a_status_is_read_as_it_was_written() {
        let status: MemcachedStatus = serde_json::from_value(full()).unwrap();
        assert_eq!(serde_json::to_value(status).unwrap(), full());
        let schema = SchemaGenerator::default().into_root_schema_for::<MemcachedStatus>();
        let fields = |of: &Value| of.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(fields(&full()), fields(&schema.as_value()["properties"]), "every field is looked at");
    }

    #[rstest]
    #[case(BudgetedRollout::Secret)]
    #[case(BudgetedRollout::Adoption)]
    #[case(BudgetedRollout::Definition)]
    fn a_turn_is_on_record_also_under_a_definition_that_does_not_know_its_cause(
        #[case] cause: BudgetedRollout,
    ) {
        let mut status = MemcachedStatus {
            budgeted_rollout: Some(cause.recorded()),
            budgeted_rollout_cause: cause.recorded_cause(),
            ..MemcachedStatus::default()
        };
        assert_eq!(status.turn_cause(), Some(cause));
        status.budgeted_rollout_cause = None;
        assert!(status.turn_cause().is_some());
    }

    #[rstest]
    #[case(json!(null))]
    #[case(json!("fine"))]
    #[case(json!([]))]
    #[case(json!({}))]
    #[case(json!({"observedGeneration": "1", "conditions": null, "replicas": 1.5, "selector": {}, "secrets": [1]}))]
    #[case(json!({"conditions": "Ready", "templateRevision": -1, "serverList": 0, "failingSince": "yesterday"}))]
    fn what_has_the_wrong_type_counts_as_absent(#[case] raw: Value) {
        assert_eq!(serde_json::from_value::<MemcachedStatus>(raw).unwrap(), MemcachedStatus::default());
    }

    #[test]
    fn one_unreadable_field_or_item_takes_nothing_else_with_it() {
        let mut raw = full();
        raw["replicas"] = json!("two");
        raw["conditions"].as_array_mut().unwrap().push(json!("Ready"));
        let mut expected: MemcachedStatus = serde_json::from_value(full()).unwrap();
        expected.replicas = 0;
        assert_eq!(serde_json::from_value::<MemcachedStatus>(raw).unwrap(), expected);
    }

    #[test]
    fn a_resource_with_an_unreadable_status_is_readable() {
        let resource: crate::api::Memcached = serde_json::from_value(json!({
            "apiVersion": "memcached.c5c3.io/v1beta1",
            "kind": "Memcached",
            "metadata": {"name": "cache"},
            "spec": {},
            "status": "fine",
        }))
        .unwrap();
        assert_eq!(resource.status, Some(MemcachedStatus::default()));
    }
}
