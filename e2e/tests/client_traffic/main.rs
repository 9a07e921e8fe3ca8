//! Caches on a real node as their clients meet them: encryption, passwords, the exporter, shutdown, limits, rollouts; and
//! as Prometheus meets them.
//!
//! Every test has a namespace that enforces the `restricted` Pod Security level, so that each pod in here passes it.
//! The cluster is this program's own: one operator works on it, and it has images that no other test needs.
#![expect(clippy::disallowed_methods, reason = "it measures how long a pod serves after its deletion")]

mod awaited_warmth;
mod cert_manager;
mod contexts;
mod copied;
mod disturbed;
mod expressions;
mod found_again;
mod in_place;
mod limits;
mod modes;
mod pods;
mod prometheus;
mod refused;
mod renewal;
mod rollouts;
mod rotation;
mod shutdown;

use anyhow::{Context, Result};
use e2e::testing::audit::AuditLog;
use e2e::testing::cache::{Cache, install};
use e2e::testing::operator::{Launch, Operator, binary};
use e2e::testing::permissions::as_installed;
use e2e::testing::release::nothing_was_forbidden_in;
use e2e::testing::{Space, TestTime, in_namespace_called, monitors, unique};
use e2e::{Cluster, Shape, TemporaryCluster, image, process};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use memcached_operator::api::crd::crd;
use memcached_operator::kernel::desired::default_images::OWN_IMAGE;
use serde_json::json;
use tokio::sync::OnceCell;

/// The cluster and its one operator, whose process goes with the cluster.
struct Site {
    cluster: Cluster,
    operator: Operator,
}

static SITE: OnceCell<Site> = OnceCell::const_new();

impl Site {
    async fn make() -> Result<Self> {
        let cluster = TemporaryCluster::up(&unique("traffic"), Shape::Node).await?.until_the_end();
        let program = binary()?;
        cluster.load(&image::stripped_operator(&program, OWN_IMAGE)?)?;
        let client = Client::try_from(cluster.config("e2e-test/install").await?)?;
        install(&client, &crd()).await?;
        monitors::install(&client).await?;
        let launch = Launch {
            program,
            kubeconfig: as_installed(&cluster).await?,
            log: cluster.folder().join("operator.log"),
            args: vec![],
            env: vec![process::mark(cluster.folder())],
        };
        let operator = Operator::start(&launch).await?;
        Ok(Self { cluster, operator })
    }
}

/// Runs a test's body in a namespace that enforces the restricted Pod Security level.
async fn in_restricted(prefix: &str, body: impl AsyncFnOnce(&Space) -> Result<()>) -> Result<()> {
    in_restricted_called(&unique(prefix), body).await
}

/// Runs a test's body in a restricted namespace of this name, where the name counts: no other test has it.
async fn in_restricted_called(name: &str, body: impl AsyncFnOnce(&Space) -> Result<()>) -> Result<()> {
    // Also while another test makes the site.
    let _time = TestTime::begin();
    let site = SITE.get_or_try_init(Site::make).await?;
    let outcome = in_namespace_called(&site.cluster, name, async |space: &Space| {
        let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        let namespaces: Api<Namespace> = Api::all(space.client());
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        namespaces.patch(space.name(), &PatchParams::default(), &patch).await?;
        let start = AuditLog::for_cluster(&site.cluster).mark()?;
        body(space).await?;
        nothing_was_forbidden_in(space, start)
    })
    .await;
    let log = std::fs::read_to_string(site.operator.log()).unwrap_or_default();
    let last: Vec<&str> = log.lines().rev().take(20).collect();
    outcome.with_context(|| format!("the operator's last lines, newest first:\n{}", last.join("\n")))
}

/// Runs a test's body in a restricted namespace, with one cache that does not exist yet.
async fn with_cache(name: &str, body: impl AsyncFnOnce(&Cache<'_>) -> Result<()>) -> Result<()> {
    in_restricted(name, async |space| {
        let cache = Cache::follow(space, name).await?;
        body(&cache).await
    })
    .await
}
