//! Nodes that are none: takes names, registers them, and reports the pods that the scheduler gives them as running and
//! ready, or as gone when they are deleted. What schedules, counts and replaces pods is real.
//!
//! They are tainted, so that pods without [`TOLERATION`] never get there. Nobody renews their heartbeat: after 40 s
//! Kubernetes takes them for dead.

use anyhow::{Context, Result};
use e2e::testing::Space;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const TAINT: &str = "e2e/spare";

/// What a pod needs in order to get there.
pub(crate) fn toleration() -> Value {
    json!({"key": TAINT, "operator": "Exists"})
}

/// The nodes; their kubelet stops when this is dropped.
pub(crate) struct SpareNodes {
    nodes: Api<Node>,
    names: Vec<String>,
    kubelet: JoinHandle<()>,
}

impl SpareNodes {
    pub(crate) async fn register(space: &Space, names: &[&str]) -> Result<Self> {
        let nodes: Api<Node> = Api::all(space.client());
        for name in names {
            let node = json!({
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "spec": {"taints": [{"key": TAINT, "effect": "NoSchedule"}]},
            });
            nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
            let amounts = json!({"cpu": "4", "memory": "4Gi", "pods": "10"});
            let ready = json!({"type": "Ready", "status": "True", "reason": "Spare", "message": "pretends"});
            let status =
                json!({"status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}});
            nodes.patch_status(name, &PatchParams::default(), &Patch::Strategic(status)).await?;
        }
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let kubelet = tokio::spawn(run(space.api(), names.clone()));
        Ok(Self { nodes, names, kubelet })
    }

    /// Takes them away again.
    pub(crate) async fn remove(self) -> Result<()> {
        for name in &self.names {
            self.nodes.delete(name, &DeleteParams::default()).await.context("a spare node is there")?;
        }
        Ok(())
    }
}

impl Drop for SpareNodes {
    fn drop(&mut self) {
        self.kubelet.abort();
    }
}

async fn run(pods: Api<Pod>, names: Vec<String>) {
    let mut seen =
        std::pin::pin!(watcher(pods.clone(), watcher::Config::default()).default_backoff().applied_objects());
    while let Some(pod) = seen.next().await {
        let Ok(pod) = pod else { continue };
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
        if node.is_some_and(|node| names.contains(node)) {
            // Where this fails, the pod is gone.
            let _ = tend(&pods, &pod).await;
        }
    }
}

async fn tend(pods: &Api<Pod>, pod: &Pod) -> Result<()> {
    if pod.metadata.deletion_timestamp.is_some() {
        pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await?;
    } else if pod.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Running") {
        let status = json!({"metadata": {"uid": pod.uid()}, "status": {
            "phase": "Running",
            "podIP": "192.0.2.1",
            "conditions": [{"type": "Ready", "status": "True"}],
        }});
        pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(status)).await?;
    }
    Ok(())
}
