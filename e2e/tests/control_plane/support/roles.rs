//! What an operator may do: takes a namespace and what to leave out, gives a user who may do the rest there. Called by
//! the tests of missing permissions.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use e2e::Cluster;
use e2e::testing::Space;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};

const NAME: &str = "memcached-operator";

/// What may be done to each kind of child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    List,
    Watch,
    Get,
    Create,
    Patch,
    Delete,
}

impl Verb {
    pub(crate) const ALL: [Self; 6] =
        [Self::List, Self::Watch, Self::Get, Self::Create, Self::Patch, Self::Delete];

    /// As a Role says it.
    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// Whom an operator of this namespace acts as.
pub(crate) fn user(space: &Space) -> String {
    format!("operator-of-{}", space.name())
}

/// Lets the user do everything in this namespace that an operator needs, but not what is missing.
pub(crate) async fn grant(space: &Space, missing: Option<(ChildKind, Verb)>) -> Result<()> {
    let rule = |groups: &str, resources: &str, verbs: &[&str]| json!({"apiGroups": [groups], "resources": [resources], "verbs": verbs});
    let mut rules = vec![
        rule("memcached.c5c3.io", "memcacheds", &["list", "watch"]),
        rule("memcached.c5c3.io", "memcacheds/status", &["patch"]),
        rule("memcached.c5c3.io", "memcacheds/finalizers", &["update"]),
        rule("", "pods", &["list", "watch"]),
        rule("", "secrets", &["list", "watch", "get"]),
        rule("events.k8s.io", "events", &["create", "patch"]),
    ];
    rules.extend(ChildKind::ALL.map(|kind| {
        let granted = Verb::ALL.into_iter().filter(|verb| missing != Some((kind, *verb))).map(Verb::name);
        let group = kind.api_version().split_once('/').map_or("", |(group, _)| group);
        json!({"apiGroups": [group], "resources": [kind.plural()], "verbs": granted.collect::<Vec<_>>()})
    }));
    let metadata = json!({"name": NAME});
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user(space)});
    let role = json!({"metadata": metadata, "rules": rules});
    let binding = json!({
        "metadata": metadata, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME},
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
