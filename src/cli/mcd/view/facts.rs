//! What was read from the cluster for one look. Pure data; `gather` fills it in, the views are made of it.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::core::DynamicObject;

use super::answer::Answer;
use super::figures::Figures;

/// All about one cache.
#[derive(Clone, Debug)]
pub struct CacheFacts {
    /// When it was read.
    pub now: Timestamp,
    /// The resource.
    pub resource: DynamicObject,
    /// Its Deployment; `None` where there is none.
    pub deployment: Answer<Option<Deployment>>,
    /// The ReplicaSets of the Deployment: one for each pod template that it has had.
    pub replica_sets: Answer<Vec<ReplicaSet>>,
    /// Its pods.
    pub pods: Answer<Vec<PodFacts>>,
    /// The Kubernetes Events about the resource that the cluster still has.
    pub events: Answer<Vec<Event>>,
}

/// One pod, and what its memcached said.
#[derive(Clone, Debug)]
pub struct PodFacts {
    /// The pod.
    pub pod: Pod,
    /// Memcached's figures.
    pub figures: Answer<Figures>,
}
