//! An operator that is killed at any of its writes: another one brings everything to the same end.
//!
//! A plan is a scenario, the workload that it begins with, a write (the k-th) and a position. The scenario is played by an
//! operator that is killed there; a fresh one takes over, and in the end every field has to be what it is without a kill.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, ensure};
use e2e::testing::control_plane::children;
use e2e::testing::control_plane::kill_at_write::{AtWrite, Position};
use e2e::testing::control_plane::operator::{Kill, Operator, REPLAYED};
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{
    at_once, await_ready, collector_is_at_work, in_space, resource, secret, state,
};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::{Space, await_answer};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{DeleteParams, ListParams};
use memcached_operator::api::Memcached;
use memcached_operator::api::spec::{STATEFUL_SET, Workload};
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};
use strum::{EnumCount, VariantArray as _};
use tokio::time::Instant;

const NAME: &str = "cache";

/// What happens to the resource.
#[derive(Clone, Copy, Debug, EnumCount)]
enum Scenario {
    /// It is created.
    Create,
    /// More pods, with another template.
    Edit,
    /// Its Secret gets another content, which no new generation announces.
    Rotate,
    /// It is deleted.
    Delete,
    /// Its Deployment becomes a StatefulSet, or the other way round.
    Rename,
    /// The pods of its StatefulSet get another template, one after the other.
    Roll,
}

impl Scenario {
    /// Those with the most writes first, so that none of them is left to run alone.
    const ALL: [Self; Self::COUNT] =
        [Self::Edit, Self::Roll, Self::Rename, Self::Create, Self::Rotate, Self::Delete];

    /// Where it is killed. To the cluster, the end of one write is the time before the next one: all positions are tried with
    /// the scenarios of most kinds of writes, and each of the others meets one. With named pods each meets one.
    fn positions(self, kind: Workload) -> &'static [Position] {
        match (self, kind) {
            (Self::Create | Self::Edit, Workload::Deployment) => Position::VARIANTS,
            (Self::Rotate | Self::Delete, Workload::Deployment) | (Self::Create, Workload::StatefulSet) => {
                &[Position::BeforeItIsSent]
            }
            (Self::Rotate | Self::Delete | Self::Roll | Self::Rename, Workload::StatefulSet) => {
                &[Position::BeforeTheAnswer]
            }
            (Self::Rename, Workload::Deployment) | (Self::Edit, Workload::StatefulSet) => {
                &[Position::AfterTheAnswer]
            }
            // A Deployment replaces its pods by itself.
            (Self::Roll, Workload::Deployment) => &[],
        }
    }

    /// Brings the namespace to where the scenario begins, under this operator, which ends then. It has no fault: to start one
    /// more costs the API server about as much as all writes of the scenario.
    async fn prepare(self, kind: Workload, space: &Space, operator: Operator) -> Result<()> {
        clear(space).await?;
        space.apply(&secret(NAME, "first")?).await?;
        if !matches!(self, Self::Create) {
            let replicas = if matches!(self, Self::Roll) { 2 } else { 1 };
            space.apply(&with(kind, replicas, 64)?).await?;
            await_ready(space, NAME).await?;
        }
        operator.end().await
    }

    async fn play(self, kind: Workload, space: &Space) -> Result<()> {
        match self {
            Self::Create => space.apply(&with(kind, 1, 64)?).await.map(|_| ()),
            Self::Edit | Self::Roll => space.apply(&with(kind, 2, 65)?).await.map(|_| ()),
            Self::Rotate => space.apply(&secret(NAME, "second")?).await.map(|_| ()),
            Self::Delete => delete(space).await,
            Self::Rename => space.apply(&with(other(kind), 1, 64)?).await.map(|_| ()),
        }
    }

    /// Waits until it has come to what it is about; what comes later may still move.
    async fn await_end(self, kind: Workload, space: &Space, before: Option<&str>) -> Result<()> {
        match self {
            Self::Create | Self::Edit | Self::Rename | Self::Roll => {}
            Self::Rotate => {
                await_answer("the pods have the new Secret", async || {
                    let now = template_hash(kind, space).await?;
                    ensure!(now.as_deref() != before, "the template is still of the Secret {before:?}");
                    Ok(())
                })
                .await?;
            }
            Self::Delete => return await_nothing_left(space).await,
        }
        await_ready(space, NAME).await.map(|_| ())
    }

    /// The end without a kill, and the operator that came to it.
    async fn end(self, kind: Workload, space: &Space) -> Result<(Value, Operator)> {
        self.prepare(kind, space, without_fault(space).await?).await?;
        let operator = without_fault(space).await?;
        let before = template_hash(kind, space).await?;
        self.play(kind, space).await?;
        self.await_end(kind, space, before.as_deref()).await?;
        let end = state::at_rest(space, NAME).await?;
        let conditions = end.pointer("/resource/status/conditions").and_then(Value::as_array);
        let ready = json!({"type": "Ready", "status": "True"});
        let is_ready = |it: &Value| it["type"] == ready["type"] && it["status"] == ready["status"];
        ensure!(
            matches!(self, Self::Delete) || conditions.is_some_and(|all| all.iter().any(is_ready)),
            "{self:?} did not come to a good end without a fault either: {end:#}"
        );
        Ok((end, operator))
    }
}

async fn without_fault(space: &Space) -> Result<Operator> {
    Operator::start(space, Arc::new(Straight), Kill::default()).await
}

const fn other(kind: Workload) -> Workload {
    match kind {
        Workload::Deployment => Workload::StatefulSet,
        Workload::StatefulSet => Workload::Deployment,
    }
}

/// A resource with this workload.
fn with(kind: Workload, replicas: i32, memory: i32) -> Result<Memcached> {
    match kind {
        Workload::Deployment => resource(NAME, replicas, memory),
        Workload::StatefulSet => named(replicas, memory),
    }
}

