//! Resources that cannot be read, or that break a rule, with a definition that lets them through: they say so, harm no
//! other, and are well again once they are mended.

use anyhow::{Context, Result, ensure};
use e2e::Shape;
use e2e::testing::control_plane::requests::Requests;
use e2e::testing::control_plane::{at_once, await_ready, children, define, plain, up};
use e2e::testing::{Space, await_answer, in_namespace_of};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use memcached_operator::api::{Memcached, crd};
use serde_json::{Value, json};

use crate::support::process::Process;

/// The definition as an old or edited one may be: anything goes in the spec, and nothing is completed.
pub(crate) fn loose() -> Result<CustomResourceDefinition> {
    let mut definition = json!(crd::crd());
    for version in definition["spec"]["versions"].as_array_mut().context("versions")? {
        let schema = &mut version["schema"]["openAPIV3Schema"];
        schema["properties"]["spec"] =
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        schema.as_object_mut().context("a schema")?.remove("x-kubernetes-validations");
        // The scale subresource reads spec.replicas, and refuses what is no number.
        version["subresources"] = json!({"status": {}});
    }
    Ok(serde_json::from_value(definition)?)
}

/// A spec that nothing can be built from, and what its resource says of it.
const BAD: [(&str, &str, &str); 6] = [
    (
        "wrong-type",
        r#"{"replicas": "many"}"#,
        "spec cannot be read: spec.replicas: invalid type: string \"many\", expected i32",
    ),
    (
        "wrong-shape",
        r#"{"memcached": "-m 64"}"#,
        "spec cannot be read: spec.memcached: invalid type: string \"-m 64\", expected struct MemcachedConfig",
    ),
    ("too-large", r#"{"replicas": 99999999999}"#, "spec.replicas"),
    ("too-many", r#"{"replicas": 65}"#, "spec.replicas: "),
    ("too-little", r#"{"memcached": {"maxMemoryMB": 1}}"#, "spec.memcached.maxMemoryMB: "),
    (
        "no-secret",
        r#"{"security": {"sasl": {"enabled": true}}}"#,
        "spec.security.sasl.credentialsSecretRef.name: ",
    ),
];

fn api(space: &Space) -> Api<DynamicObject> {
    Api::namespaced_with(space.client(), space.name(), &ApiResource::erase::<Memcached>(&()))
}

/// Writes a spec as it is, in place of the one before.
pub(crate) async fn write(space: &Space, name: &str, spec: &Value) -> Result<DynamicObject> {
    let object = json!({
        "apiVersion": "memcached.c5c3.io/v1beta1", "kind": "Memcached", "metadata": {"name": name}, "spec": spec,
    });
    Ok(api(space).patch(name, &PatchParams::apply("e2e-test").force(), &Patch::Apply(object)).await?)
}

/// Waits until the resource says `InvalidSpec` of this generation, and gives the message.
async fn await_invalid(space: &Space, written: &DynamicObject) -> Result<String> {
    await_answer("it is invalid", async || {
        let object = api(space).get(&written.name_any()).await?;
        let status = &object.data["status"];
        ensure!(status["observedGeneration"] == json!(written.metadata.generation), "{status:#}");
        let conditions = status["conditions"].as_array().context("no conditions yet")?;
        let of =
            |kind: &str| conditions.iter().find(|it| it["type"] == kind && it["reason"] == "InvalidSpec");
        let stalled = of("Stalled").filter(|it| it["status"] == "True").context("it is not stalled")?;
        let ready = of("Ready").filter(|it| it["status"] == "False").context("Ready does not say so")?;
        ensure!(ready["message"] == stalled["message"], "{status:#}");
        Ok(stalled["message"].as_str().unwrap_or_default().to_owned())
    })
    .await
}

/// One that was never anything else.
async fn bad_from_the_start(space: &Space, name: &str, spec: &str, said: &str) -> Result<()> {
    let written = write(space, name, &serde_json::from_str(spec)?).await?;
    let message = await_invalid(space, &written).await?;
    ensure!(message.contains(said), "{name} says {message:?}");
    let children = children_of(space, name).await?;
    ensure!(children.is_empty(), "{name} has children: {children:?}");
    write(space, name, &json!({"replicas": 0})).await?;
    await_ready(space, name).await?;
    Ok(())
}

/// The children of a resource, of all kinds that are served here.
async fn children_of(space: &Space, name: &str) -> Result<Vec<DynamicObject>> {
    let mut found = Vec::new();
    for kind in children::built_in() {
        found.extend(children::of(space, kind, name).get_opt().await?);
    }
    Ok(found)
}

/// A spec with a child of each kind. Nothing scales here: no autoscaler decides.
fn with_children(replicas: &Value, image: &str) -> Value {
    json!({
        "replicas": replicas, "image": image,
        "highAvailability": {"podDisruptionBudget": {"enabled": true, "maxUnavailable": 1}},
        "autoscaling": {"enabled": true, "minReplicas": 2, "maxReplicas": 3, "metrics": [{
            "type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "1"}},
        }]},
        "security": {"networkPolicy": {"enabled": true}},
    })
}

/// Waits until the resource has that many children.
async fn await_children(space: &Space, name: &str, count: usize) -> Result<()> {
    await_answer("its children are there", async || {
        let children = children_of(space, name).await?;
        ensure!(children.len() == count, "{children:?}");
        Ok(())
    })
    .await
}

/// One that was well: what runs goes on running.
async fn bad_after_all(space: &Space) -> Result<()> {
    let good = write(space, "once-good", &with_children(&Value::Null, "memcached:1.6.18")).await?;
    await_children(space, "once-good", 6).await?;
    // The Deployment is written once more when it is there, for its number of pods. The status comes after all writes.
    await_answer("nothing more is written", async || {
        let observed = &api(space).get("once-good").await?.data["status"]["observedGeneration"];
        ensure!(*observed == json!(good.metadata.generation), "{observed}");
        Ok(())
    })
    .await?;
    let requests = Requests::for_cluster(space.cluster())?;
    let written = || -> Result<Vec<String>> {
        let children = requests.of_children()?.into_keys();
        Ok(children.filter_map(|it| Some(it.strip_suffix(" once-good")?.to_owned())).collect())
    };
    // If this spec could be read, four of them would be another one, and one would go.
    let mut edited = with_children(&json!([0]), "memcached:1.6.38");
    edited["monitoring"] = json!({"enabled": true});
    edited["highAvailability"]["podDisruptionBudget"]["maxUnavailable"] = json!(2);
    edited["autoscaling"]["maxReplicas"] = json!(4);
    edited["security"]["networkPolicy"]["enabled"] = json!(false);
    let invalid = write(space, "once-good", &edited).await?;
    await_invalid(space, &invalid).await?;
    ensure!(written()?.is_empty(), "{:?}", written()?);
    edited["replicas"] = Value::Null;
    write(space, "once-good", &edited).await?;
    await_answer("each child is as the mended spec says", async || {
        let kinds = [
            "deployments",
            "horizontalpodautoscalers",
            "networkpolicies",
            "poddisruptionbudgets",
            "services",
        ];
        ensure!(written()? == kinds, "{:?}", written()?);
        Ok(())
    })
    .await?;
    await_children(space, "once-good", 5).await
}

#[tokio::test]
async fn a_resource_that_cannot_be_read_or_breaks_a_rule_says_so_harms_no_other_and_can_be_mended()
-> Result<()> {
    let cluster = up("loose", Shape::Controllers).await?;
    define(&Client::try_from(cluster.config("e2e-test").await?)?, &loose()?).await?;
    let process = Process::for_cluster(&cluster).await?;
    in_namespace_of(&cluster, "loose", async |space: &Space| {
        // Some are there before the operator, and some come later.
        let (early, late) = BAD.split_at(3);
        for (name, spec, _) in early {
            write(space, name, &serde_json::from_str(spec)?).await?;
        }
        write(space, "9-is-no-name", &json!({})).await?;
        let operator = process.start().await?;
        let good: Vec<_> = (0..10).map(|number| format!("good-{number}")).collect();
        at_once(
            10,
            good.iter().map(async |name| {
                space.apply(&plain(name, &json!({"replicas": 0}))?).await?;
                await_ready(space, name).await
            }),
        )
        .await?;
        let misnamed = api(space).get("9-is-no-name").await?;
        let message = await_invalid(space, &misnamed).await?;
        ensure!(message.starts_with("metadata.name: "), "{message}");

        let requests = Requests::for_cluster(&cluster)?;
        at_once(
            10,
            early.iter().chain(late).map(|(name, spec, said)| bad_from_the_start(space, name, spec, said)),
        )
        .await?;
        bad_after_all(space).await?;
        let writes = requests.of_children()?;
        ensure!(good.iter().all(|name| !writes.contains_key(&format!("deployments {name}"))), "{writes:?}");
        operator.terminate().await?;
        Ok(())
    })
    .await?;
    process.replay()?;
    e2e::down(cluster.name())?;
    Ok(())
}
