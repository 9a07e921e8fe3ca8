//! What it costs to start beside many objects of others: takes a cluster with an audit log and a [`Fleet`] on it, gives
//! what a start costs alone, beside Deployments, Services and ConfigMaps of others, and beside their Secrets too, which
//! are the one kind that is watched whole, as metadata; and what a start without the definition costs, where no resource can be
//! listed. Called by [`super::run`].

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, PostParams};
use serde_json::{Value, json};

use super::fleet::{AT_ONCE, Fleet};
use super::report::{Bound, Row};
use super::{cold_start, memory, settled};
use crate::cluster::Cluster;
use crate::testing::audit::{AuditLog, Request};
use crate::testing::await_answer;

/// The namespace of the objects of others.
const NAMESPACE: &str = "crowd";
/// How many starts are measured; the cheapest counts, because other programs on the machine only make a start dearer.
const STARTS: usize = 3;

/// What one start cost, until the operator was at rest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// Peak memory in bytes.
    memory: u64,
    /// Time on a processor.
    processor: Duration,
    /// Requests, lists and watches included.
    requests: usize,
}

/// Starts beside more and more objects of others.
#[derive(Debug)]
pub(super) struct Crowd {
    /// How many of each kind there are.
    count: usize,
    alone: Start,
    beside: Start,
    beside_secrets: Start,
    /// Peak memory in bytes without the definition, alone and beside all of them.
    undefined: [u64; 2],
}

/// Has the operator start over a fleet at rest, alone and beside so many objects of others of each kind.
///
/// # Errors
/// When the cluster or the operator fails.
pub(super) async fn measure(cluster: &Cluster, fleet: &Fleet, count: usize) -> Result<Crowd> {
    let log = AuditLog::for_cluster(cluster);
    let undefined_alone = without_definition(&log, fleet).await?;
    fleet.define().await?;
    fleet.fill().await?;
    cold_start::operator_run(fleet).await?.0.terminate().await?;
    let alone = cheapest(&log, fleet).await?;
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(NAMESPACE.to_owned());
    Api::<Namespace>::all(fleet.client()).create(&PostParams::default(), &namespace).await?;
    for kind in ["Deployment", "Service", "ConfigMap"] {
        fill(fleet, kind, count).await?;
    }
    let beside = cheapest(&log, fleet).await?;
    fill(fleet, "Secret", count).await?;
    let beside_secrets = cheapest(&log, fleet).await?;
    fleet.clear().await?;
    let undefined = [undefined_alone, without_definition(&log, fleet).await?];
    Ok(Crowd { count, alone, beside, beside_secrets, undefined })
}

/// The least peak memory of a few operators that find no definition, once they watch whatever else there is.
async fn without_definition(log: &AuditLog, fleet: &Fleet) -> Result<u64> {
    fleet.undefine().await?;
    let mut least = u64::MAX;
    for _ in 0..STARTS {
        let started = log.mark()?;
        let operator = fleet.operator()?;
        operator.await_readyz(503, "does not serve memcacheds").await?;
        await_answer("the other kinds are listed", async || {
            let requests = log.since(started)?;
            let ours = |it: &&Request| it.user_agent.starts_with("memcached-operator/") && it.verb == "watch";
            let is_watched = |kind: &str| requests.iter().filter(ours).any(|it| it.resource == kind);
            ensure!(is_watched("deployments") && is_watched("secrets"), "{requests:?}");
            Ok(())
        })
        .await?;
        least = least.min(memory::peak(operator.pid())?);
        operator.terminate().await?;
    }
    Ok(least)
}

/// What the cheapest of a few starts cost in each respect.
async fn cheapest(log: &AuditLog, fleet: &Fleet) -> Result<Start> {
    let mut best: Option<Start> = None;
    for _ in 0..STARTS {
        let start = start(log, fleet).await?;
        best = Some(best.map_or(start, |best| Start {
            memory: best.memory.min(start.memory),
            processor: best.processor.min(start.processor),
            requests: best.requests.min(start.requests),
        }));
    }
    best.context("no start")
}

async fn start(log: &AuditLog, fleet: &Fleet) -> Result<Start> {
    let started = log.mark()?;
    let mut operator = fleet.operator()?;
    operator.await_ready().await?;
    settled::after_restart(&operator, fleet).await?;
    let (memory, processor) = (memory::peak(operator.pid())?, memory::processor(operator.pid())?);
    operator.terminate().await?;
    let of_operator = |agent: &str| agent.starts_with("memcached-operator/");
    let requests = log.since(started)?.into_iter().filter(|it| of_operator(&it.user_agent)).count();
    ensure!(requests > 0, "the audit log has nothing of the operator");
    Ok(Start { memory, processor, requests })
}

