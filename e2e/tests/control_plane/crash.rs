//! An operator that is killed at any of its writes: another one brings everything to the same end.
//!
//! A plan is a scenario, the workload that it begins with, a write (the k-th) and a position. The scenario is played by an
//! operator that is killed there; a fresh one takes over, and in the end every field has to be what it is without a kill.
//!
//! Each plan has a resource of its own, so that nothing has to be collected before the next one begins. The operator that takes over is
//! the one that is killed next: to start one more costs the API server about as much as all writes of a scenario.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use e2e::testing::control_plane::children;
use e2e::testing::control_plane::kill_at_write::{AtWrite, Position};
use e2e::testing::control_plane::operator::{Kill, Operator, REPLAYED};
use e2e::testing::control_plane::transport::{Answer, Call, Forward, Interposer, Straight};
use e2e::testing::control_plane::{
    at_once, await_ready, collector_is_at_work, in_space, resource, secret, state,
};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::{Space, await_answer};
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use memcached_operator::api::Memcached;
use memcached_operator::api::spec::{STATEFUL_SET, Workload};
use memcached_operator::kernel::desired::meta::INSTANCE_LABEL;
use serde_json::{Value, json};
use strum::{EnumCount, VariantArray as _};
use tokio::time::Instant;

/// The resource of a plan, by the number of the write. All names are as long.
fn name_of(number: usize) -> String {
    format!("case-{number:02}")
}

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

    /// Brings a resource to where the scenario begins.
    async fn prepare(self, kind: Workload, space: &Space, name: &str) -> Result<()> {
        space.apply(&secret(name, "first")?).await?;
        if !matches!(self, Self::Create) {
            let replicas = if matches!(self, Self::Roll) { 2 } else { 1 };
            space.apply(&with(kind, name, replicas, 64)?).await?;
            await_ready(space, name).await?;
        }
        Ok(())
    }

    async fn play(self, kind: Workload, space: &Space, name: &str) -> Result<()> {
        match self {
            Self::Create => space.apply(&with(kind, name, 1, 64)?).await.map(|_| ()),
            Self::Edit | Self::Roll => space.apply(&with(kind, name, 2, 65)?).await.map(|_| ()),
            Self::Rotate => space.apply(&secret(name, "second")?).await.map(|_| ()),
            Self::Delete => {
                space.api::<Memcached>().delete(name, &DeleteParams::background()).await?;
                Ok(())
            }
            Self::Rename => space.apply(&with(other(kind), name, 1, 64)?).await.map(|_| ()),
        }
    }

    /// Waits until it has come to what it is about; what comes later may still move.
    async fn await_end(self, kind: Workload, space: &Space, life: &Life) -> Result<()> {
        match self {
            Self::Create | Self::Edit | Self::Rename | Self::Roll => {}
            Self::Rotate => {
                let [_, before] = &life.before;
                await_answer("the pods have the new Secret", async || {
                    let [_, now] = hashes(&workload(kind, space, &life.name).await?);
                    ensure!(now != *before, "the template is still of the Secret {before:?}");
                    Ok(())
                })
                .await?;
            }
            Self::Delete => return await_nothing_left(space, &life.name).await,
        }
        await_ready(space, &life.name).await.map(|_| ())
    }
}

const fn other(kind: Workload) -> Workload {
    match kind {
        Workload::Deployment => Workload::StatefulSet,
        Workload::StatefulSet => Workload::Deployment,
    }
}

/// A resource with this workload.
fn with(kind: Workload, name: &str, replicas: i32, memory: i32) -> Result<Memcached> {
    match kind {
        Workload::Deployment => resource(name, replicas, memory),
        Workload::StatefulSet => named(name, replicas, memory),
    }
}

/// A resource like the others, with a StatefulSet. Its rollout waits a second for warm pods, so that questions to pods stand in
/// the journal too; the stand-ins never answer.
fn named(name: &str, replicas: i32, memory: i32) -> Result<Memcached> {
    let mut named = resource(name, replicas, memory)?;
    named.spec.workload = Some(STATEFUL_SET.to_owned());
    named.spec.monitoring = Some(serde_json::from_value(json!({"enabled": true}))?);
    named.spec.rollout =
        Some(serde_json::from_value(json!({"warmth": {"percent": 80, "timeoutSeconds": 1}}))?);
    Ok(named)
}

