//! What the tests of this program share: the cluster, an operator inside the program, a stand-in for a node, and ways to
//! look at what came of it.

pub(crate) mod children;
pub(crate) mod cut;
pub(crate) mod faults;
pub(crate) mod features;
pub(crate) mod fields;
pub(crate) mod operator;
pub(crate) mod peer;
pub(crate) mod process;
pub(crate) mod record;
pub(crate) mod requests;
pub(crate) mod state;
pub(crate) mod transport;

pub(crate) use e2e::testing::kubelet;

use std::future::Future;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::testing::{Space, await_answer, down_at_the_end, in_namespace_of, unique};
use e2e::{Cluster, Options, Owners, Shape};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use memcached_operator::api::{Memcached, crd};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// Long enough for a busy machine; what is awaited takes a second or two.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// The key of a Secret that memcached reads its passwords from.
const PASSWORD_FILE: &str = "password-file";

/// The cluster that most tests of this program share: controllers, but no node. Each operator in it sees only its own
/// namespace.
static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();

/// Runs a test's body in a namespace of this program's cluster, with the definition installed.
pub(crate) async fn in_space(prefix: &str, body: impl AsyncFnOnce(&Space) -> Result<()>) -> Result<()> {
    let cluster = CLUSTER.get_or_try_init(with_monitors).await?;
    in_namespace_of(cluster, prefix, body).await
}

async fn with_monitors() -> Result<Cluster> {
    // What the operator is allowed to do has to be enough for the strictest API server.
    let options = Options { owners: Owners::Guarded, ..Shape::ControlPlane.into() };
    let cluster = up("plane", options).await?;
    let client = Client::try_from(cluster.config("e2e-test").await?)?;
    e2e::testing::monitors::install(&client).await?;
    resources_may_own(&client).await?;
    Ok(cluster)
}

/// Waits until the admission plugin that guards owners has learnt what a Memcached is.
async fn resources_may_own(client: &Client) -> Result<()> {
    let owner = json!({
        "apiVersion": "memcached.c5c3.io/v1alpha1", "kind": "Memcached", "name": "none", "uid": "none",
        "controller": true, "blockOwnerDeletion": true,
    });
    let owned: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "owned", "ownerReferences": [owner]}}))?;
    let objects: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    await_answer(("a Memcached may own something", SOON), async || {
        Ok(objects.create(&dry_run, &owned).await.map(|_| ())?)
    })
    .await
}

/// Waits until the garbage collector of this program's cluster knows our kind: it looks for new ones every half minute,
/// and lists all of them before it goes on; until then it collects nothing that a resource owned.
pub(crate) async fn collector_is_at_work(space: &Space) -> Result<()> {
    static SEEN: OnceCell<()> = OnceCell::const_new();
    let see = async || {
        let owner = space.apply(&plain("owner", &json!({"replicas": 0}))?).await?;
        let reference = json!({
            "apiVersion": "memcached.c5c3.io/v1alpha1", "kind": "Memcached", "name": "owner", "uid": owner.uid(),
        });
        let owned = json!({"metadata": {"name": "owned", "ownerReferences": [reference]}});
        space.apply(&serde_json::from_value::<ConfigMap>(owned)?).await?;
        space.api::<Memcached>().delete("owner", &DeleteParams::background()).await?;
        await_answer(("the garbage collector knows our kind", Duration::from_secs(180)), async || {
            ensure!(space.api::<ConfigMap>().get_opt("owned").await?.is_none(), "nothing is collected yet");
            Ok(())
        })
        .await
    };
    SEEN.get_or_try_init(see).await.map(|_| ())
}

/// A cluster of this program's own, with the definition installed; it goes with the program.
pub(crate) async fn up(prefix: &str, options: impl Into<Options>) -> Result<Cluster> {
    let name = unique(prefix);
    down_at_the_end(env!("CARGO_BIN_EXE_e2e"), &name)?;
    let cluster = Cluster::shared(&name, options).await?;
    define(&Client::try_from(cluster.config("e2e-test").await?)?, &crd::crd()).await?;
    Ok(cluster)
}

/// Applies a definition and waits until it is served.
pub(crate) async fn define(client: &Client, definition: &CustomResourceDefinition) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = definition.metadata.name.as_deref().context("a definition has a name")?;
    definitions.patch(name, &PatchParams::apply("e2e-test").force(), &Patch::Apply(definition)).await?;
    await_answer(("the definition is served", SOON), async || {
        let resources: Api<Memcached> = Api::all(client.clone());
        Ok(resources.list(&ListParams::default()).await.map(|_| ())?)
    })
    .await
}

/// A resource whose every field reaches a child, with the Secret of [`secret`]. `replicas` and `memory` vary.
pub(crate) fn resource(name: &str, replicas: i32, memory: i32) -> Result<Memcached> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "memcached.c5c3.io/v1beta1",
        "kind": "Memcached",
        "metadata": {"name": name, "annotations": {"memcached.c5c3.io/restart-trigger": "first"}},
        "spec": {
            "replicas": replicas,
            "image": "memcached:1.6.18",
            "resources": {
                "requests": {"cpu": "100m", "memory": "100Mi"},
                "limits": {"cpu": "1", "memory": "256Mi"},
            },
            "memcached": {"maxMemoryMB": memory, "verbosity": 1, "extraArgs": ["-o", "modern"]},
            "security": {"sasl": {"enabled": true, "credentialsSecretRef": {"name": name}}},
        },
    }))?)
}

/// The smallest resource.
pub(crate) fn plain(name: &str, spec: &Value) -> Result<Memcached> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "memcached.c5c3.io/v1beta1",
        "kind": "Memcached",
        "metadata": {"name": name},
        "spec": spec,
    }))?)
}

/// A Secret with a password, and whatever else says which version of it this is.
pub(crate) fn secret(name: &str, password: &str) -> Result<Secret> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name},
        "stringData": {PASSWORD_FILE: format!("user:{password}")},
    }))?)
}

/// Whether a resource says of its newest generation that it is ready.
pub(crate) fn ready(resource: &Memcached) -> bool {
    let Some(status) = &resource.status else { return false };
    let condition = |kind: &str| status.conditions.iter().any(|it| it.type_ == kind && it.status == "True");
    Some(status.observed_generation) == resource.metadata.generation && condition("Ready")
}

/// The reason of a condition that is true, or of Ready in any case.
pub(crate) fn reason<'a>(resource: &'a Memcached, kind: &str) -> Option<&'a str> {
    let status = resource.status.as_ref()?;
    let of_kind = status.conditions.iter().find(|it| it.type_ == kind)?;
    (of_kind.status == "True" || kind == "Ready").then_some(of_kind.reason.as_str())
}

/// The message of a condition.
pub(crate) fn message<'a>(resource: &'a Memcached, kind: &str) -> Option<&'a str> {
    let conditions = &resource.status.as_ref()?.conditions;
    conditions.iter().find(|it| it.type_ == kind).map(|it| it.message.as_str())
}

/// Waits until a resource is ready.
pub(crate) async fn await_ready(space: &Space, name: &str) -> Result<Memcached> {
    let found = space.wait::<Memcached>(name, ("it is ready", SOON), |it| it.is_some_and(ready)).await?;
    found.context("a resource that is ready is there")
}

/// Runs many things at once, a few at a time, and gives what they gave; the first error ends it.
pub(crate) async fn at_once<T, F>(limit: usize, things: impl IntoIterator<Item = F>) -> Result<Vec<T>>
where
    F: Future<Output = Result<T>>,
{
    use futures::{StreamExt, TryStreamExt};
    futures::stream::iter(things).buffer_unordered(limit).try_collect().await
}
