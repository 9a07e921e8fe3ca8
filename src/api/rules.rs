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
/// For an image that is no reference.
pub const IMAGE: &str = "image must be a reference of the form [registry[:port]/]name[:tag][@digest]";

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

/// For authentication without a Secret.
pub const SASL_SECRET: &str = "credentialsSecretRef.name is required when SASL is enabled";

/// Characters of a resource's name at most: it becomes a Service's name and a label value.
pub const NAME_LENGTH: usize = 63;
/// A DNS-1035 label, length aside.
pub const NAME_PATTERN: &str = "^[a-z]([-a-z0-9]*[a-z0-9])?$";
/// For a name that no Service can have.
pub const NAME: &str = "name must be a DNS-1035 label: at most 63 lower-case letters, digits and '-', \
                        starting with a letter and not ending with '-'";

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
