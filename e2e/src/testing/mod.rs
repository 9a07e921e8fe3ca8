//! What the tests against a real Kubernetes use: takes the shared cluster, gives each test a namespace of its own, and
//! ways to wait, count and talk. Called by `e2e/tests`, the demo and the benchmark.
//!
//! ```text
//! #[tokio::test]
//! async fn a_cache_answers() -> anyhow::Result<()> {
//!     in_namespace("answers", async |space| {
//!         space.apply(&deployment).await?;
//!         space.wait::<Deployment>("cache", "is available", Duration::from_secs(30), |it| it.is_some_and(available)).await?;
//!         Ok(())
//!     })
//!     .await
//! }
//! ```

pub mod account;
pub mod arena;
pub mod audit;
pub mod cache;
mod discovery;
mod dump;
pub mod kstatus;
pub mod kubelet;
mod lent;
pub mod life;
pub mod memcached;
pub mod monitors;
pub mod nodes;
pub mod operator;
pub mod permissions;
pub mod prometheus;
pub mod release;
pub mod rights;
pub mod serving;
mod space;
mod wait;

use std::hash::{BuildHasher, RandomState};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use kube::Client;

pub use lent::Lent;
pub use space::{Space, in_namespace, in_namespace_of};
pub use wait::{await_answer, await_object};

use crate::cluster::{Cluster, Shape};
use crate::programs::Kubernetes;

/// The name of the cluster that all test programs share; `make test` removes it at the end.
pub const SHARED: &str = "tests";

/// Whether the API server is of the version that was asked for.
///
/// # Errors
/// When it is of another, or does not say so.
pub async fn is_of_the_right_version(client: &Client) -> Result<()> {
    let (found, wanted) = (client.apiserver_version().await?.git_version, Kubernetes::version()?);
    ensure!(found == wanted, "the API server is of {found} instead of {wanted}");
    Ok(())
}

/// The cluster that all test programs share, made by whichever comes first.
///
/// # Errors
/// As [`Cluster::shared`].
pub async fn shared_cluster() -> Result<Cluster> {
    Cluster::shared(SHARED, Shape::Node).await
}

/// Removes a cluster when this program ends, however it does: the child's standard input ends with the program, and no
/// test knows whether it is the last. `e2e` is the program of that name.
///
/// # Errors
/// When the child cannot be started.
pub fn down_at_the_end(e2e: &str, cluster: &str) -> Result<()> {
    let child = Command::new("/bin/sh")
        .args(["-c", "read -r _; exec \"$0\" down --name \"$1\"", e2e, cluster])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start what removes the cluster")?;
    std::mem::forget(child); // with its standard input
    Ok(())
}

/// A name that no other test has: the prefix, a hyphen and eight characters.
pub fn unique(prefix: &str) -> String {
    let random = RandomState::new().hash_one(std::process::id());
    format!("{prefix}-{:08x}", random >> 32)
}
