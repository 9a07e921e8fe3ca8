//! What GitOps tools make of our resources: a real Flux kustomize-controller applies the samples, waits for them, finds
//! nothing to change, and prunes them. The repository that it follows is a folder of the test, served over HTTP.
#![expect(clippy::disallowed_methods, reason = "it starts a program and serves files")]

mod argo_cd;
mod flux;
mod operator;
mod source;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use e2e::process;
use e2e::testing::audit::AuditLog;
use e2e::testing::cache::{install, says};
use e2e::testing::operator::{Launch, Operator, binary};
use e2e::testing::permissions::as_installed;
use e2e::testing::release::nothing_was_forbidden_in;
use e2e::testing::{Space, in_namespace_of, shared_cluster};
use k8s_openapi::api::core::v1::Service;
use kube::api::ListParams;
use kube::{Client, ResourceExt};
use memcached_operator::api::Memcached;
use memcached_operator::api::crd::crd;
use serde_json::json;

use self::flux::Flux;
use self::source::Repository;

/// Samples whose images and nodes this cluster has.
const SAMPLES: [&str; 3] = ["minimal.yaml", "memcached.yaml", "sasl.yaml"];

/// The resourceVersion of each resource: any write changes it.
async fn versions(space: &Space) -> Result<Vec<(String, String)>> {
    let resources = space.api::<Memcached>().list(&ListParams::default()).await?.items;
    Ok(resources.into_iter().map(|it| (it.name_any(), it.resource_version().unwrap_or_default())).collect())
}

fn samples(repository: &Repository) -> Result<()> {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/samples");
    for name in SAMPLES {
        fs::copy(samples.join(name), repository.folder().join(name)).with_context(|| name.to_owned())?;
    }
    Ok(())
}

async fn story(space: &Space) -> Result<()> {
    let repository = Repository::serve(space).await?;
    samples(&repository)?;
    repository.publish("first").await?;
    let flux = Flux::start(space).await?;

    // It says so once all are Current by kstatus.
    flux.apply("first").await?;
    let resources = space.api::<Memcached>().list(&ListParams::default()).await?.items;
    ensure!(resources.len() == SAMPLES.len(), "there are {}", resources.len());
    ensure!(resources.iter().all(|it| says(it, "True", "MemcachedReady")), "{resources:?}");

    let before = versions(space).await?;
    flux.again("by hand").await?;
    ensure!(versions(space).await? == before, "it changed {before:?} to {:?}", versions(space).await?);

    fs::remove_file(repository.folder().join("minimal.yaml"))?;
    repository.publish("second").await?;
    flux.reached("second").await?;
    space.wait::<Memcached>("minimal", "it is pruned", |it| it.is_none()).await?;
    ensure!(versions(space).await? == before[..2], "it changed the others too: {:?}", versions(space).await?);

    // A child's name is taken by another owner: no tool may call the resource ready, nor wait for it until a timeout.
    space
        .apply::<Service>(&serde_json::from_value(
            json!({"metadata": {"name": "taken"}, "spec": {"clusterIP": "None"}}),
        )?)
        .await?;
    let taken = fs::read_to_string(repository.folder().join("memcached.yaml"))?;
    let taken = taken.replace("name: memcached\n", "name: taken\n");
    fs::write(repository.folder().join("taken.yaml"), taken)?;
    repository.publish("third").await?;
    flux.gives_up("third", "taken").await?;

    flux.remove().await?;
    let left = space.api::<Memcached>().list(&ListParams::default()).await?.items;
    ensure!(left.iter().all(|it| it.metadata.deletion_timestamp.is_some()), "{left:?}");
    Ok(())
}

#[tokio::test]
async fn flux_applies_samples_waits_until_they_are_ready_sees_no_drift_and_prunes() -> Result<()> {
    let cluster = shared_cluster().await?;
    install(&Client::try_from(cluster.config("e2e-test/install").await?)?, &crd()).await?;
    let log = cluster.folder().join("gitops-operator.log");
    let launch = Launch {
        program: binary()?,
        kubeconfig: as_installed(&cluster).await?,
        log: log.clone(),
        args: vec![],
        env: vec![process::mark(cluster.folder())],
    };
    let _operator = Operator::start(&launch).await?;
    let start = AuditLog::for_cluster(&cluster).mark()?;
    let outcome = in_namespace_of(&cluster, "gitops", async |space| {
        story(space).await?;
        nothing_was_forbidden_in(space, start)
    })
    .await;
    outcome.with_context(|| format!("the operator's log is {}", log.display()))
}
