//! Named pods whose nodes die: each waits for its node also when somebody deletes it, the list of servers stays, and what
//! `docs/named-pods.md` advises lets it go, so that another one starts under its name elsewhere.
//!
//! The scheduler and all controllers of Kubernetes are real, those that watch nodes and collect pods too. A node is an object
//! whose heartbeat a test keeps, and it dies as a machine does: without a word.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::Shape;
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{await_ready, up};
use e2e::testing::kubelet::{Kubelet, Which};
use e2e::testing::nodes::Nodes;
use e2e::testing::stalls::Stalls;
use e2e::testing::status_history::StatusWatch;
use e2e::testing::{Space, await_answer, in_namespace_of};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::world;

const NAME: &str = "sessions";
const REPLICAS: usize = 3;
/// So many that both pods that lose their node find another one.
const NODES: usize = REPLICAS + 2;
/// Keeps other pods off these nodes.
const TAINT: &str = "e2e-test/dead-node";
/// How long Kubernetes lets a pod stay on a dead node where nobody says otherwise, as the pages say. A Deployment makes another one
/// then: its pods get the same.
const STAYS_SECONDS: i64 = 300;
/// How long after the taint a pod is let go at the latest, as the page says.
const AFTER_TAINT: Duration = Duration::from_secs(30);
/// How long after its node was deleted a pod is let go at the latest, as the page says.
const AFTER_DELETION: Duration = Duration::from_secs(90);

fn spec() -> Value {
    json!({
        "workload": "StatefulSet",
        "replicas": REPLICAS,
        "highAvailability": {"antiAffinityPreset": "hard"},
        "pod": {
            "nodeSelector": {TAINT: "yes"},
            "tolerations": [{"key": TAINT, "operator": "Exists", "effect": "NoSchedule"}],
        },
    })
}

/// A node with its kubelet; dropped, it is dead, and only its object is left.
struct Machine {
    _heartbeat: Nodes,
    _kubelet: Kubelet,
}

/// All nodes, by name.
async fn machines(space: &Space) -> Result<BTreeMap<String, Machine>> {
    let mut machines = BTreeMap::new();
    for number in 0..NODES {
        let name = format!("{}-{number}", space.name());
        let heartbeat = Nodes::register(space.client(), vec![name.clone()], TAINT, "yes").await?;
        let kubelet = Kubelet::start_for(space, Which::On(vec![name.clone()]));
        machines.insert(name, Machine { _heartbeat: heartbeat, _kubelet: kubelet });
    }
    Ok(machines)
}

/// A pod as it was before its node died.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Member {
    name: String,
    uid: String,
    node: String,
}

impl Member {
    async fn get(pods: &Api<Pod>, number: usize) -> Result<Self> {
        let pod = pods.get(&format!("{NAME}-{number}")).await?;
        let node = pod.spec.as_ref().and_then(|it| it.node_name.clone()).context("it has a node")?;
        Ok(Self { name: pod.name_any(), uid: pod.uid().context("it has a uid")?, node })
    }

    /// It is still there, and would go if somebody let it.
    async fn waits(&self, pods: &Api<Pod>) -> Result<()> {
        let pod = pods.get(&self.name).await?;
        let same = pod.uid().as_ref() == Some(&self.uid);
        ensure!(same && pod.metadata.deletion_timestamp.is_some(), "{self:?} became {:?}", pod.metadata);
        Ok(())
    }

    /// Waits until it is let go, and gives how long that took.
    async fn is_let_go(&self, pods: &Api<Pod>) -> Result<Duration> {
        let start = Instant::now();
        await_answer(&format!("pod {} is let go", self.name), async || {
            let pod = pods.get_opt(&self.name).await?;
            let uid = pod.and_then(|it| it.uid());
            ensure!(uid.as_ref() != Some(&self.uid), "it still waits for {}", self.node);
            Ok(())
        })
        .await?;
        Ok(start.elapsed())
    }

    /// Waits until another pod is ready under its name, on a node that lives.
    async fn comes_back(&self, pods: &Api<Pod>, dead: &BTreeSet<String>) -> Result<()> {
        await_answer(&format!("another pod {} is ready", self.name), async || {
            let pod = pods.get(&self.name).await?;
            let conditions = pod.status.iter().filter_map(|it| it.conditions.as_ref()).flatten();
            let ready = conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True");
            let node = pod.spec.as_ref().and_then(|it| it.node_name.as_ref());
            ensure!(ready && node.is_some_and(|it| !dead.contains(it)), "it is on {node:?}, ready: {ready}");
            Ok(())
        })
        .await
    }
}

/// The API server has added how long this pod may stay on a dead node.
async fn may_stay_for_a_while(pods: &Api<Pod>, name: &str) -> Result<()> {
    let tolerations = pods.get(name).await?.spec.and_then(|it| it.tolerations).unwrap_or_default();
    for taint in ["node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"] {
        let added = tolerations.iter().find(|it| it.key.as_deref() == Some(taint)).context(taint)?;
        ensure!(added.toleration_seconds == Some(STAYS_SECONDS), "{added:?}");
    }
    Ok(())
}

