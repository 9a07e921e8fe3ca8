//! One cache of a test: takes a namespace and a name, gives what a user does with a `Memcached` resource, and ways to
//! wait for what becomes of it. Called by tests.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, ensure};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{ObjectReference, Pod, Secret};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use memcached_operator::api::condition::Condition;
use memcached_operator::api::spec::Workload;
use memcached_operator::api::{GROUP, KIND, Memcached, RESTART_TRIGGER, VERSIONS};
use serde_json::{Value, json};

use super::kstatus::Status;
use super::memcached::Memcached as Client;
use super::status_history::{StatusHistory, StatusWatch};
use super::{Space, Watchable, await_answer};

/// Where clients connect.
const PORT: u16 = 11211;

/// A cache whose every version is recorded, from before it exists.
pub struct Cache<'a> {
    /// Where it is.
    pub space: &'a Space,
    /// The name of the resource and of its children.
    pub name: &'a str,
    watch: StatusWatch,
}

impl<'a> Cache<'a> {
    /// A cache that does not exist yet.
    ///
    /// # Errors
    /// When the API server does not let it be watched.
    pub async fn follow(space: &'a Space, name: &'a str) -> Result<Self> {
        let watch = StatusWatch::follow(&space.client(), space.name(), name).await?;
        Ok(Self { space, name, watch })
    }

    /// Creates the resource, or gives it another spec.
    ///
    /// # Errors
    /// What the API server answers.
    pub async fn apply(&self, spec: &Value) -> Result<()> {
        let resource = json!({
            "apiVersion": format!("{GROUP}/{}", VERSIONS[0]),
            "kind": KIND,
            "metadata": {"name": self.name},
            "spec": spec,
        });
        self.space.apply::<Memcached>(&serde_json::from_value(resource)?).await.map(|_| ())
    }

