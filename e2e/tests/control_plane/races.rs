//! What an edit costs while pods roll. Each status that the Deployment's or the StatefulSet's controller writes makes an earlier
//! decided apply fail with a conflict. The operator tries that apply again at once, without a backoff. Whether a controller
//! writes in between is chance, so that somebody else does too, once for each workload.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::testing::audit::Request;
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::requests::Requests;
use e2e::testing::control_plane::transport::{Answer, Call, Forward, Interposer, Verb};
use e2e::testing::control_plane::{at_once, await_ready, in_space, plain};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::{Space, Watchable};
use futures::future::BoxFuture;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};
use tokio::time::Instant;

/// Resources with a Deployment. One more has a StatefulSet.
const RESOURCES: usize = 3;
const NAMED: &str = "named";
/// Edits of each resource, one as soon as the one before it is in its workload: the pods have begun to roll.
const EDITS: i32 = 20;
/// So many conflicts in a row are tried again at once.
const RACES: usize = 20;

/// Writes to a workload right before the operator does, once for each that is due: that apply names a version of before.
struct Rival {
    client: Client,
    namespace: String,
    due: Mutex<BTreeSet<String>>,
}

impl Rival {
    /// It has a client of its own: its connections end with the operator's thread.
    async fn new(space: &Space) -> Result<Self> {
        let client = Client::try_from(space.cluster().config("e2e-test/rival").await?)?;
        Ok(Self { client, namespace: space.name().to_owned(), due: Mutex::default() })
    }

    /// From now on it is faster, once for each of these.
    fn begin(&self, names: &[String]) {
        self.due.lock().unwrap_or_else(PoisonError::into_inner).extend(names.iter().cloned());
    }

    fn is_due(&self, call: &Call) -> bool {
        call.verb == Verb::Apply && self.due.lock().unwrap_or_else(PoisonError::into_inner).remove(&call.name)
    }
}

impl Interposer for Rival {
    fn interpose(self: Arc<Self>, call: Call, forward: Forward) -> BoxFuture<'static, Answer> {
        Box::pin(async move {
            let workload = match call.resource.as_str() {
                "deployments" => Some(ApiResource::erase::<Deployment>(&())),
                "statefulsets" => Some(ApiResource::erase::<StatefulSet>(&())),
                _ => None,
            };
            if let Some(workload) = workload.filter(|_| self.is_due(&call)) {
                // A label is no new generation.
                let mark = json!({"metadata": {"labels": {"example.com/rival": "was-here"}}});
                let workloads: Api<DynamicObject> =
                    Api::namespaced_with(self.client.clone(), &self.namespace, &workload);
                workloads.patch(&call.name, &PatchParams::default(), &Patch::Merge(mark)).await?;
            }
            forward.send().await
        })
    }
}

/// What is asked for in a turn.
fn spec<K: Resource<DynamicType = ()>>(turn: i32) -> Value {
    json!({"replicas": 3, "workload": K::kind(&()), "memcached": {"maxMemoryMB": 64 + turn}})
}

/// Edits one resource again and again. Gives how long each edit took to reach its workload.
async fn edited<K>(space: &Space, name: String) -> Result<Vec<Duration>>
where
    K: Watchable + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let mut times = Vec::new();
    for turn in 1..=EDITS {
        let memory = (64 + turn).to_string();
        let reached = |it: Option<&K>| {
            let workload = json!(it);
            let args = workload.pointer("/spec/template/spec/containers/0/args").and_then(Value::as_array);
            args.is_some_and(|args| args.iter().any(|arg| arg.as_str() == Some(memory.as_str())))
        };
        let started = Instant::now();
        space.apply(&plain(&name, &spec::<K>(turn))?).await?;
        space.wait(&name, "it has the edit", reached).await?;
        times.push(started.elapsed());
    }
    times.sort_unstable();
    Ok(times)
}

