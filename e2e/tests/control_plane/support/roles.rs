//! What an operator may do: takes the chart's rules, a namespace and what to leave out, gives a user who may do the rest
//! there. Called by the tests of permissions.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use e2e::testing::Space;
use e2e::{Cluster, chart};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use memcached_operator::cli::yaml;
use serde_json::{Value, json};

/// One verb on one resource, its subresource included.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) verb: String,
}

impl Right {
    /// The resource as the operator names it: `memcacheds.memcached.c5c3.io/status`.
    pub(crate) fn full_name(&self) -> String {
        let Self { group, resource, .. } = self;
        let group = if group.is_empty() { String::new() } else { format!(".{group}") };
        match resource.split_once('/') {
            Some((resource, sub)) => format!("{resource}{group}/{sub}"),
            None => format!("{resource}{group}"),
        }
    }
}

/// What the chart grants with these values where the operator works.
pub(crate) fn granted(values: &Value) -> Result<BTreeSet<Right>> {
    let objects = yaml::objects(&chart::render("ops", values)?)?;
    let is_role = |it: &&Value| it["kind"] == "ClusterRole" || it["kind"] == "Role";
    let role = objects.iter().filter(is_role).find(|it| it["metadata"]["name"] == chart::RELEASE);
    let rules = role.and_then(|role| role["rules"].as_array()).context("the operator's role")?;
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

/// Whom an operator of this namespace acts as.
pub(crate) fn user(space: &Space) -> String {
    format!("operator-of-{}", space.name())
}

/// Gives the user these rights in this namespace, and no others.
pub(crate) async fn grant(space: &Space, rights: impl IntoIterator<Item = &Right>) -> Result<()> {
    let rule = |right: &Right| {
        let Right { group, resource, verb } = right;
        json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]})
    };
    let rules: Vec<_> = rights.into_iter().map(rule).collect();
    let metadata = json!({"name": chart::RELEASE});
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user(space)});
    let role = json!({"metadata": metadata, "rules": rules});
    let binding = json!({
        "metadata": metadata, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": chart::RELEASE},
    });
    space.apply::<Role>(&serde_json::from_value(role)?).await?;
    space.apply::<RoleBinding>(&serde_json::from_value(binding)?).await?;
    Ok(())
}

/// The administrator's kubeconfig, used to act as somebody else.
pub(crate) fn acting_as(cluster: &Cluster, user: &str, folder: &Path) -> Result<PathBuf> {
    let mut config: Value = serde_json::from_slice(&fs::read(cluster.kubeconfig())?)?;
    config["users"][0]["user"]["as"] = json!(user);
    let path = folder.join("kubeconfig");
    fs::write(&path, config.to_string())?;
    Ok(path)
}
