//! What the operator sends to an API server that nobody else uses, to the last request: the bounds of `make bench` that
//! do not depend on the machine.
//!
//! Its own cluster, without controllers: requests are counted, and an operator is started twice.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use e2e::bench::fleet::Fleet;
use e2e::bench::quiet::{self, Quiet};
use e2e::testing::unique;
use e2e::{Shape, TemporaryCluster};

const RESOURCES: usize = 100;
/// How long the operator is watched while it has nothing to do. `make bench` takes a minute.
const IDLE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_resource_costs_four_writes_and_a_settled_world_none_even_after_a_restart() -> Result<()> {
    let cluster = TemporaryCluster::up(&unique("cost"), Shape::ApiServer).await?;
    let fleet = Fleet::prepare(&cluster, RESOURCES).await?;
    let sent = quiet::measure(&cluster, &fleet, IDLE).await?;
    let writes = ["configmaps", "deployments", "memcacheds/status", "services"];
    let each = writes.map(|resource| (("patch".to_owned(), resource.to_owned()), RESOURCES));
    let wanted = Quiet { cold_start: each.into(), restart: BTreeMap::new(), idle: BTreeMap::new() };
    assert_eq!(sent, wanted);
    Ok(())
}
