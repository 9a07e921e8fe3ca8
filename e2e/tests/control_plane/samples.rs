//! The samples in `manifests`: each is taken by the API server as it stands, becomes ready, and needs no images that a cluster may
//! not have.

use std::ffi::OsStr;
use std::fs;
use std::iter::once;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::testing::Space;
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{self, await_ready, in_space};
use e2e::testing::guide::read;
use e2e::testing::kubelet::Kubelet;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Secret;
use memcached_operator::api::Memcached;
use memcached_operator::api::spec::DEFAULT_IMAGE;
use memcached_operator::cli::yaml;
use memcached_operator::kernel::desired::default_images::{OWN_IMAGE, UPSTREAM_IMAGE};
use serde_json::{Value, json};

/// What the samples name and leave to their reader.
fn certificates() -> Result<[Secret; 2]> {
    let certificates = json!(control_plane::certificates()?);
    let secret =
        |name| serde_json::from_value(json!({"metadata": {"name": name}, "stringData": certificates}));
    Ok([secret("memcached-tls")?, secret("memcached-production-tls")?])
}

/// The only ones whose pods have an agent, which is the operator's own image.
const WITH_OUR_IMAGE: [&str; 2] = ["production", "rotation"];
/// The only one whose pods have an exporter, of the image that the operator was told; here nobody told it any.
const WITH_EXPORTER: &str = "monitoring";

/// What the pods of a cache run.
async fn images(space: &Space, name: &str) -> Result<Vec<String>> {
    let template = match space.api::<StatefulSet>().get_opt(name).await? {
        Some(named) => named.spec.map(|spec| spec.template),
        None => space.api::<Deployment>().get(name).await?.spec.map(|spec| spec.template),
    };
    let pod = template.and_then(|template| template.spec).context("a workload has a pod template")?;
    let all = pod.init_containers.into_iter().flatten().chain(pod.containers);
    Ok(all.filter_map(|container| container.image).collect())
}

async fn apply(space: &Space, object: &Value) -> Result<Option<String>> {
    match object["kind"].as_str() {
        Some("Secret") => space.apply(&serde_json::from_value::<Secret>(object.clone())?).await.map(|_| None),
        Some("Memcached") => {
            let resource: Memcached = serde_json::from_value(object.clone())?;
            Ok(space.apply(&resource).await?.metadata.name)
        }
        other => anyhow::bail!("a sample of kind {other:?}: say here what is to become of it"),
    }
}

#[tokio::test]
async fn every_sample_is_taken_as_it_stands_and_becomes_ready() -> Result<()> {
    in_space("samples", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        for secret in certificates()? {
            space.apply(&secret).await?;
        }
        let mut caches = Vec::new();
        for file in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/samples"))? {
            let path = file?.path();
            let sample = path.file_stem().and_then(OsStr::to_str).context("a sample has a name")?;
            for object in yaml::objects(&fs::read_to_string(&path)?)? {
                let name = apply(space, &object).await.with_context(|| path.display().to_string())?;
                caches.extend(name.map(|name| (sample.to_owned(), name)));
            }
        }
        ensure!(caches.len() >= 8, "{caches:?}");
        for (sample, name) in &caches {
            await_ready(space, name).await.with_context(|| name.clone())?;
            let agent = WITH_OUR_IMAGE.contains(&sample.as_str()).then_some(OWN_IMAGE);
            let exporter = (sample == WITH_EXPORTER).then_some(UPSTREAM_IMAGE);
            let expected: Vec<_> = once(DEFAULT_IMAGE).chain(agent).chain(exporter).collect();
            ensure!(images(space, name).await? == expected, "{name}: {:?}", images(space, name).await?);
        }
        operator.end().await
    })
    .await
}

#[test]
fn the_page_about_the_demo_names_the_samples_that_need_our_image() -> Result<()> {
    let page = read("docs/install.md")?;
    let row = page.lines().find(|line| line.starts_with("| samples ")).context("a row about samples")?;
    let links = row.split("../manifests/samples/").skip(1);
    let named: Vec<_> = links.filter_map(|link| Some(link.split_once(".yaml)")?.0)).collect();
    ensure!(named == WITH_OUR_IMAGE && row.contains(OWN_IMAGE), "{row}");
    Ok(())
}
