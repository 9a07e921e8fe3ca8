//! Stands in for a node: takes a namespace, reports each of its pods as running and ready. Called by the tests whose
//! pods have to become ready on a control plane that has no node.
//!
//! Everything above the kubelet is real: Deployments make ReplicaSets, those make pods and count the ready ones.

use std::collections::BTreeSet;

use anyhow::Result;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use memcached_operator::kernel::desired::meta::INSTANCE_LABEL;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Space;

/// An image that it cannot pull.
pub const NO_IMAGE: &str = "memcached:cannot-be-pulled";

/// The stand-in; it stops when this is dropped.
#[derive(Debug)]
pub struct Kubelet {
    task: JoinHandle<()>,
    held: watch::Sender<BTreeSet<String>>,
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Which pods it takes for its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// All pods, also those without a node.
    All,
    /// Pods to which the scheduler gave a node.
    Scheduled,
    /// Pods to which the scheduler gave one of these nodes.
    On(Vec<String>),
}

impl Which {
    fn includes(&self, pod: &Pod) -> bool {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
        match self {
            Self::All => true,
            Self::Scheduled => node.is_some(),
            Self::On(nodes) => node.is_some_and(|node| nodes.contains(node)),
        }
    }
}

impl Kubelet {
    /// Starts it for the pods of a namespace.
    pub fn start(space: &Space) -> Self {
        Self::start_for(space, Which::All)
    }

    /// Starts it for some pods of a namespace.
    pub fn start_for(space: &Space, which: Which) -> Self {
        let held = watch::Sender::new(BTreeSet::new());
        Self { task: tokio::spawn(run(space.api(), which, held.subscribe())), held }
    }

    /// New pods of this resource do not become ready from now on.
    pub fn hold(&self, resource: &str) {
        self.held.send_if_modified(|held| held.insert(resource.to_owned()));
    }

    /// Pods of this resource come up again.
    pub fn release(&self, resource: &str) {
        self.held.send_if_modified(|held| held.remove(resource));
    }
}

async fn run(pods: Api<Pod>, which: Which, mut held: watch::Receiver<BTreeSet<String>>) {
    loop {
        let mut seen = std::pin::pin!(
            watcher(pods.clone(), watcher::Config::default()).default_backoff().applied_objects()
        );
        loop {
            tokio::select! {
                pod = seen.next() => match pod {
                    Some(Ok(pod)) if which.includes(&pod) => look(&pods, &pod, &held).await,
                    Some(_) => {}
                    None => return,
                },
                // All are looked at again.
                Ok(()) = held.changed() => break,
            }
        }
    }
}

async fn look(pods: &Api<Pod>, pod: &Pod, held: &watch::Receiver<BTreeSet<String>>) {
    let ready = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    let is_held = pod.labels().get(INSTANCE_LABEL).is_some_and(|name| held.borrow().contains(name));
    // Where these fail, the pod is gone.
    if pod.metadata.deletion_timestamp.is_some() {
        let _ = end(pods, pod).await;
    } else if image(pod) == Some(NO_IMAGE) {
        let _ = refuse(pods, pod).await;
    } else if !ready && !is_held {
        let _ = report(pods, pod).await;
    }
}

fn image(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.containers.first()?.image.as_deref()
}

/// Says once that the image cannot be pulled.
async fn refuse(pods: &Api<Pod>, pod: &Pod) -> Result<()> {
    if pod.status.as_ref().is_some_and(|status| status.container_statuses.is_some()) {
        return Ok(());
    }
    let seen = json!({"uid": pod.uid(), "resourceVersion": pod.resource_version()});
    let status = json!({"metadata": seen, "status": {"containerStatuses": [{
        "name": "memcached", "image": NO_IMAGE, "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}},
    }]}});
    pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(status)).await?;
    Ok(())
}

async fn report(pods: &Api<Pod>, pod: &Pod) -> Result<()> {
    // Only what was seen: a pod that was reported already would begin to be ready once more.
    let seen = json!({"uid": pod.uid(), "resourceVersion": pod.resource_version()});
    let status = json!({"metadata": seen, "status": {
        "phase": "Running",
        "podIP": "192.0.2.1",
        // By its time a pod is available, where it has to be ready for a while.
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": Time(Timestamp::now())}],
    }});
    pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(status)).await?;
    Ok(())
}

/// A pod that has a node is gone only when its kubelet says so. Only this one: a StatefulSet has made the next pod of its name by
/// the time that a late look comes to the end of this one.
async fn end(pods: &Api<Pod>, pod: &Pod) -> Result<()> {
    let seen = Preconditions { uid: pod.uid(), resource_version: None };
    pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0).preconditions(seen)).await?;
    Ok(())
}