async fn workload(kind: Workload, space: &Space, name: &str) -> Result<Value> {
    Ok(json!(children::of(space, kind.into(), name).get_opt().await?))
}

/// What a workload says of its template, and of the Secret that its pods have.
type Hashes = [Option<String>; 2];

fn hashes(workload: &Value) -> Hashes {
    [
        "/metadata/annotations/memcached.c5c3.io~1template-hash",
        "/spec/template/metadata/annotations/memcached.c5c3.io~1secret-hash",
    ]
    .map(|path| workload.pointer(path).and_then(Value::as_str).map(str::to_owned))
}

/// Waits until the garbage collector has removed all children of a resource.
async fn await_nothing_left(space: &Space, name: &str) -> Result<()> {
    await_answer("nothing is left of the resource", async || {
        let of_it = ListParams::default().labels(&format!("{INSTANCE_LABEL}={name}"));
        // They go after their owners, so nothing else is asked for while there are any.
        let sets = space.api::<ReplicaSet>().list(&of_it).await?.items.len();
        ensure!(sets == 0, "{sets} ReplicaSets are left");
        let pods = space.api::<Pod>().list(&of_it).await?.items.len();
        ensure!(pods == 0, "{pods} pods are left");
        for kind in children::built_in() {
            let left = children::of(space, kind, name).get_opt().await?;
            ensure!(left.is_none(), "its {} is left", kind.name());
        }
        Ok(())
    })
    .await
}

/// A resource at the beginning of its scenario.
struct Life {
    name: String,
    before: Hashes,
}

impl Life {
    async fn begin(kind: Workload, space: &Space, name: String) -> Result<Self> {
        let before = hashes(&workload(kind, space, &name).await?);
        Ok(Self { name, before })
    }

    /// Which hashes are other ones in this state.
    fn changed(&self, kind: Workload, state: &Value) -> [bool; 2] {
        let workload = match kind {
            Workload::Deployment => &state["deployment"],
            Workload::StatefulSet => &state["statefulSet"],
        };
        let [template, secret] = hashes(workload);
        let [template_before, secret_before] = &self.before;
        [template != *template_before, secret != *secret_before]
    }
}

/// The end without a kill. Hashes are of a name too: of these it says which ones change.
struct Whole {
    end: Value,
    changed: [bool; 2],
}

impl Whole {
    fn check(&self, kind: Workload, life: &Life, state: &Value) -> Result<()> {
        let differences = state::differences(&self.end, &state::anonymous(state, &life.name));
        ensure!(differences.is_empty(), "{}", differences.join("\n  "));
        let changed = life.changed(kind, state);
        ensure!(changed == self.changed, "hashes changed: {changed:?} instead of {:?}", self.changed);
        Ok(())
    }
}

/// Kills the operator at a write about one resource, counted from the moment on at which the scenario begins.
struct AtWriteOf {
    name: String,
    crash: Arc<AtWrite>,
    begun: AtomicBool,
}

impl AtWriteOf {
    fn is_about_it(&self, call: &Call) -> bool {
        let rest = call.name.strip_prefix(self.name.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.']))
    }
}

impl Interposer for AtWriteOf {
    fn interpose(self: Arc<Self>, call: Call, forward: Forward) -> BoxFuture<'static, Answer> {
        if self.begun.load(Ordering::SeqCst) && self.is_about_it(&call) {
            Arc::clone(&self.crash).interpose(call, forward)
        } else {
            Box::pin(forward.send())
        }
    }
}

/// A scenario that is played with a kill at every write, one after the other.
#[derive(Clone, Copy, Debug)]
struct Lane {
    scenario: Scenario,
    kind: Workload,
    position: Position,
}

