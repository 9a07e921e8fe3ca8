//! Resources that tools deliver: a chart of somebody's own with two caches in it, which helm waits for, and a resource
//! that a tool applies again and again.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use e2e::testing::cache::says;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use memcached_operator::api::Memcached;
use serde_json::{Value, json};

use crate::Newcomer;

/// The caches of the chart.
const CACHES: [&str; 2] = ["basket", "catalogue"];

/// Writes the chart: a cache for each name, all with this spec.
fn chart(folder: &Path, names: &[&str], spec: &Value) -> Result<()> {
    fs::create_dir_all(folder.join("templates"))?;
    fs::write(
        folder.join("Chart.yaml"),
        json!({"apiVersion": "v2", "name": "shop", "version": "0.1.0"}).to_string(),
    )?;
    for name in names {
        let cache = json!({
            "apiVersion": "memcached.c5c3.io/v1beta1", "kind": "Memcached", "metadata": {"name": name}, "spec": spec,
        });
        fs::write(folder.join(format!("templates/{name}.yaml")), cache.to_string())?; // JSON is YAML
    }
    Ok(())
}

/// Both caches are ready for their newest spec, and the only pod of each runs this image. It does not wait for that.
async fn are_rolled_out(newcomer: &Newcomer<'_>, image: &str) -> Result<()> {
    for name in CACHES {
        let resource = newcomer.space.api::<Memcached>().get(name).await?;
        let observed = resource.status.as_ref().map(|status| status.observed_generation);
        ensure!(
            observed == resource.metadata.generation && says(&resource, "True", "MemcachedReady"),
            "{resource:?}"
        );
        let deployment = newcomer.space.api::<Deployment>().get(name).await?;
        let status = deployment.status.context("it has a status")?;
        ensure!(status.observed_generation == deployment.metadata.generation, "{status:?}");
        let pods = [status.replicas, status.updated_replicas, status.available_replicas];
        ensure!(pods == [Some(1); 3], "{pods:?} of {name} are there, updated, available");
        let runs = deployment.spec.and_then(|spec| spec.template.spec?.containers.first()?.image.clone());
        ensure!(runs.as_deref() == Some(image), "{name} runs {runs:?}");
    }
    Ok(())
}

/// The generation of each of the chart's caches.
async fn generations(newcomer: &Newcomer<'_>) -> Result<[Option<i64>; 2]> {
    let caches = newcomer.space.api::<Memcached>();
    Ok([caches.get(CACHES[0]).await?.metadata.generation, caches.get(CACHES[1]).await?.metadata.generation])
}

/// helm returns when the caches are ready, and fails where one cannot become so.
pub(crate) async fn by_helm(newcomer: &Newcomer<'_>) -> Result<()> {
    let folder = newcomer.folder.path().join("shop");
    let helm = |verb: &str, limit: &str| {
        newcomer.helm(&format!("{verb} shop {} --wait --timeout={limit}", folder.display()))
    };
    chart(&folder, &CACHES, &json!({"image": "memcached:1.6"}))?;
    helm("install", "60s")?;
    are_rolled_out(newcomer, "memcached:1.6").await?;
    let spec = json!({"image": "memcached:1.6.18"});
    chart(&folder, &CACHES, &spec)?;
    helm("upgrade", "60s")?;
    are_rolled_out(newcomer, "memcached:1.6.18").await?;

    let before = generations(newcomer).await?;
    chart(&folder, &CACHES, &json!({"memcached": {"maxMemoryMB": 64, "maxItemSize": "40m"}}))?;
    let refusal = helm("upgrade", "20s").err().context("a spec that breaks a rule is taken")?;
    ensure!(format!("{refusal:#}").contains("maxItemSize"), "{refusal:#}");
    ensure!(generations(newcomer).await? == before, "what was refused changed something");

    // Somebody else's, at the place of the new cache's child.
    let foreign = json!({"metadata": {"name": "taken"}, "spec": {"clusterIP": "None"}});
    newcomer.space.apply::<Service>(&serde_json::from_value(foreign)?).await?;
    chart(&folder, &CACHES, &spec)?;
    chart(&folder, &["taken"], &spec)?;
    let failure = helm("upgrade", "60s").err().context("helm calls ready what can never be")?;
    let told = format!("Memcached/{}/taken not ready. status: Failed", newcomer.space.name());
    ensure!(format!("{failure:#}").contains(&told), "{failure:#}");
    are_rolled_out(newcomer, "memcached:1.6.18").await
}

/// What the tool applies, and as whom.
const APPLIED: &str = "--server-side --field-manager=delivery --filename=manifests/samples/memcached.yaml";

/// A tool applies a resource.
pub(crate) fn is_applied(newcomer: &Newcomer<'_>) -> Result<()> {
    newcomer.kubectl(&format!("apply {APPLIED}")).map(|_| ())
}

/// What the tool applies a second time is as it was, and there is nothing to tell from what the tool wants.
pub(crate) async fn is_applied_again(newcomer: &Newcomer<'_>) -> Result<()> {
    newcomer.kubectl("wait mcd/memcached --for=condition=Ready --timeout=60s")?;
    // The operator's own entry, about the status, is none of the tool's business.
    let stored = async || {
        let Memcached { metadata, spec, .. } = newcomer.space.api::<Memcached>().get("memcached").await?;
        let mut managers = metadata.managed_fields.unwrap_or_default();
        managers.retain(|it| it.manager.as_deref() == Some("delivery"));
        anyhow::Ok((metadata.generation, managers, spec))
    };
    let before = stored().await?;
    is_applied(newcomer)?;
    let after = stored().await?;
    ensure!(after == before && after.1.len() == 1, "{before:?} became {after:?}");
    let difference = newcomer.kubectl(&format!("diff {APPLIED}"))?;
    ensure!(difference.is_empty(), "{difference}");

    // kubectl ends with 1 where there is one.
    let other = newcomer.folder.path().join("other.yaml");
    let text = fs::read_to_string(e2e::chart::repository().join("manifests/samples/memcached.yaml"))?;
    fs::write(&other, text.replace("maxConnections: 1024", "maxConnections: 1025"))?;
    let edit = format!("diff --server-side --field-manager=delivery --filename={}", other.display());
    ensure!(newcomer.kubectl(&edit).is_err(), "an edit makes no difference");
    Ok(())
}
