//! An operator that may not do everything it needs: it says what is missing, and goes on when that is granted.

use std::fs;

use anyhow::{Context, Result, ensure};
use e2e::Shape;
use e2e::chart::RELEASE;
use e2e::testing::control_plane::{await_ready, reason, resource, secret, up};
use e2e::testing::rights::{Right, acting_as, grant, granted};
use e2e::testing::{Space, in_namespace_of};
use kube::Client;
use memcached_operator::api::Memcached;
use serde_json::json;

use crate::support::process::Process;

const USER: &str = "system:serviceaccount:ops:memcached-operator";

#[tokio::test]
async fn an_operator_that_may_not_see_secrets_says_so_and_goes_on_when_it_may() -> Result<()> {
    let cluster = up("rbac", Shape::Controllers).await?;
    let client = Client::try_from(cluster.config("e2e-test").await?)?;
    let folder = tempfile::TempDir::new()?;
    let process =
        Process::for_cluster(&cluster).await?.with_kubeconfig(acting_as(&cluster, USER, folder.path())?);
    let all = granted(RELEASE, &json!({}))?;
    let without = |verbs: &[&str]| {
        let is_left_out = |right: &Right| right.resource == "secrets" && verbs.contains(&right.verb.as_str());
        all.iter().filter(move |right| !is_left_out(right)).cloned().collect::<Vec<_>>()
    };
    grant(&client, None, USER, &without(&["list", "watch", "get"])).await?;
    in_namespace_of(&cluster, "rbac", async |space: &Space| {
        space.apply(&secret("cache", "first")?).await?;
        space.apply(&resource("cache", 0, 64)?).await?;
        let operator = process.spawn()?;
        operator.await_readyz(503, "may not list and watch secrets: grant both verbs").await?;
        operator.await_readyz(503, "[+] list of Deployment complete").await?;
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
        grant(&client, None, USER, &without(&["get"])).await?;
        operator.await_readyz(200, "[+] list of Secret complete").await?;
        let unreadable = |it: &Memcached| reason(it, "Reconciling") == Some("SecretUnreadable");
        let found = space.wait("cache", "it cannot read its Secret", |it| it.is_some_and(unreadable)).await?;
        let conditions = found.and_then(|it| it.status).context("it has a status")?.conditions;
        let told = conditions.iter().any(|it| it.message.contains("lacks the verb get on secrets"));
        ensure!(told, "{conditions:?}");

        grant(&client, None, USER, &all).await?;
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
