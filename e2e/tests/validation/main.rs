//! The CustomResourceDefinition on a real API server: what it completes, refuses, shows and scales, and that
//! `api::spec::validate` judges every resource alike.
//!
//! Creates are dry runs wherever nothing has to be stored.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agreement;
mod edges;
mod explain;
mod generate;
mod ratcheting;
mod rules;

use anyhow::{Context, Result, bail};
use e2e::testing::{Space, await_answer, in_namespace, is_of_the_right_version};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::core::Status;
use kube::core::response::StatusCause;
use kube::{Api, Client};
use memcached_operator::api::{GROUP, KIND, VERSIONS, crd};
use serde_json::{Value, json};

/// The resources of a namespace in one of the served versions.
fn resources(client: &Client, namespace: &str, version: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(GROUP, version, KIND);
    let resource = ApiResource::from_gvk_with_plural(&kind, "memcacheds");
    Api::namespaced_with(client.clone(), namespace, &resource)
}

/// A resource as somebody writes it; `rest` may hold any fields beside the name.
fn resource(name: &str, version: &str, rest: &Value) -> DynamicObject {
    let mut object = json!({
        "apiVersion": format!("{GROUP}/{version}"),
        "kind": KIND,
        "metadata": {"name": name},
    });
    for (field, value) in rest.as_object().unwrap() {
        object[field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

/// Applies a definition and waits until every version is served.
async fn install(client: &Client, crd: &CustomResourceDefinition) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = crd.metadata.name.as_deref().context("a definition has a name")?;
    definitions.patch(name, &PatchParams::apply("e2e-test").force(), &Patch::Apply(crd)).await?;
    for version in VERSIONS {
        await_answer("the definition is served", async || {
            Ok(resources(client, "default", version).list(&kube::api::ListParams::default()).await?)
        })
        .await?;
    }
    Ok(())
}

/// Runs a test's body in a namespace of the shared cluster, with the definition installed.
async fn with_definition(prefix: &str, body: impl AsyncFnOnce(&Space) -> Result<()>) -> Result<()> {
    in_namespace(prefix, async |space: &Space| {
        install(&space.client(), &crd::crd()).await?;
        body(space).await
    })
    .await
}

/// Asks whether a resource would be created: it as it would be stored, or what is wrong.
async fn dry_run(
    api: &Api<DynamicObject>,
    resource: &DynamicObject,
) -> Result<Result<DynamicObject, Status>> {
    let params = PostParams { dry_run: true, ..PostParams::default() };
    match api.create(&params, resource).await {
        Ok(object) => Ok(Ok(object)),
        Err(kube::Error::Api(status)) if status.reason == "Invalid" => Ok(Err(*status)),
        Err(error) => Err(error).context("a dry run of a create"),
    }
}

/// Field and message of each cause.
fn causes(status: &Status) -> Vec<(String, String)> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.map(|StatusCause { field, message, .. }| (field.clone(), message.clone())).collect()
}

#[tokio::test]
async fn the_api_server_is_of_the_version_that_was_asked_for() -> Result<()> {
    in_namespace("version", async |space: &Space| is_of_the_right_version(&space.client()).await).await
}

#[tokio::test]
async fn what_is_missing_empty_or_null_is_completed() -> Result<()> {
    with_definition("defaults", async |space| {
        let complete = json!({
            "replicas": 1,
            "workload": "Deployment",
            "image": "memcached:1.6",
            "memcached": {
                "maxMemoryMB": 64, "maxConnections": 1024, "threads": 4, "maxItemSize": "1m", "verbosity": 0,
            },
        });
        for version in VERSIONS {
            let api = resources(&space.client(), space.name(), version);
            for rest in [
                json!({}),
                json!({"spec": null}),
                json!({"spec": {}}),
                json!({"spec": {"memcached": null}}),
                json!({"spec": {"memcached": {}, "replicas": null, "image": null, "security": null}}),
                json!({"spec": {"memcached": {"threads": null}, "resources": null, "sharding": true}}),
            ] {
                let created = dry_run(&api, &resource("cache", version, &rest)).await?.unwrap();
                assert_eq!(created.data["spec"], complete, "{version} {rest}");
            }
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_section_that_is_present_is_completed_and_one_that_is_not_stays_away() -> Result<()> {
    with_definition("sections", async |space| {
        let written = json!({
            "highAvailability": {"gracefulShutdown": {}, "podDisruptionBudget": {}},
            "monitoring": {"serviceMonitor": {}},
            "security": {"sasl": {}, "tls": {}, "networkPolicy": {}},
            "autoscaling": {"metrics": [], "behavior": {}},
            "pod": {"affinity": {}},
        });
        let mut expected = written.clone();
        expected["highAvailability"]["antiAffinityPreset"] = json!("soft");
        expected["highAvailability"]["gracefulShutdown"] =
            json!({"preStopDelaySeconds": 10, "terminationGracePeriodSeconds": 30});
        expected["monitoring"]["serviceMonitor"]["interval"] = json!("30s");
        expected["security"]["rotation"] = json!("Restart");
        expected["security"]["tls"]["plaintext"] = json!("Disabled");
        for version in VERSIONS {
            let api = resources(&space.client(), space.name(), version);
            let created =
                dry_run(&api, &resource("cache", version, &json!({"spec": written}))).await?.unwrap();
            let mut completed = created.data["spec"].clone();
            for always in ["replicas", "workload", "image", "memcached"] {
                completed.as_object_mut().unwrap().remove(always);
            }
            assert_eq!(completed, expected, "{version}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_new_resource_says_from_the_first_moment_on_that_nobody_has_seen_it() -> Result<()> {
    with_definition("status", async |space| {
        let unseen = json!({"observedGeneration": -1});
        for version in VERSIONS {
            let api = resources(&space.client(), space.name(), version);
            let created = api.create(&PostParams::default(), &resource(version, version, &json!({}))).await?;
            assert_eq!(created.data["status"], unseen);
            assert_eq!(api.get(version).await?.data["status"], unseen);
        }
        // A status that somebody wrote without the field is completed too.
        let api = resources(&space.client(), space.name(), VERSIONS[0]);
        let foreign = json!({"status": {"observedGeneration": null, "readyReplicas": 2}});
        let patched = api.patch_status(VERSIONS[0], &PatchParams::default(), &Patch::Merge(foreign)).await?;
        assert_eq!(patched.data["status"], json!({"observedGeneration": -1, "readyReplicas": 2}));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn both_versions_are_one_resource() -> Result<()> {
    with_definition("versions", async |space| {
        let [new, old] = VERSIONS.map(|version| resources(&space.client(), space.name(), version));
        let spec = json!({"spec": {"replicas": 3, "memcached": {"maxMemoryMB": 128, "extraArgs": ["-o", "modern"]}}});
        let written = old.create(&PostParams::default(), &resource("cache", VERSIONS[1], &spec)).await?;
        let read = new.get("cache").await?;
        assert_eq!(read.types.unwrap().api_version, "memcached.c5c3.io/v1beta1");
        assert_eq!((read.metadata.uid, read.data), (written.metadata.uid, written.data));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn scaling_changes_replicas_within_their_range() -> Result<()> {
    with_definition("scale", async |space| {
        let api = resources(&space.client(), space.name(), VERSIONS[0]);
        api.create(&PostParams::default(), &resource("cache", VERSIONS[0], &json!({}))).await?;
        let status = json!({"status": {"observedGeneration": 1, "replicas": 1, "selector": "app=cache"}});
        api.patch_status("cache", &PatchParams::default(), &Patch::Merge(status)).await?;
        let params = PatchParams::default();
        let scale = |replicas: i32| Patch::Merge(json!({"spec": {"replicas": replicas}}));

        api.patch_scale("cache", &params, &scale(3)).await?;

        assert_eq!(api.get("cache").await?.data["spec"]["replicas"], json!(3));
        let scale_now = serde_json::to_value(api.get_scale("cache").await?)?;
        assert_eq!(scale_now["spec"], json!({"replicas": 3}));
        assert_eq!(scale_now["status"], json!({"replicas": 1, "selector": "app=cache"}));
        let Err(kube::Error::Api(refusal)) = api.patch_scale("cache", &params, &scale(65)).await else {
            bail!("65 replicas were taken");
        };
        assert!(refusal.message.contains("should be less than or equal to 64"), "{refusal}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn kubectl_get_shows_readiness_and_why() -> Result<()> {
    with_definition("columns", async |space| {
        let api = resources(&space.client(), space.name(), VERSIONS[0]);
        let paused = resource("cache", VERSIONS[0], &json!({"spec": {"paused": true}}));
        api.create(&PostParams::default(), &paused).await?;
        let condition = |kind: &str, reason: &str| {
            json!({
                "type": kind, "status": "False", "reason": reason, "message": "",
                "lastTransitionTime": "2026-11-21T10:00:00Z",
            })
        };
        let status = json!({"status": {
            "observedGeneration": 1, "readyReplicas": 1, "replicas": 3, "templateRevision": 1,
            "conditions": [condition("Available", "Unavailable"), condition("Ready", "MemcachedNotReady")],
        }});
        api.patch_status("cache", &PatchParams::default(), &Patch::Merge(status)).await?;

        let path = format!("/apis/{GROUP}/{}/namespaces/{}/memcacheds/cache", VERSIONS[0], space.name());
        let request = http::Request::get(path)
            .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
            .body(Vec::new())?;
        let table: Value = space.client().request(request).await?;

        let columns = table["columnDefinitions"].as_array().unwrap();
        let columns: Vec<_> = columns.iter().map(|it| (&it["name"], &it["priority"])).collect();
        let shown = [("Name", 0), ("Ready", 0), ("Replicas", 0), ("Status", 0), ("Age", 0)];
        let wide = [("Image", 1), ("Paused", 1), ("Template", 1)];
        let expected = shown.into_iter().chain(wide).map(|(name, priority)| (json!(name), json!(priority)));
        assert_eq!(columns, expected.collect::<Vec<_>>().iter().map(|(a, b)| (a, b)).collect::<Vec<_>>());
        let mut cells = table["rows"][0]["cells"].clone();
        cells[4] = json!("some seconds");
        let expected = json!(["cache", 1, 3, "MemcachedNotReady", "some seconds", "memcached:1.6", true, 1]);
        assert_eq!(cells, expected);
        Ok(())
    })
    .await
}
