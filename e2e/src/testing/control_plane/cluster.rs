//! A cluster with controllers and without a node: takes a prefix for names, gives a namespace of a cluster that all tests of
//! a program share, or a cluster of the test's own. Called by the tests of `control_plane`, `features` and `fleet`.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use memcached_operator::api::{Memcached, crd};
use serde_json::json;
use tokio::sync::OnceCell;

use super::resources::plain;
use crate::testing::{Space, TestTime, await_answer, in_namespace_of, monitors, unique};
use crate::{Cluster, Options, Owners, Shape, TemporaryCluster};

/// The cluster that most tests of this program share: controllers, but no node. Each operator in it sees only its own
/// namespace.
static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();

/// Runs a test's body in a namespace of this program's cluster, with the definition installed.
pub async fn in_space(prefix: &str, body: impl AsyncFnOnce(&Space) -> Result<()>) -> Result<()> {
    // Also while another test makes the cluster.
    let _time = TestTime::begin();
    let cluster = CLUSTER.get_or_try_init(with_monitors).await?;
    in_namespace_of(cluster, prefix, body).await
}

async fn with_monitors() -> Result<Cluster> {
    // The chart's permissions have to be enough for the strictest API server too.
    let options = Options { owners: Owners::Guarded, ..Shape::Controllers.into() };
    let cluster = up("plane", options).await?;
    let client = Client::try_from(cluster.config("e2e-test").await?)?;
    monitors::install(&client).await?;
    resources_may_own(&client).await?;
    Ok(cluster)
}

/// Waits until the admission plugin `OwnerReferencesPermissionEnforcement` knows the kind Memcached.
async fn resources_may_own(client: &Client) -> Result<()> {
    let owner = json!({
        "apiVersion": "memcached.c5c3.io/v1alpha1", "kind": "Memcached", "name": "none", "uid": "none",
        "controller": true, "blockOwnerDeletion": true,
    });
    let owned: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "owned", "ownerReferences": [owner]}}))?;
    let objects: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    await_answer("a Memcached may own something", async || {
        Ok(objects.create(&dry_run, &owned).await.map(|_| ())?)
    })
    .await
}

/// Waits until the garbage collector of this program's cluster knows our kind. The collector looks for new kinds every half
/// minute; until it has listed our kind, it deletes no child of a resource that is gone.
pub async fn collector_is_at_work(space: &Space) -> Result<()> {
    static SEEN: OnceCell<()> = OnceCell::const_new();
    let see = async || {
        let owner = space.apply(&plain("owner", &json!({"replicas": 0}))?).await?;
        let reference = json!({
            "apiVersion": "memcached.c5c3.io/v1alpha1", "kind": "Memcached", "name": "owner", "uid": owner.uid(),
        });
        let owned = json!({"metadata": {"name": "owned", "ownerReferences": [reference]}});
        space.apply(&serde_json::from_value::<ConfigMap>(owned)?).await?;
        space.api::<Memcached>().delete("owner", &DeleteParams::background()).await?;
        await_answer("the garbage collector knows our kind", async || {
            ensure!(space.api::<ConfigMap>().get_opt("owned").await?.is_none(), "nothing is collected yet");
            Ok(())
        })
        .await
    };
    SEEN.get_or_try_init(see).await.map(|_| ())
}

/// A cluster of this program's own, with the definition installed; it goes with the program.
pub async fn up(prefix: &str, options: impl Into<Options>) -> Result<Cluster> {
    Ok(temporary(prefix, options).await?.until_the_end())
}

/// As [`up`], but it goes with this value.
pub async fn temporary(prefix: &str, options: impl Into<Options>) -> Result<TemporaryCluster> {
    let cluster = TemporaryCluster::up(&unique(prefix), options).await?;
    define(&Client::try_from(cluster.config("e2e-test").await?)?, &crd::crd()).await?;
    Ok(cluster)
}

/// Applies a definition and waits until it is served.
pub async fn define(client: &Client, definition: &CustomResourceDefinition) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = definition.metadata.name.as_deref().context("a definition has a name")?;
    definitions.patch(name, &PatchParams::apply("e2e-test").force(), &Patch::Apply(definition)).await?;
    await_answer("the definition is served", async || {
        let resources: Api<Memcached> = Api::all(client.clone());
        Ok(resources.list(&ListParams::default()).await.map(|_| ())?)
    })
    .await
}
