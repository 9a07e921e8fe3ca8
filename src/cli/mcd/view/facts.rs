//! What was read from the cluster for one look. Pure data; `gather` fills it in, the views are made of it.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::core::DynamicObject;

use super::answer::Answer;
use crate::api::spec::Workload;
use crate::figures::Figures;

/// All about one cache.
#[derive(Clone, Debug)]
pub struct CacheFacts {
    /// When it was read.
    pub now: Timestamp,
    /// The resource.
    pub resource: DynamicObject,
    /// What runs its pods.
    pub workload: WorkloadFacts,
    /// Its pods.
    pub pods: Answer<Vec<PodFacts>>,
    /// The Kubernetes Events about the resource that the cluster still has.
    pub events: Answer<Vec<Event>>,
}

/// What runs the pods, of the kind that the spec asks for.
#[derive(Clone, Debug)]
pub enum WorkloadFacts {
    /// Pods without names of their own.
    Deployment {
        /// `None` where there is none.
        deployment: Answer<Option<Deployment>>,
        /// Its ReplicaSets: one for each pod template that it has had.
        replica_sets: Answer<Vec<ReplicaSet>>,
    },
    /// Pods with names; `None` where there is none.
    StatefulSet(Answer<Option<StatefulSet>>),
}

impl WorkloadFacts {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> Workload {
        match self {
            Self::Deployment { .. } => Workload::Deployment,
            Self::StatefulSet(_) => Workload::StatefulSet,
        }
    }
}

/// One pod, and what its memcached said.
#[derive(Clone, Debug)]
pub struct PodFacts {
    /// The pod.
    pub pod: Pod,
    /// Memcached's figures.
    pub figures: Answer<Figures>,
}
