//! The cluster that all test programs share, and names that no other test has. Called by tests and by the other files of
//! this folder.

use std::hash::{BuildHasher, RandomState};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use kube::Client;

use crate::cluster::{Cluster, Shape};
use crate::paths;
use crate::programs::Kubernetes;

/// The names of the clusters that test programs share, of the oldest and of the newest Kubernetes: tests of both may run
/// at the same time. `make test` removes both at the end.
const SHARED: [&str; 2] = ["tests", "tests-newest"];

/// Whether the API server is of the version that was asked for.
///
/// # Errors
/// When it is of another, or does not say so.
pub async fn is_of_the_right_version(client: &Client) -> Result<()> {
    let (found, wanted) = (client.apiserver_version().await?.git_version, Kubernetes::version()?);
    ensure!(found == wanted, "the API server is of {found} instead of {wanted}");
    Ok(())
}

/// The cluster that all test programs for one Kubernetes share, made by whichever comes first.
///
/// # Errors
/// As [`Cluster::shared`].
pub async fn shared_cluster() -> Result<Cluster> {
    let [oldest, newest] = SHARED;
    Cluster::shared(if Kubernetes::is_newest()? { newest } else { oldest }, Shape::Node).await
}

/// Removes a cluster when this program ends, however it ends: the child's standard input ends with the program, and no
/// test knows whether it is the last. The child heeds no signal: who interrupts the tests interrupts their whole group,
/// and the cluster would stay.
///
/// # Errors
/// When the child cannot be started.
pub fn down_at_the_end(cluster: &str) -> Result<()> {
    let child = Command::new("/bin/sh")
        .args(["-c", "trap '' INT TERM HUP; read -r _; exec \"$0\" down --name \"$1\""])
        .arg(paths::built("e2e")?)
        .arg(cluster)
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
