//! Every state of the resources and workloads of a namespace, also the short ones: takes a namespace, keeps what a watch
//! delivers. Called by the tests that hold that something never happens.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use e2e::testing::control_plane::reason;
use e2e::testing::{Change, Space, every_change};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kube::api::{ListParams, WatchParams};
use kube::{Api, ResourceExt};
use memcached_operator::api::Memcached;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// What was seen; it watches until this is dropped.
pub(crate) struct Record {
    seen: Arc<Mutex<Seen>>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    /// Pod templates of each Deployment and of each StatefulSet by the resource's name, in their order, each once in a row.
    templates: BTreeMap<String, Vec<Value>>,
    /// Reasons of Stalled while it was true, of each resource.
    stalled: BTreeMap<String, Vec<String>>,
    /// Errors of the watch: with one, the record is not complete.
    broken: Option<String>,
}

impl Seen {
    fn take_template(&mut self, name: String, template: Value) {
        let templates = self.templates.entry(name).or_default();
        if templates.last() != Some(&template) {
            templates.push(template);
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Record {
    /// Starts with what there is now.
    pub(crate) async fn start(space: &Space) -> Result<Self> {
        let seen = Arc::<Mutex<Seen>>::default();
        let unnamed = |seen: &mut Seen, it: &Deployment| {
            seen.take_template(it.name_any(), json!(it.spec.as_ref().map(|spec| &spec.template)));
        };
        let named = |seen: &mut Seen, it: &StatefulSet| {
            seen.take_template(it.name_any(), json!(it.spec.as_ref().map(|spec| &spec.template)));
        };
        let stalled = |seen: &mut Seen, it: &Memcached| {
            let reasons = reason(it, "Stalled").map(str::to_owned);
            seen.stalled.entry(it.name_any()).or_default().extend(reasons);
        };
        let tasks = vec![
            follow(space.api(), &seen, unnamed).await?,
            follow(space.api(), &seen, named).await?,
            follow(space.api(), &seen, stalled).await?,
        ];
        Ok(Self { seen, tasks })
    }

    /// How many pod templates the workload has had.
    pub(crate) fn templates(&self, name: &str) -> Result<usize> {
        self.read(|seen| seen.templates.get(name).map_or(0, Vec::len))
    }

    /// The reasons for which the resource was ever stalled.
    pub(crate) fn stalled(&self, name: &str) -> Result<Vec<String>> {
        self.read(|seen| seen.stalled.get(name).cloned().unwrap_or_default())
    }

    fn read<T>(&self, look: impl FnOnce(&Seen) -> T) -> Result<T> {
        let seen = lock(&self.seen);
        match &seen.broken {
            Some(why) => Err(anyhow::anyhow!("the record is not complete: {why}")),
            None => Ok(look(&seen)),
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes everything from now on.
async fn follow<K>(api: Api<K>, seen: &Arc<Mutex<Seen>>, take: fn(&mut Seen, &K)) -> Result<JoinHandle<()>>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let now = api.list_metadata(&ListParams::default()).await?;
    let version = now.metadata.resource_version.context("a list has a version")?;
    let seen = Arc::clone(seen);
    Ok(tokio::spawn(async move {
        let keep = |change| {
            if let Change::Stored(object) = change {
                take(&mut lock(&seen), &object);
            }
            Ok(())
        };
        let Err(error) = every_change(&api, &WatchParams::default(), version, keep).await;
        lock(&seen).broken = Some(format!("{error:#}"));
    }))
}
