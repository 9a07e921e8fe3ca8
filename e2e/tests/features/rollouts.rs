//! Rollouts on a cluster with as many nodes as replicas: with hard anti-affinity no pod finds a node beside those it
//! replaces, and the rollout ends all the same. The scheduler is real; nodes are objects whose heartbeat a test keeps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::testing::Space;
use futures::TryStreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::kubelet::{Kubelet, Which};
use crate::support::operator::{Kill, Operator};
use crate::support::transport::Straight;
use crate::support::{at_once, await_ready, in_space};
use crate::world;

const REPLICAS: usize = 3;
/// Keeps the pods of other tests off these nodes.
const TAINT: &str = "e2e-test/rollouts";

/// Nodes for one resource; their heartbeat ends when this is dropped.
struct Nodes(JoinHandle<()>);

impl Drop for Nodes {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Nodes {
    async fn make(space: &Space, name: &str) -> Result<Self> {
        let nodes: Api<Node> = Api::all(space.client());
        let names: Vec<_> = (0..REPLICAS).map(|number| format!("{}-{name}-{number}", space.name())).collect();
        for node in &names {
            let labels = json!({"kubernetes.io/hostname": node, TAINT: name});
            let object = json!({
                "metadata": {"name": node, "labels": labels},
                "spec": {"taints": [{"key": TAINT, "value": name, "effect": "NoSchedule"}]},
            });
            nodes.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
            beat(&nodes, node).await?;
        }
        Ok(Self(tokio::spawn(async move {
            loop {
                for node in &names {
                    // The next one comes soon.
                    let _ = beat(&nodes, node).await;
                }
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
        })))
    }
}

#[expect(clippy::disallowed_methods, reason = "a heartbeat says when it was")]
async fn beat(nodes: &Api<Node>, node: &str) -> Result<()> {
    let room = json!({"cpu": "8", "memory": "16Gi", "pods": "50"});
    let status = json!({"status": {"capacity": room, "allocatable": room, "conditions": [
        {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": Timestamp::now().to_string()},
    ]}});
    nodes.patch_status(node, &PatchParams::default(), &Patch::Strategic(status)).await?;
    Ok(())
}

/// The fewest pods that were ready at any time; it watches until it is dropped.
struct Fewest {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    /// Whether each pod is ready.
    pods: BTreeMap<String, bool>,
    fewest: Option<usize>,
}

impl Drop for Fewest {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    let ready = conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}

impl Fewest {
    async fn follow(space: &Space, name: &str) -> Result<Self> {
        let ours = format!("app.kubernetes.io/instance={name}");
        let pods = space.api::<Pod>();
        let list = pods.list(&ListParams::default().labels(&ours)).await?;
        let from = list.metadata.resource_version.context("a list has a version")?;
        let now = list.items.iter().map(|pod| (pod.name_any(), is_ready(pod))).collect();
        let seen = Arc::new(Mutex::new(Seen { pods: now, fewest: None }));
        let kept = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let params = WatchParams::default().labels(&ours).timeout(290);
            let Ok(events) = pods.watch(&params, &from).await else { return };
            let mut events = std::pin::pin!(events);
            while let Ok(Some(event)) = events.try_next().await {
                let mut seen = kept.lock().unwrap_or_else(PoisonError::into_inner);
                match event {
                    WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                        seen.pods.insert(pod.name_any(), is_ready(&pod));
                    }
                    WatchEvent::Deleted(pod) => drop(seen.pods.remove(&pod.name_any())),
                    WatchEvent::Bookmark(_) | WatchEvent::Error(_) => {}
                }
                let ready = seen.pods.values().filter(|ready| **ready).count();
                seen.fewest = Some(seen.fewest.map_or(ready, |fewest| fewest.min(ready)));
            }
        });
        Ok(Self { seen, task })
    }

    fn so_far(&self) -> Result<usize> {
        ensure!(!self.task.is_finished(), "the watch ended");
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.fewest.context("nothing happened to any pod")
    }
}

struct Case {
    name: &'static str,
    apart: Value,
    /// Ready pods at any time.
    least: usize,
}

fn cases() -> [Case; 3] {
    let by_user = json!({"requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app.kubernetes.io/instance": "by-user"}},
    }]});
    [
        Case {
            name: "hard",
            apart: json!({"highAvailability": {"antiAffinityPreset": "hard"}}),
            least: REPLICAS - 1,
        },
        Case {
            name: "soft",
            apart: json!({"highAvailability": {"antiAffinityPreset": "soft"}}),
            least: REPLICAS,
        },
        Case {
            name: "by-user",
            apart: json!({"pod": {"affinity": {"podAntiAffinity": by_user}}}),
            least: REPLICAS - 1,
        },
    ]
}

impl Case {
    fn spec(&self, threads: i32) -> Value {
        let mut spec = json!({
            "replicas": REPLICAS,
            "memcached": {"threads": threads},
            "pod": {
                "nodeSelector": {TAINT: self.name},
                "tolerations": [{"key": TAINT, "operator": "Equal", "value": self.name, "effect": "NoSchedule"}],
            },
        });
        json_patch::merge(&mut spec, &self.apart);
        spec
    }

    async fn roll(&self, space: &Space) -> Result<()> {
        let _nodes = Nodes::make(space, self.name).await?;
        world::apply(space, self.name, &self.spec(2)).await?;
        await_ready(space, self.name).await?;
        for threads in [3, 4] {
            let fewest = Fewest::follow(space, self.name).await?;
            world::apply(space, self.name, &self.spec(threads)).await?;
            await_ready(space, self.name).await?;
            let found = fewest.so_far()?;
            ensure!(found >= self.least, "{found} pods were ready, and {} have to be", self.least);
        }
        let ours = ListParams::default().labels(&format!("app.kubernetes.io/instance={}", self.name));
        let pods = space.api::<Pod>().list(&ours).await?.items;
        let nodes: std::collections::BTreeSet<_> =
            pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect();
        ensure!(self.least == REPLICAS || nodes.len() == REPLICAS, "{} pods on {nodes:?}", pods.len());
        Ok(())
    }
}

#[tokio::test]
async fn a_rollout_ends_on_as_many_nodes_as_pods_and_never_has_fewer_ready_than_it_may() -> Result<()> {
    in_space("rollouts", async |space: &Space| {
        let _kubelet = Kubelet::start_for(space, Which::Scheduled);
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        let cases = cases();
        at_once(3, cases.iter().map(async |case| case.roll(space).await.context(case.name))).await?;
        println!("{} kinds of anti-affinity rolled twice on {REPLICAS} nodes", cases.len());
        operator.end().await
    })
    .await
}
