//! What the children of a resource are made from. Pure data.

use super::default_images::DefaultImages;
use super::operator_pods::OperatorPods;
use super::partition::Partition;
use super::ports::Listening;
use super::servers::Servers;
use crate::api::Validated;
use crate::kernel::object::{ChildKind, Key, Uid};

/// Everything that the children are rendered from.
#[derive(Clone, Debug)]
pub struct Intent<'a> {
    /// The resource.
    pub key: &'a Key,
    /// The uid of the resource, for the owner reference.
    pub uid: &'a Uid,
    /// What the user wants.
    pub spec: &'a Validated,
    /// `spec.replicas` of the workload; `None`: an autoscaler decides.
    pub replicas: Option<i32>,
    /// Which pods of a StatefulSet may be replaced.
    pub partition: Partition,
    /// The workload whose pods a budget and an autoscaler see. It reaches no pod.
    pub counted: ChildKind,
    /// Under which names clients find the cache. It reaches no pod.
    pub servers: Servers,
    /// Hash of the mounted Secret keys; `None` while it is not known.
    pub secret_hash: Option<&'a str>,
    /// Value of the restart-trigger annotation.
    pub restart_trigger: Option<&'a str>,
    /// The images of a new template where the spec names none. No part of [`Intent::hash`]: another setting rolls nothing.
    pub images: &'a DefaultImages,
    /// How the pods listen that there are now; `None` without a workload. It reaches no pod: what is told to clients follows it.
    pub listening: Option<Listening>,
    /// Who may ask the agents; `None` where the operator is no pod. It reaches no pod.
    pub operator_pods: Option<&'a OperatorPods>,
}
