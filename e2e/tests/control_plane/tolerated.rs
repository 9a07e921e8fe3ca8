//! Specs that the Go operator took and the definition refuses, stored by a definition that lets them through: an edit of anything
//! else reaches the pods, and a warning says what is to be corrected.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::Shape;
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{at_once, children, define, up};
use e2e::testing::guide::read;
use e2e::testing::{Space, in_namespace_of, monitors};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use memcached_operator::api::Memcached;
use memcached_operator::kernel::object::ChildKind;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::bad_input::{loose, write};

/// Before the edit and after it. We edit the image, not `replicas`: whether a budget is refused depends on the number of pods.
const IMAGES: [&str; 2] = ["memcached:1.6.18", "memcached:1.6.38"];
/// The resource whose timeout the Go operator's webhook wrote.
const SHORT: &str = "short-interval";

/// A row of `tests/valid_there.yaml`.
#[derive(Deserialize)]
struct Row {
    page: String,
    level: String,
    spec: Value,
}

struct Stored {
    name: String,
    spec: Value,
    warnings: &'static [&'static str],
}

/// All that is kept up to date. The page says which of it is taken as unset, without a warning.
fn stored() -> Result<Vec<Stored>> {
    let page = read("docs/changing-over.md")?.split_whitespace().collect::<Vec<_>>().join(" ");
    let silent = page.split("Taken as unset, without a warning:").nth(1);
    let silent = silent.and_then(|it| it.split("`InvalidSpec`:").next()).context("what is taken as unset")?;
    let rows: Vec<Row> = serde_saphyr::from_str(&read("tests/valid_there.yaml")?)?;
    let kept = rows.into_iter().filter(|row| row.level == "note").enumerate();
    let mut stored: Vec<_> = kept
        .map(|(number, Row { page, spec, .. })| {
            let warnings: &[_] = if silent.contains(&page) { &[] } else { &["InvalidField"] };
            Stored { name: format!("note-{number}"), spec, warnings }
        })
        .collect();
    ensure!(stored.iter().filter(|it| !it.warnings.is_empty()).count() > 8, "the rows of the page");
    let monitor = json!({"interval": "5s", "scrapeTimeout": "10s"});
    let spec = json!({"monitoring": {"enabled": true, "serviceMonitor": monitor}});
    stored.push(Stored { name: SHORT.to_owned(), spec, warnings: &[] });
    Ok(stored)
}

/// Waits until the pods are to run this image and the status is about this spec; gives the reasons of its warnings.
async fn follows(space: &Space, name: &str, image: &str) -> Result<Vec<String>> {
    let runs = |it: &Deployment| {
        let pod = it.spec.as_ref()?.template.spec.as_ref()?;
        pod.containers.iter().find(|it| it.name == "memcached")?.image.clone()
    };
    let wanted = format!("its pods run {image}");
    space.wait::<Deployment>(name, &wanted, |it| it.and_then(runs).as_deref() == Some(image)).await?;
    let is_current = |it: &Memcached| {
        it.status.as_ref().map(|status| status.observed_generation) == it.metadata.generation
    };
    let told = space.wait::<Memcached>(name, "its spec is observed", |it| it.is_some_and(is_current)).await?;
    let status = told.and_then(|it| it.status).context("it has a status")?;
    let reasons = status.warnings.into_iter().map(|it| it.reason);
    // Nobody measures pods here, and after two minutes an autoscaler is warned of.
    Ok(reasons.filter(|it| it != "AutoscalerInactive").collect())
}

async fn is_kept_up_to_date(space: &Space, Stored { name, spec, warnings }: &Stored) -> Result<()> {
    let [before, after] = IMAGES;
    let said = follows(space, name, before).await?;
    ensure!(said == *warnings, "{spec} is stored, and its warnings are {said:?}");
    let mut edited = spec.clone();
    edited["image"] = json!(after);
    write(space, name, &edited).await?;
    let said = follows(space, name, after).await?;
    ensure!(said == *warnings, "{spec} is edited, and its warnings are {said:?}");
    Ok(())
}

#[tokio::test]
async fn a_stored_value_that_the_go_operator_took_is_told_and_holds_no_edit_of_another_field_back()
-> Result<()> {
    let cluster = up("tolerated", Shape::Controllers).await?;
    let client = Client::try_from(cluster.config("e2e-test").await?)?;
    define(&client, &loose()?).await?;
    monitors::install(&client).await?;
    in_namespace_of(&cluster, "tolerated", async |space: &Space| {
        let mut stored = stored()?;
        for Stored { name, spec, .. } in &mut stored {
            spec["image"] = json!(IMAGES[0]);
            write(space, name, spec).await?;
        }
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        at_once(10, stored.iter().map(|it| is_kept_up_to_date(space, it))).await?;
        let monitor = children::of(space, ChildKind::ServiceMonitor, SHORT).get().await?;
        let endpoint = &monitor.data["spec"]["endpoints"][0];
        ensure!(endpoint["interval"] == "5s" && endpoint["scrapeTimeout"] == "5s", "{endpoint:#}");
        operator.end().await
    })
    .await?;
    e2e::down(cluster.name())?;
    Ok(())
}
