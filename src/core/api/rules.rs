//! The numbers, patterns and sentences of every rule of the resource. Pure data.
//!
//! [`super::spec`] puts them into the schema, [`super::cel`] into the rules that the API server runs, and
//! [`super::validate`] checks them once more: each stands here once, so that the three cannot drift apart.
//! Defaults are frozen once released: a changed one would roll the pods of everybody who relied on it.

/// A whole number with its range and default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// Smallest allowed value.
    pub min: i32,
    /// Largest allowed value.
    pub max: i32,
    /// What a missing value means; a zero too, where zero is not allowed.
    pub default: i32,
}

/// `spec.replicas`.
pub const REPLICAS: Number = Number { min: 0, max: 64, default: 1 };
/// `spec.memcached.maxMemoryMB`, in MiB.
pub const MAX_MEMORY_MB: Number = Number { min: 16, max: 65_536, default: 64 };
/// `spec.memcached.maxConnections`.
pub const MAX_CONNECTIONS: Number = Number { min: 1, max: 65_536, default: 1024 };
/// `spec.memcached.threads`.
pub const THREADS: Number = Number { min: 1, max: 128, default: 4 };
/// `spec.memcached.verbosity`.
pub const VERBOSITY: Number = Number { min: 0, max: 2, default: 0 };
/// `spec.highAvailability.gracefulShutdown.preStopDelaySeconds`.
pub const PRE_STOP_SECONDS: Number = Number { min: 1, max: 300, default: 10 };
/// `spec.highAvailability.gracefulShutdown.terminationGracePeriodSeconds`.
pub const GRACE_SECONDS: Number = Number { min: 1, max: 600, default: 30 };
/// `spec.autoscaling.minReplicas` and `maxReplicas`; the default is the minimum's.
pub const SCALED_REPLICAS: Number = Number { min: 1, max: i32::MAX, default: 1 };

/// Default of `spec.image`.
pub const DEFAULT_IMAGE: &str = "memcached:1.6";
/// Characters of an image reference at most; CEL's cost budget needs a bound.
pub const IMAGE_LENGTH: usize = 4096;
/// `[registry[:port]/]path[:tag][@digest]`, as container runtimes parse it.
pub const IMAGE_PATTERN: &str = concat!(
    "^(([A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?([.][A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*",
    r"|\[[0-9A-Fa-f:]+\])(:[0-9]+)?/)?",
    "[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*",
    "(:[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?",
    "(@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,})?$"
);

/// Default of `spec.memcached.maxItemSize`.
pub const DEFAULT_ITEM_SIZE: &str = "1m";
/// A size as memcached's -I reads it.
pub const ITEM_SIZE_PATTERN: &str = "^[0-9]+(k|m)$";
/// Characters of a size at most: what fits a 64-bit number of KiB with room to spare.
pub const ITEM_SIZE_LENGTH: usize = 15;
/// KiB: sizes that are no multiple end memcached at its start ("must be evenly divisible by slab_chunk_max").
pub const ITEM_SIZE_STEP: i64 = 512;
/// KiB: memcached refuses more than 1024m.
pub const ITEM_SIZE_MAX: i64 = 1024 * 1024;
/// For a size that memcached itself would refuse.
pub const ITEM_SIZE: &str = "maxItemSize must be a multiple of 512k, from 512k to 1024m";

/// Arguments at most; CEL's cost budget needs a bound.
pub const ARGUMENTS: usize = 256;
/// Characters of one argument at most.
pub const ARGUMENT_LENGTH: usize = 4096;
/// For an argument that no command line can carry, or that would break logs and `ps` into lines.
pub const ARGUMENT: &str = "an argument must not contain NUL or a newline";

/// MiB that a memory limit has to leave beside the items: connections, threads, hash table.
pub const MEMORY_OVERHEAD_MB: i32 = 32;
/// A quantity of zero or more. Digits are bounded, so that whatever matches can be
/// compared exactly, and by the API server in no time.
pub const QUANTITY_PATTERN: &str =
    "^[+]?([0-9]{1,19}([.][0-9]{0,9})?|[.][0-9]{1,9})([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,2})?$";

/// Values of `spec.highAvailability.antiAffinityPreset`.
pub const ANTI_AFFINITY_PRESETS: [&str; 2] = ["soft", "hard"];
/// Its default, where the section is present.
pub const DEFAULT_ANTI_AFFINITY_PRESET: &str = "soft";