impl Lane {
    /// The end without a kill. Leaves the resource of the first plan at its beginning.
    async fn whole(self, space: &Space) -> Result<Whole> {
        let Self { scenario, kind, .. } = self;
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        let (name, first) = (name_of(0), name_of(1));
        tokio::try_join!(scenario.prepare(kind, space, &name), scenario.prepare(kind, space, &first))?;
        let life = Life::begin(kind, space, name).await?;
        scenario.play(kind, space, &life.name).await?;
        scenario.await_end(kind, space, &life).await?;
        let end = state::at_rest(space, &life.name).await?;
        let conditions = end.pointer("/resource/status/conditions").and_then(Value::as_array);
        let is_ready = |it: &Value| it["type"] == "Ready" && it["status"] == "True";
        ensure!(
            matches!(scenario, Scenario::Delete) || conditions.is_some_and(|all| all.iter().any(is_ready)),
            "{scenario:?} did not come to a good end without a fault either: {end:#}"
        );
        operator.end().await?;
        let changed = life.changed(kind, &end);
        Ok(Whole { end: state::anonymous(&end, &life.name), changed })
    }

    /// Waits until an operator that was not killed has brought this resource to the end without a kill.
    async fn await_whole(self, space: &Space, life: &Life, whole: &Whole) -> Result<()> {
        self.scenario.await_end(self.kind, space, life).await?;
        await_answer("the same end as without a fault", async || {
            whole.check(self.kind, life, &state::of(space, &life.name).await?)
        })
        .await
    }

    /// What was begun under an operator that was killed comes to its end under the next one. Meanwhile that one brings another
    /// resource to the beginning: it dies before it has to do with that any more.
    async fn take_over(self, space: &Space, killed: Option<&Life>, whole: &Whole, next: &str) -> Result<()> {
        let ended = async {
            match killed {
                Some(life) => self.await_whole(space, life, whole).await,
                None => Ok(()),
            }
        };
        tokio::try_join!(ended, self.scenario.prepare(self.kind, space, next))?;
        Ok(())
    }

    /// Plays the scenario with a kill at every write, one after the other, until there is none. Gives how many there were.
    async fn every_write(self, space: &Space) -> Result<usize> {
        let _kubelet = Kubelet::start(space);
        let Self { scenario, kind, position } = self;
        let whole = self.whole(space).await?;
        let mut killed: Option<Life> = None;
        for number in 1.. {
            let plan = format!("{scenario:?} of a {kind:?}, killed {position:?} at write {number}");
            let crash = Arc::new(AtWrite::new(number, position));
            let (name, begun) = (name_of(number), AtomicBool::new(false));
            let killer = Arc::new(AtWriteOf { name: name.clone(), crash: Arc::clone(&crash), begun });
            let operator =
                Operator::start(space, Arc::<AtWriteOf>::clone(&killer), crash.kill.clone()).await?;
            let next = name_of(number + 1);
            let taken_over = self.take_over(space, killed.as_ref(), &whole, &next).await;
            taken_over.with_context(|| format!("after the kill before {plan}"))?;
            let life = Life::begin(kind, space, name).await?;
            killer.begun.store(true, Ordering::SeqCst);
            scenario.play(kind, space, &life.name).await?;
            let done = async {
                // The kill comes before that at nearly every point, and to look whether all is at rest costs the API server much.
                scenario.await_end(kind, space, &life).await?;
                await_answer("all is done", async || {
                    whole.check(kind, &life, &state::at_rest(space, &life.name).await?)
                })
                .await
            };
            tokio::select! {
                () = crash.reached() => {}
                done = done => if !crash.fired() { done.context(plan)? },
            }
            if !crash.fired() {
                operator.end().await?;
                return Ok(number - 1);
            }
            operator.gone().await?;
            killed = Some(life);
        }
        anyhow::bail!("there is always another write")
    }
}

#[tokio::test]
async fn an_operator_that_is_killed_at_any_write_leaves_nothing_that_another_does_not_bring_to_the_same_end()
-> Result<()> {
    let kinds =
        |scenario: Scenario| [Workload::Deployment, Workload::StatefulSet].map(|kind| (scenario, kind));
    let positions = |(scenario, kind): (Scenario, Workload)| {
        scenario.positions(kind).iter().map(move |position| Lane { scenario, kind, position: *position })
    };
    let lanes = Scenario::ALL.into_iter().flat_map(kinds).flat_map(positions);
    let points = at_once(
        12,
        lanes.map(|lane| async move {
            let Lane { scenario, kind, position } = lane;
            let (mut points, began) = (0, Instant::now());
            in_space("crash", async |space: &Space| {
                collector_is_at_work(space).await?;
                points = lane.every_write(space).await?;
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
