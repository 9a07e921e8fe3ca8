//! Several operators, of which one writes: whatever happens to them, to their connections and to the Lease. And operators
//! that work in some namespaces only, by which those of these tests stay out of each other's way.
//!
//! By the API server's own account, no operator writes unless it was the last to make itself the holder of the Lease.

mod arena;
mod endings;
mod lease;
mod namespaces;
mod partition;
mod permissions;

use anyhow::{Context, Result};
use e2e::testing::{Space, await_answer, down_at_the_end, in_namespace_of, unique};
use e2e::{Cluster, Shape};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use memcached_operator::api::{Memcached, crd};
use tokio::sync::OnceCell;

use crate::arena::SOON;

static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();

/// The cluster of this program; it goes with the program.
async fn cluster() -> Result<&'static Cluster> {
    CLUSTER
        .get_or_try_init(async || {
            let name = unique("leader");
            down_at_the_end(env!("CARGO_BIN_EXE_e2e"), &name)?;
            let cluster = Cluster::shared(&name, Shape::ApiServer).await?;
            let client = Client::try_from(cluster.config("e2e-test").await?)?;
            let (definition, definitions) =
                (crd::crd(), Api::<CustomResourceDefinition>::all(client.clone()));
            let name = definition.metadata.name.as_deref().context("a definition has a name")?;
            definitions
                .patch(name, &PatchParams::apply("e2e-test").force(), &Patch::Apply(&definition))
                .await?;
            await_answer(("the definition is served", SOON), async || {
                let resources: Api<Memcached> = Api::all(client.clone());
                Ok(resources.list(&ListParams::default()).await.map(|_| ())?)
            })
            .await?;
            Ok(cluster)
        })
        .await
}

/// Runs a test's body in a namespace of this program's cluster.
async fn in_space(prefix: &str, body: impl AsyncFnOnce(&Space) -> Result<()>) -> Result<()> {
    in_namespace_of(cluster().await?, prefix, body).await
}
