//! Names of things: which object, which incarnation of it, which version, who controls it. Pure data.

mod resource_version;
mod uid;

use std::fmt;
use std::ops::Bound;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::{Deserialize, Serialize};
use strum::{EnumCount, VariantArray};

use crate::api::spec::Workload;
use crate::api::word::Word;
use crate::api::{GROUP, KIND};

pub use resource_version::ResourceVersion;
pub use uid::Uid;

/// The one field manager, for ever: a renamed manager would leave every field it owned behind.
pub const FIELD_MANAGER: &str = "memcached-operator";

/// Name of the application, and of the container that runs it.
pub const MEMCACHED: &str = "memcached";

/// Namespace and name of an object. A child is known by the key of its resource, which is why one type serves both; only a
/// request names it as the API server does, see [`ChildKind::name_of_child`].
/// Serialises as `namespace/name`, so that it can be the key of a JSON map.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Key {
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
}

impl Key {
    /// The pod of this number of the StatefulSet of this name.
    #[must_use]
    pub fn pod(&self, number: i32) -> Self {
        Self { namespace: self.namespace.clone(), name: format!("{}-{number}", self.name) }
    }

    /// The number of this pod, where it is one of the StatefulSet of this name.
    #[must_use]
    pub fn number_of_pod(&self, stateful_set: &Self) -> Option<i32> {
        self.name.strip_prefix(&stateful_set.name)?.strip_prefix('-')?.parse().ok()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl From<Key> for String {
    fn from(key: Key) -> Self {
        key.to_string()
    }
}

impl TryFrom<String> for Key {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let (namespace, name) =
            text.split_once('/').ok_or_else(|| format!("{text:?} is not namespace/name"))?;
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

/// The kinds of children, in the order in which a pass looks at them.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, EnumCount, VariantArray,
)]
pub enum ChildKind {
    /// networking.k8s.io/v1.
    NetworkPolicy,
    /// v1, headless.
    Service,
    /// v1, the servers for applications.
    ConfigMap,
    /// apps/v1.
    Deployment,
    /// apps/v1, where each pod is to have a name.
    StatefulSet,
    /// policy/v1.
    PodDisruptionBudget,
    /// autoscaling/v2.
    HorizontalPodAutoscaler,
    /// monitoring.coreos.com/v1, which is not part of Kubernetes.
    ServiceMonitor,
}

impl ChildKind {
    /// Every kind of child.
    pub const ALL: [Self; Self::COUNT] = {
        let mut all = [Self::NetworkPolicy; Self::COUNT];
        let mut at = 0;
        while at < all.len() {
            all[at] = Self::VARIANTS[at];
            at += 1;
        }
        all
    };

    /// The kinds that run pods, of which a resource has one, and two while one takes the place of the other.
    pub const WORKLOADS: [Self; 2] = [Self::Deployment, Self::StatefulSet];

    /// Whether it runs the pods.
    #[must_use]
    pub const fn is_workload(self) -> bool {
        matches!(self, Self::Deployment | Self::StatefulSet)
    }

    /// Whether nothing can be done without it. The others may be forbidden, or not served at all: that concerns only the
    /// resources that ask for one, and no other child of theirs.
    #[must_use]
    pub const fn is_required(self) -> bool {
        match self {
            Self::Service | Self::Deployment => true,
            Self::NetworkPolicy
            | Self::ConfigMap
            | Self::StatefulSet
            | Self::PodDisruptionBudget
            | Self::HorizontalPodAutoscaler
            | Self::ServiceMonitor => false,
        }
    }

    /// How the API names it.
    const fn names(self) -> Names {
        match self {
            Self::NetworkPolicy => Names {
                kind: "NetworkPolicy",
                api_version: "networking.k8s.io/v1",
                plural: "networkpolicies",
            },
            Self::Service => Names { kind: "Service", api_version: "v1", plural: "services" },
            Self::ConfigMap => Names { kind: "ConfigMap", api_version: "v1", plural: "configmaps" },
            Self::Deployment => Names { kind: "Deployment", api_version: "apps/v1", plural: "deployments" },
            Self::StatefulSet => {
                Names { kind: "StatefulSet", api_version: "apps/v1", plural: "statefulsets" }
            }
            Self::PodDisruptionBudget => Names {
                kind: "PodDisruptionBudget",
                api_version: "policy/v1",
                plural: "poddisruptionbudgets",
            },
            Self::HorizontalPodAutoscaler => Names {
                kind: "HorizontalPodAutoscaler",
                api_version: "autoscaling/v2",
                plural: "horizontalpodautoscalers",
            },
            Self::ServiceMonitor => Names {
                kind: "ServiceMonitor",
                api_version: "monitoring.coreos.com/v1",
                plural: "servicemonitors",
            },
        }
    }