/// A share of the pods. Kubernetes refuses more than 100 %.
pub const PERCENT_PATTERN: &str = "^([0-9]{1,2}|100)%$";
/// For both limits of a disruption budget at once.
pub const BUDGET_OF_BOTH: &str = "minAvailable and maxUnavailable are mutually exclusive, specify only one";
/// For neither.
pub const BUDGET_OF_NEITHER: &str = "one of minAvailable or maxUnavailable must be set when PDB is enabled";
/// For a budget that lets no pod go, however many there are.
pub const ALL_STAY: &str = "minAvailable must be less than 100%, or no node could ever be drained";
/// The same, said by the other limit.
pub const NONE_GOES: &str = "maxUnavailable must be more than zero, or no node could ever be drained";

/// What webhooks of the past wrote into `spec.monitoring.exporterImage`: it says nothing about what the user wants.
pub const WEBHOOK_EXPORTER_IMAGE: &str = "prom/memcached-exporter:v0.15.4";
/// Default of `spec.monitoring.serviceMonitor.interval`.
pub const DEFAULT_INTERVAL: &str = "30s";
/// Default of `spec.monitoring.serviceMonitor.scrapeTimeout`, where the interval is not shorter.
pub const DEFAULT_SCRAPE_TIMEOUT: &str = "10s";
/// Units of a duration with their milliseconds, in the order in which Prometheus takes them.
pub const DURATION_UNITS: [(&str, i64); 7] = [
    ("y", 31_536_000_000),
    ("w", 604_800_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];
/// A duration as Prometheus reads it, zero and nothing aside.
pub const DURATION_PATTERN: &str = "^([0-9]{1,3}y)?([0-9]{1,9}w)?([0-9]{1,9}d)?([0-9]{1,9}h)?([0-9]{1,9}m)?\
                                    ([0-9]{1,9}s)?([0-9]{1,9}ms)?$";
/// Characters of a duration at most: more than the pattern takes; CEL's cost budget needs a bound.
pub const DURATION_LENGTH: usize = 128;
/// Milliseconds of a duration at most: Prometheus counts nanoseconds in 64 bits.
pub const DURATION_MAX: i64 = i64::MAX / 1_000_000;

/// Values of `spec.security.tls.plaintext`.
pub const PLAINTEXT: [&str; 3] = ["Disabled", "Localhost", "Allowed"];
/// Its default, where the section is present.
pub const DEFAULT_PLAINTEXT: &str = "Disabled";
/// For authentication without a Secret.
pub const SASL_SECRET: &str = "credentialsSecretRef.name is required when SASL is enabled";
/// For encryption without a Secret.
pub const TLS_SECRET: &str = "certificateSecretRef.name is required when TLS is enabled";
/// Name of a Secret, a ServiceAccount or a PriorityClass, or empty for none. It becomes part of a request's path.
pub const OBJECT_NAME_PATTERN: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$";
/// Characters of such a name at most.
pub const OBJECT_NAME_LENGTH: usize = 253;

/// For autoscaling without an upper end.
pub const MAX_REPLICAS: &str = "maxReplicas is required when autoscaling is enabled";
/// Name of memcached's container, as metrics of autoscaling name it.
pub const CONTAINER: &str = "memcached";
/// For a share of a CPU request that there is not. A limit is a request too.
pub const CPU_REQUEST: &str = "resources.requests.cpu is required when using CPU utilization metrics";

/// Items at most of a list that the API server merges by keys; CEL's cost budget needs a bound.
pub const KEYED_ITEMS: usize = 64;
/// For two constraints that the API server takes for one: it refuses the Deployment.
pub const SPREAD_DIFFERS: &str = "topologySpreadConstraints must not have two items with the same topologyKey and \
                                  whenUnsatisfiable";
/// Characters of a topologyKey at most: those of a label's key, prefix and slash included.
pub const TOPOLOGY_KEY_LENGTH: usize = 317;
/// Characters of whenUnsatisfiable at most: more than Kubernetes' words have.
pub const WHEN_UNSATISFIABLE_LENGTH: usize = 63;
/// For two references that the API server takes for one: it refuses the Deployment.
pub const PULL_SECRETS_DIFFER: &str = "imagePullSecrets must not have two items with the same name";

/// Values of `spec.pod.imagePullPolicy`.
pub const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];

