//! A release of the chart on a node: takes a cluster, gives one that has the operator's image, the kubeconfig of somebody
//! who installs, and the operator's pods as anybody sees them. Called by the tests that install the chart.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::audit::{AuditLog, Mark, Request};
use super::operator::get;
use super::{Space, TestTime, await_answer, unique};
use crate::chart::{NAMESPACE, said};
use crate::shipped::{self, Profile};
use crate::{Cluster, Shape, TemporaryCluster, image};

/// A new cluster of one node, which has the operator's image as it is shipped.
///
/// # Errors
/// When the operator cannot be built, or as [`TemporaryCluster::up`].
pub async fn cluster(prefix: &str) -> Result<TemporaryCluster> {
    let _time = TestTime::begin();
    let binary = shipped::static_binary(Profile::Dev)?;
    let cluster = TemporaryCluster::up(&unique(prefix), Shape::Node).await?;
    cluster.load(&image::operator(&binary, shipped::IMAGE)?)?;
    Ok(cluster)
}

/// The administrator's kubeconfig of somebody who works in this namespace, as a file in `folder` that nobody else may read: helm
/// warns of any other.
///
/// # Errors
/// When the administrator's own cannot be read, or this one not be written.
pub fn kubeconfig(space: &Space, folder: &Path) -> Result<PathBuf> {
    let mut config: Value = serde_json::from_slice(&fs::read(space.cluster().kubeconfig())?)?;
    config["contexts"][0]["context"]["namespace"] = json!(space.name());
    let path = folder.join("kubeconfig");
    let mut file = fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    std::io::Write::write_all(&mut file, config.to_string().as_bytes())?;
    Ok(path)
}

/// A pod of the operator.
#[derive(Debug)]
pub struct OperatorPod {
    /// The uid of the pod.
    pub uid: String,
    /// The metrics that the pod serves.
    pub metrics: String,
}

impl OperatorPod {
    /// Whether it says that it leads.
    pub fn leads(&self) -> bool {
        self.metrics.lines().any(|line| line == "memcached_operator_leader 1")
    }
}

/// The operator's pods, less those that are going.
///
/// # Errors
/// When one is not ready or does not serve its metrics, or what the API server answers.
pub async fn pods(client: &Client) -> Result<Vec<OperatorPod>> {
    let ours = ListParams::default().labels("app.kubernetes.io/name=memcached-operator");
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let mut found = Vec::new();
    for pod in pods.list(&ours).await?.items {
        if pod.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let status = pod.status.as_ref().context("a pod has a status")?;
        let ready = |it: &PodCondition| it.type_ == "Ready" && it.status == "True";
        ensure!(status.conditions.iter().flatten().any(ready), "{} is not ready", pod.name_any());
        let address = format!("{}:8080", status.pod_ip.as_deref().context("a pod has an address")?);
        let (code, metrics) = get(address.parse()?, "/metrics").await?;
        ensure!(code == 200 && metrics.contains("memcached_operator_build_info"), "{code}: {metrics}");
        found.push(OperatorPod { uid: pod.uid().context("a pod has a uid")?, metrics });
    }
    Ok(found)
}

/// Waits until no pod of the operator is left; helm itself waits for its Deployment only.
///
/// # Errors
/// When one is left after a minute.
pub async fn is_gone(client: &Client) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    await_answer("the operator is gone", async || {
        let left = pods.list(&ListParams::default()).await?.items;
        ensure!(left.is_empty(), "{} pods are left", left.len());
        Ok(())
    })
    .await
}

/// No request of the operator was refused for want of permission.
///
/// # Errors
/// When one was: with all of them; or when there was no request at all.
pub fn nothing_was_forbidden(cluster: &Cluster, since: Mark) -> Result<()> {
    forbidden_nowhere(cluster, since, |_| true)
}

/// Checks as [`nothing_was_forbidden`] does, but for one namespace: those of other tests may be on their way out, and
/// refuse whatever is new.
///
/// # Errors
/// When a request that belongs to this namespace, or to none, was refused; or when there was none.
pub fn nothing_was_forbidden_in(space: &Space, since: Mark) -> Result<()> {
    let concerns = |it: &Request| it.namespace.is_empty() || it.namespace == space.name();
    forbidden_nowhere(space.cluster(), since, concerns)
}

fn forbidden_nowhere(cluster: &Cluster, since: Mark, concerns: impl Fn(&Request) -> bool) -> Result<()> {
    let mut requests = AuditLog::for_cluster(cluster).since(since)?;
    requests.retain(|it| it.user_agent.starts_with("memcached-operator/") && concerns(it));
    ensure!(!requests.is_empty(), "the operator asked for nothing");
    requests.retain(|it| it.code == 403);
    ensure!(requests.is_empty(), "forbidden: {requests:?}");
    Ok(())
}

/// The operator's log and pods, for a person to read after a failure.
pub fn describe(cluster: &Cluster) -> String {
    let ask = |arguments: &[&str]| cluster.kubectl().and_then(|mut it| said(it.args(arguments)));
    let logs = [
        "logs",
        "--namespace",
        NAMESPACE,
        "--selector=app.kubernetes.io/name=memcached-operator",
        "--prefix",
    ];
    let pods = ["describe", "pods", "--namespace", NAMESPACE];
    [ask(&logs), ask(&pods)].map(|text| text.unwrap_or_else(|error| format!("{error:#}"))).join("\n")
}
