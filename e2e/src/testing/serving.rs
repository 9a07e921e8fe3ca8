//! Counts the ready pods of a resource at every change: takes a namespace and a resource's name, gives the counts in order.
//! Called by the tests of rollouts.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, WatchParams};
use kube::{Api, ResourceExt};
use tokio::task::JoinHandle;

use super::{Change, Space, await_answer, every_change};

/// The pods of a resource, followed until this is dropped.
#[derive(Debug)]
pub struct Serving {
    pods: Api<Pod>,
    of_resource: ListParams,
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<Result<Infallible>>,
}

#[derive(Debug, Default)]
struct Seen {
    /// In which version each pod was seen last, and whether it serves.
    pods: BTreeMap<String, (Option<String>, bool)>,
    /// How many served, at first and after every event.
    counts: Vec<usize>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Ready, and not on its way out.
fn serves(pod: &Pod) -> bool {
    let conditions = pod.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    let ready = conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}

impl Seen {
    fn see(&mut self, pod: &Pod) {
        let served = self.pods.get(&pod.name_any()).is_some_and(|(_, served)| *served);
        if served && !serves(pod) && pod.metadata.deletion_timestamp.is_none() {
            println!("{} no longer serves, and is not going: {:?}", pod.name_any(), pod.status);
        }
        self.pods.insert(pod.name_any(), (pod.resource_version(), serves(pod)));
    }

    fn count(&mut self) {
        self.counts.push(self.pods.values().filter(|(_, serves)| *serves).count());
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Serving {
    /// Begins with the pods that are there.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub async fn follow(space: &Space, resource: &str) -> Result<Self> {
        let (pods, selector) = (space.api::<Pod>(), format!("app.kubernetes.io/instance={resource}"));
        let of_resource = ListParams::default().labels(&selector);
        let list = pods.list(&of_resource).await?;
        let from = list.metadata.resource_version.context("a list has a version")?;
        let mut first = Seen::default();
        list.items.iter().for_each(|pod| first.see(pod));
        first.count();
        let seen = Arc::new(Mutex::new(first));
        let (watched, kept) = (pods.clone(), Arc::clone(&seen));
        let task = tokio::spawn(async move {
            let params = WatchParams::default().labels(&selector);
            let see = |change| {
                let mut seen = lock(&kept);
                match change {
                    Change::Stored(pod) => seen.see(&pod),
                    Change::Deleted(pod) => drop(seen.pods.remove(&pod.name_any())),
                }
                seen.count();
                Ok(())
            };
            every_change(&watched, &params, from, see).await
        });
        Ok(Self { pods, of_resource, seen, task })
    }

    /// All counts until now, each once until the next differs.
    ///
    /// # Errors
    /// When the watch ended or lags behind.
    pub async fn finish(self) -> Result<Vec<usize>> {
        await_answer("the watch has heard of everything", async || {
            ensure!(!self.task.is_finished(), "the watch ended");
            let there = self.pods.list(&self.of_resource).await?.items;
            let there: BTreeMap<_, _> =
                there.iter().map(|pod| (pod.name_any(), (pod.resource_version(), serves(pod)))).collect();
            ensure!(lock(&self.seen).pods == there, "not yet");
            Ok(())
        })
        .await?;
        let mut counts = lock(&self.seen).counts.clone();
        counts.dedup();
        Ok(counts)
    }
}
