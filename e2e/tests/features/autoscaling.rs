//! An autoscaler and the operator do not fight: with the real HPA controller, whatever is switched or scaled and wherever
//! the operator is killed, there are never fewer pods than there were or than minReplicas, whichever is less.
//!
//! No metrics are served, so that the controller only keeps the number of pods between its bounds.

use std::ops::RangeInclusive;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::testing::control_plane::kill_at_write::CutOffs;
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{at_once, await_ready, children, in_space, ready};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::status_history::{StatusHistory, StatusWatch};
use e2e::testing::{Space, await_answer};
use futures::future::try_join_all;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use memcached_operator::api::Memcached;
use memcached_operator::api::spec::{STATEFUL_SET, Workload};
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};

use crate::quiet;
use crate::world;

/// Who scales a workload by hand.
const HAND: &str = "hand";

/// What happens, and what has to come of it.
struct Scenario {
    name: &'static str,
    /// The specs that the resource has had, each until it was ready.
    before: Vec<Value>,
    play: Play,
    /// minReplicas, the least of those that apply meanwhile.
    fewest: i64,
    /// Pods in the end.
    end: i64,
    /// How many writes it takes: so many kills are played side by side, and the others afterwards, if it has become more.
    writes: usize,
}

enum Play {
    /// The spec becomes another.
    Spec(Value),
    /// Somebody scales the workload.
    Scale(i64),
    /// The spec becomes another, and somebody deletes the autoscaler.
    SpecAndDelete(Value),
}

fn off(replicas: i64) -> Value {
    json!({"replicas": replicas, "resources": {"requests": {"cpu": "50m"}}})
}

fn on(replicas: i64, (min, max): (i64, i64)) -> Value {
    let mut spec = off(replicas);
    spec["autoscaling"] = json!({"enabled": true, "minReplicas": min, "maxReplicas": max});
    spec
}

fn with_exporter(mut spec: Value) -> Value {
    spec["monitoring"] = json!({"enabled": true});
    spec
}

fn named(mut spec: Value) -> Value {
    spec["workload"] = json!(STATEFUL_SET);
    spec
}

/// Those with the most writes first, so that none of them is left to run alone. A StatefulSet is one more value: once of each
/// play, and of the change from one kind to the other.
fn scenarios() -> Vec<Scenario> {
    let scenario = |name, before: &[Value], play, fewest, end, writes| {
        let before = before.to_vec();
        Scenario { name, before, play, fewest, end, writes }
    };
    let exporter = with_exporter;
    let spec = Play::Spec;
    vec![
        scenario("named while on", &[on(0, (4, 5)), on(0, (2, 5))], spec(named(on(0, (2, 5)))), 2, 4, 11),
        scenario("on with an exporter", &[off(3)], spec(exporter(on(3, (2, 4)))), 2, 3, 15),
        scenario("on from the start", &[], spec(on(0, (2, 4))), 2, 2, 12),
        scenario("on, from fewer than the fewest", &[off(1)], spec(on(1, (3, 4))), 3, 3, 9),
        scenario("on, from more than the most", &[off(4)], spec(on(4, (2, 3))), 2, 3, 8),
        scenario("scaled by hand to too many", &[on(0, (2, 4))], Play::Scale(9), 2, 4, 7),
        scenario("scaled by hand to too few", &[on(0, (2, 4))], Play::Scale(1), 2, 2, 8),
        scenario("on from zero", &[off(0)], spec(on(0, (2, 4))), 2, 2, 7),
        scenario("off", &[on(3, (2, 4))], spec(off(3)), 2, 3, 7),
        scenario("off, while somebody deletes it", &[on(3, (2, 4))], Play::SpecAndDelete(off(3)), 2, 3, 7),
        scenario("off with an exporter", &[exporter(on(3, (2, 4)))], spec(exporter(off(3))), 2, 3, 8),
        scenario("the fewest raised", &[on(0, (2, 4))], spec(on(0, (3, 4))), 2, 3, 6),
        scenario("the most lowered", &[on(0, (4, 5))], spec(on(0, (2, 3))), 2, 3, 6),
        scenario("on", &[off(3)], spec(on(3, (2, 4))), 2, 3, 4),
        scenario("on again", &[on(3, (2, 4)), off(3)], spec(on(3, (2, 4))), 2, 3, 4),
        scenario("on, the count to return to changed at once", &[off(3)], spec(on(1, (2, 4))), 2, 3, 5),
        scenario("scaled by hand within bounds", &[on(0, (2, 4))], Play::Scale(4), 2, 4, 2),
        scenario("on over named pods", &[named(off(3))], spec(named(on(3, (2, 4)))), 2, 3, 4),
        scenario("off over named pods", &[named(on(3, (2, 4)))], spec(named(off(3))), 2, 3, 8),
        scenario("named pods scaled by hand", &[named(on(0, (2, 4)))], Play::Scale(4), 2, 4, 3),
        scenario("somebody deletes it", &[on(3, (2, 4))], Play::SpecAndDelete(on(3, (2, 4))), 2, 2, 2),
        scenario("the count to return to changed", &[on(3, (2, 4))], spec(on(1, (2, 4))), 2, 2, 2),
    ]
}

