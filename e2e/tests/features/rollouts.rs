//! Rollouts on a cluster with as many nodes as replicas: with hard anti-affinity no pod finds a node beside those it
//! replaces, and the rollout ends all the same. The scheduler is real; nodes are objects whose heartbeat a test keeps. There
//! too: a switch of the workload that goes by what the scheduler says. And a rollout of named pods with an image that does not
//! exist, which the right image heals on every version of Kubernetes.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::programs::Kubernetes;
use e2e::testing::cache::condition;
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{at_once, await_ready, in_space, message, temporary};
use e2e::testing::kubelet::{Kubelet, NO_IMAGE, Which};
use e2e::testing::nodes::Nodes;
use e2e::testing::serving::Serving;
use e2e::testing::{SharedFixture, Space, await_answer, in_namespace_of};
use e2e::{Shape, TemporaryCluster};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::ListParams;
use memcached_operator::api::Memcached;
use serde_json::{Value, json};

use crate::world;

const REPLICAS: usize = 3;
/// Keeps the pods of other tests off these nodes.
const TAINT: &str = "e2e-test/rollouts";
/// The cache whose pods are spread.
const SPREAD: &str = "spread";

/// A cluster of these tests' own: pods of other tests may tolerate every taint, and would be lost with these nodes.
static CLUSTER: SharedFixture<TemporaryCluster> = SharedFixture::new();

async fn with_scheduler() -> Result<TemporaryCluster> {
    temporary("nodes", Shape::ControlPlane).await
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
        let names = (0..REPLICAS).map(|number| format!("{}-{}-{number}", space.name(), self.name)).collect();
        let _nodes = Nodes::register(space.client(), names, TAINT, self.name).await?;
        world::apply(space, self.name, &self.spec(2)).await?;
        await_ready(space, self.name).await?;
        for threads in [3, 4] {
            let serving = Serving::follow(space, self.name).await?;
            world::apply(space, self.name, &self.spec(threads)).await?;
            await_ready(space, self.name).await?;
            let counts = serving.finish().await?;
            let enough = counts.len() > 1 && counts.iter().all(|count| *count >= self.least);
            ensure!(enough, "{counts:?} pods were ready, and {} have to be", self.least);
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
    let cluster = CLUSTER.borrow(with_scheduler).await?;
    in_namespace_of(&cluster, "rollouts", async |space: &Space| {
        let _kubelet = Kubelet::start_for(space, Which::Scheduled);
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        let cases = cases();
        at_once(3, cases.iter().map(async |case| case.roll(space).await.context(case.name))).await?;
        println!("{} kinds of anti-affinity rolled twice on {REPLICAS} nodes", cases.len());
        operator.end().await
    })
    .await
}

/// A node for the pods of this test that tolerate this value.
async fn node_for(space: &Space, value: &str) -> Result<Nodes> {
    Nodes::register(space.client(), vec![format!("{}-{value}", space.name())], TAINT, value).await
}

/// A cache of one pod, spread over the nodes by this label of theirs. The spread has to hold, and it counts nodes whose taint the
/// pod does not tolerate too.
fn spread(workload: &str, label: &str) -> Value {
    json!({
        "workload": workload,
        "replicas": 1,
        "highAvailability": {"topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": label, "whenUnsatisfiable": "DoNotSchedule"},
        ]},
        "pod": {"tolerations": [{"key": TAINT, "operator": "Equal", "value": SPREAD, "effect": "NoSchedule"}]},
    })
}

