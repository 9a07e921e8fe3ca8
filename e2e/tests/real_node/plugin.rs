//! kubectl's plugin in the hands of users who have the chart's roles and nothing else: one may view caches everywhere, one may
//! edit them in the namespace.

use anyhow::{Context, Result, ensure};
use e2e::testing::await_answer;
use e2e::testing::cache::Cache;
use e2e::testing::plugin::Plugin;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use super::with_cache;

/// The chart's roles for users.
const VIEW: &str = "memcached-operator-view";
const EDIT: &str = "memcached-operator-edit";

/// A binding of one of these roles to a user.
fn binding<B: serde::de::DeserializeOwned>(role: &str, user: &str, name: &str) -> Result<B> {
    let group = "rbac.authorization.k8s.io";
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }))?)
}

/// Whoever may edit the caches of the namespace.
async fn editor(cache: &Cache<'_>) -> Result<Plugin> {
    let user = format!("editor-of-{}", cache.space.name());
    for role in [VIEW, EDIT] {
        let bindings = cache.space.api::<RoleBinding>();
        bindings.create(&PostParams::default(), &binding(role, &user, role)?).await?;
    }
    let plugin = Plugin::for_user(cache.space, &user)?;
    // The API server learns of a binding a moment later.
    await_answer("the editor may see the cache", async || plugin.mcd("status").await).await?;
    Ok(plugin)
}

/// Runs `body` as somebody who may view the caches of all namespaces.
async fn as_viewer(cache: &Cache<'_>, body: impl AsyncFnOnce(Plugin) -> Result<()>) -> Result<()> {
    let user = format!("viewer-of-{}", cache.space.name());
    let bindings: Api<ClusterRoleBinding> = Api::all(cache.space.client());
    bindings.create(&PostParams::default(), &binding(VIEW, &user, &user)?).await?;
    let outcome = async {
        let plugin = Plugin::for_user(cache.space, &user)?;
        await_answer("the viewer may see all caches", async || plugin.mcd("status -A").await).await?;
        body(plugin).await
    }
    .await;
    bindings.delete(&user, &DeleteParams::default()).await?;
    outcome
}

fn only<'a>(list: &'a Value, what: &str) -> Result<&'a Value> {
    match list.as_array().map(Vec::as_slice) {
        Some([one]) => Ok(one),
        _ => anyhow::bail!("not one of {what}: {list}"),
    }
}

/// What the plugin prints once the only pod has answered it: it gives up on a pod after some seconds, and says so.
async fn with_figures(editor: &Plugin, arguments: &str) -> Result<Value> {
    await_answer("the pod tells its figures", async || {
        let printed = editor.json(arguments).await?;
        ensure!(only(&printed["pods"], "the pods")?["figures"]["items"].is_number(), "{printed}");
        Ok(printed)
    })
    .await
}

/// What an editor sees and does, from the first look to a rollout.
async fn sees_and_changes(editor: &Plugin, cache: &Cache<'_>) -> Result<()> {
    let name = cache.name;
    cache.connect().await?.set("kept", b"until the restart").await?;
    let status = with_figures(editor, &format!("status {name}")).await?;
    let pod = only(&status["pods"], "the pods")?;
    let told = [&status["health"], &pod["state"], &pod["template"], &pod["figures"]["items"]];
    assert_eq!(told, [&json!("Ready"), &json!("ready"), &json!("current"), &json!(1.0)], "{status}");
    assert_eq!(status["running"]["image"], "memcached:1.6");

    let top = await_answer("top looks at the pod twice", async || {
        let top = with_figures(editor, "top").await?;
        ensure!(only(&top["pods"], "the pods")?["readsPerSecond"].is_number(), "{top}");
        Ok(top)
    })
    .await?;
    let row = only(&top["pods"], "the pods")?;
    assert_eq!([&row["cache"], &row["figures"]["items"]], [&json!(name), &json!(1.0)], "{top}");

    let plan = editor.json("plan").await?;
    assert_eq!(plan["resources"], json!([]), "nothing would change, and the roles let one see that: {plan}");
    assert_eq!(plan["summary"]["resources"], 1, "the namespace is that of the context: {plan}");

    editor.mcd(&format!("pause {name}")).await?;
    cache.is("it is paused", |it| e2e::testing::cache::condition(it, "Paused").is_some()).await?;
    let status = editor.mcd(&format!("status {name}")).await?;
    assert!(
        status.contains(&format!("/{name}: Paused, ")) && status.contains("wait until spec.paused is false"),
        "{status}"
    );
    editor.mcd(&format!("resume {name}")).await?;
    let resumed = cache.ready().await?;
    assert_eq!(resumed.spec.paused, None, "the resource is as it was before");

    let before = cache.only_pod().await?;
    let said = editor.mcd(&format!("restart {name}")).await?;
    assert!(said.contains("Each new pod begins empty"), "{said}");
    await_another_pod(cache, &before).await?;
    let status = with_figures(editor, &format!("status {name}")).await?;
    let rollout = only(&status["rollouts"], "the rollouts")?;
    assert!(rollout["message"].as_str().context("a message")?.contains("cause restart_trigger"), "{status}");
    assert_eq!(only(&status["pods"], "the pods")?["figures"]["items"], json!(0.0), "it begins empty");
    let events = editor.mcd(&format!("events {name}")).await?;
    for said in ["RolloutStarted", &format!("Deployment/{name}"), &format!("Pod/{name}-")] {
        assert!(events.contains(said), "{said} in {events}");
    }
    let refused = editor.refusal("status -A").await?;
    assert!(refused.contains("403") && refused.contains("memcacheds"), "{refused}");
    let refused = editor.refusal("plan -A").await?;
    let hint = "; --namespace NAME looks at one namespace, or at several with commas between";
    assert!(refused.contains(hint), "{refused}");
    Ok(())
}

