//! ServiceMonitors, which a cluster may not know: their definition comes, goes and comes back under a running operator.
//! Nothing waits for the definition, the status says what could not be made, and the operator polls the API server for it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::Shape;
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::requests::Requests;
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{await_ready, children, plain, ready, up};
use e2e::testing::stalls::Stalls;
use e2e::testing::{Space, await_answer, await_answer_within, in_namespace_of, monitors};
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use memcached_operator::api::Memcached;
use memcached_operator::kernel::object::ChildKind;
use serde_json::json;
use tokio::time::Instant;

const NAME: &str = "cache";
/// How long after the kind is served its first object may appear.
const NOTICED: Duration = Duration::from_secs(60);
/// How long an edit of what is served may take: no round of questions after the kind fits in.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Waits until the resource is ready, and says that it has no ServiceMonitor or has one.
async fn await_unserved(space: &Space, unserved: &[&str]) -> Result<Memcached> {
    let says = |it: &Memcached| {
        ready(it) && it.status.as_ref().is_some_and(|status| status.unserved_kinds == unserved)
    };
    let wanted = format!("it is ready, without {unserved:?}");
    let found = space.wait_within::<Memcached>(NAME, &wanted, NOTICED, |it| it.is_some_and(says)).await?;
    found.context("it is there")
}

/// Warnings that no ServiceMonitor was made; a repeated one counts by its series.
async fn warnings(space: &Space) -> Result<usize> {
    let events = space.api::<Event>().list(&ListParams::default()).await?.items;
    let about = |it: &&Event| {
        it.reason.as_deref() == Some("NotServed")
            && it.type_.as_deref() == Some("Warning")
            && it.regarding.as_ref().is_some_and(|of| of.name.as_deref() == Some(NAME))
    };
    let count =
        |it: &Event| it.series.as_ref().map_or(1, |series| usize::try_from(series.count).unwrap_or(0));
    Ok(events.iter().filter(about).map(count).sum())
}

/// Lists of ServiceMonitors that were asked for in vain since then.
fn in_vain(requests: &Requests) -> Result<usize> {
    let of_monitors = |it: &&e2e::testing::audit::Request| it.resource == "servicemonitors" && it.code == 404;
    Ok(requests.all()?.iter().filter(of_monitors).count())
}

/// Installs the definition, and gives the time until the resource has its ServiceMonitor.
async fn install(space: &Space) -> Result<Duration> {
    let started = Instant::now();
    monitors::install(&space.client()).await?;
    await_answer_within("the ServiceMonitor is made", NOTICED, async || {
        Ok(children::of(space, ChildKind::ServiceMonitor, NAME).get().await?)
    })
    .await?;
    let took = started.elapsed();
    await_unserved(space, &[]).await?;
    Ok(took)
}

/// An edit of another child does not wait for the definition.
async fn edit(space: &Space, memory: i32) -> Result<Duration> {
    let (stalls, started) = (Stalls::watch(), Instant::now());
    space.apply(&monitored(memory)?).await?;
    await_ready(space, NAME).await?;
    let took = started.elapsed();
    ensure!(took <= AT_ONCE + stalls.total(), "an edit took {took:?}");
    Ok(took)
}

fn monitored(memory: i32) -> Result<Memcached> {
    plain(
        NAME,
        &json!({
            "replicas": 0, "memcached": {"maxMemoryMB": memory}, "monitoring": {"enabled": true, "serviceMonitor": {}},
        }),
    )
}

#[tokio::test]
async fn a_definition_that_comes_and_goes_is_noticed_within_a_minute_and_delays_nothing() -> Result<()> {
    let cluster = up("monitors", Shape::Controllers).await?;
    in_namespace_of(&cluster, "monitors", async |space: &Space| {
        let requests = Requests::from_now_on(space)?;
        let started = Instant::now();
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        space.apply(&plain("other", &json!({"replicas": 0}))?).await?;
        await_ready(space, "other").await?;
        space.apply(&monitored(64)?).await?;
        await_unserved(space, &["ServiceMonitor"]).await?;
        await_answer("a warning says so", async || {
            ensure!(warnings(space).await? == 1, "{}", warnings(space).await?);
            Ok(())
        })
        .await?;
        let edited = edit(space, 65).await?;
        let (asked, since) = (in_vain(&requests)?, started.elapsed());
        ensure!(asked <= 3 + since.as_secs() as usize / 25, "asked {asked} times in {since:?}");

        let installed = install(space).await?;
        let requests = Requests::from_now_on(space)?;
        let started = Instant::now();
        monitors::remove(&space.client()).await?;
        await_unserved(space, &["ServiceMonitor"]).await?;
        let edited_again = edit(space, 66).await?;
        let reinstalled = install(space).await?;
        let (asked, since) = (in_vain(&requests)?, started.elapsed());
        println!(
            "made {installed:?} and {reinstalled:?} after the definition; edits took {edited:?} and {edited_again:?}; \
             asked {asked} times in {since:?}"
        );
        ensure!(asked <= 4 + since.as_secs() as usize / 25, "asked {asked} times in {since:?}");
        ensure!(warnings(space).await? == 2, "it warned {} times of two absences", warnings(space).await?);
        operator.end().await
    })
    .await?;
    e2e::down(cluster.name())?;
    Ok(())
}
