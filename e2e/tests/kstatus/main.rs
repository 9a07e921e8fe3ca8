//! What deployment tools read while a Deployment or a StatefulSet passes through states that a real one passes through too fast or
//! too seldom: on an API server without controllers, where the test writes what the workload's controller would. The ordinary
//! states are in `tests/real_node`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use anyhow::{Context, Result, bail};
use e2e::testing::audit::AuditLog;
use e2e::testing::cache::{Cache, condition, install, says};
use e2e::testing::kstatus::Status;
use e2e::testing::operator::{Launch, Operator, binary};
use e2e::testing::permissions::as_installed;
use e2e::testing::release::nothing_was_forbidden_in;
use e2e::testing::status_history::StatusWatch;
use e2e::testing::{SharedFixture, Space, await_answer, in_namespace_of, unique};
use e2e::{Shape, TemporaryCluster, process};
use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use memcached_operator::api::spec::Workload;
use memcached_operator::api::{Memcached, crd};
use serde_json::{Value, json};
use tokio::sync::RwLock;

use Status::{Current, Failed, InProgress};

/// An API server of these tests' own, as they change the definition of the resource, and its operator.
struct World {
    /// First, as fields are dropped in order: it ends before its API server does.
    _operator: Operator,
    cluster: TemporaryCluster,
}

static WORLD: SharedFixture<World> = SharedFixture::new();

async fn world() -> Result<World> {
    let cluster = TemporaryCluster::up(&unique("kstatus"), Shape::ApiServer).await?;
    install(&Client::try_from(cluster.config("e2e-test/install").await?)?, &without_rules()?).await?;
    let launch = Launch {
        program: binary()?,
        kubeconfig: as_installed(&cluster).await?,
        log: cluster.folder().join("operator.log"),
        args: vec![],
        env: vec![process::mark(cluster.folder())],
    };
    Ok(World { _operator: Operator::start(&launch).await?, cluster })
}

/// The definition as it was before it had rules.
fn without_rules() -> Result<CustomResourceDefinition> {
    fn strip(value: &mut Value) {
        if let Some(fields) = value.as_object_mut() {
            fields.remove("x-kubernetes-validations");
            fields.values_mut().for_each(strip);
        } else if let Some(items) = value.as_array_mut() {
            items.iter_mut().for_each(strip);
        }
    }
    let mut definition = serde_json::to_value(crd::crd())?;
    strip(&mut definition);
    Ok(serde_json::from_value(definition)?)
}

/// A test that changes the definition ends the watches of all others, so it has the world to itself.
static DEFINITION: RwLock<()> = RwLock::const_new(());

