//! What becomes of a field of ours that somebody meddles with: it is repaired, with one write. This table holds the
//! exceptions, all of them the API server's rules, and why each is one. Called by `drift`.

/// A kind of child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Child {
    Deployment,
    Service,
}

/// What somebody does to a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Meddling {
    Change,
    Remove,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was undone.
    Repaired,
    /// The API server lets nobody do this.
    Refused,
    /// The API server put the same value back by itself, in the same request.
    Defaulted,
    /// The child is not ours any more: the resource says `NameConflict` and leaves it alone.
    Released,
}

use Child::{Deployment, Service};
use Meddling::{Change, Remove};

type Cases = &'static [(Child, Meddling, &'static str)];

/// A field that cannot change once it is set.
const IMMUTABLE: Cases = &[
    (Deployment, Change, "spec.selector"),
    (Deployment, Remove, "spec.selector"),
    (Service, Change, "spec.clusterIP"),
];

/// Pods have to carry the labels that the selector names.
const SELECTED: Cases = &[
    (Deployment, Change, "spec.template.metadata.labels.app.kubernetes.io/instance"),
    (Deployment, Remove, "spec.template.metadata.labels.app.kubernetes.io/instance"),
    (Deployment, Change, "spec.template.metadata.labels.app.kubernetes.io/managed-by"),
    (Deployment, Remove, "spec.template.metadata.labels.app.kubernetes.io/managed-by"),
    (Deployment, Change, "spec.template.metadata.labels.app.kubernetes.io/name"),
    (Deployment, Remove, "spec.template.metadata.labels.app.kubernetes.io/name"),
];

/// Without it the object is no valid one.
const REQUIRED: Cases = &[
    (Deployment, Remove, "spec.template.spec.containers[name=memcached]"),
    (Deployment, Remove, "spec.template.spec.containers[name=memcached].image"),
    (Deployment, Remove, "spec.template.spec.containers[name=memcached].livenessProbe.tcpSocket.port"),
    (Deployment, Remove, "spec.template.spec.containers[name=memcached].name"),
    (
        Deployment,
        Remove,
        "spec.template.spec.containers[name=memcached].ports[containerPort=11211,protocol=TCP].containerPort",
    ),
    (Deployment, Remove, "spec.template.spec.containers[name=memcached].readinessProbe.tcpSocket.port"),
    (
        Deployment,
        Remove,
        "spec.template.spec.containers[name=memcached].volumeMounts[mountPath=/etc/memcached/sasl].mountPath",
    ),
    (
        Deployment,
        Remove,
        "spec.template.spec.containers[name=memcached].volumeMounts[mountPath=/etc/memcached/sasl].name",
    ),
    (Deployment, Remove, "spec.template.spec.securityContext.seccompProfile.type"),
    (Deployment, Remove, "spec.template.spec.volumes[name=sasl-credentials].name"),
    (Deployment, Remove, "spec.template.spec.volumes[name=sasl-credentials].secret.secretName"),
    (Service, Remove, "spec.ports[port=11211,protocol=TCP].port"),
];

/// A mount has to name a volume that there is.
const REFERRED_TO: Cases = &[
    (
        Deployment,
        Change,
        "spec.template.spec.containers[name=memcached].volumeMounts[mountPath=/etc/memcached/sasl].name",
    ),
    (Deployment, Change, "spec.template.spec.volumes[name=sasl-credentials].name"),
    (Deployment, Remove, "spec.template.spec.volumes[name=sasl-credentials]"),
];

/// Our value is the API server's default, or follows from another field.
const DEFAULT: Cases = &[
    (Deployment, Remove, "spec.strategy.type"),
    (Deployment, Remove, "spec.template.spec.containers[name=memcached].livenessProbe.periodSeconds"),
    (
        Deployment,
        Remove,
        "spec.template.spec.containers[name=memcached].ports[containerPort=11211,protocol=TCP].protocol",
    ),
    (Service, Remove, "spec.clusterIP"), // clusterIPs still says it
    (Service, Remove, "spec.ports[port=11211,protocol=TCP].protocol"),
];

/// Whoever takes the owner reference away takes the child away: that is what `--cascade=orphan` does.
const OWNER: Cases = &[
    (Deployment, Remove, "metadata.ownerReferences[uid]"),
    (Service, Remove, "metadata.ownerReferences[uid]"),
];

/// What has to become of it.
pub(crate) fn expected(child: Child, meddling: Meddling, path: &str) -> Outcome {
    let is_one_of = |cases: Cases| cases.contains(&(child, meddling, path));
    match () {
        () if [IMMUTABLE, SELECTED, REQUIRED, REFERRED_TO].into_iter().any(is_one_of) => Outcome::Refused,
        () if is_one_of(DEFAULT) => Outcome::Defaulted,
        () if is_one_of(OWNER) => Outcome::Released,
        () => Outcome::Repaired,
    }
}

/// A name that another item of the list has taken has to be given back first, which only an update can do; ours comes
/// with the apply that follows.
const TAKEN: &[&str] = &["].containerPort", "].port", "].protocol"];

/// How many writes that takes.
pub(crate) fn writes(outcome: Outcome, path: &str) -> usize {
    match outcome {
        Outcome::Repaired if TAKEN.iter().any(|end| path.ends_with(end)) => 2,
        Outcome::Repaired => 1,
        Outcome::Refused | Outcome::Defaulted | Outcome::Released => 0,
    }
}
