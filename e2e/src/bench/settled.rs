//! Waits until an operator has nothing left to do: takes a running operator, reads its metrics until they say so. Called by the
//! measurements.

use std::time::Duration;

use anyhow::{Result, ensure};
use memcached_operator::shell::metrics::names::{self, Metric};

use super::fleet::{CHILDREN, Fleet};
use crate::testing::await_answer_within;
use crate::testing::operator::Operator;

/// Far more than the operator takes to come to rest.
const AT_REST_WITHIN: Duration = Duration::from_secs(300);

/// Waits until the operator has created everything and every Kubernetes Event about that is sent or dropped.
///
/// # Errors
/// When minutes are not enough: with how far it came.
pub(super) async fn after_cold_start(operator: &Operator, fleet: &Fleet) -> Result<()> {
    // One for each child.
    let kube_events = fleet.count() * CHILDREN.len();
    wait(operator, fleet.count(), kube_events).await
}

/// Waits until the operator, which found everything in place, has looked at every resource.
///
/// # Errors
/// When minutes are not enough: with how far it came.
pub(super) async fn after_restart(operator: &Operator, fleet: &Fleet) -> Result<()> {
    wait(operator, fleet.count(), 0).await
}

async fn wait(operator: &Operator, passes: usize, kube_events: usize) -> Result<()> {
    await_answer_within("the operator comes to rest", AT_REST_WITHIN, async || {
        let (_, text) = operator.get("/metrics").await?;
        let queued = value(&text, names::QUEUE_DEPTH);
        let passed = value(&text, names::RECONCILE);
        let sent_or_dropped = value(&text, names::KUBE_EVENTS);
        ensure!(queued == 0, "{queued} resources wait for a pass");
        ensure!(passed >= passes, "{passed} of {passes} resources are at rest");
        ensure!(
            sent_or_dropped >= kube_events,
            "{sent_or_dropped} of {kube_events} Kubernetes Events are sent or dropped"
        );
        Ok(())
    })
    .await
}

/// All series of a metric together; 0 where there is none.
fn value(text: &str, metric: Metric) -> usize {
    let samples = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(metric.name)?;
        rest.starts_with([' ', '{']).then(|| rest.rsplit_once(' ')?.1.parse::<usize>().ok())?
    });
    samples.sum()
}
