//! The deletion of a resource: nothing of its cache is left, and its Events tell a person what happened.

use anyhow::{Context, Result, ensure};
use e2e::testing::await_answer;
use e2e::testing::kstatus::Status;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams};
use kube::{Resource, ResourceExt};
use memcached_operator::api::Memcached;
use memcached_operator::kernel::object::ChildKind;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{with_each_workload, with_workload};
use e2e::testing::cache::{Cache, says};

/// Kind, name and finalizers of every object of a kind.
async fn objects<K>(cache: &Cache<'_>) -> Result<Vec<String>>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
    K::DynamicType: Default,
{
    let kind = K::kind(&K::DynamicType::default()).into_owned();
    let all = cache.space.api::<K>().list(&ListParams::default()).await?.items;
    Ok(all.iter().map(|it| format!("{kind} {} {:?}", it.name_any(), it.finalizers())).collect())
}

/// All that there is of a cache.
async fn leftovers(cache: &Cache<'_>) -> Result<Vec<String>> {
    let mut all = objects::<Memcached>(cache).await?;
    all.extend(objects::<Deployment>(cache).await?);
    all.extend(objects::<ReplicaSet>(cache).await?);
    all.extend(objects::<StatefulSet>(cache).await?);
    all.extend(objects::<ControllerRevision>(cache).await?);
    all.extend(objects::<Pod>(cache).await?);
    all.extend(objects::<Service>(cache).await?);
    all.extend(objects::<EndpointSlice>(cache).await?);
    // Kubernetes puts one with its own certificate into each namespace.
    let of_kubernetes = |it: &String| it.starts_with("ConfigMap kube-root-ca.crt ");
    all.extend(objects::<ConfigMap>(cache).await?.into_iter().filter(|it| !of_kubernetes(it)));
    Ok(all)
}

#[tokio::test]
async fn with_its_resource_all_of_a_cache_goes_and_no_finalizer_is_needed() -> Result<()> {
    with_each_workload("deletion", async |cache, kind| {
        cache.apply(&with_workload(kind, json!({"replicas": 2}))).await?;
        cache.ready().await?;
        let whole = await_answer("all of it is there", async || {
            let whole = leftovers(cache).await?;
            // The resource, its workload, the record of the template, two pods, Service and what Kubernetes derives from it, the
            // ConfigMap with the servers.
            ensure!(whole.len() == 8, "{whole:#?}");
            Ok(whole)
        })
        .await?;
        assert!(whole.iter().all(|object| object.ends_with("[]")), "{whole:#?}");

        cache.space.api::<Memcached>().delete(cache.name, &DeleteParams::background()).await?;
        await_answer("nothing of it is left", async || {
            let left = leftovers(cache).await?;
            ensure!(left.is_empty(), "{left:#?}");
            Ok(())
        })
        .await?;

        let history = cache.history().await?;
        let last = history.resource.iter().rev().nth(1).and_then(|version| version.object.as_ref());
        let last = last.context("the version before the end")?;
        assert_eq!(last["metadata"].get("deletionTimestamp"), None, "it goes at once");
        assert_eq!(history.kstatus_results()?, [Status::InProgress, Status::Current]);
        Ok(())
    })
    .await
}

/// The lines of the events in what `kubectl describe` says: type, reason, how often, message.
fn events(description: &str) -> Vec<String> {
    let events = description.lines().skip_while(|line| !line.starts_with("Events:")).skip(3);
    events
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            // Type, reason, age, maybe "(x2 over 10s)", who, message.
            let who = words.iter().position(|word| word.starts_with("memcached-operator"));
            let (head, message) = words.split_at(who.unwrap_or(words.len()));
            format!(
                "{}: {}",
                head.iter().take(2).copied().collect::<Vec<_>>().join(" "),
                message[1..].join(" ")
            )
        })
        .collect()
}

#[tokio::test]
async fn kubectl_describe_tells_what_happened_and_why() -> Result<()> {
    with_each_workload("told", async |cache, kind| {
        let sasl = json!({"enabled": true, "credentialsSecretRef": {"name": "users"}});
        let mut spec = with_workload(kind, json!({"security": {"sasl": sasl}}));
        cache.apply(&spec).await?;
        cache.is("misses its Secret", |it| says(it, "False", "SecretNotFound")).await?;
        cache.password("users", "ann:secret").await?;
        cache.ready().await?;
        spec["memcached"] = json!({"maxMemoryMB": 32});
        cache.apply(&spec).await?;
        cache.ready().await?;

        let created = format!("Normal Created: Created {} told", ChildKind::from(kind).name());
        let mut expected = [
            created.as_str(),
            "Normal Created: Created ConfigMap told-servers",
            "Normal Created: Created Service told",
            "Normal MemcachedReady: All 1 replicas are ready",
            "Normal RolloutStarted: Replacing pods, cause secret: the pods waited for Secret users: \
             spec.template.metadata.annotations",
            "Normal RolloutStarted: Replacing pods, cause spec: memcached.maxMemoryMB 64 -> 32 \
             (spec.template.spec.containers[name=memcached].args)",
            "Warning SecretNotFound: Referenced Secrets not found: users",
        ];
        expected.sort_unstable();
        let cluster = cache.space.cluster();
        await_answer("all events are told", async || {
            let mut describe = cluster.kubectl()?;
            describe.args(["describe", "memcached", cache.name, "-n", cache.space.name()]);
            let output = describe.output()?;
            let mut told = events(&String::from_utf8(output.stdout)?);
            told.sort();
            ensure!(told == expected, "{told:#?}");
            Ok(())
        })
        .await?;
        let cycle = [Status::InProgress, Status::Current];
        assert_eq!(cache.kstatus_results().await?, [cycle, cycle].concat());
        Ok(())
    })
    .await
}
