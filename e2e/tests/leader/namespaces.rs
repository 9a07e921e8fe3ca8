//! An operator with a Role in each of two namespaces: it works in both and touches nothing elsewhere. Removing one Role and
//! giving it back does not affect the other namespace.

use std::fs;

use anyhow::{Context, Result, ensure};
use e2e::chart::RELEASE;
use e2e::testing::cache::says;
use e2e::testing::operator::{Launch, Operator, binary};
use e2e::testing::rights::grant;
use e2e::testing::{Space, audit::AuditLog, await_answer};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::Api;
use kube::api::DeleteParams;
use memcached_operator::api::Memcached;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::in_space;
use crate::permissions::of_the_chart;
use e2e::testing::arena::resource;

const GOES: &str = "the namespace is being deleted: nothing more is made in it, for 1 Memcached(s)";
const USER: &str = "operator-of-two-namespaces";

fn launch(spaces: [&Space; 2], folder: &TempDir) -> Result<Launch> {
    let [one, other] = spaces.map(Space::name);
    let mut config: Value = serde_json::from_slice(&fs::read(spaces[0].cluster().kubeconfig())?)?;
    config["users"][0]["user"]["as"] = json!(USER);
    let (kubeconfig, log) = (folder.path().join("kubeconfig"), folder.path().join("log"));
    fs::write(&kubeconfig, config.to_string())?;
    let namespaces = format!("{one},{other},").into();
    let env = vec![("MEMCACHED_OPERATOR_WATCH_NAMESPACES".into(), namespaces)];
    Ok(Launch { program: binary()?, kubeconfig, log, args: vec!["--log-format=text".into()], env })
}

/// Waits until the Deployment of this resource has so much memory in its arguments.
pub(crate) async fn await_memory(space: &Space, memory: &str) -> Result<()> {
    let has =
        |it: &Deployment| serde_json::to_string(it).is_ok_and(|text| text.contains(&format!("\"{memory}\"")));
    let wanted = format!("its memcached gets -m {memory}");
    space.wait::<Deployment>("cache", &wanted, |it| it.is_some_and(has)).await?;
    Ok(())
}

async fn untouched(space: &Space) -> Result<()> {
    let resource = space.api::<Memcached>().get("cache").await?;
    let status = resource.status.context("it has a default status")?;
    ensure!(status.observed_generation == -1 && status.conditions.is_empty(), "{status:?}");
    let deployment = space.api::<Deployment>().get_opt("cache").await?;
    ensure!(deployment.is_none(), "{deployment:?}");
    Ok(())
}

/// Deletes the namespace. Nothing ends that here: no controller of namespaces runs.
async fn one_line_tells_that_it_goes(space: &Space, folder: &TempDir) -> Result<()> {
    let (client, name) = (space.client(), space.name());
    Api::<Namespace>::all(client).delete(name, &DeleteParams::default()).await?;
    let lines = || -> Result<Vec<String>> {
        let log = fs::read_to_string(folder.path().join("log"))?;
        let is_about = |line: &&str| {
            line.contains(&format!("namespace={name}")) || line.contains(&format!("namespace=\"{name}\""))
        };
        Ok(log.lines().filter(is_about).map(str::to_owned).collect())
    };
    let before = lines()?.len();
    // Each is made again, which is refused.
    space.api::<Service>().delete("cache", &DeleteParams::default()).await?;
    space.api::<Deployment>().delete("cache", &DeleteParams::default()).await?;
    let status = "it says why";
    let is_told = |it: &Memcached| says(it, "False", "MemcachedNotReady");
    space.wait::<Memcached>("cache", status, |it| it.is_some_and(is_told)).await?;
    let told = await_answer("the log tells", async || {
        let told = lines()?.split_off(before);
        ensure!(told.iter().any(|line| line.contains(GOES)), "{told:#?}");
        Ok(told)
    })
    .await?;
    let of_it = told.iter().filter(|line| line.contains(GOES)).count();
    let loud = told.iter().find(|line| line.contains("WARN") || line.contains("ERROR"));
    ensure!(of_it == 1 && loud.is_none(), "{told:#?}");
    Ok(())
}

async fn in_three(one: &Space, other: &Space, third: &Space) -> Result<()> {
    let (log, folder) = (AuditLog::for_cluster(one.cluster()), TempDir::new()?);
    let mark = log.mark()?;
    let (client, rights) = (one.client(), of_the_chart()?);
    for space in [one, other, third] {
        space.apply(&resource("cache", 71)?).await?;
    }
    grant(&client, Some(one.name()), USER, &rights).await?;
    let operator = Operator::spawn(&launch([one, other], &folder)?)?;

    // One namespace has no Role yet: it is said, and does not keep the other waiting.
    let missing =
        format!("[-] list of Deployment in namespace {} complete: may not list and watch", other.name());
    operator.await_readyz(503, &missing).await?;
    operator
        .await_readyz(503, &format!("[+] list of Deployment in namespace {} complete\n", one.name()))
        .await?;
    await_memory(one, "71").await?;
    untouched(other).await?;
    grant(&client, Some(other.name()), USER, &rights).await?;
    operator.await_readyz(200, "").await?;
    await_memory(other, "71").await?;

    // It goes, which leaves the other as it was, and comes back.
    other.api::<RoleBinding>().delete(RELEASE, &DeleteParams::default()).await?;
    // A watch that was allowed goes on until the API server ends it; what tells at once is a write.
    other.apply(&resource("cache", 72)?).await?;
    one.apply(&resource("cache", 72)?).await?;
    await_memory(one, "72").await?;
    grant(&client, Some(other.name()), USER, &rights).await?;
    await_memory(other, "72").await?;

    untouched(third).await?;
    one_line_tells_that_it_goes(other, &folder).await?;
    one.apply(&resource("cache", 73)?).await?;
    await_memory(one, "73").await?;
    operator.terminate().await?;
    let requests = log.since(mark)?;
    let ours: Vec<_> = requests.into_iter().filter(|request| request.user == USER).collect();
    ensure!(!ours.is_empty(), "the audit log knows it");
    // Everybody may ask for the API server's version, which is in no namespace.
    for request in ours.iter().filter(|it| it.resource != "/version") {
        ensure!([one.name(), other.name()].contains(&request.namespace.as_str()), "{request:?}");
    }
    Ok(())
}

pub(crate) async fn an_operator_with_roles_in_two_namespaces_works_in_both_and_nowhere_else() -> Result<()> {
    in_space("one", async |one| {
        in_space("other", async |other| {
            in_space("third", async |third| Box::pin(in_three(one, other, third)).await).await
        })
        .await
    })
    .await
}