    /// Changes the restart trigger, as a person does with `kubectl annotate`.
    ///
    /// # Errors
    /// What the API server answers.
    pub async fn trigger(&self, value: &str) -> Result<()> {
        let patch = json!({"metadata": {"annotations": {RESTART_TRIGGER: value}}});
        let params = PatchParams::default();
        self.space.api::<Memcached>().patch(self.name, &params, &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Creates or changes a Secret with a password file of one line.
    ///
    /// # Errors
    /// What the API server answers.
    pub async fn password(&self, secret: &str, user_and_password: &str) -> Result<()> {
        let secret = json!({
            "metadata": {"name": secret},
            "stringData": {"password-file": format!("{user_and_password}\n")},
        });
        self.space.apply::<Secret>(&serde_json::from_value(secret)?).await.map(|_| ())
    }

    /// Waits until the resource is ready as it is now.
    ///
    /// # Errors
    /// When it never is.
    pub async fn ready(&self) -> Result<Memcached> {
        self.is("it is ready", |resource| says(resource, "True", "MemcachedReady")).await
    }

    /// Waits until the resource is as wanted and its status is about what its spec is now.
    ///
    /// # Errors
    /// When it never is.
    pub async fn is(&self, wanted: &str, condition: impl Fn(&Memcached) -> bool) -> Result<Memcached> {
        let current = |resource: &Memcached| {
            resource.status.as_ref().map(|status| status.observed_generation) == resource.metadata.generation
        };
        let found = self.space.wait::<Memcached>(self.name, wanted, |resource| {
            resource.is_some_and(|resource| current(resource) && condition(resource))
        });
        found.await?.context("the resource is gone")
    }

    /// Waits until the Deployment is as wanted.
    ///
    /// # Errors
    /// When it never is.
    pub async fn deployment(
        &self,
        wanted: &str,
        condition: impl Fn(&Deployment) -> bool,
    ) -> Result<Deployment> {
        self.child(wanted, condition).await
    }

    /// Waits until the workload of this kind is as wanted, and gives it as JSON, in which both kinds are alike.
    ///
    /// # Errors
    /// When it never is.
    pub async fn workload(
        &self,
        kind: Workload,
        wanted: &str,
        condition: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        Ok(match kind {
            Workload::Deployment => {
                json!(self.child::<Deployment>(wanted, |it| condition(&json!(it))).await?)
            }
            Workload::StatefulSet => {
                json!(self.child::<StatefulSet>(wanted, |it| condition(&json!(it))).await?)
            }
        })
    }

    /// Waits until the child that has the resource's name is as wanted.
    async fn child<K>(&self, wanted: &str, condition: impl Fn(&K) -> bool) -> Result<K>
    where
        K: Watchable + Resource<Scope = NamespaceResourceScope>,
    {
        let found = self.space.wait::<K>(self.name, wanted, |it| it.is_some_and(&condition)).await?;
        found.with_context(|| format!("the {} is gone", K::kind(&K::DynamicType::default())))
    }

    /// Addresses of the pods that clients find through the Service, once there are `count` and none of them is going. Slices
    /// follow the pods: when a rollout has just ended, they may still have the address of a pod that is going.
    ///
    /// # Errors
    /// When there never are.
    pub async fn addresses(&self, count: usize) -> Result<Vec<SocketAddr>> {
        let slices = self.space.api::<EndpointSlice>();
        let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={}", self.name));
        let of_cache = ListParams::default().labels(&format!("app.kubernetes.io/instance={}", self.name));
        await_answer("the Service leads to the pods that stay", async || {
            let endpoints =
                slices.list(&of_service).await?.items.into_iter().flat_map(|slice| slice.endpoints);
            let serving = endpoints.filter(|endpoint| {
                endpoint.conditions.as_ref().is_some_and(|conditions| conditions.ready == Some(true))
            });
            let addresses = serving.flat_map(|endpoint| endpoint.addresses).collect::<BTreeSet<_>>();
            ensure!(addresses.len() == count, "{addresses:?}");
            let mut pods = self.space.api::<Pod>().list(&of_cache).await?.items;
            pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
            let stay: BTreeSet<_> = pods.into_iter().filter_map(|pod| pod.status?.pod_ip).collect();
            ensure!(addresses.is_subset(&stay), "the Service has {addresses:?}, and the pods {stay:?}");
            addresses.iter().map(|address| Ok(SocketAddr::new(address.parse::<IpAddr>()?, PORT))).collect()
        })
        .await
    }

    /// A connection to the only pod.
    ///
    /// # Errors
    /// When there is not exactly one, or it does not answer.
    pub async fn connect(&self) -> Result<Client> {
        let addresses = self.addresses(1).await?;
        Client::connect(addresses[0]).await
    }

    /// The uid of the only pod, once those that are going are gone.
    ///
    /// # Errors
    /// When there never is exactly one.
    pub async fn only_pod(&self) -> Result<String> {
        let of_cache = ListParams::default().labels(&format!("app.kubernetes.io/instance={}", self.name));
        await_answer("one pod is left", async || {
            let pods = self.space.api::<Pod>().list(&of_cache).await?.items;
            ensure!(pods.len() == 1, "there are {}", pods.len());
            ensure!(pods[0].metadata.deletion_timestamp.is_none(), "the only one is going");
            pods[0].uid().context("it has no uid")
        })
        .await
    }

    /// How many pod templates the workloads of the namespace have had by Kubernetes' own books: each has a ReplicaSet of a
    /// Deployment or a ControllerRevision of a StatefulSet, and a template that comes back has its old one again.
    ///
    /// # Errors
    /// What the API server answers.
    pub async fn template_records(&self) -> Result<usize> {
        let all = ListParams::default();
        let of_deployments = self.space.api::<ReplicaSet>().list(&all).await?.items.len();
        let of_stateful_sets = self.space.api::<ControllerRevision>().list(&all).await?.items.len();
        Ok(of_deployments + of_stateful_sets)
    }

    /// The reasons of the Warnings about the resource, sorted. Waits for the Event that says that the resource is ready:
    /// the operator sends all Warnings about new pods before that Event.
    ///
    /// # Errors
    /// When that Event never comes.
    pub async fn warnings(&self) -> Result<Vec<String>> {
        let about = |event: &Event| {
            let of = |it: &ObjectReference| {
                it.kind.as_deref() == Some(KIND) && it.name.as_deref() == Some(self.name)
            };
            event.regarding.as_ref().is_some_and(of)
        };
        let reasons = |events: &[Event], severity: &str| {
            let of_severity = events.iter().filter(|it| it.type_.as_deref() == Some(severity));
            of_severity.filter_map(|it| it.reason.clone()).collect::<Vec<_>>()
        };
        await_answer("an Event says that it is ready", async || {
            let mut events = self.space.api::<Event>().list(&ListParams::default()).await?.items;
            events.retain(about);
            let normal = reasons(&events, "Normal");
            ensure!(normal.iter().any(|reason| reason == "MemcachedReady"), "only {normal:?}");
            let mut warnings = reasons(&events, "Warning");
            warnings.sort();
            Ok(warnings)
        })
        .await
    }

    /// Waits for a Warning of this reason whose message ends like this: at most 30 s.
    ///
    /// # Errors
    /// When there is none in time.
    pub async fn is_warned(&self, reason: &str, ends: &str) -> Result<()> {
        await_answer(&format!("a Warning {reason} ends with {ends}"), async || {
            let events = self.space.api::<Event>().list(&ListParams::default()).await?.items;
            let warnings = events.into_iter().filter(|it| it.type_.as_deref() == Some("Warning"));
            let of_reason = warnings.filter(|it| it.reason.as_deref() == Some(reason));
            let notes: Vec<_> = of_reason.filter_map(|it| it.note).collect();
            ensure!(notes.iter().any(|note| note.ends_with(ends)), "{notes:?}");
            Ok(())
        })
        .await
    }

    /// Everything that happened until now.
    ///
    /// # Errors
    /// As [`StatusWatch::history`].
    pub async fn history(&self) -> Result<StatusHistory> {
        self.watch.history().await
    }

    /// What the kstatus library says of each version until now. Fails when one of these results is wrong.
    ///
    /// # Errors
    /// As [`StatusHistory::kstatus_results`].
    pub async fn kstatus_results(&self) -> Result<Vec<Status>> {
        self.history().await?.kstatus_results()
    }
}

/// The condition of a type.
pub fn condition<'a>(resource: &'a Memcached, of: &str) -> Option<&'a Condition> {
    resource.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == of)
}

/// Whether Ready has this status and reason.
pub fn says(resource: &Memcached, status: &str, reason: &str) -> bool {
    condition(resource, "Ready").is_some_and(|it| it.status == status && it.reason == reason)
}

/// Installs a definition of the resource and waits until it is served.
///
/// # Errors
/// What the API server answers, or when it is never served.
pub async fn install(client: &kube::Client, crd: &CustomResourceDefinition) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("e2e-test").force();
    definitions.patch(&crd.name_any(), &params, &Patch::Apply(crd)).await?;
    let resources: Api<Memcached> = Api::all(client.clone());
    await_answer("the definition is served", async || {
        Ok(resources.list(&ListParams::default()).await.map(|_| ())?)
    })
    .await
}
