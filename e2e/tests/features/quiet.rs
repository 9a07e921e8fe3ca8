//! Waits until nobody writes any more: takes a namespace, follows the API server's audit log for a while. Called by the tests
//! that hold that something costs no write, or that the operator and a controller do not undo each other's writes.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::testing::audit::AuditLog;
use e2e::testing::{Space, await_answer};

/// How long nobody may write: more than a round of the autoscaler, which goes around every 5 s here (`e2e/src/control_plane.rs`).
const QUIET: Duration = Duration::from_secs(6);

/// Waits until for some seconds nobody has written a workload of the namespace, nor the operator anything.
pub(crate) async fn nobody_writes(space: &Space) -> Result<()> {
    let log = AuditLog::for_cluster(space.cluster());
    await_answer("nobody writes", async || {
        let mark = log.mark()?;
        // A measurement, not a wait: that nothing happens shows only after a while.
        tokio::time::sleep(QUIET).await;
        let mut writes = BTreeMap::<_, usize>::new();
        for it in log.since(mark)?.into_iter().filter(|it| it.is_write() && it.namespace == space.name()) {
            let of_operator = it.user_agent.starts_with("memcached-operator/");
            let of_workload =
                ["deployments", "statefulsets"].iter().any(|kind| it.resource.starts_with(kind));
            if of_operator || of_workload {
                *writes.entry(format!("{} {} {}", it.user_agent, it.verb, it.resource)).or_default() += 1;
            }
        }
        ensure!(writes.is_empty(), "{writes:?}");
        Ok(())
    })
    .await
}
