//! What a cluster can be like: values that a caller chooses and the cluster's record keeps. Pure; called by `cluster` and
//! what it is made of.

use std::net::Ipv4Addr;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::slot::Slot;

/// How much of Kubernetes runs; each includes those above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
pub enum Shape {
    /// etcd and kube-apiserver: objects are stored, and nobody acts on them.
    ApiServer,
    /// Controllers too: Deployments make ReplicaSets and pods. There is no scheduler: it would write a condition and an Event
    /// for each pod without a node, and the operator would see each.
    Controllers,
    /// A scheduler too, for nodes that a test makes.
    ControlPlane,
    /// A node too, where the pods run. Needs root.
    Node,
}

impl Shape {
    /// Where the API server listens: with a node on its link, which pods reach and other machines do not.
    pub(crate) fn api_address(self, slot: Slot) -> Ipv4Addr {
        match self {
            Self::Node => slot.host(),
            Self::ApiServer | Self::Controllers | Self::ControlPlane => Ipv4Addr::LOCALHOST,
        }
    }
}

/// What the API server writes of each request to its audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Audit {
    /// One line a request: who, what, when, and the answer's code.
    Metadata,
    /// Of the operator's writes also what was sent and what came of it: for which version of an object a write was, and
    /// which one it made.
    Bodies,
    /// No log, for measurements.
    Off,
}

/// Whether the API server checks permissions on owner references (the admission plugin
/// `OwnerReferencesPermissionEnforcement`, which OpenShift has on). For up to half a minute the plugin refuses owners of a
/// kind that is new to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Owners {
    /// As Kubernetes is by default.
    #[default]
    Unguarded,
    /// With the admission plugin.
    Guarded,
}

/// How often the kubelet looks whether a pod's Secrets have changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum KubeletSync {
    /// So that tests need not wait.
    #[default]
    EverySecond,
    /// As Kubernetes does by default: about once a minute.
    AsByDefault,
}

/// What a cluster is to be like.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How much of Kubernetes runs.
    pub shape: Shape,
    /// The audit log.
    pub audit: Audit,
    /// Whether permissions on owner references are checked.
    pub owners: Owners,
    /// How often the kubelet looks after Secrets; counts with a node only.
    pub sync: KubeletSync,
}

impl From<Shape> for Options {
    fn from(shape: Shape) -> Self {
        Self { shape, audit: Audit::Metadata, owners: Owners::default(), sync: KubeletSync::default() }
    }
}
