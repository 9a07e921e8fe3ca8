//! Watches the Deployments and StatefulSets of a namespace: which pod templates were replaced, how often, and how many
//! workloads were rolling at a time. Called by the test.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use anyhow::{Result, ensure};
use e2e::testing::control_plane::children;
use e2e::testing::{Space, await_answer};
use futures::StreamExt;
use kube::api::{DynamicObject, ListParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use memcached_operator::kernel::object::ChildKind;
use serde_json::Value;
use tokio::task::JoinHandle;

/// Watches until it is dropped.
pub(crate) struct Witness {
    workloads: BTreeMap<ChildKind, Api<DynamicObject>>,
    seen: Arc<Mutex<Seen>>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    versions: BTreeMap<ChildKind, u64>,
    templates: BTreeMap<String, Value>,
    rolling: BTreeSet<String>,
    rolled: Vec<String>,
    most: usize,
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Witness {
    pub(crate) async fn start(space: &Space) -> Result<Self> {
        let kinds = ChildKind::ALL.into_iter().filter(|kind| kind.is_workload());
        let workloads: BTreeMap<_, _> = kinds.map(|kind| (kind, children::api(space, kind))).collect();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let watch =
            |(kind, api): (&ChildKind, &Api<_>)| tokio::spawn(watch(*kind, api.clone(), Arc::clone(&seen)));
        let tasks = workloads.iter().map(watch).collect();
        let witness = Self { workloads, seen, tasks };
        witness.catch_up().await?;
        Ok(witness)
    }

    /// Waits until it has seen what is there now.
    async fn catch_up(&self) -> Result<()> {
        for (kind, api) in &self.workloads {
            let now = api.list(&ListParams::default()).await?;
            let newest = now.items.iter().map(version).max().unwrap_or_default();
            await_answer("the witness has seen everything", async || {
                ensure!(self.read(|seen| seen.versions.get(kind).copied().unwrap_or_default()) >= newest);
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    fn read<T>(&self, question: impl FnOnce(&Seen) -> T) -> T {
        question(&self.seen.lock().unwrap())
    }

    /// Names of those whose template was replaced.
    pub(crate) async fn rolled(&self) -> Result<BTreeSet<String>> {
        self.catch_up().await?;
        Ok(self.read(|seen| seen.rolled.iter().cloned().collect()))
    }

    /// How often templates were replaced.
    pub(crate) async fn rollouts(&self) -> Result<usize> {
        self.catch_up().await?;
        Ok(self.read(|seen| seen.rolled.len()))
    }

    /// The most that were rolling at a time.
    pub(crate) async fn most_at_once(&self) -> Result<usize> {
        self.catch_up().await?;
        Ok(self.read(|seen| seen.most))
    }
}

async fn watch(kind: ChildKind, workloads: Api<DynamicObject>, seen: Arc<Mutex<Seen>>) {
    let mut events = std::pin::pin!(watcher(workloads, watcher::Config::default()));
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::InitApply(workload) | watcher::Event::Apply(workload)) => {
                seen.lock().unwrap().take(kind, &workload);
            }
            Ok(watcher::Event::Init | watcher::Event::InitDone | watcher::Event::Delete(_)) => {}
            // What happened meanwhile would be missing.
            Err(error) => panic!("the witness is blind: {error}"),
        }
    }
}

impl Seen {
    fn take(&mut self, kind: ChildKind, workload: &DynamicObject) {
        let newest = self.versions.entry(kind).or_default();
        *newest = version(workload).max(*newest);
        let name = workload.name_any();
        let template = workload.data["spec"]["template"].clone();
        let before = self.templates.insert(name.clone(), template.clone());
        if before.is_some_and(|before| before != template) {
            self.rolled.push(name.clone());
            self.rolling.insert(name.clone());
            self.most = self.most.max(self.rolling.len());
        }
        if is_complete(workload) {
            self.rolling.remove(&name);
        }
    }
}

fn version(workload: &DynamicObject) -> u64 {
    workload.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}

fn is_complete(workload: &DynamicObject) -> bool {
    let (spec, status) = (&workload.data["spec"], &workload.data["status"]);
    let count = |name: &str| status[name].as_i64().unwrap_or_default();
    let all = ["replicas", "updatedReplicas", "availableReplicas"].map(count);
    count("observedGeneration") >= workload.metadata.generation.unwrap_or_default()
        && all.into_iter().all(|count| Some(count) == spec["replicas"].as_i64())
}
