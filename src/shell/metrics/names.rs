//! Names, units, labels and meanings of all metrics: alerts, dashboard and documentation are held against this
//! file. Pure data.
//!
//! A unit is the last word of a name (`_seconds`), `_total` marks a counter. A label's value comes from an enum,
//! or is the name of an object, or, in `instance_info` only, the image that the user chose.

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
}

const fn metric(name: &'static str, help: &'static str) -> Metric {
    Metric { name, help }
}

/// Label: why a request failed, [`crate::kernel::failure::Category`].
pub const CATEGORY: &str = "category";
/// Label: why pods roll, [`crate::kernel::effect::RolloutCause`].
pub const CAUSE: &str = "cause";
/// Label: the image of memcached.
pub const IMAGE: &str = "image";
/// Label: a watched kind.
pub const KIND: &str = "kind";
/// Label: name of a resource.
pub const NAME: &str = "name";
/// Label: namespace of a resource.
pub const NAMESPACE: &str = "namespace";
/// Label: kind of a child.
pub const RESOURCE_KIND: &str = "resource_kind";
/// Label: how something ended.
pub const RESULT: &str = "result";
/// Label: version of the operator.
pub const VERSION: &str = "version";

/// 0 or 1.
pub const ADOPTION_HALTED: Metric = metric(
    "memcached_operator_adoption_halted",
    "1 while no resource adopts a newer pod template because one that did is stalled, else 0.",
);
/// Label `version`; always 1.
pub const BUILD_INFO: Metric = metric("memcached_operator_build_info", "The running build; always 1.");
/// Labels `namespace`, `name`, `image`; always 1.
pub const INSTANCE_INFO: Metric =
    metric("memcached_operator_instance_info", "A resource and its image; always 1.");
/// Labels `namespace`, `name`.
pub const INSTANCE_REPLICAS_DESIRED: Metric =
    metric("memcached_operator_instance_replicas_desired", "Pods that a resource wants.");
/// Labels `namespace`, `name`.
pub const INSTANCE_REPLICAS_READY: Metric =
    metric("memcached_operator_instance_replicas_ready", "Pods of a resource that are ready.");
/// Counts.
pub const JOURNAL_ERRORS: Metric =
    metric("memcached_operator_journal_errors_total", "Failures to write the journal.");
/// Counts.
pub const JOURNAL_GAPS: Metric = metric(
    "memcached_operator_journal_gaps_total",
    "Times that steps were left out of the journal because the disk failed or was too slow.",
);
/// 0 or 1.
pub const LEADER: Metric = metric("memcached_operator_leader", "1 while this process may write, else 0.");
/// Label `result`.
pub const NOTICES: Metric =
    metric("memcached_operator_notices_total", "Kubernetes Events, by whether the API server took them.");
/// Resources.
pub const QUEUE_DEPTH: Metric = metric("memcached_operator_queue_depth", "Resources that wait for a pass.");
/// Histogram.
pub const RECONCILE_DURATION: Metric = metric(
    "memcached_operator_reconcile_duration_seconds",
    "Time from taking a resource from the queue until nothing was left to send for it.",
);
/// Label `category`.
pub const RECONCILE_ERRORS: Metric = metric(
    "memcached_operator_reconcile_errors_total",
    "Times that a resource came to rest with a failure, by its category.",
);
/// Labels `resource_kind`, `result`.
pub const RECONCILE_RESOURCE: Metric = metric(
    "memcached_operator_reconcile_resource_total",
    "Children written, or found as they should be, by kind and result.",
);
/// Label `result`.
pub const RECONCILE: Metric = metric(
    "memcached_operator_reconcile_total",
    "Times that a resource came to rest after passes, by whether all was in place.",
);
/// Label `cause`.
pub const ROLLOUTS: Metric =
    metric("memcached_operator_rollouts_total", "Rollouts begun, by cause: each empties a cache.");
/// Resources.
pub const ROLLOUTS_WAITING: Metric = metric(
    "memcached_operator_rollouts_waiting",
    "Resources whose pods are to roll for a changed Secret or a newer template, and that wait for their turn.",
);
/// Label `kind`.
pub const WATCH_ERRORS: Metric =
    metric("memcached_operator_watch_errors_total", "Failed lists and watches, by kind.");
/// Label `kind`.
pub const WATCH_LAST_EVENT_AGE: Metric = metric(
    "memcached_operator_watch_last_event_age_seconds",
    "Time since the last sign of life of a watch, bookmarks included.",
);
/// Label `kind`.
pub const WATCH_RESTARTS: Metric =
    metric("memcached_operator_watch_restarts_total", "Watches begun anew with a list, by kind.");
/// Label `kind`.
pub const WATCH_UNREADABLE: Metric = metric(
    "memcached_operator_watch_unreadable_total",
    "Objects passed over because they could not be read.",
);

/// Every metric of ours; the process metrics (`process_...`) come from the library.
pub const ALL: [Metric; 20] = [
    ADOPTION_HALTED,
    BUILD_INFO,
    INSTANCE_INFO,
    INSTANCE_REPLICAS_DESIRED,
    INSTANCE_REPLICAS_READY,
    JOURNAL_ERRORS,
    JOURNAL_GAPS,
    LEADER,
    NOTICES,
    QUEUE_DEPTH,
    RECONCILE_DURATION,
    RECONCILE_ERRORS,
    RECONCILE_RESOURCE,
    RECONCILE,
    ROLLOUTS,
    ROLLOUTS_WAITING,
    WATCH_ERRORS,
    WATCH_LAST_EVENT_AGE,
    WATCH_RESTARTS,
    WATCH_UNREADABLE,
];
