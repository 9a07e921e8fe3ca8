//! Compares a desired child with the live one: what would an apply change? Pure; mostly called by a
//! pass that compares a child.
//!
//! Only fields that we own count: every field of the desired object has to be in the live one with the same meaning
//! (quantities are compared as quantities, lists by the keys by which the API server merges them), and the fields that
//! we own by managedFields have to be exactly those: none more, none less.

mod change;
mod excluding;
mod owned;
mod taken;
mod trail;

pub use change::FieldChange;
pub use change::digest;
pub use change::field;
pub use excluding::excluding;
pub use owned::let_go;
pub use owned::no_longer_desired;
pub use owned::not_owned;
pub use owned::owned_beside;
pub use owned::owned_part;
pub use taken::in_the_way;

use json_patch::jsonptr::PointerBuf;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::field_path::{Path, is_within};
use super::object::ChildKind;
use crate::api::quantity;
use crate::api::status::AlteredField;
use trail::{IDENTITY, Trail};

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Differences {
    /// Fields that an apply would change.
    pub paths: Vec<Path>,
    /// The values of those fields that differ from the desired ones, as digests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<AlteredField>,
    /// Fields with the desired value that somebody else has set: an apply would change only their owner.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unowned: Vec<Path>,
    /// Items that have to be removed before the API server accepts an apply, see [`in_the_way`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_the_way: Vec<PointerBuf>,
    /// What is removed once the API server has refused an apply, see [`excluding`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluding: Vec<PointerBuf>,
}

/// Compares a live child with the desired one. `owned` is what our entry in managedFields lists.
#[must_use]
pub fn differences(kind: ChildKind, desired: &Value, live: &Value, owned: Option<&Value>) -> Differences {
    let values: Vec<_> = changes(kind, desired, live).iter().map(change::field).collect();
    let paths = values.iter().map(|it| it.path.clone()).collect();
    let mut found = Differences { paths, values, ..Differences::default() };
    if let Some(owned) = owned {
        found.paths.extend(no_longer_desired(desired, owned));
        found.unowned = not_owned(desired, owned);
        found.unowned.retain(|path| !found.paths.contains(path));
    }
    if !found.is_empty() {
        found.in_the_way = in_the_way(kind, desired, live);
        found.excluding = excluding(kind, desired, live, owned);
    }
    found
}

impl Differences {
    /// Whether an apply would change nothing, including the owners of fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.unowned.is_empty()
    }

    /// Fields of a workload's pod template that an apply would change.
    pub fn of_template(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().filter(|path| is_within(path, "spec.template"))
    }
}

/// Fields of `desired` that `live` lacks or holds otherwise, in the order of the desired object. An item that a
/// list lacks is one path, and so is a list that the API server replaces as a whole. What says which object it is
/// (`apiVersion`, `kind`, name and namespace) is not compared, and may be missing from `live`.
#[must_use]
pub fn drift(kind: ChildKind, desired: &Value, live: &Value) -> Vec<Path> {
    changes(kind, desired, live).into_iter().map(|change| change.path).collect()
}

/// Lists the same fields as [`drift`], with the live and the desired value of each.
#[must_use]
pub fn changes<'a>(kind: ChildKind, desired: &'a Value, live: &'a Value) -> Vec<FieldChange<'a>> {
    let mut comparison = Differ::new(kind);
    comparison.value(desired, live);
    comparison.found
}

/// The fields by which the API server tells the items of this list apart, where it merges item by item and
/// leaves those of others alone; `None` for a list that it replaces as a whole. From the schema of Kubernetes
/// 1.34, without the lists that no child of ours has. `list` is the names of the fields that lead to it, joined by dots.
#[must_use]
pub fn merge_keys(kind: ChildKind, list: &str) -> Option<&'static [&'static str]> {
    let keys = |table: Table, name: &str| table.iter().find(|(list, _)| *list == name).map(|(_, keys)| *keys);
    if list == "metadata.ownerReferences" {
        return Some(&["uid"]);
    }
    match kind {
        ChildKind::Service => keys(&[("spec.ports", &["port", "protocol"])], list),
        ChildKind::Deployment | ChildKind::StatefulSet => {
            let of_pod = list.strip_prefix("spec.template.spec.")?;
            let of_container =
                ["containers.", "initContainers."].iter().find_map(|all| of_pod.strip_prefix(all));
            of_container.map_or_else(|| keys(POD_LISTS, of_pod), |list| keys(CONTAINER_LISTS, list))
        }
        // All lists of these are replaced as a whole, or there are none.
        ChildKind::NetworkPolicy
        | ChildKind::ConfigMap
        | ChildKind::PodDisruptionBudget
        | ChildKind::HorizontalPodAutoscaler
        | ChildKind::ServiceMonitor => None,
    }
}

type Table = &'static [(&'static str, &'static [&'static str])];

