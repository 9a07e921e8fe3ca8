//! Caches on a real node: what becomes of a `Memcached` resource in everyday life, seen by its clients, by `kubectl`
//! and by deployment tools. Every test follows its resource from before it exists and ends by proving that no version
//! of it misled the kstatus library ([`StatusWatch`]), but for the one of `autoscaled`. What both kinds of workload promise runs
//! with both ([`with_each_workload`]).

mod autoscaled;
mod deletion;
mod images;
mod named_pods;
mod orphans;
mod plugin;
mod rollouts;
mod scaling;
mod settings;

use std::panic::{AssertUnwindSafe, resume_unwind};

use anyhow::{Context, Result};
use e2e::process;
use e2e::testing::cache::{Cache, install};
use e2e::testing::operator::{Launch, Operator, binary};
use e2e::testing::permissions::as_installed;
use e2e::testing::{SharedFixture, Space, in_namespace_of, shared_cluster};
use futures::FutureExt;
use futures::future::join_all;
use kube::Client;
use memcached_operator::api::crd::crd;
use memcached_operator::api::spec::Workload;
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};

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

/// As [`with_cache`], once with each kind of workload, side by side in two namespaces. Both run to their end, also when one
/// fails: otherwise the other's cache would be left in the cluster that all tests share.
async fn with_each_workload(
    name: &str,
    body: impl AsyncFn(&Cache<'_>, Workload) -> Result<()>,
) -> Result<()> {
    let run = async |kind: Workload| {
        let outcome = with_cache(name, async |cache| body(cache, kind).await).await;
        outcome.with_context(|| format!("with a {}", ChildKind::from(kind).name()))
    };
    let kinds = [Workload::Deployment, Workload::StatefulSet];
    for outcome in join_all(kinds.map(|kind| AssertUnwindSafe(run(kind)).catch_unwind())).await {
        outcome.unwrap_or_else(|panic| resume_unwind(panic))?;
    }
    Ok(())
}

/// A spec that asks for this workload.
fn with_workload(kind: Workload, mut spec: Value) -> Value {
    spec["workload"] = json!(ChildKind::from(kind).name());
    spec
}
