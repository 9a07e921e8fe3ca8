//! Caches on a real node: what becomes of a `Memcached` resource in everyday life, seen by its clients, by `kubectl`
//! and by deployment tools. Every test follows its resource from before it exists and ends by proving that no version
//! of it misled the kstatus library ([`StatusWatch`]).

mod deletion;
mod images;
mod named_pods;
mod orphans;
mod plugin;
mod rollouts;
mod scaling;
mod settings;

use anyhow::{Context, Result};
use e2e::process;
use e2e::testing::cache::{Cache, install};
use e2e::testing::operator::{Launch, Operator, binary};
use e2e::testing::permissions::as_installed;
use e2e::testing::{SharedFixture, Space, in_namespace_of, shared_cluster};
use kube::Client;
use memcached_operator::api::crd::crd;

/// The one operator of these tests: two would both write.
static OPERATOR: SharedFixture<Operator> = SharedFixture::new();

/// Runs a test's body with a cache that does not exist yet, in a namespace of its own, under the operator's eyes.
async fn with_cache(name: &str, body: impl AsyncFnOnce(&Cache<'_>) -> Result<()>) -> Result<()> {
    let cluster = shared_cluster().await?;
    let log = cluster.folder().join("real-node-operator.log");
    let operator = OPERATOR
        .borrow(async || {
            install(&Client::try_from(cluster.config("e2e-test/install").await?)?, &crd()).await?;
            let launch = Launch {
                program: binary()?,
                kubeconfig: as_installed(&cluster).await?,
                log: log.clone(),
                args: vec![],
                env: vec![process::mark(cluster.folder())],
            };
            Operator::start(&launch).await
        })
        .await?;
    let outcome = in_namespace_of(&cluster, name, async |space: &Space| {
        let cache = Cache::follow(space, name).await?;
        body(&cache).await
    })
    .await;
    let log = operator.log().display();
    outcome.with_context(|| format!("the operator's log is {log}"))
}
