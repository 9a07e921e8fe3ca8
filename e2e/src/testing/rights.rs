//! What the chart lets an operator do: takes its values, gives [`Right`]s; and takes rights and a user, and grants them.
//! Called by the tests of permissions.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use memcached_operator::cli::yaml;
use serde_json::{Value, json};

use crate::chart::{self, RELEASE};
use crate::cluster::Cluster;

const RBAC: &str = "rbac.authorization.k8s.io";

/// One verb on one resource, its subresource included.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// Empty for the core.
    pub group: String,
    /// The plural, `/` and the subresource where there is one.
    pub resource: String,
    /// As a rule has it.
    pub verb: String,
}

impl Right {
    /// The resource as the operator names it: `memcacheds.memcached.c5c3.io/status`.
    pub fn full_name(&self) -> String {
        let Self { group, resource, .. } = self;
        let group = if group.is_empty() { String::new() } else { format!(".{group}") };
        match resource.split_once('/') {
            Some((resource, sub)) => format!("{resource}{group}/{sub}"),
            None => format!("{resource}{group}"),
        }
    }
}

/// The name of the chart's role for the Lease; the one for everything else has the release's.
pub const LEADER: &str = "memcached-operator-leader";

/// What one of the chart's roles grants with these values.
///
/// # Errors
/// When there is no such role, or helm refuses the values.
pub fn granted(role: &str, values: &Value) -> Result<BTreeSet<Right>> {
    let objects = yaml::objects(&chart::render("ops", values)?)?;
    let is_role = |it: &&Value| it["kind"] == "ClusterRole" || it["kind"] == "Role";
    let found = objects.iter().filter(is_role).find(|it| it["metadata"]["name"] == role);
    let rules =
        found.and_then(|found| found["rules"].as_array()).with_context(|| format!("no role {role}"))?;
    let words = |value: &Value| serde_json::from_value::<Vec<String>>(value.clone());
    let mut granted = BTreeSet::new();
    for rule in rules {
        for group in words(&rule["apiGroups"])? {
            for resource in words(&rule["resources"])? {
                for verb in words(&rule["verbs"])? {
                    granted.insert(Right { group: group.clone(), resource: resource.clone(), verb });
                }
            }
        }
    }
    Ok(granted)
}

/// Gives a user these rights in a namespace, or everywhere, and no others.
///
/// # Errors
/// When the API server refuses.
pub async fn grant(
    client: &Client,
    namespace: Option<&str>,
    user: &str,
    rights: impl IntoIterator<Item = &Right>,
) -> Result<()> {
    let rule = |right: &Right| {
        let Right { group, resource, verb } = right;
        json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]})
    };
    let kind = if namespace.is_some() { "Role" } else { "ClusterRole" };
    let metadata = json!({"name": RELEASE});
    let rules: Vec<_> = rights.into_iter().map(rule).collect();
    let role =
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata, "rules": rules});
    let binding = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": format!("{kind}Binding"), "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": RELEASE},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    });
    let params = PatchParams::apply("e2e-test").force();
    let (role, binding, client) = (Patch::Apply(role), Patch::Apply(binding), client.clone());
    if let Some(namespace) = namespace {
        Api::<Role>::namespaced(client.clone(), namespace).patch(RELEASE, &params, &role).await?;
        Api::<RoleBinding>::namespaced(client, namespace).patch(RELEASE, &params, &binding).await?;
    } else {
        Api::<ClusterRole>::all(client.clone()).patch(RELEASE, &params, &role).await?;
        Api::<ClusterRoleBinding>::all(client).patch(RELEASE, &params, &binding).await?;
    }
    Ok(())
}

/// The administrator's kubeconfig, used to act as somebody else; it is written to the folder.
///
/// # Errors
/// When it cannot be read or written.
pub fn acting_as(cluster: &Cluster, user: &str, folder: &Path) -> Result<PathBuf> {
    let mut config: Value = serde_json::from_slice(&fs::read(cluster.kubeconfig())?)?;
    config["users"][0]["user"]["as"] = json!(user);
    let path = folder.join("kubeconfig");
    fs::write(&path, config.to_string())?;
    Ok(path)
}
