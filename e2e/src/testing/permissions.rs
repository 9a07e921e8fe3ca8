//! What the operator may do where it is installed: takes a cluster, gives a kubeconfig of the ServiceAccount that
//! `manifests/install.yaml` makes, with the roles that are bound to it there and no others. Called by the tests, so that
//! every operator process that they start works with the chart's permissions.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use memcached_operator::cli::yaml;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::unique;
use crate::chart::{NAMESPACE, RELEASE};
use crate::cluster::Cluster;

/// The manifest as it is committed; a test holds it against the chart.
pub const INSTALL: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests/install.yaml"));

/// Kinds that say who the operator is and what it may do, with their plurals.
const KINDS: [(&str, &str); 6] = [
    ("Namespace", "namespaces"),
    ("ServiceAccount", "serviceaccounts"),
    ("ClusterRole", "clusterroles"),
    ("ClusterRoleBinding", "clusterrolebindings"),
    ("Role", "roles"),
    ("RoleBinding", "rolebindings"),
];

/// How long a token is good for, in seconds: longer than any run of the tests.
const TOKEN_LIFE: u64 = 24 * 60 * 60;

/// The clusters that this program has asked for a kubeconfig: some tests start hundreds of operators.
static MADE: Mutex<BTreeSet<PathBuf>> = Mutex::const_new(BTreeSet::new());

/// A kubeconfig of the installed operator's ServiceAccount; the account, its roles and their bindings are applied first.
///
/// # Errors
/// When the API server refuses, or the manifest cannot be read.
pub async fn as_installed(cluster: &Cluster) -> Result<PathBuf> {
    let path = cluster.folder().join("operator.kubeconfig");
    let mut made = MADE.lock().await;
    // The next cluster of a name begins with an empty folder.
    if !(made.contains(&path) && path.exists()) {
        write(cluster, &path, &install(cluster).await?)?;
        made.insert(path.clone());
    }
    Ok(path)
}

/// Applies what the manifest says about permissions, and gives a token.
async fn install(cluster: &Cluster) -> Result<String> {
    let client = Client::try_from(cluster.config("e2e-test/install").await?)?;
    for object in yaml::objects(INSTALL)? {
        if let Some(plural) = plural(&object) {
            apply(&client, &object, plural).await?;
        }
    }
    let request = json!({"spec": {"audiences": [], "expirationSeconds": TOKEN_LIFE}});
    let accounts: Api<ServiceAccount> = Api::namespaced(client, NAMESPACE);
    let answer: TokenRequest = accounts
        .create_subresource("token", RELEASE, &PostParams::default(), &request)
        .await
        .context("the API server gives no token for the operator")?;
    Ok(answer.status.context("the answer holds no token")?.token)
}

fn plural(object: &Value) -> Option<&'static str> {
    KINDS.iter().find(|(kind, _)| object["kind"] == *kind).map(|(_, plural)| *plural)
}

async fn apply(client: &Client, object: &Value, plural: &str) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(object.clone())?;
    let types = object.types.clone().context("an object without a kind")?;
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::try_from(&types)?, plural);
    let api: Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let name = object.metadata.name.as_deref().context("an object without a name")?;
    let params = PatchParams::apply("e2e-test").force();
    api.patch(name, &params, &Patch::Apply(&object))
        .await
        .with_context(|| format!("cannot apply {} {name}", types.kind))?;
    Ok(())
}

/// The administrator's kubeconfig with another user in it.
fn write(cluster: &Cluster, path: &Path, token: &str) -> Result<()> {
    let mut config: Value = serde_json::from_slice(&fs::read(cluster.kubeconfig())?)?;
    config["users"][0]["user"] = json!({"token": token});
    // Another program may be reading the last one.
    let new = cluster.folder().join(unique("operator.kubeconfig"));
    let mut file = fs::File::options().write(true).create_new(true).mode(0o600).open(&new)?;
    std::io::Write::write_all(&mut file, config.to_string().as_bytes())?;
    Ok(fs::rename(&new, path)?)
}
