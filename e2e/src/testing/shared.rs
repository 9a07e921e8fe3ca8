//! The cluster that all test programs share, and names that no other test has. Called by tests and by the other files of
//! this folder.

use std::env;
use std::hash::{BuildHasher, RandomState};

use anyhow::{Result, ensure};
use kube::Client;

use crate::cluster::{Cluster, Shape};
use crate::programs::Kubernetes;
use crate::test_times::TestTime;

/// The names of the clusters that test programs share, of the oldest and of the newest Kubernetes: tests of both may run
/// at the same time. `make test` removes each after the last of its tests.
const SHARED: [&str; 2] = ["tests", "tests-newest"];
/// Names another one, for programs that run beside those that share the first.
const WHICH: &str = "E2E_SHARED_CLUSTER";

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
    let _time = TestTime::begin();
    let [oldest, newest] = SHARED;
    let usual = if Kubernetes::is_newest()? { newest } else { oldest };
    let name = env::var(WHICH).unwrap_or_else(|_| usual.to_owned());
    Cluster::shared(&name, Shape::Node).await
}

/// A name that no other test has: the prefix, a hyphen and eight characters.
pub fn unique(prefix: &str) -> String {
    let random = RandomState::new().hash_one(std::process::id());
    format!("{prefix}-{:08x}", random >> 32)
}