const POD_LISTS: Table = &[
    ("containers", &["name"]),
    ("hostAliases", &["ip"]),
    ("imagePullSecrets", &["name"]),
    ("initContainers", &["name"]),
    ("resourceClaims", &["name"]),
    ("schedulingGates", &["name"]),
    ("topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
    ("volumes", &["name"]),
];

const CONTAINER_LISTS: Table = &[
    ("env", &["name"]),
    ("ports", &["containerPort", "protocol"]),
    ("resources.claims", &["name"]),
    ("volumeDevices", &["devicePath"]),
    ("volumeMounts", &["mountPath"]),
];

/// Maps that the API server replaces as a whole, by the name of the field: a key that somebody added is a
/// difference. It fills no defaults into them.
const REPLACED_MAPS: &[&str] =
    &["labelSelector", "namespaceSelector", "nodeSelector", "podSelector", "selector"];

/// Plain maps, which the API server does not store while they are empty. An empty selector it stores: that one selects
/// everything.
const PLAIN_MAPS: &[&str] = &["annotations", "labels", "limits", "matchLabels", "nodeSelector", "requests"];

/// Whether the API server stores nothing for an empty value that a user wrote.
fn is_dropped(field: &str, desired: &Value) -> bool {
    match desired {
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty() && PLAIN_MAPS.contains(&field),
        _ => false,
    }
}

/// Takes out of a value what the API server stores nothing for.
pub fn drop_empty(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|field, value| !is_dropped(field, value));
            fields.values_mut().for_each(drop_empty);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Another map that is replaced as a whole. Its last field has the name of a list elsewhere.
const REQUIRED_NODES: &str =
    "spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution";

/// Whether the API server replaces a map as a whole. `map` is the names of the fields that lead to it, joined by dots.
#[must_use]
pub fn is_replaced_map(kind: ChildKind, map: &str) -> bool {
    // The Prometheus operator calls a struct by that name which is no selector of labels.
    let of_monitor = kind == ChildKind::ServiceMonitor && map.starts_with("spec.namespaceSelector");
    let of_nodes = map.starts_with(REQUIRED_NODES);
    (map.split('.').any(|field| REPLACED_MAPS.contains(&field)) && !of_monitor) || of_nodes
}

struct Differ<'a> {
    kind: ChildKind,
    trail: Trail,
    found: Vec<FieldChange<'a>>,
    /// Whether this is inside a list that the API server replaces as a whole.
    replaced: bool,
}

impl<'a> Differ<'a> {
    fn new(kind: ChildKind) -> Self {
        Self { kind, trail: Trail::default(), found: Vec::new(), replaced: false }
    }

    fn note(&mut self, desired: &'a Value, live: Option<&'a Value>) {
        self.found.push(FieldChange { path: self.trail.to_path(), live, desired });
    }

    fn value(&mut self, desired: &'a Value, live: &'a Value) {
        match (desired, live) {
            (Value::Object(ours), Value::Object(theirs))
                if (self.replaced || is_replaced_map(self.kind, self.trail.fields()))
                    && theirs.keys().any(|key| !ours.contains_key(key)) =>
            {
                self.note(desired, Some(live));
            }
            (Value::Object(desired), Value::Object(live)) => self.map(desired, live),
            (Value::Array(_), Value::Array(_)) => self.list(desired, live),
            _ if desired == live || self.same_quantity(desired, live) => {}
            _ => self.note(desired, Some(live)),
        }
    }

    fn map(&mut self, desired: &'a Map<String, Value>, live: &'a Map<String, Value>) {
        for (field, desired) in desired {
            self.trail.field(field);
            match live.get(field) {
                _ if IDENTITY.contains(&self.trail.fields()) => {}
                Some(live) => self.value(desired, live),
                None if is_dropped(field, desired) => {}
                None => self.note(desired, None),
            }
            self.trail.pop();
        }
    }

    fn list(&mut self, desired: &'a Value, live: &'a Value) {
        let (ours, theirs) = (items(desired), items(live));
        let Some(keys) = merge_keys(self.kind, self.trail.fields()) else {
            return self.replaced_list(desired, live);
        };
        for item in ours {
            self.trail.item(keys.iter().map(|key| (*key, item.get(key))));
            match theirs.iter().find(|other| keys.iter().all(|key| item.get(key) == other.get(key))) {
                Some(live) => self.value(item, live),
                None => self.note(item, None),
            }
            self.trail.pop();
        }
    }

    /// The items have to be equal, but for the spelling of values. A field that a live item has and ours has not is a
    /// difference: nobody owns the fields of such an item, so this is the only trace of a field that we let go.
    fn replaced_list(&mut self, desired: &'a Value, live: &'a Value) {
        let (before, ours, theirs) = (self.found.len(), items(desired), items(live));
        if ours.len() == theirs.len() {
            let outer = std::mem::replace(&mut self.replaced, true);
            ours.iter().zip(theirs).for_each(|(desired, live)| self.value(desired, live));
            self.replaced = outer;
            if self.found.len() == before {
                return;
            }
        }
        self.found.truncate(before);
        self.note(desired, Some(live));
    }

    fn same_quantity(&self, desired: &Value, live: &Value) -> bool {
        let (Value::String(desired), Value::String(live)) = (desired, live) else {
            return false;
        };
        let is_quantity = match self.kind {
            ChildKind::HorizontalPodAutoscaler => self.trail.passes(&["averageValue", "value", "tolerance"]),
            ChildKind::Deployment | ChildKind::StatefulSet => {
                self.trail.passes(&["resources"]) && self.trail.passes(&["limits", "requests"])
            }
            ChildKind::NetworkPolicy
            | ChildKind::Service
            | ChildKind::ConfigMap
            | ChildKind::PodDisruptionBudget
            | ChildKind::ServiceMonitor => false,
        };
        is_quantity && quantity::same(desired, live)
    }
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}
