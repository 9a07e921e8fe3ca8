//! Caches whose pods have names: what a client finds under each name when a pod dies, when all are replaced, when an image is
//! wrong, when a living cache changes from one workload to the other, and when the cache's own name is as long as it may be.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, ensure};
use e2e::testing::await_answer;
use e2e::testing::cache::{Cache, condition};
use e2e::testing::memcached::Memcached as Client;
use e2e::testing::serving::Serving;
use e2e::testing::status_history::Version;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::DeleteParams;
use memcached_operator::api::Memcached;
use memcached_operator::kernel::desired::partition::KEEPS_ALL;
use memcached_operator::kernel::live::PARTITION;
use serde_json::{Value, json};

use super::with_cache;

/// Nobody listens there, in the node's own network: the pull fails at once, and no packet leaves.
const NO_IMAGE: &str = "127.0.0.1:1/memcached:none";
/// Characters of a name at most.
const NAME_LENGTH: usize = 52;

fn named(replicas: usize, more: &Value) -> Value {
    let mut spec = json!({"workload": "StatefulSet", "replicas": replicas});
    json_patch::merge(&mut spec, more);
    spec
}

/// Connects to the pod of this number, once it is ready.
async fn connect(cache: &Cache<'_>, number: usize) -> Result<Client> {
    let name = format!("{}-{number}", cache.name);
    let address = await_answer("the pod is ready", async || {
        let pod = cache.space.api::<Pod>().get(&name).await?;
        let status = pod.status.context("it has a status")?;
        let ready = status.conditions.iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True");
        ensure!(ready && pod.metadata.deletion_timestamp.is_none(), "it does not serve");
        Ok(status.pod_ip.context("it has an address")?.parse::<IpAddr>()?)
    });
    Client::connect(SocketAddr::new(address.await?, 11211)).await
}

/// Stores a key of its own in each pod.
async fn fill(cache: &Cache<'_>, replicas: usize) -> Result<()> {
    for number in 0..replicas {
        connect(cache, number).await?.set("number", number.to_string().as_bytes()).await?;
    }
    Ok(())
}

/// Which of the pods hold what was stored in them.
async fn filled(cache: &Cache<'_>, replicas: usize) -> Result<Vec<usize>> {
    let mut filled = Vec::new();
    for number in 0..replicas {
        let found = connect(cache, number).await?.get("number").await?;
        filled.extend(found.filter(|value| *value == number.to_string().into_bytes()).map(|_| number));
    }
    Ok(filled)
}

/// Under which names clients find the pods.
pub(crate) fn names(cache: &Cache<'_>, replicas: usize) -> Vec<String> {
    let (name, namespace) = (cache.name, cache.space.name());
    (0..replicas).map(|number| format!("{name}-{number}.{name}.{namespace}.svc:11211")).collect()
}

/// The list for clients, which the status and the ConfigMap have alike.
pub(crate) async fn servers(cache: &Cache<'_>, resource: &Memcached) -> Result<Vec<String>> {
    let status = resource.status.clone().context("it has a status")?;
    let config = cache.space.api::<ConfigMap>().get(&format!("{}-servers", cache.name)).await?;
    let told = config.data.unwrap_or_default().remove("MEMCACHED_SERVERS").unwrap_or_default();
    ensure!(told == status.server_list.join(","), "{told} and {:?}", status.server_list);
    Ok(status.server_list)
}

/// The partitions that the StatefulSet has had, each once until the next one differs.
async fn partitions(cache: &Cache<'_>) -> Result<Vec<i32>> {
    let versions = cache.history().await?.stateful_set;
    let of = |version: &Version| version.object.as_ref()?.pointer(PARTITION)?.as_i64();
    let mut partitions: Vec<i32> =
        versions.iter().filter_map(of).map(i32::try_from).collect::<Result<_, _>>()?;
    partitions.dedup();
    Ok(partitions)
}

#[tokio::test]
async fn a_pod_that_dies_loses_its_own_keys_only_and_a_rollout_replaces_one_pod_at_a_time() -> Result<()> {
    with_cache("named", async |cache| {
        cache.apply(&named(3, &json!({}))).await?;
        let resource = cache.ready().await?;
        assert_eq!(servers(cache, &resource).await?, names(cache, 3));
        fill(cache, 3).await?;
        let deleted = cache.space.api::<Pod>().get("named-1").await?;
        cache.space.api::<Pod>().delete("named-1", &DeleteParams::default()).await?;
        for number in [0, 2] {
            ensure!(connect(cache, number).await?.get("number").await?.is_some(), "pod {number} is empty");
        }
        let another = |it: Option<&Pod>| it.is_some_and(|it| it.metadata.uid != deleted.metadata.uid);
        cache.space.wait::<Pod>("named-1", "another pod has the name", another).await?;
        let resource = cache.ready().await?;
        assert_eq!(servers(cache, &resource).await?, names(cache, 3));
        assert_eq!(filled(cache, 3).await?, [0, 2]);

        fill(cache, 3).await?;
        let serving = Serving::follow(cache.space, cache.name).await?;
        cache.apply(&named(3, &json!({"memcached": {"maxMemoryMB": 65}}))).await?;
        let resource = cache.ready().await?;
        let counts = serving.finish().await?;
        println!("ready pods during a rollout of 3 named pods: {counts:?}");
        assert!(counts.len() > 1 && counts.iter().all(|count| *count >= 2), "{counts:?}");
        assert_eq!(servers(cache, &resource).await?, names(cache, 3));
        assert_eq!(filled(cache, 3).await?, Vec::<usize>::new(), "each was replaced");

        cache.apply(&named(4, &json!({"memcached": {"maxMemoryMB": 65}}))).await?;
        fill(cache, 4).await?;
        let resource = cache.ready().await?;
        assert_eq!(servers(cache, &resource).await?, names(cache, 4));
        assert_eq!(filled(cache, 4).await?, [0, 1, 2, 3], "scaling replaces nothing");
        assert_eq!(
            partitions(cache).await?,
            [KEEPS_ALL, 2, 1, 0, KEEPS_ALL],
            "only the rollout wrote it, never up"
        );
        cache.kstatus_results().await.map(|_| ())
    })
    .await
}

