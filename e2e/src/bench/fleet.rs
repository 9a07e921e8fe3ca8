//! Many resources on one API server: takes a cluster and a number, gives them, says when an operator is done with all of
//! them, and takes everything away again. Called by the measurements and by `tests/cost.rs`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use memcached_operator::api::crd::crd;
use memcached_operator::api::status::NEVER_OBSERVED;
use memcached_operator::kernel::object::{ChildKind, Key, Watched};
use memcached_operator::shell::kinds::api_resource;
use serde_json::{Value, json};

use crate::cluster::{Audit, Cluster, Options, Shape, TemporaryCluster};
use crate::testing::await_answer_within;
use crate::testing::operator::{self, Operator};

/// The namespace that holds the resources.
pub const NAMESPACE: &str = "fleet";
/// How many requests run at once here: the operator's default, so that both sides have the same queue.
pub const AT_ONCE: usize = 32;
/// How long all resources together may take to be served, reported or removed, on a slow and busy machine.
const FLEET_SETTLES_WITHIN: Duration = Duration::from_secs(600);

/// A bare API server that writes no audit log, which costs time.
///
/// # Errors
/// When it does not start.
pub(super) async fn unlogged(name: &str) -> Result<TemporaryCluster> {
    TemporaryCluster::up(name, Options { audit: Audit::Off, ..Shape::ApiServer.into() }).await
}

/// The resources of one cluster.
#[derive(Clone)]
pub struct Fleet {
    client: Client,
    kubeconfig: PathBuf,
    folder: PathBuf,
    count: usize,
}

impl Fleet {
    /// A cluster that serves our kind and has the namespace, and no resource yet.
    ///
    /// # Errors
    /// What the API server answers, or when it does not serve the kind in time.
    pub async fn prepare(cluster: &Cluster, count: usize) -> Result<Self> {
        let client = Client::try_from(cluster.config("fleet").await?)?;
        let fleet =
            Self { client, kubeconfig: cluster.kubeconfig(), folder: cluster.folder().to_owned(), count };
        fleet.define().await?;
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(NAMESPACE.to_owned());
        Api::<Namespace>::all(fleet.client.clone()).create(&PostParams::default(), &namespace).await?;
        Ok(fleet)
    }

    /// Applies the definition and waits until the kind is served.
    pub(super) async fn define(&self) -> Result<()> {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let definition = crd();
        let name = definition.metadata.name.as_deref().context("a definition has a name")?;
        definitions.patch(name, &PatchParams::apply("fleet").force(), &Patch::Apply(&definition)).await?;
        await_answer_within("the kind is served", FLEET_SETTLES_WITHIN, async || {
            self.list(Watched::Memcached).await.map(drop)
        })
        .await
    }

    /// Deletes the definition, and every resource with it, and waits until the kind is served no more.
    pub(super) async fn undefine(&self) -> Result<()> {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let name = crd().metadata.name.context("a definition has a name")?;
        definitions.delete(&name, &DeleteParams::default()).await?;
        await_answer_within("the kind is served no more", FLEET_SETTLES_WITHIN, async || {
            ensure!(definitions.get_opt(&name).await?.is_none(), "the definition is there");
            ensure!(self.list(Watched::Memcached).await.is_err(), "the kind is served");
            Ok(())
        })
        .await
    }

    /// How many resources there are between [`Fleet::fill`] and [`Fleet::clear`].
    pub fn count(&self) -> usize {
        self.count
    }

    /// The first so many of its resources.
    pub(super) fn first(&self, count: usize) -> Self {
        Self { count, ..self.clone() }
    }

