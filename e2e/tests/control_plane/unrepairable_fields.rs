//! The fields that the operator cannot repair, or not with one write, after somebody changed them: a table with the rule of
//! the API server behind each. Every other field is repaired with one write. Called by `drift`.

use std::ops::RangeInclusive;

use memcached_operator::kernel::object::ChildKind;

use crate::drift::Case;
use crate::tampering::Meddling;

/// The outcome of a change by somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The operator repaired the field.
    Repaired,
    /// The API server lets nobody do this.
    Refused,
    /// The API server put the same value back by itself, in the same request.
    Defaulted,
    /// The child is not ours any more: the resource says `NameConflict` and leaves it alone.
    Released,
}

use ChildKind::{Deployment, HorizontalPodAutoscaler, NetworkPolicy, Service, ServiceMonitor, StatefulSet};
use Meddling::{Change, Remove};

type Cases = &'static [(ChildKind, Meddling, &'static str)];

/// A field that cannot change once it is set.
const IMMUTABLE: Cases = &[
    (Deployment, Change, "spec.selector"),
    (Deployment, Remove, "spec.selector"),
    (Service, Change, "spec.clusterIP"),
    (StatefulSet, Change, "spec.selector"),
    (StatefulSet, Remove, "spec.selector"),
    (StatefulSet, Change, "spec.serviceName"),
    (StatefulSet, Remove, "spec.serviceName"),
    (StatefulSet, Change, "spec.podManagementPolicy"),
    (StatefulSet, Remove, "spec.podManagementPolicy"),
];

/// Pods have to carry the labels that the selector names.
const SELECTED: Cases = &[
    (Deployment, Change, "spec.template.metadata.labels.app.kubernetes.io/instance"),
    (Deployment, Remove, "spec.template.metadata.labels.app.kubernetes.io/instance"),
    (Deployment, Change, "spec.template.metadata.labels.app.kubernetes.io/managed-by"),
    (Deployment, Remove, "spec.template.metadata.labels.app.kubernetes.io/managed-by"),
    (Deployment, Change, "spec.template.metadata.labels.app.kubernetes.io/name"),
    (Deployment, Remove, "spec.template.metadata.labels.app.kubernetes.io/name"),
    // Only a StatefulSet's pods have it.
    (StatefulSet, Change, "spec.template.metadata.labels.memcached.c5c3.io/workload"),
    (StatefulSet, Remove, "spec.template.metadata.labels.memcached.c5c3.io/workload"),
];

/// Without these fields the object is not valid.
const REQUIRED: Cases = &[
    (Deployment, Remove, "spec.template.spec.containers[].image"),
    (Deployment, Remove, "spec.template.spec.containers[].name"),
    (Deployment, Remove, "spec.template.spec.containers[].ports[].containerPort"),
    (Deployment, Remove, "spec.template.spec.containers[].livenessProbe.tcpSocket.port"),
    (Deployment, Remove, "spec.template.spec.containers[].readinessProbe.tcpSocket.port"),
    (Deployment, Remove, "spec.template.spec.containers[].volumeMounts[].mountPath"),
    (Deployment, Remove, "spec.template.spec.containers[].volumeMounts[].name"),
    (Deployment, Remove, "spec.template.spec.securityContext.seccompProfile.type"),
    (Deployment, Remove, "spec.template.spec.topologySpreadConstraints[].maxSkew"),
    (Deployment, Remove, "spec.template.spec.topologySpreadConstraints[].topologyKey"),
    (Deployment, Remove, "spec.template.spec.topologySpreadConstraints[].whenUnsatisfiable"),
    (
        Deployment,
        Remove, // its matchLabelKeys go into the selector
        "spec.template.spec.topologySpreadConstraints[topologyKey=rack,whenUnsatisfiable=DoNotSchedule].labelSelector",
    ),
    (Deployment, Remove, "spec.template.spec.volumes[].name"),
    (Deployment, Remove, "spec.template.spec.volumes[].secret.secretName"),
    (Service, Remove, "spec.ports[].port"),
    (Service, Remove, "spec.ports[].name"), // of several
    (HorizontalPodAutoscaler, Remove, "spec.maxReplicas"),
    (HorizontalPodAutoscaler, Remove, "spec.scaleTargetRef.apiVersion"),
    (HorizontalPodAutoscaler, Remove, "spec.scaleTargetRef.kind"),
    (HorizontalPodAutoscaler, Remove, "spec.scaleTargetRef.name"),
    (ServiceMonitor, Remove, "spec.endpoints"),
    (ServiceMonitor, Remove, "spec.selector"),
];

