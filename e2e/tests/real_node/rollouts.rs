//! Rollouts without a new generation of the resource: each cause replaces the pods exactly once, and nothing else does,
//! whichever workload runs them.

use anyhow::{Context, Result, ensure};
use e2e::testing::kstatus::Status;
use e2e::testing::plugin::Plugin;
use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use memcached_operator::api::RESTART_TRIGGER;
use memcached_operator::api::spec::Workload;
use memcached_operator::kernel::desired::meta::SECRET_HASH;
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};

use super::{with_each_workload, with_workload};
use e2e::testing::cache::{Cache, condition, says};

fn with_password_of(secret: &str) -> Value {
    json!({"security": {"sasl": {"enabled": true, "credentialsSecretRef": {"name": secret}}}})
}

/// The generation of a workload, which counts the writes of its spec.
fn generation(workload: &Value) -> Option<i64> {
    workload["metadata"]["generation"].as_i64()
}

/// An annotation of a workload's pod template.
fn annotation<'a>(workload: &'a Value, name: &str) -> Option<&'a str> {
    workload["spec"]["template"]["metadata"]["annotations"][name].as_str()
}

/// How often a rollout of one pod writes the workload's spec. With its new template a StatefulSet gets the partition that lets
/// the pod go; once the pod is new, another write holds all pods again.
const fn writes(kind: Workload) -> i64 {
    match kind {
        Workload::Deployment => 1,
        Workload::StatefulSet => 2,
    }
}

/// Waits until the resource is ready with another pod template; `since` is the generation that the workload had.
async fn rolled_once(cache: &Cache<'_>, kind: Workload, since: i64) -> Result<()> {
    cache.workload(kind, "it is changed", |it| generation(it) > Some(since)).await?;
    cache.ready().await?;
    let rolled = cache.workload(kind, "it is there", |_| true).await?;
    let history = cache.history().await?;
    assert_eq!((generation(&rolled), history.templates()), (Some(since + writes(kind)), 2));
    assert_eq!(cache.template_records().await?, 2);
    // Ready goes away before the pods roll, and comes back once.
    let cycle = [Status::InProgress, Status::Current];
    assert_eq!(history.kstatus_results()?, [cycle, cycle].concat());
    Ok(())
}

/// Creates a cache and waits for it; gives its workload's generation.
async fn ready(cache: &Cache<'_>, kind: Workload, spec: Value) -> Result<i64> {
    cache.apply(&with_workload(kind, spec)).await?;
    cache.ready().await?;
    let workload = cache.workload(kind, "it is there", |_| true).await?;
    generation(&workload).context("it has a generation")
}

#[tokio::test]
async fn new_content_of_a_secret_rolls_once_and_the_new_password_works() -> Result<()> {
    with_each_workload("rotation", async |cache, kind| {
        cache.password("users", "ann:old").await?;
        let before = ready(cache, kind, with_password_of("users")).await?;
        cache.connect().await?.authenticate("ann", "old").await?;

        cache.password("users", "ann:new").await?;
        rolled_once(cache, kind, before).await?;

        cache.connect().await?.authenticate("ann", "new").await?;
        assert!(cache.connect().await?.authenticate("ann", "old").await.is_err());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_secret_that_goes_and_comes_back_unchanged_rolls_nothing() -> Result<()> {
    with_each_workload("restored", async |cache, kind| {
        cache.password("users", "ann:same").await?;
        let before = ready(cache, kind, with_password_of("users")).await?;
        let pod = cache.only_pod().await?;

        cache.space.api::<Secret>().delete("users", &DeleteParams::default()).await?;
        let missing =
            cache.is("says that the Secret is missing", |it| says(it, "False", "SecretNotFound")).await?;
        let message = "Referenced Secrets not found: users";
        for of in ["Ready", "Degraded"] {
            assert_eq!(condition(&missing, of).map(|it| it.message.as_str()), Some(message), "{of}");
        }
        cache.password("users", "ann:same").await?;
        cache.ready().await?;

        cache.connect().await?.authenticate("ann", "same").await?;
        let workload = cache.workload(kind, "it is there", |_| true).await?;
        assert_eq!(generation(&workload), Some(before));
        assert!(annotation(&workload, SECRET_HASH).is_some());
        assert_eq!(cache.only_pod().await?, pod);
        assert_eq!((cache.history().await?.templates(), cache.template_records().await?), (1, 1));
        let cycle = [Status::InProgress, Status::Current];
        assert_eq!(cache.kstatus_results().await?, [cycle, cycle].concat());
        Ok(())
    })
    .await
}

/// kubectl takes the template, and the annotations of the workload, from what Kubernetes keeps of earlier ones. The operator's record
/// of what it applied goes back with them.
#[tokio::test]
async fn a_rollout_that_kubectl_undoes_is_done_again_and_a_stateful_set_loses_no_pod() -> Result<()> {
    with_each_workload("undone", async |cache, kind| {
        ready(cache, kind, json!({"memcached": {"threads": 1}})).await?;
        let edited = ready(cache, kind, json!({"memcached": {"threads": 2}})).await?;
        let pod = cache.only_pod().await?;

        let workload = format!("{}/{}", ChildKind::from(kind).name().to_lowercase(), cache.name);
        let undone =
            Plugin::for_administrator(cache.space)?.kubectl(&format!("rollout undo {workload}")).await?;
        ensure!(undone.status.success(), "{}", String::from_utf8_lossy(&undone.stderr));
        let threads = |it: &Value| it["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
        cache
            .workload(kind, "the operator's template is back", |it| {
                generation(it) > Some(edited + 1) && threads(it).contains("\"-t\",\"2\"")
            })
            .await?;
        cache
            .workload(kind, "its controller has seen that", |it| {
                it["status"]["observedGeneration"] == it["metadata"]["generation"]
                    && it["status"]["updatedReplicas"] == 1
            })
            .await?;
        cache.ready().await?;
        assert_eq!(cache.template_records().await?, 2);
        let is_kept = cache.only_pod().await? == pod;
        println!("{workload} keeps its pod: {is_kept}");
        // A Deployment may have made a pod of the template of before, and so another one afterwards.
        assert!(is_kept || kind == Workload::Deployment);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_restart_trigger_rolls_once() -> Result<()> {
    with_each_workload("trigger", async |cache, kind| {
        let before = ready(cache, kind, json!({})).await?;
        let pod = cache.only_pod().await?;

        cache.trigger("today").await?;
        rolled_once(cache, kind, before).await?;

        let workload = cache.workload(kind, "it is there", |_| true).await?;
        assert_eq!(annotation(&workload, RESTART_TRIGGER), Some("today"));
        assert_ne!(cache.only_pod().await?, pod);
        Ok(())
    })
    .await
}