    /// A client of the administrator.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The objects of one kind in the namespace.
    pub fn api(&self, kind: Watched) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), NAMESPACE, &api_resource(kind))
    }

    /// Creates the resources.
    ///
    /// # Errors
    /// What the API server answers.
    pub async fn fill(&self) -> Result<()> {
        self.fill_from(0).await
    }

    /// Creates the resources from this number on.
    ///
    /// # Errors
    /// What the API server answers.
    pub(super) async fn fill_from(&self, first: usize) -> Result<()> {
        let api = &self.api(Watched::Memcached);
        let create = |number| async move {
            api.create(&PostParams::default(), &resource(number)?).await.context("cannot create a resource")
        };
        stream::iter(first..self.count)
            .map(create)
            .buffer_unordered(AT_ONCE)
            .try_for_each(|_| async { Ok(()) })
            .await
    }

    /// Removes the resources, everything that was made for them, and the Kubernetes Events about them.
    ///
    /// # Errors
    /// What the API server answers, or when something is left after minutes.
    pub async fn clear(&self) -> Result<()> {
        let (params, all) = (DeleteParams::default(), ListParams::default());
        let kinds = [Watched::Memcached].into_iter().chain(CHILDREN.map(Watched::Child));
        for kind in kinds.clone() {
            self.api(kind).delete_collection(&params, &all).await?;
        }
        let events: Api<Event> = Api::namespaced(self.client.clone(), NAMESPACE);
        events.delete_collection(&params, &all).await?;
        await_answer_within("nothing is left of the resources", FLEET_SETTLES_WITHIN, async || {
            let mut left = 0;
            for kind in kinds.clone() {
                left += self.list(kind).await?.len();
            }
            ensure!(left == 0, "{left} objects are left");
            Ok(())
        })
        .await
    }

    /// The objects of one kind.
    ///
    /// # Errors
    /// What the API server answers.
    pub async fn list(&self, kind: Watched) -> Result<Vec<DynamicObject>> {
        Ok(self.api(kind).list(&ListParams::default()).await?.items)
    }

    /// Runs `work` while every resource is watched, and gives what it gave and the moment at which the last of the
    /// resources got its status. The watch has begun before `work` does.
    ///
    /// # Errors
    /// Those of `work`, or when the last status does not come within minutes.
    pub async fn until_reported<T>(&self, work: impl Future<Output = Result<T>>) -> Result<(T, Instant)> {
        let mut states =
            pin!(watcher(self.api(Watched::Memcached), watcher::Config::default()).default_backoff());
        while !matches!(states.try_next().await?, None | Some(watcher::Event::InitDone)) {}
        let reported = async {
            let mut reported = HashSet::new();
            while reported.len() < self.count {
                let Some(event) = states.next().await else { break };
                if let Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) = event
                    && is_reported(&object)
                {
                    reported.extend(object.metadata.uid);
                }
            }
            Instant::now()
        };
        let limited = async {
            let reported = tokio::time::timeout(FLEET_SETTLES_WITHIN, reported);
            reported.await.with_context(|| {
                format!("no status of all resources within {} s", FLEET_SETTLES_WITHIN.as_secs())
            })
        };
        tokio::try_join!(work, limited)
    }

    /// Makes sure that every resource has all children.
    ///
    /// # Errors
    /// When one is missing or too much.
    pub async fn assert_children(&self) -> Result<()> {
        for kind in CHILDREN {
            let found = self.list(Watched::Child(kind)).await?.len();
            ensure!(found == self.count, "{found} of {} {}s are there", self.count, kind.name());
        }
        Ok(())
    }

    /// Starts the operator of this build, without waiting for it.
    ///
    /// # Errors
    /// When it is not built.
    pub fn operator(&self) -> Result<Operator> {
        Operator::spawn(&operator::Launch {
            program: operator::binary()?,
            kubeconfig: self.kubeconfig.clone(),
            log: self.folder.join("operator.log"),
            args: Vec::new(),
            env: Vec::new(),
        })
    }
}

/// What each resource of a fleet becomes.
pub const CHILDREN: [ChildKind; 3] = [ChildKind::Service, ChildKind::ConfigMap, ChildKind::Deployment];

/// A resource that sets what most users set.
fn resource(number: usize) -> Result<DynamicObject> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "memcached.c5c3.io/v1beta1",
        "kind": "Memcached",
        "metadata": {"namespace": NAMESPACE, "name": name(number)},
        "spec": {
            "replicas": 3,
            "image": "memcached:1.6",
            "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "256Mi"}},
            "memcached": {"maxMemoryMB": 64, "maxConnections": 1024, "threads": 2},
        },
    }))?)
}

/// The name of one of the resources, counted from 0.
pub fn name(number: usize) -> String {
    format!("cache-{number:04}")
}

/// The key of one of the resources.
pub fn key(number: usize) -> Key {
    Key { namespace: NAMESPACE.to_owned(), name: name(number) }
}

/// Whether the resource has a status for the spec that it has.
fn is_reported(object: &DynamicObject) -> bool {
    let observed = object.data.pointer("/status/observedGeneration").and_then(Value::as_i64);
    observed
        .is_some_and(|observed| observed != NEVER_OBSERVED && Some(observed) == object.metadata.generation)
}
