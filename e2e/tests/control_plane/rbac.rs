//! An operator that may not do everything it needs: it says what is missing, and goes on when that is granted.

use std::fs;

use anyhow::{Context, Result, ensure};
use e2e::Shape;
use e2e::testing::operator::Operator;
use e2e::testing::{Space, await_answer, in_namespace_of};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use memcached_operator::api::Memcached;
use serde_json::{Value, json};

use crate::support::process::Process;
use crate::support::roles::acting_as;
use crate::support::{SOON, await_ready, reason, resource, secret, up};

const USER: &str = "system:serviceaccount:ops:memcached-operator";

/// Everything that the operator needs, as [groups, resources, verbs].
fn rules() -> Vec<[Value; 3]> {
    let watched = json!(["list", "watch"]);
    vec![
        [json!(["memcached.c5c3.io"]), json!(["memcacheds"]), watched.clone()],
        [json!(["memcached.c5c3.io"]), json!(["memcacheds/status"]), json!(["patch"])],
        [json!(["memcached.c5c3.io"]), json!(["memcacheds/finalizers"]), json!(["update"])],
        [json!(["apps"]), json!(["deployments"]), json!(["list", "watch", "get", "create", "patch"])],
        [json!([""]), json!(["services"]), json!(["list", "watch", "get", "create", "patch"])],
        [json!(["networking.k8s.io"]), json!(["networkpolicies"]), watched.clone()],
        [json!(["policy"]), json!(["poddisruptionbudgets"]), watched.clone()],
        [json!(["autoscaling"]), json!(["horizontalpodautoscalers"]), watched.clone()],
        [json!(["monitoring.coreos.com"]), json!(["servicemonitors"]), watched.clone()],
        [json!([""]), json!(["pods"]), watched],
        [json!(["events.k8s.io"]), json!(["events"]), json!(["create", "patch"])],
    ]
}

async fn grant(client: &Client, rules: &[[Value; 3]]) -> Result<()> {
    let rules: Vec<_> = rules
        .iter()
        .map(
            |[groups, resources, verbs]| json!({"apiGroups": groups, "resources": resources, "verbs": verbs}),
        )
        .collect();
    let name = "memcached-operator";
    let metadata = json!({"name": name});
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules,
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    });
    let params = PatchParams::apply("e2e-test").force();
    Api::<ClusterRole>::all(client.clone()).patch(name, &params, &Patch::Apply(role)).await?;
    Api::<ClusterRoleBinding>::all(client.clone()).patch(name, &params, &Patch::Apply(binding)).await?;
    Ok(())
}

async fn await_page(operator: &Operator, wanted: u16, words: &str) -> Result<()> {
    await_answer((&format!("/readyz says {words:?}"), SOON), async || {
        let (code, page) = operator.get("/readyz").await?;
        ensure!(code == wanted && page.contains(words), "{code}: {page}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_operator_that_may_not_see_secrets_says_so_and_goes_on_when_it_may() -> Result<()> {
    let cluster = up("rbac", Shape::ControlPlane).await?;
    let client = Client::try_from(cluster.config("e2e-test").await?)?;
    let folder = tempfile::TempDir::new()?;
    let process = Process::of(&cluster).await?.with_kubeconfig(acting_as(&cluster, USER, folder.path())?);
    grant(&client, &rules()).await?;
    in_namespace_of(&cluster, "rbac", async |space: &Space| {
        space.apply(&secret("cache", "first")?).await?;
        space.apply(&resource("cache", 0, 64)?).await?;
        let operator = process.spawn()?;
        await_page(&operator, 503, "may not list and watch secrets: grant both verbs").await?;
        await_page(&operator, 503, "[+] list of Deployment complete").await?;
        ensure!(operator.get("/livez").await?.0 == 200, "it is alive");
        let log = fs::read_to_string(operator.log())?;
        let said = log.lines().filter(|line| line.contains("may not list and watch secrets")).count();
        ensure!(said == 1, "it says so {said} times: {log}");
        let untouched = space.api::<Memcached>().get("cache").await?;
        ensure!(
            untouched.status.is_some_and(|status| status.observed_generation == -1),
            "it knows too little to act"
        );

        // Half of it: it may see that there are Secrets, but not what is in them.
        let pid = operator.pid();
        let mut all = rules();
        all.push([json!([""]), json!(["secrets"]), json!(["list", "watch"])]);
        grant(&client, &all).await?;
        await_page(&operator, 200, "[+] list of Secret complete").await?;
        let unreadable = |it: &Memcached| reason(it, "Reconciling") == Some("SecretUnreadable");
        let found =
            space.wait("cache", ("it cannot read its Secret", SOON), |it| it.is_some_and(unreadable)).await?;
        let conditions = found.and_then(|it| it.status).context("it has a status")?.conditions;
        let told = conditions.iter().any(|it| it.message.contains("lacks the verb get on secrets"));
        ensure!(told, "{conditions:?}");

        all.push([json!([""]), json!(["secrets"]), json!(["get"])]);
        grant(&client, &all).await?;
        await_ready(space, "cache").await?;
        ensure!(operator.pid() == pid, "it is the same process");
        operator.terminate().await?;
        Ok(())
    })
    .await?;
    process.replay()?;
    e2e::down(cluster.name())?;
    Ok(())
}
