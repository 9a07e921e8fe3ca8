//! The template that the pods of a StatefulSet are to have. Takes the StatefulSet. Pure; called by `pods` and `wanted`.
//!
//! That is the newest one, while the operator lets pods be replaced. While it holds them, it is the one that the last rollout
//! brought: what somebody else changed since comes with the next rollout.

use k8s_openapi::api::apps::v1::StatefulSet;

use crate::kernel::desired::partition::KEEPS_ALL;

/// A template of a StatefulSet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatefulSetRevision<'a> {
    /// What its pods have as their revision.
    pub name: Option<&'a str>,
    /// How many pods are made from it.
    pub pods: i32,
}

impl<'a> StatefulSetRevision<'a> {
    /// The template that the pods are to have.
    #[must_use]
    pub fn from_stateful_set(stateful_set: &'a StatefulSet) -> Self {
        let Some(status) = &stateful_set.status else { return Self::default() };
        let (name, pods) = if keeps_all_pods(stateful_set) {
            (&status.current_revision, status.current_replicas)
        } else {
            (&status.update_revision, status.updated_replicas)
        };
        Self { name: name.as_deref(), pods: pods.unwrap_or_default() }
    }
}

/// Whether no pod may be replaced.
fn keeps_all_pods(stateful_set: &StatefulSet) -> bool {
    let strategy = stateful_set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
    strategy.and_then(|strategy| strategy.rolling_update.as_ref()?.partition) == Some(KEEPS_ALL)
}
