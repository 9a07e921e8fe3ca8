//! A disruption budget lets a drain through, a few pods at a time: the Eviction API with the real controller of budgets,
//! against pods that a stand-in for the kubelet makes ready.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{at_once, await_ready, in_space};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::{Space, await_answer};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{EvictParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use memcached_operator::api::Memcached;
use serde_json::{Value, json};

use crate::world;

/// A budget, and what it grants.
struct Case {
    name: &'static str,
    spec: Value,
    /// Pods that there are.
    pods: usize,
    /// Of these, how many may go before another is ready; `None` where there is no budget.
    at_once: Option<usize>,
}

fn cases() -> Vec<Case> {
    let of = |replicas: i32, limit: &Value| {
        let mut spec =
            json!({"replicas": replicas, "highAvailability": {"podDisruptionBudget": {"enabled": true}}});
        json_patch::merge(&mut spec["highAvailability"]["podDisruptionBudget"], limit);
        spec
    };
    let scaled = |(min, max): (i32, i32), limit: &Value| {
        let mut spec = of(0, limit);
        spec["resources"] = json!({"requests": {"cpu": "50m"}});
        spec["autoscaling"] = json!({"enabled": true, "minReplicas": min, "maxReplicas": max});
        spec
    };
    let case = |name, spec, pods, at_once| Case { name, spec, pods, at_once };
    let (two_stay, half_stays) = (json!({"minAvailable": 2}), json!({"minAvailable": "50%"}));
    let one_stays = json!({"minAvailable": 1});
    vec![
        case("two-of-three-stay", of(3, &two_stay), 3, Some(1)),
        case("half-of-three-stays", of(3, &half_stays), 3, Some(1)),
        case("one-of-three-goes", of(3, &json!({"maxUnavailable": 1})), 3, Some(1)),
        case("a-third-goes", of(3, &json!({"maxUnavailable": "34%"})), 3, Some(2)),
        case("a-hundredth-goes", of(4, &json!({"maxUnavailable": "1%"})), 4, Some(1)),
        case("a-lone-pod", of(1, &one_stays), 1, None),
        case("scaled-from-two", scaled((2, 4), &one_stays), 2, Some(1)),
        case("scaled-from-one", scaled((1, 3), &one_stays), 1, Some(1)),
        case("scaled-from-one-most-stay", scaled((1, 5), &json!({"minAvailable": 4})), 1, Some(1)),
    ]
}

/// The pods of a namespace, by a client that takes a refusal for an answer: by default it would try again for minutes.
async fn all_pods(space: &Space) -> Result<Api<Pod>> {
    let mut config = space.cluster().config("e2e-test").await?;
    config.default_retry = false;
    Ok(Api::namespaced(Client::try_from(config)?, space.name()))
}

async fn pods(all: &Api<Pod>, name: &str) -> Result<Vec<String>> {
    let ours = ListParams::default().labels(&format!("app.kubernetes.io/instance={name}"));
    let pods = all.list(&ours).await?.items;
    let there = pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    Ok(there.map(|pod| pod.name_any()).collect())
}

/// Whether the pod may go, or has gone already. The API server also says "later" where the pod changed while it looked.
async fn evict(all: &Api<Pod>, pod: &str) -> Result<bool> {
    match all.evict(pod, &EvictParams::default()).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 429 => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Evicts every pod there is now, each as soon as it may go.
async fn drain(all: &Api<Pod>, name: &str) -> Result<()> {
    for pod in pods(all, name).await? {
        await_answer("the pod may go", async || {
            evict(all, &pod).await?.then_some(()).context("the budget does not let it go")
        })
        .await
        .with_context(|| format!("{name}: the drain is wedged"))?;
    }
    Ok(())
}

/// Waits until the controller has counted the pods, and says how many may go.
async fn allowed(space: &Space, name: &str, wanted: usize) -> Result<()> {
    await_answer("the budget has been counted", async || {
        let budget = space.api::<PodDisruptionBudget>().get(name).await?;
        let status = budget.status.context("it has not been looked at")?;
        let found = usize::try_from(status.disruptions_allowed)?;
        ensure!(found == wanted, "{found} may go instead of {wanted}, {status:?}");
        Ok(())
    })
    .await
}

impl Case {
    /// Evicts all pods at once while nothing takes their place.
    async fn strike(&self, space: &Space, all: &Api<Pod>) -> Result<()> {
        let there = pods(all, self.name).await?;
        ensure!(there.len() == self.pods, "{} has {} pods", self.name, there.len());
        if let Some(wanted) = self.at_once {
            allowed(space, self.name, wanted).await.context(self.name)?;
        }
        let mut gone = 0;
        for pod in there {
            gone += usize::from(evict(all, &pod).await?);
        }
        let wanted = self.at_once.unwrap_or(self.pods);
        ensure!(gone == wanted, "{}: {gone} pods went at once instead of {wanted}", self.name);
        Ok(())
    }
}

#[tokio::test]
async fn a_budget_slows_a_drain_down_and_never_stops_it() -> Result<()> {
    in_space("drain", async |space: &Space| {
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        let all = all_pods(space).await?;
        let cases = cases();
        let kubelet = Kubelet::start(space);
        at_once(
            9,
            cases.iter().map(async |case| {
                world::apply(space, case.name, &case.spec).await?;
                await_ready(space, case.name).await.context(case.name)?;
                let budget = space.api::<PodDisruptionBudget>().get_opt(case.name).await?;
                ensure!(
                    budget.is_some() == case.at_once.is_some(),
                    "{}: a budget is there or not",
                    case.name
                );
                Ok(())
            }),
        )
        .await?;
        drop(kubelet);
        for case in &cases {
            case.strike(space, &all).await?;
        }
        let _kubelet = Kubelet::start(space);
        at_once(9, cases.iter().map(|case| drain(&all, case.name))).await?;
        println!("{} budgets, each drained", cases.len());
        operator.end().await
    })
    .await
}

#[tokio::test]
async fn a_budget_goes_with_the_last_but_one_pod_and_does_not_hold_pods_that_serve_nobody() -> Result<()> {
    in_space("budget", async |space: &Space| {
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        let all = all_pods(space).await?;
        let kubelet = Kubelet::start(space);
        let name = "cache";
        let budget = json!({"podDisruptionBudget": {"enabled": true, "minAvailable": 1}});
        world::apply(space, name, &json!({"replicas": 2, "highAvailability": budget})).await?;
        await_ready(space, name).await?;
        allowed(space, name, 1).await?;
        drop(kubelet);

        // Both pods run, and neither is ready.
        for pod in pods(&all, name).await? {
            let status = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
            all.patch_status(&pod, &PatchParams::default(), &Patch::Strategic(status)).await?;
        }
        allowed(space, name, 0).await?;
        drain(&all, name).await?;

        let _kubelet = Kubelet::start(space);
        for replicas in [1, 0, 2] {
            let scaled = Patch::Merge(json!({"spec": {"replicas": replicas}}));
            space.api::<Memcached>().patch_scale(name, &PatchParams::default(), &scaled).await?;
            await_ready(space, name).await?;
            let budget = space.api::<PodDisruptionBudget>().get_opt(name).await?;
            ensure!(budget.is_some() == (replicas > 1), "{replicas} replicas, and {budget:?}");
            drain(&all, name).await?;
        }
        operator.end().await
    })
    .await
}
