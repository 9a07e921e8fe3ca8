//! Watches the Deployments of a namespace: which pod templates were replaced, how often, and how many Deployments were
//! rolling at a time. Called by the test.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use e2e::testing::{Space, await_answer};
use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::api::ListParams;
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use tokio::task::JoinHandle;

/// Watches until it is dropped.
pub(crate) struct Witness {
    deployments: Api<Deployment>,
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    version: u64,
    templates: BTreeMap<String, Option<PodTemplateSpec>>,
    rolling: BTreeSet<String>,
    rolled: Vec<String>,
    most: usize,
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Witness {
    pub(crate) async fn start(space: &Space) -> Result<Self> {
        let deployments: Api<Deployment> = space.api();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let task = tokio::spawn(watch(deployments.clone(), Arc::clone(&seen)));
        let witness = Self { deployments, seen, task };
        witness.catch_up().await?;
        Ok(witness)
    }

    /// Waits until it has seen what is there now.
    async fn catch_up(&self) -> Result<()> {
        let now = self.deployments.list(&ListParams::default()).await?;
        let newest = now.items.iter().map(version).max().context("there are no Deployments")?;
        await_answer("the witness has seen everything", async || {
            ensure!(self.read(|seen| seen.version) >= newest);
            Ok(())
        })
        .await
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

async fn watch(deployments: Api<Deployment>, seen: Arc<Mutex<Seen>>) {
    let mut events = std::pin::pin!(watcher(deployments, watcher::Config::default()));
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::InitApply(deployment) | watcher::Event::Apply(deployment)) => {
                seen.lock().unwrap().take(deployment);
            }
            Ok(watcher::Event::Init | watcher::Event::InitDone | watcher::Event::Delete(_)) => {}
            // What happened meanwhile would be missing.
            Err(error) => panic!("the witness is blind: {error}"),
        }
    }
}

impl Seen {
    fn take(&mut self, deployment: Deployment) {
        self.version = self.version.max(version(&deployment));
        let name = deployment.name_any();
        let complete = is_complete(&deployment).unwrap_or(false);
        let template = deployment.spec.map(|spec| spec.template);
        let before = self.templates.insert(name.clone(), template.clone());
        if before.is_some_and(|before| before != template) {
            self.rolled.push(name.clone());
            self.rolling.insert(name.clone());
            self.most = self.most.max(self.rolling.len());
        }
        if complete {
            self.rolling.remove(&name);
        }
    }
}

fn version(deployment: &Deployment) -> u64 {
    deployment.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}

fn is_complete(deployment: &Deployment) -> Option<bool> {
    let (wanted, status) = (deployment.spec.as_ref()?.replicas?, deployment.status.as_ref()?);
    let all = [status.replicas, status.updated_replicas, status.available_replicas];
    Some(
        status.observed_generation >= deployment.metadata.generation
            && all.iter().all(|count| count.unwrap_or_default() == wanted),
    )
}