#[tokio::test]
async fn a_wrong_image_costs_one_named_pod_and_the_right_one_heals_it() -> Result<()> {
    with_cache("named-image", async |cache| {
        cache.apply(&named(2, &json!({}))).await?;
        cache.ready().await?;
        fill(cache, 2).await?;
        cache.apply(&named(2, &json!({"image": NO_IMAGE}))).await?;
        let told =
            |it: &Memcached| condition(it, "Ready").is_some_and(|it| it.message.contains("cannot pull"));
        cache.is("Ready names the reason", told).await?;
        ensure!(connect(cache, 0).await?.get("number").await?.is_some(), "the other pod is empty");
        cache.apply(&named(2, &json!({}))).await?;
        cache.ready().await?;
        assert_eq!(filled(cache, 2).await?, [0]);
        cache.kstatus_results().await.map(|_| ())
    })
    .await
}

#[tokio::test]
async fn a_living_cache_gets_pods_with_names_and_again_pods_without_and_serves_all_the_time() -> Result<()> {
    with_cache("renamed", async |cache| {
        cache.apply(&json!({"replicas": 2})).await?;
        let resource = cache.ready().await?;
        let of_service = [format!("renamed.{}:11211", cache.space.name())];
        assert_eq!(servers(cache, &resource).await?, of_service);
        let serving = Serving::follow(cache.space, cache.name).await?;
        cache.apply(&named(2, &json!({}))).await?;
        let resource = cache.ready().await?;
        cache.space.wait::<Deployment>(cache.name, "it is gone", |it| it.is_none()).await?;
        assert_eq!(servers(cache, &resource).await?, names(cache, 2));
        cache.apply(&json!({"replicas": 2, "workload": "Deployment"})).await?;
        let resource = cache.ready().await?;
        cache.space.wait::<StatefulSet>(cache.name, "it is gone", |it| it.is_none()).await?;
        assert_eq!(servers(cache, &resource).await?, of_service);
        let counts = serving.finish().await?;
        println!("ready pods while the workload of 2 pods changes twice: {counts:?}");
        assert!(counts.iter().all(|count| *count >= 2), "{counts:?}");
        cache.kstatus_results().await.map(|_| ())
    })
    .await
}

/// There is one node, and under hard anti-affinity the cache's pod keeps every other one off it: a new pod that had to be ready
/// first would never be.
#[tokio::test]
async fn where_a_new_pod_finds_no_node_beside_the_old_one_the_old_workload_goes_first() -> Result<()> {
    with_cache("apart", async |cache| {
        let apart = json!({"highAvailability": {"antiAffinityPreset": "hard"}});
        let mut unnamed = json!({"replicas": 1, "workload": "Deployment"});
        json_patch::merge(&mut unnamed, &apart);
        cache.apply(&unnamed).await?;
        cache.ready().await?;
        let serving = Serving::follow(cache.space, cache.name).await?;
        cache.apply(&named(1, &apart)).await?;
        let resource = cache.ready().await?;
        cache.space.wait::<Deployment>(cache.name, "it is gone", |it| it.is_none()).await?;
        assert_eq!(servers(cache, &resource).await?, names(cache, 1));
        cache.apply(&unnamed).await?;
        cache.ready().await?;
        cache.space.wait::<StatefulSet>(cache.name, "it is gone", |it| it.is_none()).await?;
        let counts = serving.finish().await?;
        println!("ready pods while the workload of one pod changes twice on the only node: {counts:?}");
        assert_eq!(counts, [1, 0, 1, 0, 1], "each time the old pod went first");
        cache.kstatus_results().await.map(|_| ())
    })
    .await
}

/// Kubernetes gives each pod a label of the cache's name and a hash, which is refused where it is too long, and then no pod
/// comes up.
#[tokio::test]
async fn named_pods_of_a_cache_with_the_longest_name_come_up_and_serve() -> Result<()> {
    with_cache(&"n".repeat(NAME_LENGTH), async |cache| {
        cache.apply(&named(2, &json!({}))).await?;
        let resource = cache.ready().await?;
        assert_eq!(servers(cache, &resource).await?, names(cache, 2));
        fill(cache, 2).await?;
        assert_eq!(filled(cache, 2).await?, [0, 1]);
        cache.kstatus_results().await.map(|_| ())
    })
    .await
}