/// A mount has to name a volume that there is.
const REFERRED_TO: Cases = &[
    (Deployment, Change, "spec.template.spec.containers[].volumeMounts[].name"),
    (Deployment, Change, "spec.template.spec.volumes[].name"),
    (Deployment, Remove, "spec.template.spec.volumes[]"),
];

/// Our value is the API server's default, or follows from another field, and is still ours.
const DEFAULT: Cases = &[
    (Deployment, Remove, "spec.strategy.type"),
    (Deployment, Remove, "spec.template.spec.containers[].livenessProbe.periodSeconds"),
    (Deployment, Remove, "spec.template.spec.containers[].ports[].protocol"),
    (Deployment, Change, "spec.template.spec.serviceAccount"),
    (Deployment, Remove, "spec.template.spec.serviceAccount"),
    (Deployment, Remove, "spec.template.spec.serviceAccountName"),
    (Deployment, Remove, "spec.template.spec.terminationGracePeriodSeconds"),
    (HorizontalPodAutoscaler, Remove, "spec.minReplicas"),
    (NetworkPolicy, Remove, "spec.policyTypes"),
    (Service, Remove, "spec.ports[].protocol"),
    (Service, Remove, "spec.type"),
    (StatefulSet, Remove, "spec.updateStrategy.type"),
];

/// Whoever takes the owner reference away takes the child away: that is what `--cascade=orphan` does.
fn orphans(Case { child: _, meddling, path }: &Case) -> bool {
    *meddling == Remove && path == "metadata.ownerReferences[uid]"
}

/// The path without what tells the items of lists apart.
fn of_any_item(path: &str) -> String {
    let mut inside = false;
    path.chars()
        .filter(|c| {
            let within = inside && *c != ']';
            inside = *c == '[' || within;
            !within
        })
        .collect()
}

/// Whether a row is about this case. The pod template has the same rules in both kinds, and the tables say them of a Deployment.
fn is_about((kind, meddling, path): &(ChildKind, Meddling, &str), case: &Case, paths: [&String; 2]) -> bool {
    let of_template = case.child == StatefulSet && path.starts_with("spec.template.");
    let of_kind = *kind == case.child || (of_template && *kind == Deployment);
    of_kind && *meddling == case.meddling && paths.iter().any(|one| one == path)
}

/// The expected outcome for a field.
pub(crate) fn expected(case: &Case) -> Outcome {
    let path = of_any_item(&case.path);
    let is_one_of = |cases: Cases| cases.iter().any(|of| is_about(of, case, [&path, &case.path]));
    match () {
        () if [IMMUTABLE, SELECTED, REQUIRED, REFERRED_TO].into_iter().any(is_one_of) => Outcome::Refused,
        () if is_one_of(DEFAULT) => Outcome::Defaulted,
        () if orphans(case) => Outcome::Released,
        () => Outcome::Repaired,
    }
}

/// A name that another item of the list has taken has to be given back first, which only an update can do; ours comes
/// with the apply that follows.
const TAKEN: &[&str] = &["].containerPort", "].port", "].protocol"];

/// The partition, and the field whose change takes it along. It goes up only when the StatefulSet's controller has seen the last
/// write, so that no rollout is under way unseen. An operator that is quicker than the controller first takes it back as it is.
const PARTITION: [&str; 2] = ["rollingUpdate.partition", "updateStrategy.type"];

/// Whether the repair may take one write more, because of the partition.
pub(crate) fn is_about_the_partition(path: &str) -> bool {
    PARTITION.iter().any(|end| path.ends_with(end))
}

/// How many writes the repair takes.
pub(crate) fn writes(outcome: Outcome, path: &str) -> RangeInclusive<usize> {
    match outcome {
        Outcome::Repaired if is_about_the_partition(path) => 1..=2,
        Outcome::Repaired if TAKEN.iter().any(|end| path.ends_with(end)) => 2..=2,
        Outcome::Repaired => 1..=1,
        Outcome::Refused | Outcome::Defaulted | Outcome::Released => 0..=0,
    }
}