/// Creates so many objects of a kind.
async fn fill(fleet: &Fleet, kind: &str, count: usize) -> Result<()> {
    eprintln!("{count} {kind}s of others");
    let api_version = if kind == "Deployment" { "apps/v1" } else { "v1" };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, version, kind));
    let api: &Api<DynamicObject> = &Api::namespaced_with(fleet.client(), NAMESPACE, &resource);
    let create = |number| async move {
        let name = format!("theirs-{number:05}");
        let mut object = content(kind, &name);
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(kind);
        object["metadata"] = json!({"name": name, "labels": {"app": name}});
        api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        anyhow::Ok(())
    };
    let creates = stream::iter(0..count).map(create).buffer_unordered(AT_ONCE);
    creates.try_for_each(|()| async { Ok(()) }).await
}

/// The content of an object, as ordinary programs have it.
fn content(kind: &str, name: &str) -> Value {
    let labels = json!({"app": name});
    let settings = json!({"LOG_LEVEL": "info", "DATABASE": "postgres://db:5432/shop", "WORKERS": "8"});
    match kind {
        "Deployment" => {
            let env = json!([{"name": "LOG_LEVEL", "value": "info"}, {"name": "WORKERS", "value": "8"}]);
            let container = json!({"name": "app", "image": "registry.local/app:1", "env": env});
            json!({"spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels}, "spec": {"containers": [container]},
            }}})
        }
        "Service" => json!({"spec": {"clusterIP": "None", "selector": labels, "ports": [{"port": 80}]}}),
        "ConfigMap" => json!({"data": settings}),
        _ => json!({"stringData": settings}),
    }
}

impl Crowd {
    /// What is to be said of it.
    pub(super) fn rows(&self) -> [Row; 5] {
        let Self { count, alone, beside, beside_secrets, undefined } = self;
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let row = |what, (figure, must), (one, other): (&dyn fmt::Display, &dyn fmt::Display)| Row {
            what: str::to_owned(what),
            resources: None,
            figure,
            must,
            hope: None,
            detail: format!("alone {one}, beside {count} Deployments, Services, ConfigMaps {other}"),
        };
        let memory = [alone, beside].map(|it| format!("{:.1} MB", megabytes(it.memory)));
        let processor = [alone, beside].map(|it| format!("{:.0?}", it.processor));
        let over = beside.processor.as_secs_f64() / alone.processor.as_secs_f64();
        [
            row(
                "start beside many objects of others: memory, over that alone",
                (beside.memory as f64 / alone.memory as f64, Bound::AtMost(1.1)),
                (&memory[0], &memory[1]),
            ),
            row(
                "start beside many objects of others: processor time, over that alone",
                (over, Bound::AtMost(1.5)),
                (&processor[0], &processor[1]),
            ),
            row(
                "start beside many objects of others: requests more than alone",
                (beside.requests as f64 - alone.requests as f64, Bound::Exactly(0.0)),
                (&alone.requests, &beside.requests),
            ),
            Row {
                what: "start beside many Secrets of others: memory more, MB".to_owned(),
                resources: None,
                figure: megabytes(beside_secrets.memory) - megabytes(beside.memory),
                must: Bound::AtMost(5.0),
                hope: None,
                detail: format!(
                    "{count} Secrets' metadata: {:.0?} of a processor instead of {:.0?}, {} requests instead of {}",
                    beside_secrets.processor, beside.processor, beside_secrets.requests, beside.requests
                ),
            },
            row_without_definition(undefined.map(megabytes)),
        ]
    }
}

fn row_without_definition([alone, beside]: [f64; 2]) -> Row {
    Row {
        what: "start without the definition, beside many objects of others: memory more, MB".to_owned(),
        resources: None,
        figure: beside - alone,
        must: Bound::AtMost(5.0),
        hope: None,
        detail: format!("alone {alone:.1} MB, beside all objects of others {beside:.1} MB"),
    }
}

/// The rows of starts that nobody measured, for their bounds.
#[cfg(test)]
pub(super) fn rows_of_nothing() -> [Row; 5] {
    let start = Start { memory: 1, processor: Duration::from_secs(1), requests: 1 };
    Crowd { count: 1, alone: start, beside: start, beside_secrets: start, undefined: [1; 2] }.rows()
}
