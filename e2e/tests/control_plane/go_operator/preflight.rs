//! What `preflight` says of a cluster in which the Go operator worked, and what the steps on the page do about it.

use std::env;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::programs::Family;
use e2e::testing::Space;
use e2e::testing::kubelet::Kubelet;
use e2e::testing::operator::binary;
use e2e::testing::release;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use serde_json::json;
use tempfile::TempDir;

use super::{EVERYTHING, in_space};
use crate::support::go_operator::{self, NAME};

/// What `preflight` prints of a space, and its exit code.
fn preflight(space: &Space) -> Result<(String, Option<i32>)> {
    let folder = TempDir::new()?;
    let mut command = Command::new(binary()?);
    command.args(["preflight", "--namespace", space.name(), "--kubeconfig"]);
    let output = command.arg(release::kubeconfig(space, folder.path())?).output()?;
    Ok((String::from_utf8(output.stdout)? + &String::from_utf8(output.stderr)?, output.status.code()))
}

/// Types the commands of a step on the page; gives what is printed. Each of the first steps has one block.
fn step(space: &Space, number: usize) -> Result<String> {
    let page = include_str!("../../../../docs/changing-over.md");
    let steps = page.split("## The steps").nth(1).context("the steps")?;
    let block = steps.split("```").skip(1).step_by(2).nth(number - 1);
    let block = block.and_then(|it| it.strip_prefix("sh\n")).context("a block")?;
    let folder = TempDir::new()?;
    let kubectl = Family::Kubernetes.build()?;
    let program = binary()?;
    let usual = env::var_os("PATH").unwrap_or_default();
    let folders = [kubectl.as_path(), program.parent().context("a program is in a folder")?];
    let path = env::join_paths(folders.into_iter().map(Path::to_owned).chain(env::split_paths(&usual)))?;
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-euc", block])
        .env("PATH", path)
        .env("KUBECONFIG", release::kubeconfig(space, folder.path())?)
        .env("KUBECACHEDIR", folder.path().join("cache"));
    // Other tests have namespaces in this cluster too.
    let output = shell.env("MEMCACHED_OPERATOR_NAMESPACE", space.name()).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

#[tokio::test]
async fn the_preflight_names_the_go_operator_and_every_cache_that_would_roll() -> Result<()> {
    in_space("preflight", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        go_operator::leave_behind(space, EVERYTHING).await?;
        let theirs = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "theirs"},
            "spec": {
                "selector": {"matchLabels": {"app": "theirs"}},
                "template": {
                    "metadata": {"labels": {"app": "theirs"}},
                    "spec": {"containers": [{"name": "manager", "image": "mirror.example/memcached-operator:0.4.0"}]},
                },
            },
        });
        space.apply::<Deployment>(&serde_json::from_value(theirs)?).await?;
        let name = space.name();
        let line = format!("do   Deployment {name}/theirs: runs the Go operator (mirror.example/memcached-operator:0.4.0)");
        let (said, code) = preflight(space)?;
        ensure!(code == Some(0) && said.contains(&line), "{code:?} {said}");
        ensure!(said.contains("Memcacheds looked at: 1. The change is safe once"), "{said}");
        let typed = step(space, 1)?;
        ensure!(typed.contains("scale deployment theirs --replicas=0"), "{typed}");
        let stopped = space.api::<Deployment>().get("theirs").await?.spec.and_then(|spec| spec.replicas);
        ensure!(stopped == Some(0), "{stopped:?}");

        // A Secret that changed while no operator looked.
        space.apply(&go_operator::secret(Some("user:another\n"))?).await?;
        let (said, code) = preflight(space)?;
        let rolls = format!("!    Memcached {name}/{NAME}: its pods would be replaced, cause secret");
        ensure!(code == Some(1) && said.contains(&rolls), "{code:?} {said}");
        Ok(())
    })
    .await
}

/// Both kinds of webhooks. They belong to the whole cluster: only those of this test have the label that the page names.
fn webhooks(space: &Space) -> [(&'static str, Api<DynamicObject>); 2] {
    ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"].map(|kind| {
        let resource =
            ApiResource::from_gvk(&GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind));
        (kind, Api::all_with(space.client(), &resource))
    })
}

/// Webhooks like the Go operator's. No namespace has their label: no other test meets them.
async fn leave_webhooks(space: &Space) -> Result<()> {
    for (kind, api) in webhooks(space) {
        let object = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": space.name(), "labels": {"app.kubernetes.io/name": "memcached-operator"}},
            "webhooks": [{
                "name": "memcached.webhook.test",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Ignore",
                "clientConfig": {"url": "https://127.0.0.1:9443/"},
                "namespaceSelector": {"matchLabels": {"e2e": "nobody"}},
                "rules": [{
                    "apiGroups": ["memcached.c5c3.io"], "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE"], "resources": ["memcacheds"],
                }],
            }],
        });
        api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    }
    Ok(())
}

/// Where they are gone already, there is nothing to do.
async fn remove_webhooks(space: &Space) -> Result<()> {
    for (_, api) in webhooks(space) {
        match api.delete(space.name(), &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            answer => answer.map(|_| ())?,
        }
    }
    Ok(())
}

async fn webhooks_are_named_and_taken_away(space: &Space) -> Result<()> {
    leave_webhooks(space).await?;
    let line = |kind: &str| format!("do   {kind} {}: nobody answers it", space.name());
    let (said, code) = preflight(space)?;
    ensure!(code == Some(0), "{code:?} {said}");
    for (kind, _) in webhooks(space) {
        ensure!(said.contains(&line(kind)), "{kind}: {said}");
    }
    step(space, 2)?;
    let (said, code) = preflight(space)?;
    ensure!(code == Some(0), "{code:?} {said}");
    for (kind, api) in webhooks(space) {
        ensure!(api.get_opt(space.name()).await?.is_none(), "{kind} is left");
        ensure!(!said.contains(&line(kind)), "{kind}: {said}");
    }
    Ok(())
}

#[tokio::test]
async fn the_preflight_names_the_go_operators_webhooks_and_the_second_step_takes_them_away() -> Result<()> {
    in_space("webhooks", async |space: &Space| {
        let outcome = webhooks_are_named_and_taken_away(space).await;
        outcome.and(remove_webhooks(space).await)
    })
    .await
}