    /// The field beside `metadata` that holds what is asked for.
    #[must_use]
    pub const fn content_field(self) -> &'static str {
        match self {
            Self::ConfigMap => "data",
            Self::NetworkPolicy
            | Self::Service
            | Self::Deployment
            | Self::StatefulSet
            | Self::PodDisruptionBudget
            | Self::HorizontalPodAutoscaler
            | Self::ServiceMonitor => "spec",
        }
    }

    /// What the name of a child has after the name of its resource.
    const fn suffix(self) -> &'static str {
        match self {
            Self::ConfigMap => "-servers",
            Self::NetworkPolicy
            | Self::Service
            | Self::Deployment
            | Self::StatefulSet
            | Self::PodDisruptionBudget
            | Self::HorizontalPodAutoscaler
            | Self::ServiceMonitor => "",
        }
    }

    /// The name of the child that a resource of this name has.
    #[must_use]
    pub fn name_of_child(self, resource: &str) -> String {
        format!("{resource}{}", self.suffix())
    }

    /// The name of the resource whose child has this name; `None` where no resource has a child of this name.
    #[must_use]
    pub fn name_of_resource(self, child: &str) -> Option<&str> {
        child.strip_suffix(self.suffix()).filter(|name| !name.is_empty())
    }

    /// The kind as manifests write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.names().kind
    }

    /// The `apiVersion` that we read and write.
    #[must_use]
    pub const fn api_version(self) -> &'static str {
        self.names().api_version
    }

    /// The resource name in URLs and in RBAC rules, without its group.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        self.names().plural
    }
}

/// How the API names a kind.
struct Names {
    kind: &'static str,
    api_version: &'static str,
    plural: &'static str,
}

impl From<Workload> for ChildKind {
    fn from(workload: Workload) -> Self {
        match workload {
            Workload::Deployment => Self::Deployment,
            Workload::StatefulSet => Self::StatefulSet,
        }
    }
}

/// Every kind that the operator watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, EnumCount)]
pub enum Watched {
    /// The resource itself.
    Memcached,
    /// A kind of child.
    Child(ChildKind),
    /// Secrets, as metadata.
    Secret,
    /// Our pods, by label.
    Pod,
}

impl Watched {
    /// The key by which an object of this name is known: for a child that of its resource. `None` where no resource has
    /// such a child.
    #[must_use]
    pub fn known_as(self, key: Key) -> Option<Key> {
        match self {
            Self::Child(kind) => {
                let name = kind.name_of_resource(&key.name)?.to_owned();
                Some(Key { name, ..key })
            }
            Self::Memcached | Self::Secret | Self::Pod => Some(key),
        }
    }

    /// Every watched kind: for each the compiler asks which one comes after it.
    pub const ALL: [Self; Self::COUNT - 1 + ChildKind::COUNT] = {
        let mut all = [Self::Memcached; Self::COUNT - 1 + ChildKind::COUNT];
        let mut at = 1;
        while at < all.len() {
            all[at] = match all[at - 1] {
                Self::Memcached => Self::Child(ChildKind::ALL[0]),
                Self::Child(_) if at <= ChildKind::COUNT => Self::Child(ChildKind::ALL[at - 1]),
                Self::Child(_) => Self::Secret,
                // The last one has none after it.
                Self::Secret | Self::Pod => Self::Pod,
            };
            at += 1;
        }
        all
    };

    /// Whether nothing can be done before it was listed once; see [`ChildKind::is_required`].
    #[must_use]
    pub const fn is_required(self) -> bool {
        match self {
            Self::Memcached | Self::Secret | Self::Pod => true,
            Self::Child(kind) => kind.is_required(),
        }
    }

