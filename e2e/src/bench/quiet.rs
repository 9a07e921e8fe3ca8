//! What an operator sends: takes a cluster with an audit log and a [`Fleet`] on it, gives every request of a cold start,
//! of a restart with nothing to do, and of an idle time. Called by [`super::run`] and by `tests/cost.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;

use super::fleet::Fleet;
use super::{cold_start, settled};
use crate::cluster::Cluster;
use crate::testing::audit::{AuditLog, Mark, Request};

/// How many requests there are of each verb and resource.
pub type Counts = BTreeMap<(String, String), usize>;

/// What one operator and its successor sent.
#[derive(Debug, PartialEq, Eq)]
pub struct Quiet {
    /// Writes of the cold start, Kubernetes Events aside.
    pub cold_start: Counts,
    /// Everything between the second operator's start and its rest, lists, watches and the question for the API
    /// server's version aside.
    pub restart: Counts,
    /// Everything of the idle time after that, watches aside.
    pub idle: Counts,
}

/// Has an operator do a cold start, restarts it, and lets it idle.
///
/// # Errors
/// When the cluster or the operator fails.
pub async fn measure(cluster: &Cluster, fleet: &Fleet, idle: Duration) -> Result<Quiet> {
    let log = AuditLog::for_cluster(cluster);
    fleet.fill().await?;
    let started = log.mark()?;
    let (operator, _) = cold_start::operator_run(fleet).await?;
    operator.terminate().await?;
    let cold_start = count(&log, started, |it| it.is_write() && it.resource != "events")?;

    let restarted = log.mark()?;
    let mut operator = fleet.operator()?;
    operator.await_ready().await?;
    settled::after_restart(&operator, fleet).await?;
    let looks = |it: &Request| matches!(&*it.verb, "list" | "watch") || it.resource == "/version";
    let restart = count(&log, restarted, |it| !looks(it))?;

    let settled = log.mark()?;
    // Not a wait: this is what is measured.
    tokio::time::sleep(idle).await;
    let idle = count(&log, settled, |it| it.verb != "watch")?;
    Ok(Quiet { cold_start, restart, idle })
}

/// The operator's requests since a mark for which `counts` is true.
fn count(log: &AuditLog, since: Mark, counts: impl Fn(&Request) -> bool) -> Result<Counts> {
    let mut found = Counts::new();
    for request in log.since(since)? {
        if request.user_agent.starts_with("memcached-operator/") && counts(&request) {
            *found.entry((request.verb, request.resource)).or_default() += 1;
        }
    }
    Ok(found)
}