async fn with_cache(body: impl AsyncFnOnce(&Cache<'_>) -> Result<()>) -> Result<()> {
    let world = WORLD.borrow(world).await?;
    let _unchanged = DEFINITION.read().await;
    in_space(&world, body).await
}

async fn alone_with_cache(body: impl AsyncFnOnce(&Cache<'_>) -> Result<()>) -> Result<()> {
    let world = WORLD.borrow(world).await?;
    let _changing = DEFINITION.write().await;
    in_space(&world, body).await
}

async fn in_space(world: &World, body: impl AsyncFnOnce(&Cache<'_>) -> Result<()>) -> Result<()> {
    in_namespace_of(&world.cluster, "kstatus", async |space: &Space| {
        let start = AuditLog::for_cluster(&world.cluster).mark()?;
        body(&Cache::follow(space, "cache").await?).await?;
        nothing_was_forbidden_in(space, start)
    })
    .await
}

/// The workload's counters.
#[derive(Clone, Copy)]
struct Counters {
    /// The generation that the controller saw.
    observed: i64,
    total: i32,
    updated: i32,
    ready: i32,
    available: i32,
}

/// Of two pods that all run the template of a generation.
const fn complete(observed: i64) -> Counters {
    Counters { observed, total: 2, updated: 2, ready: 2, available: 2 }
}

/// The last of two named pods was replaced at generation 2, and is not ready.
const STARTS: Counters = Counters { updated: 1, ready: 1, available: 1, ..complete(2) };

/// Sets of counters for generation 1 that each lack one thing; beside each is what the resource's status has to mirror.
const fn partial() -> [(Counters, Mirrored); 5] {
    [
        (complete(0), Mirrored { total: 2, updated: 0, ready: 2 }),
        (Counters { total: 3, ..complete(1) }, Mirrored { total: 3, updated: 2, ready: 2 }),
        (Counters { updated: 1, ..complete(1) }, Mirrored { total: 2, updated: 1, ready: 2 }),
        (Counters { ready: 1, available: 1, ..complete(1) }, Mirrored { total: 2, updated: 2, ready: 1 }),
        (Counters { available: 1, ..complete(1) }, Mirrored { total: 2, updated: 2, ready: 2 }),
    ]
}

/// The condition by which the Deployment controller says that it waited long enough.
fn deadline() -> Value {
    json!([{
        "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded",
        "message": "ReplicaSet \"cache-1\" has timed out progressing.",
    }])
}

/// Writes what the Deployment controller would.
async fn report(cache: &Cache<'_>, counters: Counters, conditions: Value) -> Result<()> {
    let Counters { observed, total, updated, ready, available } = counters;
    let status = json!({"status": {
        "observedGeneration": observed, "replicas": total, "updatedReplicas": updated, "readyReplicas": ready,
        "availableReplicas": available, "unavailableReplicas": 2 - available, "conditions": conditions,
    }});
    let deployments = cache.space.api::<Deployment>();
    deployments.patch_status(cache.name, &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}

/// The counters of a resource's status.
#[derive(Clone, Copy)]
struct Mirrored {
    total: i32,
    updated: i32,
    ready: i32,
}

/// Waits until the resource mirrors these counters: only then has the operator judged them.
async fn mirrors(cache: &Cache<'_>, mirrored: Mirrored) -> Result<Memcached> {
    let Mirrored { total, updated, ready } = mirrored;
    let wanted = format!("{total} pods, {updated} updated, {ready} ready");
    let mirrored = cache.is(&wanted, |resource| {
        let status = resource.status.as_ref().unwrap();
        (status.replicas, status.updated_replicas, status.ready_replicas) == (total, updated, ready)
    });
    mirrored.await
}

async fn generation(cache: &Cache<'_>, wanted: i64) -> Result<Deployment> {
    let generation = format!("generation {wanted}");
    cache.deployment(&generation, |it| it.metadata.generation == Some(wanted)).await
}

fn spec(max_memory: i64) -> Value {
    json!({"replicas": 2, "memcached": {"maxMemoryMB": max_memory}})
}

/// A cache that was ready once, at generation 1.
async fn ready(cache: &Cache<'_>) -> Result<()> {
    cache.apply(&spec(64)).await?;
    generation(cache, 1).await?;
    report(cache, complete(1), json!([])).await?;
    cache.ready().await.map(|_| ())
}

#[tokio::test]
async fn counters_that_are_old_or_partial_never_pass_for_a_finished_rollout() -> Result<()> {
    with_cache(async |cache| {
        cache.apply(&spec(64)).await?;
        generation(cache, 1).await?;
        for (counters, mirrored) in partial() {
            report(cache, counters, json!([])).await?;
            let resource = mirrors(cache, mirrored).await?;
            assert!(says(&resource, "False", "MemcachedNotReady"), "{resource:?}");
        }
        assert_eq!(cache.kstatus_results().await?, [InProgress]);
        report(cache, complete(1), json!([])).await?;
        cache.ready().await?;

        // The counters are those of the old template, while the controller has not seen the new one.
        cache.apply(&spec(96)).await?;
        generation(cache, 2).await?;
        mirrors(cache, Mirrored { total: 2, updated: 0, ready: 2 }).await?;
        report(cache, Counters { updated: 1, ..complete(2) }, json!([])).await?;
        mirrors(cache, Mirrored { total: 2, updated: 1, ready: 2 }).await?;
        report(cache, complete(2), json!([])).await?;
        cache.ready().await?;

        // Pods are lost and come back: no failure, and nothing rolls.
        report(cache, Counters { ready: 0, available: 0, ..complete(2) }, json!([])).await?;
        mirrors(cache, Mirrored { total: 2, updated: 2, ready: 0 }).await?;
        report(cache, complete(2), json!([])).await?;
        cache.ready().await?;

        let cycle = [InProgress, Current];
        assert_eq!(cache.kstatus_results().await?, [cycle, cycle, cycle].concat());
        Ok(())
    })
    .await
}

/// Which template the pods of a StatefulSet had, and which it has.
type Revisions = [&'static str; 2];

/// Writes what the StatefulSet controller would.
async fn report_named(cache: &Cache<'_>, counters: Counters, revisions: Revisions) -> Result<()> {
    let Counters { observed, total, updated, ready, available } = counters;
    let [current, update] = revisions;
    let of_current = if current == update { updated } else { total - updated };
    let status = json!({"status": {
        "observedGeneration": observed, "replicas": total, "updatedReplicas": updated, "readyReplicas": ready,
        "availableReplicas": available, "currentReplicas": of_current, "currentRevision": current, "updateRevision": update,
    }});
    let stateful_sets = cache.space.api::<StatefulSet>();
    stateful_sets.patch_status(cache.name, &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}

async fn named_generation(cache: &Cache<'_>, wanted: i64) -> Result<Value> {
    let is_wanted = |it: &Value| it["metadata"]["generation"] == wanted;
    cache.workload(Workload::StatefulSet, &format!("generation {wanted}"), is_wanted).await
}

fn named(max_memory: i64) -> Value {
    let mut named = spec(max_memory);
    named["workload"] = json!("StatefulSet");
    named
}

/// Makes the pods that the StatefulSet controller would, all of them ready: while one is missing, no other is replaced.
async fn pods_stand(cache: &Cache<'_>) -> Result<()> {
    let set = cache.space.api::<StatefulSet>().get(cache.name).await?;
    let owner = set.controller_owner_ref(&()).context("a StatefulSet without a uid")?;
    let template = &set.spec.as_ref().context("a StatefulSet without a spec")?.template;
    let pods = cache.space.api::<Pod>();
    for number in 0..2 {
        let name = format!("{}-{number}", cache.name);
        let mut pod: Pod =
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": template.spec}))?;
        pod.metadata.labels = template.metadata.as_ref().and_then(|metadata| metadata.labels.clone());
        pod.labels_mut().insert("controller-revision-hash".to_owned(), "old".to_owned());
        pod.owner_references_mut().push(owner.clone());
        pods.create(&PostParams::default(), &pod).await?;
        let ready =
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(ready)).await?;
    }
    Ok(())
}

/// The last of two pods has become new since this generation brought the template, and the first one follows. The partition is
/// written too: when the first pod may go, and when no further one may.
async fn rolls_out(cache: &Cache<'_>, generation: i64, revisions: Revisions) -> Result<()> {
    let [_, update] = revisions;
    report_named(cache, Counters { updated: 1, ..complete(generation) }, revisions).await?;
    for generation in [generation + 1, generation + 2] {
        named_generation(cache, generation).await?;
        mirrors(cache, Mirrored { total: 2, updated: 0, ready: 2 }).await?;
        report_named(cache, complete(generation), [update, update]).await?;
    }
    cache.ready().await.map(|_| ())
}

#[tokio::test]
async fn counters_of_named_pods_that_are_old_or_partial_never_pass_for_a_finished_rollout() -> Result<()> {
    with_cache(async |cache| {
        cache.apply(&named(64)).await?;
        named_generation(cache, 1).await?;
        pods_stand(cache).await?;
        for (counters, mirrored) in partial() {
            report_named(cache, counters, ["old", "old"]).await?;
            let resource = mirrors(cache, mirrored).await?;
            assert!(says(&resource, "False", "MemcachedNotReady"), "{resource:?}");
        }
        assert_eq!(cache.kstatus_results().await?, [InProgress]);
        report_named(cache, complete(1), ["old", "old"]).await?;
        cache.ready().await?;

        // The counters are those of the old template, while the controller has not seen the new one.
        cache.apply(&named(96)).await?;
        named_generation(cache, 2).await?;
        mirrors(cache, Mirrored { total: 2, updated: 0, ready: 2 }).await?;
        report_named(cache, STARTS, ["old", "new"]).await?;
        mirrors(cache, Mirrored { total: 2, updated: 1, ready: 1 }).await?;
        rolls_out(cache, 2, ["old", "new"]).await?;

        let cycle = [InProgress, Current];
        assert_eq!(cache.kstatus_results().await?, [cycle, cycle].concat());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_rollout_past_its_deadline_is_failed_until_another_edit() -> Result<()> {
    with_cache(async |cache| {
        ready(cache).await?;
        cache.apply(&spec(96)).await?;
        generation(cache, 2).await?;
        // A deadline of the generation before says nothing about this one.
        report(cache, Counters { ready: 1, available: 1, ..complete(1) }, deadline()).await?;
        mirrors(cache, Mirrored { total: 2, updated: 0, ready: 1 }).await?;
        assert_eq!(cache.kstatus_results().await?, [InProgress, Current, InProgress]);

        report(cache, Counters { updated: 1, ..complete(2) }, deadline()).await?;
        let failed = cache.is("it is stalled", |it| says(it, "False", "ProgressDeadlineExceeded")).await?;
        assert_eq!(condition(&failed, "Stalled").unwrap().status, "True");
        assert_eq!(cache.kstatus_results().await?, [InProgress, Current, InProgress, Failed]);

        cache.apply(&spec(32)).await?;
        generation(cache, 3).await?;
        report(cache, complete(3), json!([])).await?;
        cache.ready().await?;
        assert_eq!(
            cache.kstatus_results().await?,
            [InProgress, Current, InProgress, Failed, InProgress, Current]
        );
        Ok(())
    })
    .await
}

/// A StatefulSet knows no deadline. Ours counts from a time in the status, which is put back here as if 600 seconds had passed.
#[tokio::test]
async fn a_rollout_of_named_pods_past_our_deadline_is_failed_until_another_edit() -> Result<()> {
    with_cache(async |cache| {
        cache.apply(&named(64)).await?;
        named_generation(cache, 1).await?;
        pods_stand(cache).await?;
        report_named(cache, complete(1), ["old", "old"]).await?;
        cache.ready().await?;
        cache.apply(&named(96)).await?;
        named_generation(cache, 2).await?;
        report_named(cache, STARTS, ["old", "new"]).await?;
        let waits = mirrors(cache, Mirrored { total: 2, updated: 1, ready: 1 }).await?;
        assert_eq!(cache.kstatus_results().await?, [InProgress, Current, InProgress]);

        let since = waits.status.unwrap().progressing_since.unwrap().0;
        let earlier = Time(since - SignedDuration::from_secs(600));
        let status = Patch::Merge(json!({"status": {"progressingSince": earlier}}));
        cache.space.api::<Memcached>().patch_status(cache.name, &PatchParams::default(), &status).await?;
        let failed = cache.is("it is stalled", |it| says(it, "False", "ProgressDeadlineExceeded")).await?;
        assert_eq!(condition(&failed, "Stalled").unwrap().status, "True");
        assert_eq!(cache.kstatus_results().await?, [InProgress, Current, InProgress, Failed]);

        cache.apply(&named(32)).await?;
        named_generation(cache, 3).await?;
        rolls_out(cache, 3, ["old", "newest"]).await?;
        assert_eq!(
            cache.kstatus_results().await?,
            [InProgress, Current, InProgress, Failed, InProgress, Current]
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_object_in_the_way_is_failed_until_it_goes() -> Result<()> {
    with_cache(async |cache| {
        let labels = json!({"app": "somebody-elses"});
        let foreign: Deployment = serde_json::from_value(json!({
            "metadata": {"name": cache.name},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "memcached", "image": "memcached:1.6"}]},
                },
            },
        }))?;
        cache.space.apply(&foreign).await?;
        report(cache, complete(1), json!([])).await?;
        cache.apply(&spec(64)).await?;
        cache.is("it is stalled", |it| says(it, "False", "NameConflict")).await?;
        assert_eq!(cache.kstatus_results().await?, [InProgress, Failed]);

        cache.space.api::<Deployment>().delete(cache.name, &DeleteParams::default()).await?;
        cache.deployment("it is ours", |it| it.metadata.owner_references.is_some()).await?;
        // No edit tells that something begins. So the operator has to have said it before all is complete.
        cache.is("it goes on", |it| !says(it, "False", "NameConflict")).await?;
        report(cache, complete(1), json!([])).await?;
        cache.ready().await?;
        assert_eq!(cache.kstatus_results().await?, [InProgress, Failed, InProgress, Current]);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_invalid_spec_is_failed_until_it_is_repaired() -> Result<()> {
    alone_with_cache(async |cache| {
        let invalid = json!({"replicas": 2, "memcached": {"maxItemSize": "33m"}});
        cache.apply(&invalid).await?;
        let failed = cache.is("it is stalled", |it| says(it, "False", "InvalidSpec")).await?;
        let message = &condition(&failed, "Ready").unwrap().message;
        assert!(message.contains("maxItemSize"), "{message}");
        assert_eq!(cache.kstatus_results().await?, [InProgress, Failed]);

        cache.apply(&spec(64)).await?;
        generation(cache, 1).await?;
        report(cache, complete(1), json!([])).await?;
        cache.ready().await?;
        assert_eq!(cache.kstatus_results().await?, [InProgress, Failed, InProgress, Current]);

        // This mistake in a cache that runs: its pods stay as they are. Rules that come later change nothing.
        cache.apply(&invalid).await?;
        cache.is("it is stalled", |it| says(it, "False", "InvalidSpec")).await?;
        let until_then = [InProgress, Failed, InProgress, Current, InProgress, Failed];
        assert_eq!(cache.kstatus_results().await?, until_then);
        rules_come(cache, &invalid).await?;
        let watch = StatusWatch::follow(&cache.space.client(), cache.space.name(), cache.name).await?;
        cache.apply(&spec(64)).await?;
        cache.ready().await?;
        generation(cache, 1).await?;
        let history = watch.history().await?;
        let judged = history.judge()?;
        // The first version is from before the rules, so no tool takes it for a beginning.
        assert_eq!(history.lies(&judged[1..]), Vec::<String>::new());
        let mut results: Vec<_> = judged.into_iter().map(|it| it.result.status).collect();
        results.dedup();
        assert_eq!(results, [Failed, InProgress, Current]);
        Ok(())
    })
    .await
}

/// Gives the definition its rules, and waits until the API server goes by them: it ends the watches of before then.
async fn rules_come(cache: &Cache<'_>, invalid: &Value) -> Result<()> {
    install(&cache.space.client(), &crd::crd()).await?;
    let resources = cache.space.api::<Memcached>();
    let mut another = resources.get(cache.name).await?;
    another.metadata = ObjectMeta { name: Some("another".to_owned()), ..ObjectMeta::default() };
    another.spec = serde_json::from_value(invalid.clone())?;
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    await_answer("the rules hold", async || match resources.create(&dry_run, &another).await {
        Err(kube::Error::Api(status)) if status.code == 422 => Ok(()),
        other => bail!("the API server says {other:?}"),
    })
    .await
}
