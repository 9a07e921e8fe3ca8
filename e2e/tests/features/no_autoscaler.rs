//! An autoscaler that cannot be created or deleted: the number of pods stays the same, the status says why, and the resource
//! recovers when the obstacle is gone.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::testing::Space;
use e2e::testing::control_plane::faults::{Aim, Fault, Faults, Lasting};
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::transport::Verb;
use e2e::testing::control_plane::{at_once, await_ready, in_space, reason};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::status_history::StatusWatch;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::ResourceExt;
use kube::api::DeleteParams;
use memcached_operator::api::Memcached;
use serde_json::{Value, json};

use crate::world;

const REPLICAS: i64 = 3;

/// The obstacle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    /// Somebody else's autoscaler, of another Deployment.
    Foreign,
    MayNotCreate,
    MayNotDelete,
}

fn off() -> Value {
    json!({"replicas": REPLICAS, "resources": {"requests": {"cpu": "50m"}}})
}

fn on() -> Value {
    let mut spec = off();
    spec["autoscaling"] = json!({"enabled": true, "minReplicas": 2, "maxReplicas": 4});
    spec
}

impl Obstacle {
    fn name(self) -> &'static str {
        match self {
            Self::Foreign => "foreign",
            Self::MayNotCreate => "no-create",
            Self::MayNotDelete => "no-delete",
        }
    }

    fn specs(self) -> [Value; 2] {
        if self == Self::MayNotDelete { [on(), off()] } else { [off(), on()] }
    }

    async fn put(self, space: &Space, faults: &Faults) -> Result<()> {
        let forbid = |verbs| Aim {
            verbs,
            resource: "horizontalpodautoscalers",
            name: self.name().to_owned(),
            fault: Fault::Forbidden,
            lasting: Lasting::UntilCleared,
        };
        match self {
            Self::MayNotCreate => faults.arm(forbid(&[Verb::Create])),
            Self::MayNotDelete => faults.arm(forbid(&[Verb::Delete])),
            Self::Foreign => {
                let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"});
                let theirs = json!({
                    "metadata": {"name": self.name()},
                    "spec": {"scaleTargetRef": target, "maxReplicas": 7},
                });
                space.apply(&serde_json::from_value::<HorizontalPodAutoscaler>(theirs)?).await?;
            }
        }
        Ok(())
    }

    async fn take_away(self, space: &Space, faults: &Faults) -> Result<()> {
        faults.clear(self.name());
        if self == Self::Foreign {
            let autoscalers = space.api::<HorizontalPodAutoscaler>();
            let theirs = autoscalers.get(self.name()).await?;
            ensure!(theirs.spec.as_ref().is_some_and(|it| it.max_replicas == 7), "it is theirs: {theirs:?}");
            ensure!(theirs.owner_references().is_empty(), "it is theirs: {theirs:?}");
            autoscalers.delete(self.name(), &DeleteParams::default()).await?;
        }
        Ok(())
    }

    async fn meet(self, space: &Space, faults: &Faults) -> Result<()> {
        let (name, [before, after]) = (self.name(), self.specs());
        world::apply(space, name, &before).await?;
        await_ready(space, name).await?;
        self.put(space, faults).await?;
        let watch = StatusWatch::follow(&space.client(), space.name(), name).await?;
        let wanted = world::apply(space, name, &after).await?.metadata.generation;
        let why = if self == Self::Foreign { "NameConflict" } else { "Forbidden" };
        let says = |it: &Memcached| {
            let observed = it.status.as_ref().map(|status| status.observed_generation);
            observed == wanted && reason(it, "Ready") == Some(why)
        };
        space.wait::<Memcached>(name, "it says why", |it| it.is_some_and(says)).await?;
        let live = |deployment: &Value| deployment["spec"]["replicas"].as_i64();
        let history = watch.history().await?;
        let first = history.deployment.first().and_then(|version| live(version.object.as_ref()?));
        self.take_away(space, faults).await?;
        await_ready(space, name).await?;
        let autoscaler = space.api::<HorizontalPodAutoscaler>().get_opt(name).await?;
        ensure!(autoscaler.is_some() == after.get("autoscaling").is_some(), "it is there or not");
        let counts: Vec<_> =
            watch.history().await?.deployment.iter().filter_map(|it| live(it.object.as_ref()?)).collect();
        ensure!(
            first.is_some_and(|first| counts.iter().all(|count| *count >= first)),
            "replicas were {counts:?}"
        );
        Ok(())
    }
}

#[tokio::test]
async fn an_autoscaler_that_cannot_be_made_or_taken_away_costs_no_pod() -> Result<()> {
    in_space("obstacle", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        let faults = Arc::new(Faults::default());
        let operator = Operator::start(space, Arc::clone(&faults) as Arc<_>, Kill::default()).await?;
        let obstacles = [Obstacle::Foreign, Obstacle::MayNotCreate, Obstacle::MayNotDelete];
        at_once(
            3,
            obstacles
                .iter()
                .map(async |obstacle| obstacle.meet(space, &faults).await.context(obstacle.name())),
        )
        .await?;
        operator.end().await
    })
    .await
}