/// What edits of workloads of one kind cost.
#[derive(Default)]
struct Costs {
    writes: usize,
    conflicts: usize,
    /// The most conflicts in a row.
    longest: usize,
    reads: usize,
}

impl Costs {
    fn of(all: &[Request], workloads: &str) -> Self {
        let mut costs = Self::default();
        let mut in_a_row: BTreeMap<&str, usize> = BTreeMap::new();
        for request in all.iter().filter(|it| it.resource == workloads && it.verb != "watch") {
            let lost = in_a_row.entry(&request.name).or_default();
            match (request.verb.as_str(), request.code) {
                ("get", _) => costs.reads += 1,
                (_, 409) => (costs.conflicts, *lost) = (costs.conflicts + 1, *lost + 1),
                _ => (costs.writes, *lost) = (costs.writes + 1, 0),
            }
            costs.longest = costs.longest.max(*lost);
        }
        costs
    }

    /// `workloads`: each of them met the rival once.
    fn check(&self, workloads: usize) -> Result<()> {
        ensure!(self.conflicts >= workloads, "no race was lost: {self}");
        ensure!(self.reads <= self.conflicts, "a conflict costs one look at most: {self}");
        ensure!(self.longest <= RACES, "an edit had to wait: {self}");
        Ok(())
    }
}

impl Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { writes, conflicts, longest, reads } = self;
        write!(f, "{writes} writes, {conflicts} conflicts (at most {longest} in a row), {reads} reads")
    }
}

fn print(times: &[Duration], workload: &str, costs: &Costs) {
    println!(
        "{} edits of a {workload} while pods roll: {costs}; {} ms from an edit to its {workload} (median), at most {} ms",
        times.len(),
        times[times.len() / 2].as_millis(),
        times[times.len() - 1].as_millis(),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_in_the_midst_of_a_rollout_costs_one_apply_and_at_most_a_look_for_each_conflict() -> Result<()>
{
    in_space("races", async |space| {
        let _kubelet = Kubelet::start(space);
        let rival = Arc::new(Rival::new(space).await?);
        let operator = Operator::start(space, Arc::<Rival>::clone(&rival), Kill::default()).await?;
        let names: Vec<_> = (0..RESOURCES).map(|number| format!("cache-{number}")).collect();
        for name in &names {
            space.apply(&plain(name, &spec::<Deployment>(0))?).await?;
        }
        space.apply(&plain(NAMED, &spec::<StatefulSet>(0))?).await?;
        let all_names: Vec<_> = names.iter().cloned().chain([NAMED.to_owned()]).collect();
        for name in &all_names {
            await_ready(space, name).await?;
        }
        let requests = Requests::from_now_on(space)?;
        rival.begin(&all_names);
        let of_deployments = names.iter().map(|name| edited::<Deployment>(space, name.clone()));
        let (times, of_named) = tokio::try_join!(
            at_once(RESOURCES, of_deployments),
            edited::<StatefulSet>(space, NAMED.to_owned())
        )?;
        let mut times = times.concat();
        times.sort_unstable();
        for name in &all_names {
            await_ready(space, name).await?;
        }

        let all = requests.all()?;
        let (deployments, named) = (Costs::of(&all, "deployments"), Costs::of(&all, "statefulsets"));
        print(&times, "Deployment", &deployments);
        print(&of_named, "StatefulSet", &named);
        deployments.check(RESOURCES)?;
        named.check(1)?;
        ensure!(deployments.writes == times.len(), "one apply is one edit");
        // Each pod that goes is one more.
        ensure!(named.writes >= of_named.len(), "an edit is an apply");
        for deployment in space.api::<Deployment>().list(&ListParams::default()).await? {
            let rolled = deployment.metadata.generation;
            ensure!(rolled == Some(1 + i64::from(EDITS)), "{} is at {rolled:?}", deployment.name_any());
        }
        operator.end().await
    })
    .await
}