/// Waits until the pod is another one than before, and serves.
async fn await_another_pod(cache: &Cache<'_>, before: &str) -> Result<()> {
    await_answer("the pod is another one", async || {
        let pod = cache.only_pod().await?;
        ensure!(pod != before, "it is the same");
        Ok(())
    })
    .await?;
    cache.ready().await.map(|_| ())
}

/// What somebody sees who may change nothing, and forward no port.
async fn only_sees(viewer: &Plugin, cache: &Cache<'_>) -> Result<()> {
    let name = cache.name;
    let all = viewer.json("status -A").await?;
    let own = |it: &&Value| it["namespace"] == json!(cache.space.name());
    let rows: Vec<_> = all["caches"].as_array().context("a list")?.iter().filter(own).collect();
    assert_eq!([&rows[0]["name"], &rows[0]["health"]], [&json!(name), &json!("Ready")], "{all}");

    let status = viewer.mcd(&format!("status {name}")).await?;
    assert!(status.contains("you may not forward ports to pods here"), "{status}");
    let status = viewer.json(&format!("status {name}")).await?;
    assert_eq!(only(&status["pods"], "the pods")?["template"], "current", "{status}");
    for change in ["restart", "pause"] {
        let refused = viewer.refusal(&format!("{change} {name}")).await?;
        assert!(refused.contains("403") && refused.contains("cannot patch"), "{refused}");
    }
    let absent = viewer.refusal("status absent").await?;
    assert!(absent.contains("there is no Memcached absent"), "{absent}");

    let completed = viewer.kubectl("__complete mcd status plug").await?;
    let completed = String::from_utf8(completed.stdout)?;
    assert!(completed.lines().any(|line| line == name) && completed.contains(":4"), "{completed}");
    Ok(())
}

/// What an editor sees and does when the pods have names.
async fn sees_named_pods(editor: &Plugin, cache: &Cache<'_>) -> Result<()> {
    let (name, pod_name) = (cache.name, format!("{}-0", cache.name));
    cache.apply(&json!({"replicas": 1, "workload": "StatefulSet"})).await?;
    cache.ready().await?;
    cache.space.wait::<Deployment>(name, "it is gone", |it| it.is_none()).await?;
    let before = cache.only_pod().await?;
    let status = editor.json(&format!("status {name}")).await?;
    let pod = only(&status["pods"], "the pods")?;
    let told = [&status["health"], &pod["name"], &pod["state"], &pod["template"]];
    assert_eq!(told, [&json!("Ready"), &json!(pod_name), &json!("ready"), &json!("current")], "{status}");
    assert_eq!(editor.json("plan").await?["resources"], json!([]), "nothing would change");

    editor.mcd(&format!("restart {name}")).await?;
    await_another_pod(cache, &before).await?;
    let status = editor.json(&format!("status {name}")).await?;
    assert_eq!(only(&status["pods"], "the pods")?["name"], json!(pod_name), "its name stays: {status}");
    let events = editor.mcd(&format!("events {name}")).await?;
    let told = ["WorkloadSwitched", "the cache begins empty"];
    for said in told.into_iter().chain([&*format!("StatefulSet/{name}"), &format!("Pod/{pod_name}")]) {
        assert!(events.contains(said), "{said} in {events}");
    }
    Ok(())
}

#[tokio::test]
async fn the_charts_roles_for_users_are_enough_for_the_plugin() -> Result<()> {
    with_cache("plugin", async |cache| {
        cache.apply(&json!({"replicas": 1})).await?;
        cache.ready().await?;
        let editor = editor(cache).await?;
        sees_and_changes(&editor, cache).await?;
        as_viewer(cache, async |viewer| only_sees(&viewer, cache).await).await?;
        sees_named_pods(&editor, cache).await?;
        cache.kstatus_results().await.map(|_| ())
    })
    .await
}