/// Labels, or annotations, of one map at most; CEL's cost budget needs a bound.
pub const LABELS: usize = 128;
/// Key of a label.
pub const LABEL_KEY_PATTERN: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?\
                                     [A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$";
/// Key of an annotation: Kubernetes does not mind capitals in its prefix.
pub const ANNOTATION_KEY_PATTERN: &str = "^([A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?\
                                          ([.][A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*/)?\
                                          [A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$";
/// Characters before a key's slash at most.
pub const KEY_PREFIX_LENGTH: usize = 253;
/// Value of a label.
pub const LABEL_VALUE_PATTERN: &str = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$";
/// Characters of a label's value at most.
pub const LABEL_VALUE_LENGTH: usize = 63;
/// For a key that Kubernetes refuses.
pub const LABEL_KEY: &str = "a label's key must be a name of at most 63 letters, digits, '-', '_' and '.', \
                             alone or after a lower-case DNS name and '/'";
/// For a key that Kubernetes refuses.
pub const ANNOTATION_KEY: &str = "an annotation's key must be a name of at most 63 letters, digits, '-', '_' \
                                  and '.', alone or after a DNS name and '/'";
/// What keys of the operator's own labels and annotations start with.
pub const OUR_PREFIX: &str = "memcached.c5c3.io/";
/// Keys of the labels by which the operator finds its pods.
pub const OUR_LABELS: [&str; 3] =
    ["app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by"];
/// For a label that only the operator may set.
pub const LABELS_NOT_OURS: &str = "labels under memcached.c5c3.io/, and app.kubernetes.io/name, instance and \
                                   managed-by, are the operator's own";
/// For an annotation that only the operator may set.
pub const ANNOTATIONS_NOT_OURS: &str = "annotations under memcached.c5c3.io/ are the operator's own";

/// Characters of a resource's name at most: it becomes a Service's name and a label value.
pub const NAME_LENGTH: usize = 63;
/// A DNS-1035 label, length aside.
pub const NAME_PATTERN: &str = "^[a-z]([-a-z0-9]*[a-z0-9])?$";
/// For a name that no Service can have.
pub const NAME: &str = "name must be a DNS-1035 label: at most 63 lower-case letters, digits and '-', \
                        starting with a letter and not ending with '-'";

/// For an image that is no reference, in the field of that name.
#[must_use]
pub fn image(field: &str) -> String {
    format!("{field} must be a reference of the form [registry[:port]/]name[:tag][@digest]")
}

/// For what is no duration, in the field of that name.
#[must_use]
pub fn duration(field: &str) -> String {
    format!("{field} must be a duration as Prometheus writes it, longer than zero: 30s, 1m30s, 500ms")
}

/// For a memory limit that leaves no room beside `maxMemoryMB`. Whole GiB are written so, as Kubernetes does.
#[must_use]
pub fn memory_limit(max_memory_mb: i32) -> String {
    let least = max_memory_mb.saturating_add(MEMORY_OVERHEAD_MB);
    let (amount, unit) = if least % 1024 == 0 { (least / 1024, "Gi") } else { (least, "Mi") };
    format!(
        "memory limit must be at least {amount}{unit} (maxMemoryMB={max_memory_mb}Mi + {MEMORY_OVERHEAD_MB}Mi overhead)"
    )
}

/// For items larger than memcached allows in that much memory.
#[must_use]
pub fn item_size_of_memory(max_memory_mb: i32) -> String {
    format!("maxItemSize must be at most half of maxMemoryMB ({max_memory_mb}Mi)")
}

/// For a disruption budget that keeps every pod. `value` is as written, `count` the pods of the field `of`.
#[must_use]
pub fn min_available(value: &str, of: &str, count: i32) -> String {
    let rounded = if value.ends_with('%') { " when rounded up" } else { "" };
    format!("minAvailable ({value}) must be less than {of} ({count}){rounded}")
}

/// For a pod that is killed before it was told to end.
#[must_use]
pub fn grace(grace_seconds: i32, pre_stop_seconds: i32) -> String {
    format!(
        "terminationGracePeriodSeconds ({grace_seconds}) must exceed preStopDelaySeconds ({pre_stop_seconds})"
    )
}

/// For a scrape that would outlast the time until the next.
#[must_use]
pub fn scrape_timeout(timeout: &str, interval: &str) -> String {
    format!("scrapeTimeout ({timeout}) must not exceed interval ({interval})")
}

/// For bounds that leave no number of pods.
#[must_use]
pub fn replica_bounds(min: i32, max: i32) -> String {
    format!("minReplicas ({min}) must not exceed maxReplicas ({max})")
}
