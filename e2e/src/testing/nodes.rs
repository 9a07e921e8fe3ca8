//! Node objects without a machine behind them: takes names and a taint, registers them and keeps their heartbeat. The
//! scheduler and the controllers are real; [`super::kubelet`] reports the pods. Called by the tests
//! that need more nodes than there are.

use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::task::JoinHandle;

/// Far more often than Kubernetes takes a node for dead, which is after 40 s.
const BEAT: Duration = Duration::from_secs(5);

/// The nodes; their heartbeat ends when this is dropped.
#[derive(Debug)]
pub struct Nodes {
    nodes: Api<Node>,
    names: Vec<String>,
    beats: JoinHandle<()>,
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.beats.abort();
    }
}

impl Nodes {
    /// Registers nodes that have this key and value both as a label and as a taint, so that no other pods get there.
    ///
    /// # Errors
    /// When the API server refuses one.
    pub async fn register(client: Client, names: Vec<String>, key: &str, value: &str) -> Result<Self> {
        let nodes: Api<Node> = Api::all(client);
        for name in &names {
            let object = json!({
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, key: value}},
                "spec": {"taints": [{"key": key, "value": value, "effect": "NoSchedule"}]},
            });
            nodes.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
            beat(&nodes, name).await?;
        }
        let beats = tokio::spawn(keep_beating(nodes.clone(), names.clone()));
        Ok(Self { nodes, names, beats })
    }

    /// Their names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Takes them away again.
    ///
    /// # Errors
    /// When one is not there.
    pub async fn remove(self) -> Result<()> {
        for name in &self.names {
            self.nodes.delete(name, &DeleteParams::default()).await.context("a node is there")?;
        }
        Ok(())
    }
}

async fn keep_beating(nodes: Api<Node>, names: Vec<String>) {
    loop {
        for name in &names {
            // The next one comes soon.
            let _ = beat(&nodes, name).await;
        }
        tokio::time::sleep(BEAT).await;
    }
}

async fn beat(nodes: &Api<Node>, node: &str) -> Result<()> {
    let room = json!({"cpu": "8", "memory": "16Gi", "pods": "50"});
    let status = json!({"status": {"capacity": room, "allocatable": room, "conditions": [
        {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": Timestamp::now().to_string()},
    ]}});
    nodes.patch_status(node, &PatchParams::default(), &Patch::Strategic(status)).await?;
    Ok(())
}
