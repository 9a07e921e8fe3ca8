//! What the containers may do: the restricted profile by default, and the user's own contexts instead of it, whole.

use anyhow::{Context, Result, ensure};
use e2e::testing::await_answer;
use e2e::testing::cache::{Cache, condition, says};
use e2e::testing::tls::Authority;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use memcached_operator::api::{Memcached, MemcachedStatus};
use serde_json::{Value, json};

use super::{pods, with_cache};

/// All that a resource can ask for, with everything in it that a pod shows.
fn everything() -> Value {
    json!({
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "memcached": {"verbosity": 1, "extraArgs": ["-o", "modern"]},
        "highAvailability": {
            "antiAffinityPreset": "soft",
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"},
            ],
            "podDisruptionBudget": {"enabled": true, "maxUnavailable": 1},
            "gracefulShutdown": {"enabled": true, "preStopDelaySeconds": 1, "terminationGracePeriodSeconds": 5},
        },
        "monitoring": {"enabled": true},
        "security": {
            "sasl": {"enabled": true, "credentialsSecretRef": {"name": "users"}},
            "tls": {
                "enabled": true, "certificateSecretRef": {"name": "certificate"},
                "enableClientCert": true, "plaintext": "Localhost",
            },
            "networkPolicy": {"enabled": true},
        },
        "pod": {"labels": {"team": "storage"}, "annotations": {"team": "storage"}, "imagePullPolicy": "IfNotPresent"},
    })
}

/// The user and group, the kernel's promise of no new privileges, the effective capabilities, and the filter of system
/// calls that memcached runs with.
async fn process_rights(cache: &Cache<'_>) -> Result<[String; 5]> {
    let pod = pods::only_name(cache).await?;
    let status = pods::output(cache.space, &pod, &["cat", "/proc/1/status"]).await?;
    let first =
        |name| Ok::<_, anyhow::Error>((*pods::field(&status, name)?.first().context("no word")?).to_owned());
    Ok([first("Uid")?, first("Gid")?, first("NoNewPrivs")?, first("CapEff")?, first("Seccomp")?])
}

async fn pod_spec(cache: &Cache<'_>) -> Result<PodSpec> {
    pods::only(cache).await?.spec.context("a pod has a spec")
}

#[tokio::test]
async fn with_every_feature_on_the_pods_pass_the_restricted_level() -> Result<()> {
    with_cache("everything", async |cache| {
        Authority::create("own")?.fill(cache.space, "certificate").await?;
        cache.password("users", "ann:right").await?;
        cache.apply(&everything()).await?;
        cache.ready().await?;
        let none = "0000000000000000";
        assert_eq!(process_rights(cache).await?, ["11211", "11211", "1", none, "2"]);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_users_contexts_replace_ours_whole() -> Result<()> {
    with_cache("contexts", async |cache| {
        let of_pod = json!({
            "runAsUser": 4242, "runAsGroup": 4343, "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"},
        });
        let of_containers = json!({
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": true,
        });
        let security = json!({"podSecurityContext": of_pod, "containerSecurityContext": of_containers});
        cache.apply(&json!({"security": security})).await?;
        cache.ready().await?;
        let spec = pod_spec(cache).await?;
        assert_eq!(serde_json::to_value(&spec.security_context)?, of_pod);
        assert_eq!(serde_json::to_value(&spec.containers[0].security_context)?, of_containers);
        assert_eq!(process_rights(cache).await?, ["4242", "4343", "1", "0000000000000000", "2"]);

        // Nothing of ours is mixed in: what this one lacks, the namespace misses.
        let security = json!({"containerSecurityContext": {"readOnlyRootFilesystem": true}});
        cache.apply(&json!({"security": security})).await?;
        await_answer("the namespace refuses the pods", async || {
            let deployment = cache.space.api::<Deployment>().get(cache.name).await?;
            let conditions = deployment.status.and_then(|status| status.conditions).unwrap_or_default();
            let failure = conditions.iter().find(|it| it.type_ == "ReplicaFailure").context("no failure")?;
            let message = failure.message.clone().unwrap_or_default();
            for lack in ["allowPrivilegeEscalation", "unrestricted capabilities"] {
                ensure!(message.contains(lack), "{message}");
            }
            Ok(())
        })
        .await?;
        let told = cache.is("Ready says who refuses", |resource| {
            condition(resource, "Ready").is_some_and(|it| it.reason == "ReplicaFailure")
        });
        let message = condition(&told.await?, "Ready").context("it was there")?.message.clone();
        assert!(message.contains("violates PodSecurity"), "{message}");
        Ok(())
    })
    .await
}

/// What Kubernetes says of pods that the StatefulSet's controller could not make.
async fn refusals(cache: &Cache<'_>) -> Result<Vec<String>> {
    let events = cache.space.api::<Event>().list(&ListParams::default()).await?.items;
    let of_the_set = |it: &Event| {
        let regards = it.regarding.as_ref().and_then(|it| it.kind.as_deref());
        regards == Some("StatefulSet") && it.reason.as_deref() == Some("FailedCreate")
    };
    Ok(events.into_iter().filter(of_the_set).filter_map(|it| it.note).collect())
}

/// A StatefulSet has no condition ReplicaFailure.
#[tokio::test]
async fn named_pods_that_the_namespace_refuses_are_told_of_by_events_of_their_stateful_set() -> Result<()> {
    with_cache("refused-named", async |cache| {
        let taken = json!({"workload": "StatefulSet", "replicas": 2});
        cache.apply(&taken).await?;
        cache.ready().await?;
        let mut refused = taken.clone();
        refused["security"] = json!({"containerSecurityContext": {"readOnlyRootFilesystem": true}});
        cache.apply(&refused).await?;
        await_answer("an Event says who refuses the pod", async || {
            let refusals = refusals(cache).await?;
            ensure!(refusals.iter().any(|it| it.contains("violates PodSecurity")), "{refusals:?}");
            Ok(())
        })
        .await?;
        let misses_one = |it: &Memcached| {
            let waits = |it: &MemcachedStatus| it.replicas == 1 && it.progressing_since.is_some();
            says(it, "False", "MemcachedNotReady") && it.status.as_ref().is_some_and(waits)
        };
        let told = cache.is("a pod is missing, and the deadline has begun", misses_one).await?;
        let ready = condition(&told, "Ready").map(|it| it.message.as_str());
        assert_eq!(ready, Some("1/2 replicas are ready"), "no other pod goes");
        let reconciling = condition(&told, "Reconciling").map(|it| it.reason.as_str());
        assert_eq!(reconciling, Some("NewGeneration"));
        cache.apply(&taken).await?;
        cache.ready().await?;
        cache.kstatus_results().await.map(|_| ())
    })
    .await
}
