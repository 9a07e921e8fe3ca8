//! Reads what the commands of `kubectl mcd` show, with the user's own rights. Takes a [`Cluster`], gives facts. IO; what a user
//! may not read is an answer, too, except the resource itself.

use std::fmt::{self, Debug, Display};

use anyhow::{Result, bail};
use futures::{StreamExt as _, TryFutureExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use super::cluster::{Cluster, Range};
use super::forward;
use super::view::answer::Answer;
use super::view::facts::{CacheFacts, PodFacts, WorkloadFacts};
use super::view::figures_source::figures_source;
use crate::api::spec::Workload;
use crate::api::{KIND, Memcached};
use crate::kernel::desired::meta::{INSTANCE_LABEL, MANAGED_BY, MANAGED_BY_LABEL, selector_text};
use crate::shell::client::{DEADLINE, explain};

/// Objects of one page of a list.
const PAGE: u32 = 500;
/// Pods that are asked at the same time.
const AT_ONCE: usize = 8;

/// The resources, as the API server has them: a status may hold what this build does not know.
#[must_use]
pub fn caches(client: &Client, range: &Range) -> Api<DynamicObject> {
    let kind = ApiResource::erase::<Memcached>(&());
    match range {
        Range::Namespace(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
        Range::All => Api::all_with(client.clone(), &kind),
    }
}

/// One resource.
///
/// # Errors
/// When it is not there, or may not be read.
pub async fn resource(cluster: &Cluster, name: &str) -> Result<DynamicObject> {
    let Cluster { client, namespace } = cluster;
    let caches = caches(client, &Range::Namespace(namespace.clone()));
    match timely(caches.get_opt(name)).await {
        Ok(Some(resource)) => Ok(resource),
        Ok(None) => {
            // Without its definition no resource is found either.
            if let Err(why) = timely(caches.list(&ListParams::default().limit(1))).await {
                bail!("cannot read {KIND} {namespace}/{name}: {why}{}", hint(&why));
            }
            bail!("there is no {KIND} {name} in namespace {namespace}; `kubectl mcd status -A` lists all")
        }
        Err(why) => bail!("cannot read {KIND} {namespace}/{name}: {why}"),
    }
}

/// The resources with these labels.
///
/// # Errors
/// When they may not be listed.
pub async fn resources(
    cluster: &Cluster,
    range: &Range,
    selector: Option<&str>,
) -> Result<Vec<DynamicObject>> {
    let params = ListParams { label_selector: selector.map(str::to_owned), ..ListParams::default() };
    match list(&caches(&cluster.client, range), params).await {
        Ok(found) => Ok(found),
        Err(why) => bail!("cannot list memcacheds.memcached.c5c3.io: {why}{}", hint(&why)),
    }
}

fn hint(why: &RequestError) -> &'static str {
    if why.code == Some(404) {
        "; is the CustomResourceDefinition installed? `memcached-operator crd` prints it"
    } else {
        ""
    }
}

/// All about one cache, read at the same time.
///
/// # Errors
/// As [`resource`].
pub async fn cache(cluster: &Cluster, name: &str, now: Timestamp) -> Result<CacheFacts> {
    let resource = resource(cluster, name).await?;
    let Cluster { client, namespace } = cluster;
    let range = Range::Namespace(namespace.clone());
    let asked = resource.data.pointer("/spec/workload").and_then(Value::as_str);
    let (workload, pods, events) = tokio::join!(
        workload(cluster, name, Workload::from_raw(asked)),
        pods(cluster, &range, Some(name)),
        events_about(client, namespace, name),
    );
    Ok(CacheFacts { now, resource, workload, pods: pods.into(), events: events.into() })
}

/// What runs the pods of one cache.
async fn workload(cluster: &Cluster, name: &str, asked: Workload) -> WorkloadFacts {
    let Cluster { client, namespace } = cluster;
    match asked {
        Workload::Deployment => {
            let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
            let replica_sets: Api<ReplicaSet> = Api::namespaced(client.clone(), namespace);
            let (deployment, replica_sets) = tokio::join!(
                timely(deployments.get_opt(name)).map_err(of("the Deployment")),
                list(&replica_sets, ListParams::default().labels(&selector_text(name)))
                    .map_err(of("the ReplicaSets")),
            );
            WorkloadFacts::Deployment { deployment: deployment.into(), replica_sets: replica_sets.into() }
        }
        Workload::StatefulSet => {
            let stateful_sets: Api<StatefulSet> = Api::namespaced(client.clone(), namespace);
            let stateful_set = timely(stateful_sets.get_opt(name)).map_err(of("the StatefulSet"));
            WorkloadFacts::StatefulSet(stateful_set.await.into())
        }
    }
}

/// The pods of one cache, or of all, with what their memcached say.
///
/// # Errors
/// Why the pods cannot be listed.
pub async fn pods(cluster: &Cluster, range: &Range, cache: Option<&str>) -> Result<Vec<PodFacts>, String> {
    let client = &cluster.client;
    let api: Api<Pod> = match range {
        Range::Namespace(namespace) => Api::namespaced(client.clone(), namespace),
        Range::All => Api::all(client.clone()),
    };
    let ours =
        cache.map_or_else(|| format!("{MANAGED_BY_LABEL}={MANAGED_BY},{INSTANCE_LABEL}"), selector_text);
    let found = list(&api, ListParams::default().labels(&ours)).await.map_err(of("the pods"))?;
    let asked = stream::iter(found).map(async |pod| {
        let figures = match figures_source(&pod) {
            Ok(source) => forward::ask(client, &pod, source).await.into(),
            Err(why) => Answer::unknown(why),
        };
        PodFacts { pod, figures }
    });
    Ok(asked.buffered(AT_ONCE).collect().await)
}

/// The Events about the resource itself.
async fn events_about(client: &Client, namespace: &str, name: &str) -> Result<Vec<Event>, String> {
    let about = format!("involvedObject.kind={KIND},involvedObject.name={name}");
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    list(&events, ListParams::default().fields(&about)).await.map_err(of("the Events"))
}

/// All Events of the namespace.
///
/// # Errors
/// When they may not be listed.
pub async fn events(cluster: &Cluster) -> Result<Vec<Event>> {
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    match list(&events, ListParams::default()).await {
        Ok(events) => Ok(events),
        Err(why) => bail!("cannot list Events in namespace {}: {why}", cluster.namespace),
    }
}

/// Every object of a list, page by page.
async fn list<K>(api: &Api<K>, params: ListParams) -> Result<Vec<K>, RequestError>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut page = params.limit(PAGE);
    let mut objects = Vec::new();
    loop {
        let list = timely(api.list(&page)).await?;
        objects.extend(list.items);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page.continue_token = Some(token),
            None => return Ok(objects),
        }
    }
}

/// Why a request did not bring what was asked for, in one line.
#[derive(Clone, Debug)]
pub struct RequestError {
    /// The HTTP status of a refusal; `None` where the API server did not answer.
    code: Option<u16>,
    words: String,
}

impl Display for RequestError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.words)
    }
}

impl From<kube::Error> for RequestError {
    fn from(error: kube::Error) -> Self {
        let words = explain(&error);
        let code = match error {
            kube::Error::Api(status) => Some(status.code),
            _ => None,
        };
        Self { code, words }
    }
}

/// The answer to a request within the deadline of all requests, or why there is none.
pub async fn timely<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, RequestError> {
    match timeout(DEADLINE, request).await {
        Ok(answer) => answer.map_err(RequestError::from),
        Err(_elapsed) => {
            let words = format!("no answer within {} s", DEADLINE.as_secs());
            Err(RequestError { code: None, words })
        }
    }
}

/// Says what could not be read.
fn of(what: &'static str) -> impl FnOnce(RequestError) -> String {
    move |why| format!("cannot read {what}: {why}")
}