/// The old pod stands on the only node that takes a new one. Where it is in the way, the scheduler says so in English, and the old
/// workload goes. Where the node lacks the label of the spread, the scheduler says nearly the same, and the old workload stays.
#[tokio::test]
async fn a_switch_of_a_spread_workload_understands_the_words_of_the_scheduler() -> Result<()> {
    let cluster = CLUSTER.borrow(with_scheduler).await?;
    in_namespace_of(&cluster, SPREAD, async |space: &Space| {
        let _kubelet = Kubelet::start_for(space, Which::Scheduled);
        let _nodes = (node_for(space, SPREAD).await?, node_for(space, "nobody").await?);
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        let hostname = "kubernetes.io/hostname";
        world::apply(space, SPREAD, &spread("Deployment", hostname)).await?;
        await_ready(space, SPREAD).await?;
        let serving = Serving::follow(space, SPREAD).await?;
        // In other words of the scheduler, the old pod would stay for ever; Ready shows them.
        world::apply(space, SPREAD, &spread("StatefulSet", hostname)).await?;
        await_ready(space, SPREAD).await?;
        world::apply(space, SPREAD, &spread("Deployment", "e2e-test/no-such-label")).await?;
        let words = "node(s) didn't match pod topology spread constraints (missing required label)";
        let is_told = |it: Option<&Memcached>| {
            it.and_then(|it| message(it, "Ready")).is_some_and(|it| it.contains(words))
        };
        space.wait::<Memcached>(SPREAD, "Ready says that the label is missing", is_told).await?;
        let former = space.api::<StatefulSet>().get(SPREAD).await?.metadata;
        ensure!(former.deletion_timestamp.is_none(), "the old workload goes: {former:?}");
        let counts = serving.finish().await?;
        ensure!(counts == [1, 0, 1], "the old pod goes first in the first switch only: {counts:?}");
        operator.end().await
    })
    .await
}

/// The uids of the pods that are ready.
async fn ready_pods(space: &Space) -> Result<BTreeMap<String, String>> {
    let pods = space.api::<Pod>().list(&ListParams::default()).await?.items;
    let is_ready = |pod: &Pod| {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.into_iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True")
    };
    Ok(pods.into_iter().filter(is_ready).map(|pod| (pod.name_any(), pod.uid().unwrap_or_default())).collect())
}

/// Waits until an Event says that the operator deleted this pod, and why it did not run.
async fn await_deletion_told(space: &Space, pod: &str) -> Result<()> {
    let (deleted, why) = (format!("Deleted pod {pod},"), format!("cannot pull {NO_IMAGE}: not found"));
    await_answer("an Event says that the operator deleted it", async || {
        let events = space.api::<Event>().list(&ListParams::default()).await?.items;
        let says = |it: &Event| {
            it.reason.as_deref() == Some("StuckPodDeleted")
                && it.note.as_ref().is_some_and(|note| note.starts_with(&deleted) && note.contains(&why))
        };
        ensure!(events.iter().any(says), "no Event of {} does", events.len());
        Ok(())
    })
    .await
}

/// On the newest Kubernetes here the gate MaxUnavailableStatefulSet is on: a pod that is not available keeps a StatefulSet from
/// replacing any, and the operator deletes it.
#[tokio::test]
async fn a_wrong_image_of_named_pods_costs_one_pod_and_the_right_one_heals_it() -> Result<()> {
    in_space("healed", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        let spec = |image: &str| json!({"workload": "StatefulSet", "replicas": 3, "image": image});
        world::apply(space, "healed", &spec("memcached:1.6")).await?;
        await_ready(space, "healed").await?;
        let before = ready_pods(space).await?;
        world::apply(space, "healed", &spec(NO_IMAGE)).await?;
        let is_told = |it: Option<&Memcached>| {
            it.and_then(|it| condition(it, "Ready")).is_some_and(|it| it.message.contains("cannot pull"))
        };
        space.wait::<Memcached>("healed", "Ready says why", is_told).await?;
        let mut kept = before.clone();
        kept.remove("healed-2");
        assert_eq!(ready_pods(space).await?, kept);
        world::apply(space, "healed", &spec("memcached:1.6")).await?;
        await_ready(space, "healed").await?;
        let mut after = ready_pods(space).await?;
        let healed = after.remove("healed-2");
        assert!(healed.is_some() && healed != before.get("healed-2").cloned(), "{healed:?}");
        assert_eq!(after, kept, "the other pods stay");
        // Elsewhere the StatefulSet's controller may be faster.
        if Kubernetes::is_newest()? {
            await_deletion_told(space, "healed-2").await?;
        }
        operator.end().await
    })
    .await
}