    /// The kind as manifests write it; also the value of the metric label `kind`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memcached => "Memcached",
            Self::Child(kind) => kind.name(),
            Self::Secret => "Secret",
            Self::Pod => "Pod",
        }
    }
}

/// The namespaces of one list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Scope {
    /// Every namespace.
    All,
    /// Only this namespace.
    Namespace(String),
}

impl Scope {
    /// Whether it includes a namespace.
    #[must_use]
    pub fn includes(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(own) => own == namespace,
        }
    }

    /// The range of the keys in it, in a map that is ordered by key: who looks for what is in one namespace does not walk
    /// through all others.
    #[must_use]
    pub fn keys(&self) -> (Bound<Key>, Bound<Key>) {
        let first = |namespace: String| Key { namespace, name: String::new() };
        match self {
            // No key is before it.
            Self::All => (Bound::Included(first(String::new())), Bound::Unbounded),
            // No namespace is between this one and the one with one more letter, the smallest that there is.
            Self::Namespace(own) => {
                (Bound::Included(first(own.clone())), Bound::Excluded(first(format!("{own}\0"))))
            }
        }
    }
}

/// The owner reference with `controller: true` of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Controller {
    /// `apiVersion` of the owner.
    pub api_version: Word,
    /// Kind of the owner.
    pub kind: Word,
    /// Name of the owner.
    pub name: String,
    /// Uid of the owner.
    pub uid: Uid,
}

impl Controller {
    /// Whether it is a resource of ours, of whatever version.
    #[must_use]
    pub fn is_memcached(&self) -> bool {
        self.kind == KIND && self.api_version.split('/').next() == Some(GROUP)
    }

    /// Whether it is a StatefulSet of Kubernetes, of whatever version.
    #[must_use]
    pub fn is_stateful_set(&self) -> bool {
        self.kind == ChildKind::StatefulSet.name() && self.api_version.starts_with("apps/")
    }
}

impl From<&OwnerReference> for Controller {
    fn from(owner: &OwnerReference) -> Self {
        Self {
            api_version: owner.api_version.as_str().into(),
            kind: owner.kind.as_str().into(),
            name: owner.name.clone(),
            uid: Uid::from(owner.uid.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_child_is_known_by_its_resource_and_what_no_resource_has_by_nothing() {
        let key = |name: &str| Key { namespace: "n".into(), name: name.into() };
        for kind in ChildKind::ALL {
            for resource in ["cache", "cache-servers"] {
                let child = key(&kind.name_of_child(resource));
                assert_eq!(Watched::Child(kind).known_as(child), Some(key(resource)), "{kind:?}");
            }
        }
        let servers = Watched::Child(ChildKind::ConfigMap);
        assert_eq!(servers.known_as(key("kube-root-ca.crt")), None);
        assert_eq!(servers.known_as(key("-servers")), None);
        assert_eq!(Watched::Secret.known_as(key("tls")), Some(key("tls")));
    }

    #[test]
    fn every_watched_kind_stands_once_among_all_in_the_order_of_their_declaration() {
        assert!(Watched::ALL.windows(2).all(|two| two[0] < two[1]), "{:?}", Watched::ALL);
        assert_eq!((Watched::ALL[0], Watched::ALL.last()), (Watched::Memcached, Some(&Watched::Pod)));
    }

    #[test]
    fn the_range_of_a_scope_has_the_keys_of_its_namespaces_and_no_others() {
        let key = |namespace: &str, name: &str| Key { namespace: namespace.into(), name: name.into() };
        let names = ["", "-", "a", "z"];
        let of = |namespace: &'static str| names.map(|name| key(namespace, name));
        let all: BTreeSet<Key> = ["a", "a-", "a0", "aa", "b"].into_iter().flat_map(of).collect();
        for namespace in ["a", "a-", "a0", "aa", "b", "c"] {
            let found: Vec<_> = all.range(Scope::Namespace(namespace.into()).keys()).collect();
            assert_eq!(found, all.iter().filter(|key| key.namespace == namespace).collect::<Vec<_>>());
        }
        assert_eq!(all.range(Scope::All.keys()).count(), all.len());
    }
}
