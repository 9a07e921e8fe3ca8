//! Counts the ready pods of a resource at every change: takes a namespace and a resource's name, gives the counts in order.
//! Called by the tests of rollouts.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition};
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

/// A pod stops being ready when its readiness probe failed three times in a row, with 5 s from one to the next. A status that
/// says so sooner was made before the first probe that succeeded, and written after it: the kubelet's sync of a pod and its
/// prober write beside each other, and the next sync tells the truth again (`syncPod` and `SetContainerReadiness`, read in
/// Kubernetes 1.34.4). memcached in it serves all the while.
const NO_PROBE_FAILED: SignedDuration = SignedDuration::from_secs(10);

#[derive(Debug, Default)]
struct Seen {
    /// In which version each pod was seen last, and whether that says that it serves.
    pods: BTreeMap<String, (Option<String>, bool)>,
    /// Since when each pod that is not going was ready last, and its containers that ran then.
    ready_since: BTreeMap<String, (Timestamp, Vec<String>)>,
    /// The pods whose status was an older one, as [`NO_PROBE_FAILED`] says: they count as serving.
    outdated: BTreeSet<String>,
    /// How many served, at first and after every event.
    counts: Vec<usize>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What it says of being ready.
fn readiness(pod: &Pod) -> Option<&PodCondition> {
    let conditions = pod.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    conditions.into_iter().find(|it| it.type_ == "Ready")
}

/// The ids of its containers that run.
fn running(pod: &Pod) -> Vec<String> {
    let containers = pod.status.iter().filter_map(|status| status.container_statuses.as_ref()).flatten();
    let running = containers.filter(|it| it.state.as_ref().is_some_and(|state| state.running.is_some()));
    running.filter_map(|it| it.container_id.clone()).collect()
}

/// Ready, and not on its way out.
fn serves(pod: &Pod) -> bool {
    readiness(pod).is_some_and(|it| it.status == "True") && pod.metadata.deletion_timestamp.is_none()
}

impl Seen {
    fn see(&mut self, pod: &Pod) {
        let (name, since) =
            (pod.name_any(), readiness(pod).and_then(|it| Some(it.last_transition_time.as_ref()?.0)));
        self.outdated.remove(&name);
        let was_ready = self.ready_since.remove(&name);
        if serves(pod) {
            self.ready_since.extend(since.map(|since| (name.clone(), (since, running(pod)))));
        } else if let (Some((was_ready, ran)), None) = (was_ready, &pod.metadata.deletion_timestamp) {
            println!("{name} no longer serves, and is not going: {:?}", pod.status);
            if !ran.is_empty()
                && running(pod) == ran
                && since.is_some_and(|it| it.duration_since(was_ready) < NO_PROBE_FAILED)
            {
                self.outdated.insert(name.clone());
            }
        }
        self.pods.insert(name, (pod.resource_version(), serves(pod)));
    }

    fn forget(&mut self, pod: &Pod) {
        let Self { pods, ready_since, outdated, counts: _ } = self;
        pods.remove(&pod.name_any());
        ready_since.remove(&pod.name_any());
        outdated.remove(&pod.name_any());
    }

    fn count(&mut self) {
        let serving = self.pods.iter().filter(|(name, (_, serves))| *serves || self.outdated.contains(*name));
        self.counts.push(serving.count());
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
                    Change::Deleted(pod) => seen.forget(&pod),
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
            ensure!(
                lock(&self.seen).outdated.is_empty(),
                "a pod is not ready, though its probe cannot have failed"
            );
            Ok(())
        })
        .await?;
        let mut counts = lock(&self.seen).counts.clone();
        counts.dedup();
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn pod(ready: &str, since: &str, container: &str) -> Pod {
        let condition = json!({"type": "Ready", "status": ready, "lastTransitionTime": since});
        let container = json!({"name": "memcached", "image": "", "imageID": "", "restartCount": 0, "ready": ready == "True",
            "containerID": container, "state": {"running": {}}});
        from_value(json!({"metadata": {"name": "a"},
            "status": {"conditions": [condition], "containerStatuses": [container]}}))
        .unwrap()
    }

    /// How many pods served after each of these.
    fn counts(pods: &[Pod]) -> Vec<usize> {
        let mut seen = Seen::default();
        for pod in pods {
            seen.see(pod);
            seen.count();
        }
        seen.counts
    }

    #[test]
    fn a_status_that_was_made_before_the_pod_was_ready_does_not_stop_it_from_serving() {
        let [never, ready] =
            [pod("False", "2026-01-01T00:00:00Z", "1"), pod("True", "2026-01-01T00:00:06Z", "1")];
        let outdated = pod("False", "2026-01-01T00:00:07Z", "1");
        assert_eq!(counts(&[never, ready.clone(), outdated, ready]), [0, 1, 1, 1]);
    }

    #[test]
    fn a_pod_whose_probe_failed_whose_container_restarted_or_that_is_going_does_not_serve() {
        let ready = pod("True", "2026-01-01T00:00:06Z", "1");
        let failed = pod("False", "2026-01-01T00:00:16Z", "1");
        let restarted = pod("False", "2026-01-01T00:00:07Z", "2");
        let mut going = ready.clone();
        going.metadata.deletion_timestamp = Some(from_value(json!("2026-01-01T00:00:07Z")).unwrap());
        assert_eq!(
            counts(&[ready.clone(), failed, ready.clone(), restarted, ready, going]),
            [1, 0, 1, 0, 1, 0]
        );
    }
}
