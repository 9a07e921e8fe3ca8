//! A namespace for one test: takes a test's body, gives it a [`Space`], and afterwards removes the namespace where its
//! pods run, or, when the test failed, first shows what was in it. Called by tests.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::FutureExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::dump;
use super::shared::{shared_cluster, unique};
use super::wait::{self, Watchable, await_answer};
use crate::cluster::Cluster;
use crate::options::Shape;
use crate::test_times::TestTime;

/// A namespace of one test, and a client whose requests can be told from others by their user agent.
#[derive(Clone)]
pub struct Space {
    cluster: Cluster,
    client: Client,
    namespace: String,
}

/// Runs a test's body in a new namespace of the shared cluster.
///
/// # Errors
/// Those of the body; what was in the namespace is then printed.
///
/// # Panics
/// As the body does, after the same.
pub async fn in_namespace(prefix: &str, body: impl AsyncFnOnce(&Space) -> Result<()>) -> Result<()> {
    in_namespace_of(&shared_cluster().await?, prefix, body).await
}

/// As [`in_namespace`], in a cluster of the caller's.
///
/// # Errors
/// Those of the body.
///
/// # Panics
/// As the body does.
pub async fn in_namespace_of(
    cluster: &Cluster,
    prefix: &str,
    body: impl AsyncFnOnce(&Space) -> Result<()>,
) -> Result<()> {
    in_namespace_called(cluster, &unique(prefix), body).await
}

/// As [`in_namespace_of`], with a name that no other test of this cluster has, and that no earlier test had.
///
/// # Errors
/// Those of the body.
///
/// # Panics
/// As the body does.
pub async fn in_namespace_called(
    cluster: &Cluster,
    name: &str,
    body: impl AsyncFnOnce(&Space) -> Result<()>,
) -> Result<()> {
    let _time = TestTime::begin();
    let space = Space::create(cluster, name).await?;
    let outcome = AssertUnwindSafe(body(&space)).catch_unwind().await;
    let mut broken = None;
    if !matches!(outcome, Ok(Ok(()))) {
        eprintln!("{}", space.describe().await);
        // Asked twice: one of its programs may be restarted just now.
        broken = cluster.broken().await;
        if broken.is_some() {
            broken = cluster.broken().await;
        }
    }
    // A broken cluster would be waited for until the deadline.
    let removed = if broken.is_none() { space.remove().await } else { Ok(()) };
    if removed.is_err() {
        broken = cluster.broken().await;
    }
    // Otherwise a test that lost its API server would only tell of a lost connection.
    if let Some(why) = broken {
        eprintln!(
            "===== cluster {} is broken: {why} =====\n{}",
            cluster.name(),
            dump::logs_of_programs(cluster)
        );
    }
    match outcome {
        Ok(result) => result.and(removed),
        Err(panic) => resume_unwind(panic),
    }
}

impl Space {
    async fn create(cluster: &Cluster, name: &str) -> Result<Self> {
        let name = name.to_owned();
        let client = Client::try_from(cluster.config(&format!("e2e-test/{name}")).await?)?;
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.clone());
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .with_context(|| format!("cannot make the namespace {name}"))?;
        Ok(Self { cluster: cluster.clone(), client, namespace: name })
    }

    /// Asks for the namespace's deletion; the cluster's controllers do it while the next test runs. When the answer is lost,
    /// only another request can tell whether it was heard.
    ///
    /// Without a scheduler no pod runs, and all objects go with the cluster at the end of its program: to delete each of them
    /// costs the API server about as much as to make it. Only autoscalers go, because they never rest.
    async fn remove(&self) -> Result<()> {
        if self.cluster.shape() == Shape::Controllers {
            let autoscalers = self.api::<HorizontalPodAutoscaler>();
            return await_answer("the autoscalers are gone", async || {
                let all = ListParams::default();
                Ok(autoscalers.delete_collection(&DeleteParams::default(), &all).await.map(|_| ())?)
            })
            .await;
        }
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let wanted = format!("the namespace {} is going", self.namespace);
        await_answer(&wanted, async || {
            match namespaces.delete(&self.namespace, &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                answer => Ok(answer.map(|_| ())?),
            }
        })
        .await
    }

    /// The cluster that the namespace is in.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The test's own client, with the administrator's rights and the user agent `e2e-test/<namespace>`.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The namespace's name.
    pub fn name(&self) -> &str {
        &self.namespace
    }

    /// The objects of a kind in this namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Objects, events and the ends of the pods' logs, for a person to read; no Secrets.
    pub async fn describe(&self) -> String {
        dump::namespace(&self.client, &self.namespace).await
    }

    /// Applies an object to this namespace as the test (field manager `e2e-test`), by force.
    ///
    /// # Errors
    /// What the API server answers.
    pub async fn apply<K>(&self, object: &K) -> Result<K>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Serialize,
        K::DynamicType: Default,
    {
        let name = object.meta().name.clone().context("an object that is applied needs a name")?;
        let params = PatchParams::apply("e2e-test").force();
        let applied = self.api::<K>().patch(&name, &params, &Patch::Apply(object)).await;
        applied.with_context(|| format!("cannot apply {} {name}", K::kind(&K::DynamicType::default())))
    }

    /// Waits until the object of this name (or its absence, `None`) is as wanted, and gives it.
    ///
    /// # Errors
    /// When it never is: with what was wanted and what was seen last.
    pub async fn wait<K>(
        &self,
        name: &str,
        wanted: &str,
        condition: impl Fn(Option<&K>) -> bool,
    ) -> Result<Option<K>>
    where
        K: Watchable + Resource<Scope = NamespaceResourceScope>,
    {
        wait::await_object(&self.api::<K>(), name, wanted, condition).await
    }

    /// [`Self::wait`], where it matters how long it takes.
    ///
    /// # Errors
    /// When `limit` passes first: with what was wanted and what was seen last.
    pub async fn wait_within<K>(
        &self,
        name: &str,
        wanted: &str,
        limit: Duration,
        condition: impl Fn(Option<&K>) -> bool,
    ) -> Result<Option<K>>
    where
        K: Watchable + Resource<Scope = NamespaceResourceScope>,
    {
        wait::await_object_within(&self.api::<K>(), name, wanted, limit, condition).await
    }
}