/// Kubernetes has seen that nobody is there.
async fn is_taken_for_dead(nodes: &Api<Node>, name: &str) -> Result<()> {
    await_answer(&format!("{name} is not ready"), async || {
        let conditions = nodes.get(name).await?.status.and_then(|it| it.conditions).unwrap_or_default();
        let ready = conditions.iter().find(|it| it.type_ == "Ready").context("it says whether it is")?;
        ensure!(ready.status != "True", "it is");
        Ok(())
    })
    .await
}

/// As `kubectl taint node NAME node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`.
async fn taint(nodes: &Api<Node>, name: &str) -> Result<()> {
    let key = "node.kubernetes.io/out-of-service";
    let taint = json!({"key": key, "value": "nodeshutdown", "effect": "NoExecute"});
    await_answer(&format!("{name} has the taint"), async || {
        let mut node = nodes.get(name).await?;
        let taints = node.spec.get_or_insert_default().taints.get_or_insert_default();
        if taints.iter().all(|it| it.key != key) {
            taints.push(serde_json::from_value(taint.clone())?);
            // A controller may have written meanwhile.
            nodes.replace(name, &PostParams::default(), &node).await?;
        }
        Ok(())
    })
    .await
}

/// Every list that the status had since there was one.
async fn the_list_never_changed(space: &Space, watch: &StatusWatch) -> Result<()> {
    let server = |number| format!("{NAME}-{number}.{NAME}.{}.svc:11211", space.name());
    let wanted = json!((0..REPLICAS).map(server).collect::<Vec<_>>());
    let history = watch.history().await?;
    let versions = history.resource.iter().filter_map(|it| it.object.as_ref());
    let lists = versions.map(|it| &it["status"]["serverList"]).skip_while(|it| **it != wanted);
    let lists: Vec<_> = lists.collect();
    ensure!(!lists.is_empty() && lists.iter().all(|it| **it == wanted), "{lists:?}");
    Ok(())
}

/// Two nodes die. One gets the taint, the other one's object is deleted.
async fn two_nodes_die(space: &Space) -> Result<()> {
    let (pods, nodes) = (space.api::<Pod>(), Api::<Node>::all(space.client()));
    let mut machines = machines(space).await?;
    let watch = StatusWatch::follow(&space.client(), space.name(), NAME).await?;
    world::apply(space, NAME, &spec()).await?;
    await_ready(space, NAME).await?;
    let tainted = Member::get(&pods, 0).await?;
    let deleted = Member::get(&pods, 1).await?;
    let alive = Member::get(&pods, 2).await?;
    may_stay_for_a_while(&pods, &alive.name).await?;
    let dead = BTreeSet::from([tainted.node.clone(), deleted.node.clone()]);
    machines.retain(|name, _| !dead.contains(name));
    ensure!(machines.len() == NODES - 2, "two nodes are dead: {dead:?}");

    for lost in [&tainted, &deleted] {
        pods.delete(&lost.name, &DeleteParams::default()).await?;
    }
    // By then whoever collects pods has come by more than once.
    for lost in [&tainted, &deleted] {
        is_taken_for_dead(&nodes, &lost.node).await?;
    }
    for lost in [&tainted, &deleted] {
        lost.waits(&pods).await?;
    }
    let stalls = Stalls::watch();
    taint(&nodes, &tainted.node).await?;
    nodes.delete(&deleted.node, &DeleteParams::default()).await?;
    let (by_taint, by_deletion) = futures::try_join!(tainted.is_let_go(&pods), deleted.is_let_go(&pods))?;
    let stood_still = stalls.total();
    for (what, took, within) in
        [("the taint", by_taint, AFTER_TAINT), ("its node was deleted", by_deletion, AFTER_DELETION)]
    {
        println!("a named pod of a dead node is let go {took:?} after {what}");
        ensure!(took < within + stood_still, "let go {took:?} after {what}; the page says {within:?}");
    }
    for lost in [&tainted, &deleted] {
        lost.comes_back(&pods, &dead).await?;
    }
    await_ready(space, NAME).await?;
    ensure!(Member::get(&pods, 2).await? == alive, "the pod of a living node was replaced");
    the_list_never_changed(space, &watch).await
}

#[tokio::test]
async fn a_named_pod_of_a_dead_node_waits_for_it_and_comes_back_by_what_the_page_advises() -> Result<()> {
    // Pods of other tests may tolerate every taint; they would be lost with these nodes.
    let cluster = up("dead", Shape::ControlPlane).await?;
    in_namespace_of(&cluster, "dead-node", async |space: &Space| {
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        two_nodes_die(space).await?;
        operator.end().await
    })
    .await?;
    e2e::down(cluster.name())?;
    Ok(())
}
