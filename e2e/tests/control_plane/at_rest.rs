//! What a settled world costs: nothing. Measured on the operator's own process, by the API server's audit log.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use e2e::testing::audit::count;
use e2e::testing::control_plane::due_warnings::DueWarnings;
use e2e::testing::control_plane::requests::Requests;
use e2e::testing::control_plane::{at_once, await_ready, everything, plain, resource, secret, up};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::operator::Operator;
use e2e::testing::{Space, await_answer, in_namespace_of};
use e2e::{Cluster, Shape};
use kube::Client;
use serde_json::json;

use crate::support::features::Features;
use crate::support::process::Process;

const RESOURCES: usize = 20;
/// The resource whose pods have names.
const NAMED: usize = 3;

/// Waits until the operator has asked for nothing for two seconds.
async fn at_rest(cluster: &Cluster) -> Result<()> {
    await_answer("the operator comes to rest", async || {
        let requests = Requests::for_cluster(cluster)?;
        // A measurement: whether nothing happens shows only after a while.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let found = requests.but_watches()?;
        ensure!(found.is_empty(), "{found:?}");
        Ok(())
    })
    .await
}

/// The value of a metric, labels and all.
async fn metric(operator: &Operator, name: &str) -> Result<u64> {
    let (_, page) = operator.get("/metrics").await?;
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    value.with_context(|| format!("no metric {name}"))
}

/// Waits until every resource has been looked at since the operator's start.
async fn await_looked_at(operator: &Operator) -> Result<()> {
    await_answer("every resource has been looked at", async || {
        let passes = metric(operator, "memcached_operator_reconcile_total{result=\"success\"}").await?;
        let waiting = metric(operator, "memcached_operator_queue_depth").await?;
        if passes < RESOURCES as u64 || waiting > 0 {
            bail!("{passes} passes, {waiting} waiting");
        }
        Ok(())
    })
    .await
}

async fn settle(space: &Space) -> Result<()> {
    let names: Vec<_> = (0..RESOURCES).map(|number| format!("cache-{number}")).collect();
    let names = names.iter().enumerate().map(async |(number, name)| {
        if number % 4 == 1 {
            space.apply(&everything(name)?).await?;
            space.apply(&Features::Scaled.resource(name)?).await?;
        } else if number % 2 == 0 {
            space.apply(&secret(name, "first")?).await?;
            space.apply(&resource(name, 1, 64)?).await?;
        } else if number == NAMED {
            // A rollout lowers the partition, and is over once it holds the pods again.
            for memory in [64, 65] {
                let memcached = json!({"maxMemoryMB": memory});
                let spec = json!({"workload": "StatefulSet", "replicas": 2, "memcached": memcached});
                space.apply(&plain(name, &spec)?).await?;
                await_ready(space, name).await?;
            }
        } else {
            space.apply(&plain(name, &json!({"replicas": 1}))?).await?;
        }
        await_ready(space, name).await
    });
    at_once(RESOURCES, names).await?;
    at_rest(space.cluster()).await
}

#[tokio::test]
async fn a_settled_world_costs_no_request_but_watches_and_a_restart_no_more_than_lists() -> Result<()> {
    let cluster = up("quiet", Shape::Controllers).await?;
    e2e::testing::monitors::install(&Client::try_from(cluster.config("e2e-test").await?)?).await?;
    let process = Process::for_cluster(&cluster).await?;
    in_namespace_of(&cluster, "quiet", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        let operator = process.start().await?;
        settle(space).await?;

        let (requests, due) = (Requests::for_cluster(&cluster)?, DueWarnings::from_now_on(space).await?);
        // A measurement, not a wait.
        tokio::time::sleep(Duration::from_secs(60)).await;
        let idle = await_answer("each request is a warning that was due", async || {
            let (idle, due) = (requests.but_watches()?, due.writes().await?);
            ensure!(idle == due, "{idle:?}, and due was {due:?}");
            Ok(idle)
        })
        .await?;
        println!(
            "{RESOURCES} settled resources: {} requests besides watches in 60 s",
            idle.values().sum::<usize>()
        );

        let (requests, due) = (Requests::for_cluster(&cluster)?, DueWarnings::from_now_on(space).await?);
        operator.terminate().await?;
        let operator = process.start().await?;
        await_looked_at(&operator).await?;
        operator.kill()?;
        let operator = process.start().await?;
        await_looked_at(&operator).await?;
        at_rest(&cluster).await?;
        let restarts = requests.all()?;
        println!("two restarts with {RESOURCES} resources: {:?}", count(&restarts));
        // With its lists an operator asks once which version the API server has.
        let (versions, others): (Vec<_>, Vec<_>) = restarts
            .iter()
            .filter(|it| !matches!(it.verb.as_str(), "list" | "watch"))
            .partition(|it| it.resource == "/version");
        let mut counted = BTreeMap::new();
        for request in others {
            *counted.entry(format!("{} {}", request.verb, request.resource)).or_default() += 1;
        }
        let (others, due) = (counted, due.writes().await?);
        ensure!(others == due, "{others:?}, and due was {due:?}");
        ensure!(versions.len() == 2, "two starts ask for the version once each: {versions:?}");
        ensure!(restarts.iter().any(|it| it.verb == "list"), "what is not counted is not zero");
        operator.terminate().await?;
        Ok(())
    })
    .await?;
    let (files, steps) = process.replay()?;
    ensure!(files == 4 && steps > 100, "three runs fill more than {files} files with {steps} steps");
    e2e::down(cluster.name())?;
    Ok(())
}
