//! Names, types, labels and meanings of all metrics, and what each is good for: what is served, `docs/metrics.md`, the
//! alerts and the dashboard are held against this file. Pure data.
//!
//! A unit is the last word of a name (`_seconds`), `_total` marks a counter. A label's value comes from an enum,
//! or is the name of an object, or, in `instance_info` only, the image that the user chose.

use super::labels::{self, Label};

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The name of the metric.
    pub name: &'static str,
    /// What is measured how.
    pub kind: Kind,
    /// The labels, in the order in which they are written.
    pub labels: &'static [Label],
    /// What the metric means, for people.
    pub help: &'static str,
    /// What a person does with it.
    pub usage: &'static str,
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Counts since the operator started.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size.
    Histogram,
}

impl Kind {
    /// The name of the type in the text format of Prometheus.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

const OF_RESOURCE: &[Label] = &[labels::NAMESPACE, labels::NAME];

/// Whether templates wait for a person.
pub const ADOPTION_HALTED: Metric = Metric {
    name: "memcached_operator_adoption_halted",
    kind: Kind::Gauge,
    labels: &[],
    help: "1 while adoption is halted, because the adoption of one resource is stalled or refused.",
    usage: "1: repair the resource whose `status.budgetedRolloutStalled` is true; the others go on by themselves. 0 where another pod of the operator leads.",
};
/// How long the API server takes.
pub const API_REQUEST_DURATION: Metric = Metric {
    name: "memcached_operator_api_request_duration_seconds",
    kind: Kind::Histogram,
    labels: &[labels::VERB],
    help: "Time from a request to the API server until the head of its answer, or until nobody waits for it any more.",
    usage: "Tells a slow API server from a slow operator. No request but a watch may take longer than 10 s.",
};
/// Requests to the API server.
pub const API_REQUESTS: Metric = Metric {
    name: "memcached_operator_api_requests_total",
    kind: Kind::Counter,
    labels: &[labels::VERB, labels::CODE],
    help: "Requests to the API server, by verb and by the code of the answer; code `none` means that no answer came.",
    usage: "403: a missing permission, a quota or a webhook. 409: somebody else writes the same objects. 429, 5xx and none: the API \
            server has trouble. The conditions of the resources say which object.",
};
/// The running build.
pub const BUILD_INFO: Metric = Metric {
    name: "memcached_operator_build_info",
    kind: Kind::Gauge,
    labels: &[labels::VERSION],
    help: "The running build; always 1.",
    usage: "See which versions run; its absence means that no operator is scraped.",
};
/// When a certificate ends.
pub const CERTIFICATE_NOT_AFTER: Metric = Metric {
    name: "memcached_operator_certificate_not_after_timestamp_seconds",
    kind: Kind::Gauge,
    labels: OF_RESOURCE,
    help: "When the certificate of a cache with TLS ends, or the last of the authorities in ca.crt where that is earlier.",
    usage: "Minus `time()`: what is left. A certificate that is not renewed by itself ends all connections with TLS.",
};
/// Whether a resource is as it should be.
pub const INSTANCE_CONDITION: Metric = Metric {
    name: "memcached_operator_instance_condition",
    kind: Kind::Gauge,
    labels: &[labels::NAMESPACE, labels::NAME, labels::CONDITION, labels::REASON],
    help: "A condition of a resource, with its reason: 1 while it is True, 0 while it is False.",
    usage: "Which caches are not ready (type Ready is 0) and why; the other types are there only while True.",
};
/// A resource and its image.
pub const INSTANCE_INFO: Metric = Metric {
    name: "memcached_operator_instance_info",
    kind: Kind::Gauge,
    labels: &[labels::NAMESPACE, labels::NAME, labels::IMAGE],
    help: "A resource and its image; always 1.",
    usage: "Count the caches, and find those with an old image.",
};
/// Pods wanted.
pub const INSTANCE_REPLICAS_DESIRED: Metric = Metric {
    name: "memcached_operator_instance_replicas_desired",
    kind: Kind::Gauge,
    labels: OF_RESOURCE,
    help: "Pods that a resource wants.",
    usage: "Compare with the pods that are ready.",
};
/// Pods ready.
pub const INSTANCE_REPLICAS_READY: Metric = Metric {
    name: "memcached_operator_instance_replicas_ready",
    kind: Kind::Gauge,
    labels: OF_RESOURCE,
    help: "Pods of a resource that are ready.",
    usage: "Fewer than desired for long: look at the pods' events.",
};
/// Rollouts of one resource.
pub const INSTANCE_ROLLOUTS: Metric = Metric {
    name: "memcached_operator_instance_rollouts_total",
    kind: Kind::Counter,
    labels: &[labels::NAMESPACE, labels::NAME, labels::CAUSE],
    help: "Rollouts of a resource that this process began or saw, by cause: pods that are replaced are empty.",
    usage: "Which caches roll, and why. Cause spec: the resource's Event RolloutStarted names the fields that were edited.",
};
/// The metric of the template revision: by which rules the pods were made.
pub const INSTANCE_TEMPLATE_REVISION: Metric = Metric {
    name: "memcached_operator_instance_template_revision",
    kind: Kind::Gauge,
    labels: OF_RESOURCE,
    help: "Revision of the rules by which the live pod template of a resource was rendered.",
    usage: "Find the caches that an upgrade left at older rules: they move with their next rollout.",
};
/// What a person should know of a cache that runs.
pub const INSTANCE_WARNING: Metric = Metric {
    name: "memcached_operator_instance_warning",
    kind: Kind::Gauge,
    labels: &[labels::NAMESPACE, labels::NAME, labels::WARNING],
    help: "A warning in the status of a resource; always 1, and there only while the warning is.",
    usage: "What may hurt one day although the cache works: an autoscaler without metrics, a tight memory limit, a certificate.",
};
/// Failures to write the journal.
pub const JOURNAL_ERRORS: Metric = Metric {
    name: "memcached_operator_journal_errors_total",
    kind: Kind::Counter,
    labels: &[],
    help: "Failures to write the journal.",
    usage: "Free the journal's disk; the caches do not suffer.",
};
/// Whether steps are missing from the journal now.
pub const JOURNAL_GAP: Metric = Metric {
    name: "memcached_operator_journal_gap",
    kind: Kind::Gauge,
    labels: &[],
    help: "1 while steps are left out of the journal, else 0.",
    usage: "For long: the journal's disk fails or hangs.",
};
/// Steps that are missing from the journal.
pub const JOURNAL_GAPS: Metric = Metric {
    name: "memcached_operator_journal_gaps_total",
    kind: Kind::Counter,
    labels: &[],
    help: "Times that steps were left out of the journal because the disk failed or was too slow.",
    usage: "What lies in a gap cannot be replayed: give the journal a faster disk.",
};
/// Kubernetes Events.
pub const KUBE_EVENTS: Metric = Metric {
    name: "memcached_operator_kubernetes_events_total",
    kind: Kind::Counter,
    labels: &[labels::KUBE_EVENT_RESULT],
    help: "Kubernetes Events, by whether the API server took them.",
    usage: "Failed: the operator may not create Events; dropped: more than could be sent.",
};
/// Who may write.
pub const LEADER: Metric = Metric {
    name: "memcached_operator_leader",
    kind: Kind::Gauge,
    labels: &[],
    help: "1 while this process may write, else 0.",
    usage: "The sum over an installation is 1; 0 for long means that nothing is done for any cache.",
};
/// Resources that wait.
pub const QUEUE_DEPTH: Metric = Metric {
    name: "memcached_operator_queue_depth",
    kind: Kind::Gauge,
    labels: &[],
    help: "Resources that wait for a pass.",
    usage: "Above 0 for minutes on the leader: the API server is slow, or the operator is stuck.",
};
/// How long a resource takes.
pub const RECONCILE_DURATION: Metric = Metric {
    name: "memcached_operator_reconcile_duration_seconds",
    kind: Kind::Histogram,
    labels: &[],
    help: "Time from taking a resource from the queue until nothing was left to send for it.",
    usage: "A rise follows the API server's latency.",
};
/// What went wrong.
pub const RECONCILE_ERRORS: Metric = Metric {
    name: "memcached_operator_reconcile_errors_total",
    kind: Kind::Counter,
    labels: &[labels::CATEGORY],
    help: "Times that a resource came to rest with a failure, by its category.",
    usage: "Find the resource by the reason of its condition; the log has each error once.",
};
/// What became of children.
pub const RECONCILE_RESOURCE: Metric = Metric {
    name: "memcached_operator_reconcile_resource_total",
    kind: Kind::Counter,
    labels: &[labels::RESOURCE_KIND, labels::CHILD_RESULT],
    help: "Children written, or found as they should be, by kind and result.",
    usage: "Updates without edits by users: somebody else changes the children.",
};
/// How passes ended.
pub const RECONCILE: Metric = Metric {
    name: "memcached_operator_reconcile_total",
    kind: Kind::Counter,
    labels: &[labels::RESULT],
    help: "Times that a resource came to rest after passes, by whether all was in place.",
    usage: "The rate of work, and its share of errors.",
};
/// Rollouts.
pub const ROLLOUTS: Metric = Metric {
    name: "memcached_operator_rollouts_total",
    kind: Kind::Counter,
    labels: &[labels::CAUSE],
    help: "Rollouts begun, by cause: pods that are replaced are empty.",
    usage: "Cause drift: somebody else changes pod templates; the resource's Events name the cache. Cause definition: an older definition \
            or release reads the stored specs otherwise.",
};
/// Resources that wait for their turn.
pub const ROLLOUTS_WAITING: Metric = Metric {
    name: "memcached_operator_rollouts_waiting",
    kind: Kind::Gauge,
    labels: &[],
    help: "Resources whose pods are to roll for a changed Secret or a newer template, and that wait for their turn.",
    usage: "How far a rotation or an adoption is. If it does not fall, the rolling caches are stuck. 0 where another pod of the operator leads.",
};
/// Secrets that pods take in place.
pub const SECRET_ROTATIONS: Metric = Metric {
    name: "memcached_operator_secret_rotations_total",
    kind: Kind::Counter,
    labels: &[labels::ROTATION_RESULT],
    help: "What came of changed Secrets that pods take in place: all took them, or somebody has to look.",
    usage: "Refused, unreachable and stalled: the resource's condition Stalled says which pod and why. restart_needed: \
            `status.warnings` says what waits for a restart of the pods.",
};
/// Failed lists and watches.
pub const WATCH_ERRORS: Metric = Metric {
    name: "memcached_operator_watch_errors_total",
    kind: Kind::Counter,
    labels: &[labels::KIND],
    help: "Failed lists and watches, by kind.",
    usage: "Rising: the log says what the API server answered; most often a missing RBAC rule.",
};
/// Silence of watches.
pub const WATCH_LAST_EVENT_AGE: Metric = Metric {
    name: "memcached_operator_watch_last_event_age_seconds",
    kind: Kind::Gauge,
    labels: &[labels::KIND],
    help: "Time since the last sign of life of a watch, bookmarks included.",
    usage: "Above 5 minutes: the operator does not see changes of this kind.",
};
/// Relists: each restarts a watch.
pub const WATCH_RESTARTS: Metric = Metric {
    name: "memcached_operator_watch_restarts_total",
    kind: Kind::Counter,
    labels: &[labels::KIND],
    help: "Watches restarted with a relist, by kind.",
    usage: "Every half hour is normal; many more load the API server.",
};
/// Objects passed over.
pub const WATCH_UNREADABLE: Metric = Metric {
    name: "memcached_operator_watch_unreadable_total",
    kind: Kind::Counter,
    labels: &[labels::KIND],
    help: "Objects passed over because they could not be read.",
    usage: "Above 0: the log names the object at level debug; the operator treats it as absent.",
};

/// Every metric of ours; the process metrics (`process_...`) come from the library. A test of the page finds one that is served
/// and not here.
pub const ALL: [Metric; 29] = [
    ADOPTION_HALTED,
    API_REQUEST_DURATION,
    API_REQUESTS,
    BUILD_INFO,
    CERTIFICATE_NOT_AFTER,
    INSTANCE_CONDITION,
    INSTANCE_INFO,
    INSTANCE_REPLICAS_DESIRED,
    INSTANCE_REPLICAS_READY,
    INSTANCE_ROLLOUTS,
    INSTANCE_TEMPLATE_REVISION,
    INSTANCE_WARNING,
    JOURNAL_ERRORS,
    JOURNAL_GAP,
    JOURNAL_GAPS,
    KUBE_EVENTS,
    LEADER,
    QUEUE_DEPTH,
    RECONCILE_DURATION,
    RECONCILE_ERRORS,
    RECONCILE_RESOURCE,
    RECONCILE,
    ROLLOUTS,
    ROLLOUTS_WAITING,
    SECRET_ROTATIONS,
    WATCH_ERRORS,
    WATCH_LAST_EVENT_AGE,
    WATCH_RESTARTS,
    WATCH_UNREADABLE,
];