/// A resource like the others, with a StatefulSet. Its rollout waits a second for warm pods, so that questions to pods stand in
/// the journal too; the stand-ins never answer.
fn named(replicas: i32, memory: i32) -> Result<Memcached> {
    let mut named = resource(NAME, replicas, memory)?;
    named.spec.workload = Some(STATEFUL_SET.to_owned());
    named.spec.monitoring = Some(serde_json::from_value(json!({"enabled": true}))?);
    named.spec.rollout =
        Some(serde_json::from_value(json!({"warmth": {"percent": 80, "timeoutSeconds": 1}}))?);
    Ok(named)
}

async fn delete(space: &Space) -> Result<()> {
    space.api::<Memcached>().delete(NAME, &DeleteParams::background()).await?;
    Ok(())
}

/// What the pods know of the Secret.
async fn template_hash(kind: Workload, space: &Space) -> Result<Option<String>> {
    let workload = json!(children::of(space, kind.into(), NAME).get_opt().await?);
    let hash = workload.pointer("/spec/template/metadata/annotations/memcached.c5c3.io~1secret-hash");
    Ok(hash.and_then(Value::as_str).map(str::to_owned))
}

/// Removes everything, and waits until the garbage collector has.
async fn clear(space: &Space) -> Result<()> {
    if space.api::<Memcached>().get_opt(NAME).await?.is_some() {
        delete(space).await?;
    }
    if space.api::<Secret>().get_opt(NAME).await?.is_some() {
        space.api::<Secret>().delete(NAME, &DeleteParams::default()).await?;
    }
    await_nothing_left(space).await
}

/// Waits until the garbage collector has removed all children.
async fn await_nothing_left(space: &Space) -> Result<()> {
    await_answer("nothing is left of the last resource", async || {
        let all = ListParams::default();
        // They go after their owners, so nothing else is asked for while there are any.
        let sets = space.api::<ReplicaSet>().list(&all).await?.items.len();
        ensure!(sets == 0, "{sets} ReplicaSets are left");
        let pods = space.api::<Pod>().list(&all).await?.items.len();
        ensure!(pods == 0, "{pods} pods are left");
        let mut left = 0;
        for kind in children::built_in() {
            left += match kind {
                // Each namespace has one of Kubernetes itself.
                ChildKind::ConfigMap => children::of(space, kind, NAME).get_opt().await?.iter().len(),
                _ => children::api(space, kind).list(&all).await?.items.len(),
            };
        }
        ensure!(left == 0, "{left} objects are left");
        Ok(())
    })
    .await
}

/// Plays a scenario with a kill at every write, one after the other, until there is none. Gives how many there were.
async fn every_write(space: &Space, scenario: Scenario, kind: Workload, position: Position) -> Result<usize> {
    let _kubelet = Kubelet::start(space);
    let (wanted, mut whole) = scenario.end(kind, space).await?;
    for number in 1.. {
        let plan = format!("{scenario:?} of a {kind:?}, killed {position:?} at write {number}");
        scenario.prepare(kind, space, whole).await.with_context(|| format!("before {plan}"))?;
        let crash = Arc::new(AtWrite::new(number, position));
        let operator = Operator::start(space, Arc::clone(&crash) as Arc<_>, crash.kill.clone()).await?;
        let before = template_hash(kind, space).await?;
        scenario.play(kind, space).await?;
        let done = async {
            // The kill comes before that at nearly every point, and to look whether all is at rest costs the API server much.
            scenario.await_end(kind, space, before.as_deref()).await?;
            await_answer("all is done", async || {
                let rest = state::at_rest(space, NAME).await?;
                ensure!(rest == wanted, "{}", state::differences(&wanted, &rest).join("\n  "));
                Ok(())
            })
            .await
        };
        tokio::select! {
            () = crash.reached() => {}
            done = done => if !crash.fired() { done.context(plan.clone())? },
        }
        if !crash.fired() {
            operator.end().await?;
            return Ok(number - 1);
        }
        operator.gone().await?;
        whole = without_fault(space).await?;
        state::await_equal(space, NAME, &wanted).await.with_context(|| plan.clone())?;
    }
    anyhow::bail!("there is always another write")
}

#[tokio::test]
async fn an_operator_that_is_killed_at_any_write_leaves_nothing_that_another_does_not_bring_to_the_same_end()
-> Result<()> {
    let kinds =
        |scenario: Scenario| [Workload::Deployment, Workload::StatefulSet].map(|kind| (scenario, kind));
    let positions = |(scenario, kind): (Scenario, Workload)| {
        scenario.positions(kind).iter().map(move |position| (scenario, kind, *position))
    };
    let lanes = Scenario::ALL.into_iter().flat_map(kinds).flat_map(positions);
    let points = at_once(
        12,
        lanes.map(|(scenario, kind, position)| async move {
            let (mut points, began) = (0, Instant::now());
            in_space("crash", async |space: &Space| {
                collector_is_at_work(space).await?;
                points = every_write(space, scenario, kind, position).await?;
                Ok(())
            })
            .await?;
            println!("{scenario:?} of a {kind:?}, {position:?}: {points} writes, {:?}", began.elapsed());
            ensure!(
                matches!(scenario, Scenario::Delete) == (points == 0),
                "{scenario:?} of a {kind:?} has {points} writes"
            );
            Ok(points)
        }),
    )
    .await?;
    println!("{} crash points, all with the same end", points.iter().sum::<usize>());
    let replayed = REPLAYED.load(Ordering::Relaxed);
    println!("{replayed} steps of operators that were killed or ended replayed to the letter");
    ensure!(replayed > 1_000, "each of them has some steps");
    Ok(())
}
