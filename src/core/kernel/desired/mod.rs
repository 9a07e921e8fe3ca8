//! The desired children of one resource. Pure: an [`Intent`] in, whole objects out; called by the pass.
//!
//! One file for each child. [`meta`] holds names, labels and the owner reference, [`ports`] the ports that the children
//! share, [`pod`] the pod template by revision, [`args`] memcached's command line, [`secrets`] which Secret keys are
//! mounted and their hash.

pub mod agent;
pub mod args;
pub mod config_map;
pub mod contexts;
pub mod default_images;
pub mod deployment;
pub mod exporter;
pub mod files;
pub mod horizontal_pod_autoscaler;
pub mod intent;
mod live_template;
pub mod memcached;
pub mod meta;
pub mod network_policy;
pub mod operator_pods;
pub mod partition;
pub mod pod;
pub mod pod_disruption_budget;
pub mod ports;
pub mod revision;
pub mod scheduling;
pub mod secrets;
mod servers;
pub mod service;
pub mod service_monitor;
pub mod stateful_set;
pub mod template_hash;
pub mod tls;
mod unrecorded_template;
pub mod workload;

pub use default_images::DefaultImages;
pub use intent::Intent;
pub use live_template::LiveTemplate;
pub use operator_pods::OperatorPods;
pub use revision::Revision;
pub use servers::Servers;
pub use unrecorded_template::UnrecordedTemplate;

use std::collections::BTreeMap;

use serde_json::Value;

use super::hash_text::HashText;
use super::object::ChildKind;
use workload::Rendered;

/// The children of one resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// The rules that rendered the pod template.
    pub revision: Revision,
    /// [`Intent::hash`] of what the pod template was rendered from.
    pub template_hash: HashText,
    /// Whole objects without uid. They hold only fields that we own and no empty list, empty map or null, except for
    /// what users wrote. A kind that is missing is not wanted.
    pub bodies: BTreeMap<ChildKind, Value>,
}

impl Desired {
    /// The whole child; `None` when none is wanted.
    #[must_use]
    pub fn body(&self, kind: ChildKind) -> Option<&Value> {
        self.bodies.get(&kind)
    }
}

/// Renders every child. `live` is what the workload says about its template; `None` without a workload of
/// ours, or when the annotations are missing or damaged.
///
/// While the live hash is the intent's, the user changed nothing that reaches the pods, and the template is
/// rendered at the live revision: any difference is drift. The same holds where nothing changed but Secrets that the pods
/// take in place. Otherwise pods roll anyway, so it is rendered at [`Revision::for_new_pods`]. At a revision that only a newer
/// operator knows (this one is a downgrade), an unchanged intent keeps the live template as it is.
#[must_use]
pub fn children(intent: &Intent<'_>, live: Option<&LiveTemplate>) -> Desired {
    let Rendered { body: workload, revision, template_hash } = workload::workload(intent, live);
    let others = ChildKind::ALL.into_iter().filter_map(|kind| Some((kind, beside_workload(intent, kind)?)));
    let bodies = others.chain([(intent.spec.workload.into(), workload)]).collect();
    Desired { revision, template_hash, bodies }
}

/// Renders one child and no other, as [`children`] does; `None` when none is wanted.
#[must_use]
pub fn child(intent: &Intent<'_>, live: Option<&LiveTemplate>, kind: ChildKind) -> Option<Value> {
    if kind == ChildKind::from(intent.spec.workload) {
        return Some(workload::workload(intent, live).body);
    }
    beside_workload(intent, kind)
}

/// A child that is not the workload; `None` when none is wanted.
fn beside_workload(intent: &Intent<'_>, kind: ChildKind) -> Option<Value> {
    match kind {
        // The workload is one of the two; the other is not wanted.
        ChildKind::Deployment | ChildKind::StatefulSet => None,
        ChildKind::NetworkPolicy => network_policy::network_policy(intent),
        ChildKind::Service => Some(service::service(intent)),
        ChildKind::ConfigMap => Some(config_map::config_map(intent)),
        ChildKind::PodDisruptionBudget => pod_disruption_budget::pod_disruption_budget(intent),
        ChildKind::HorizontalPodAutoscaler => horizontal_pod_autoscaler::horizontal_pod_autoscaler(intent),
        ChildKind::ServiceMonitor => service_monitor::service_monitor(intent),
    }
}