async fn scale(workloads: &Api<DynamicObject>, name: &str, replicas: i64) -> Result<()> {
    let params = PatchParams { field_manager: Some(HAND.to_owned()), ..PatchParams::default() };
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    workloads.patch_scale(name, &params, &patch).await?;
    Ok(())
}

async fn delete_autoscaler(space: &Space, name: &str) -> Result<()> {
    match space.api::<HorizontalPodAutoscaler>().delete(name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whose entries of managedFields hold a workload's number of pods.
fn owners(workload: &Value) -> Vec<String> {
    let managed = workload.pointer("/metadata/managedFields").and_then(Value::as_array);
    let owns = |entry: &&Value| entry.pointer("/fieldsV1/f:spec/f:replicas").is_some();
    let who = |entry: &Value| format!("{} {}", entry["manager"], entry["operation"]).replace('"', "");
    managed.into_iter().flatten().filter(owns).map(who).collect()
}

impl Scenario {
    /// What the spec is in the end.
    fn last_spec(&self) -> Option<&Value> {
        match &self.play {
            Play::Spec(spec) | Play::SpecAndDelete(spec) => Some(spec),
            Play::Scale(_) => self.before.last(),
        }
    }

    fn is_on_in_the_end(&self) -> bool {
        self.last_spec().is_some_and(|spec| spec.get("autoscaling").is_some())
    }

    /// The kind of the workload, and of the one before.
    fn kinds(&self) -> (ChildKind, ChildKind) {
        let of = |spec: Option<&Value>| {
            ChildKind::from(Workload::from_raw(spec.and_then(|it| it["workload"].as_str())))
        };
        let last = of(self.last_spec());
        (last, self.before.last().map_or(last, |before| of(Some(before))))
    }

    fn workloads(&self, space: &Space) -> Api<DynamicObject> {
        children::api(space, self.kinds().0)
    }

    /// Brings a resource to where the scenario begins.
    async fn prepare(&self, space: &Space, name: &str) -> Result<()> {
        for spec in &self.before {
            world::apply(space, name, spec).await?;
            await_ready(space, name).await.with_context(|| format!("before {}", self.name))?;
        }
        Ok(())
    }

    async fn play(&self, space: &Space, name: &str) -> Result<()> {
        match &self.play {
            Play::Spec(spec) => world::apply(space, name, spec).await.map(|_| ()),
            Play::Scale(replicas) => scale(&self.workloads(space), name, *replicas).await,
            Play::SpecAndDelete(spec) => {
                world::apply(space, name, spec).await?;
                delete_autoscaler(space, name).await
            }
        }
    }

    async fn await_end(&self, space: &Space, name: &str) -> Result<()> {
        await_answer(self.name, async || {
            let resource = space.api::<Memcached>().get(name).await?;
            ensure!(ready(&resource), "it is not ready: {:?}", resource.status);
            let autoscaler = space.api::<HorizontalPodAutoscaler>().get_opt(name).await?;
            ensure!(autoscaler.is_some() == self.is_on_in_the_end(), "the autoscaler is there or not");
            let workload = json!(self.workloads(space).get(name).await?);
            let found = workload["spec"]["replicas"].as_i64();
            let owners = owners(&workload);
            ensure!(found == Some(self.end), "{found:?} replicas instead of {}, of {owners:?}", self.end);
            let ours = owners.iter().any(|owner| owner.starts_with("memcached-operator"));
            ensure!(ours != self.is_on_in_the_end(), "the number of pods belongs to {owners:?}");
            Ok(())
        })
        .await
    }

    /// Holds every version of the workload against the promise.
    fn judge(&self, history: &StatusHistory) -> Result<()> {
        let versions = history.workload(self.last_spec().unwrap_or(&Value::Null));
        let objects = || versions.iter().filter_map(|version| version.object.as_ref());
        let replicas = |object: &Value| object["spec"]["replicas"].as_i64().unwrap_or_default();
        for (before, now) in objects().zip(objects().skip(1)) {
            let (had, has) = (replicas(before), replicas(now));
            let by_hand = has != had && matches!(self.play, Play::Scale(to) if to == has);
            let least = had.min(self.fewest);
            ensure!(has >= least || by_hand, "{has} replicas after {had}, by {:?}", owners(now));
        }
        let first = objects().next().map(replicas).unwrap_or_default();
        let (kind, former) = self.kinds();
        let fewest_at_first = match self.before[..] {
            [] => self.fewest,
            // There are as many of another kind.
            _ if kind != former => self.end,
            _ => 0,
        };
        ensure!(first >= fewest_at_first, "{first} replicas at first");
        Ok(())
    }

    fn plan(&self, number: usize) -> String {
        format!("{}, killed before the answer of write {number}", self.name)
    }

    /// Brings a resource to where the scenario begins, for a kill at this write.
    async fn begin(&self, space: &Space, number: usize) -> Result<Run> {
        let name = format!("run-{number:02}");
        self.prepare(space, &name).await?;
        let watch = StatusWatch::follow(&space.client(), space.name(), &name).await?;
        Ok(Run { number, name, watch })
    }

    /// Plays it on each of these resources, which are cut off from their operator at the writes of their runs. Then the operator is
    /// killed. Gives the numbers of the writes that there were.
    async fn cut_short(&self, space: &Space, runs: &[Run]) -> Result<Vec<usize>> {
        let cut_offs = Arc::new(CutOffs::new(runs.iter().map(|run| (run.name.clone(), run.number))));
        let operator = Operator::start(space, Arc::clone(&cut_offs) as Arc<_>, Kill::default()).await?;
        let plays = runs.iter().map(async |run| {
            self.play(space, &run.name).await.with_context(|| self.plan(run.number))?;
            let ended = tokio::select! {
                ended = self.await_end(space, &run.name) => ended,
                () = cut_offs.reached(&run.name) => Ok(()),
            };
            if cut_offs.fired(&run.name) { Ok(()) } else { ended.with_context(|| self.plan(run.number)) }
        });
        try_join_all(plays).await?;
        operator.kill().await?;
        Ok(runs.iter().filter(|run| cut_offs.fired(&run.name)).map(|run| run.number).collect())
    }

    /// Plays it under an operator that nobody kills.
    async fn undisturbed(&self, space: &Space) -> Result<()> {
        let _kubelet = Kubelet::start(space);
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        let name = "run";
        self.prepare(space, name).await?;
        let watch = StatusWatch::follow(&space.client(), space.name(), name).await?;
        self.play(space, name).await?;
        self.await_end(space, name).await?;
        quiet::nobody_writes(space).await?;
        self.judge(&watch.history().await?)?;
        operator.end().await
    }

    /// Plays it with a kill at each of these writes, side by side. Gives the numbers of the writes that there were.
    async fn kills(&self, space: &Space, numbers: RangeInclusive<usize>) -> Result<Vec<usize>> {
        let faultless = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        let runs = try_join_all(numbers.map(|number| self.begin(space, number))).await?;
        faultless.kill().await?;
        let fired = self.cut_short(space, &runs).await?;
        let faultless = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        let ends = runs
            .iter()
            .map(async |run| self.await_end(space, &run.name).await.with_context(|| self.plan(run.number)));
        try_join_all(ends).await?;
        quiet::nobody_writes(space).await.context(self.name)?;
        for run in &runs {
            self.judge(&run.watch.history().await?).with_context(|| self.plan(run.number))?;
        }
        faultless.kill().await?;
        Ok(fired)
    }

    /// Plays it with a kill at every write, until there is none. Gives how many there were.
    async fn every_write(&self, space: &Space) -> Result<usize> {
        let _kubelet = Kubelet::start(space);
        let (mut cuts, mut numbers) = (0, 1..=self.writes + 1);
        loop {
            let last = *numbers.end();
            let fired = self.kills(space, numbers).await?;
            cuts += fired.len();
            if !fired.contains(&last) {
                return Ok(cuts);
            }
            numbers = last + 1..=last + 2;
        }
    }
}

/// A resource that is cut off from its operator at a write.
struct Run {
    number: usize,
    name: String,
    watch: StatusWatch,
}

/// Scenarios at a time.
const AT_ONCE: usize = 12;
/// Of those that are played with a kill at every write: each has as many resources at once as it has writes, and their autoscalers
/// never rest.
const KILLED_AT_ONCE: usize = 6;

#[tokio::test]
async fn an_autoscaler_and_the_operator_never_fight() -> Result<()> {
    let scenarios = scenarios();
    let lanes = scenarios.iter().map(|scenario| async move {
        in_space("scaled", async |space: &Space| {
            scenario.undisturbed(space).await.with_context(|| scenario.name)
        })
        .await
    });
    at_once(AT_ONCE, lanes).await?;
    Ok(())
}

#[tokio::test]
async fn an_autoscaler_and_an_operator_that_is_killed_at_any_write_never_fight() -> Result<()> {
    let scenarios = scenarios();
    let lanes = scenarios.iter().map(|scenario| async move {
        let mut points = 0;
        in_space("scaled", async |space: &Space| {
            points = scenario.every_write(space).await?;
            Ok(())
        })
        .await?;
        Ok(points)
    });
    let points = at_once(KILLED_AT_ONCE, lanes).await?;
    let cuts = points.iter().sum::<usize>();
    println!("{} scenarios of autoscaling, {cuts} cut points, none with too few pods", scenarios.len());
    ensure!(cuts >= scenarios.len() * 2, "each scenario has some writes");
    Ok(())
}
