//! A stored resource under another definition than the one that it was made under. One that breaks a newer rule: its
//! status can still say so, and it can go. One with a field that an older definition does not know: what becomes of it.

use anyhow::{Context, Result, ensure};
use e2e::testing::{await_answer, unique};
use e2e::{Audit, Options, Shape, TemporaryCluster};
use futures::future::try_join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use memcached_operator::api::{VERSIONS, crd};
use serde_json::{Value, json};

use super::{dry_run, install, resource, resources};

/// The definition without a single rule beside the types.
fn loose() -> Result<CustomResourceDefinition> {
    fn loosen(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                let rules = [
                    "x-kubernetes-validations",
                    "pattern",
                    "minimum",
                    "maximum",
                    "maxLength",
                    "maxItems",
                    "maxProperties",
                    "enum",
                ];
                fields.retain(|name, _| !rules.contains(&name.as_str()));
                fields.values_mut().for_each(loosen);
            }
            Value::Array(items) => items.iter_mut().for_each(loosen),
            _ => {}
        }
    }
    let mut crd = serde_json::to_value(crd::crd())?;
    loosen(&mut crd);
    Ok(serde_json::from_value(crd)?)
}

/// Whether the spec may be edited elsewhere: the API server checks what changed, and all that holds it.
#[derive(Clone, Copy)]
enum Elsewhere {
    Editable,
    Refused,
}

fn budget(limit: &Value) -> Value {
    let mut budget = limit.clone();
    budget["enabled"] = json!(true);
    json!({"replicas": 2, "highAvailability": {"podDisruptionBudget": budget}})
}

fn scaled(fields: &Value) -> Value {
    let mut autoscaling = fields.clone();
    autoscaling["enabled"] = json!(true);
    json!({"autoscaling": autoscaling})
}

fn violators() -> Vec<(&'static str, Value, Elsewhere)> {
    use Elsewhere::{Editable, Refused};
    let zone = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"});
    vec![
        ("1-name", json!({}), Editable),
        ("dotted.name", json!({}), Editable),
        ("image", json!({"image": "no image"}), Editable),
        ("long-image", json!({"image": "a".repeat(4097)}), Editable),
        ("threads", json!({"memcached": {"threads": 129}}), Editable),
        ("item-size", json!({"memcached": {"maxItemSize": "600k"}}), Editable),
        ("half", json!({"memcached": {"maxItemSize": "33m"}}), Editable),
        ("arguments", json!({"memcached": {"extraArgs": ["\n"]}}), Editable),
        ("quantity", json!({"resources": {"requests": {"cpu": "many"}}}), Editable),
        ("secret", json!({"security": {"sasl": {"enabled": true}}}), Editable),
        ("preset", json!({"highAvailability": {"antiAffinityPreset": "Soft"}}), Editable),
        ("percent", json!({"highAvailability": {"podDisruptionBudget": {"minAvailable": "half"}}}), Editable),
        ("no-limit", json!({"highAvailability": {"podDisruptionBudget": {"enabled": true}}}), Editable),
        ("none-goes", budget(&json!({"maxUnavailable": 0})), Editable),
        ("all-stay", budget(&json!({"minAvailable": "100%"})), Editable),
        (
            "grace",
            json!({"highAvailability": {"gracefulShutdown": {"enabled": true, "preStopDelaySeconds": 30}}}),
            Editable,
        ),
        ("duration", json!({"monitoring": {"serviceMonitor": {"interval": "often"}}}), Editable),
        ("timeout", json!({"monitoring": {"serviceMonitor": {"scrapeTimeout": "31s"}}}), Editable),
        ("certificate", json!({"security": {"tls": {"enabled": true}}}), Editable),
        ("secret-name", json!({"security": {"tls": {"certificateSecretRef": {"name": "a/b"}}}}), Editable),
        (
            "bounds",
            scaled(&json!({"minReplicas": 2, "maxReplicas": 1, "metrics": [{"type": "Pods"}]})),
            Editable,
        ),
        ("endless", scaled(&json!({"metrics": [{"type": "Pods"}]})), Editable),
        ("label", json!({"pod": {"labels": {"memcached.c5c3.io/x": ""}}}), Editable),
        ("label-value", json!({"pod": {"nodeSelector": {"k": "-"}}}), Editable),
        ("annotation", json!({"service": {"annotations": {"a b": ""}}}), Editable),
        ("pull-secrets", json!({"pod": {"imagePullSecrets": [{"name": "a"}, {"name": "a"}]}}), Editable),
        (
            "ten-chars-ten-chars-ten-chars-ten-chars-ten-chars-end",
            json!({"workload": "StatefulSet"}),
            Editable,
        ),
        ("spread", json!({"highAvailability": {"topologySpreadConstraints": [zone, zone]}}), Editable),
        // What several sections decide together can sit in none of them.
        ("budget", budget(&json!({"minAvailable": 2})), Refused),
        ("cpu", scaled(&json!({"maxReplicas": 2})), Refused),
        (
            "many-names",
            json!({
                "workload": "StatefulSet",
                "autoscaling": {"enabled": true, "maxReplicas": 1_001},
                "resources": {"requests": {"cpu": "1m"}},
            }),
            Refused,
        ),
        ("limit", json!({"resources": {"limits": {"memory": "1Mi"}}}), Refused),
    ]
}

/// An edit close to what breaks the rule, and whether the API server takes it: it asks a rule again where the part changed in
/// which the rule sits.
fn beside(name: &str) -> Option<(Value, Elsewhere)> {
    let label = json!({"monitoring": {"serviceMonitor": {"additionalLabels": {"a": "b"}}}});
    match name {
        "duration" => Some((label, Elsewhere::Editable)),
        "timeout" => Some((label, Elsewhere::Refused)),
        "annotation" => Some((json!({"service": {"annotations": {"a": ""}}}), Elsewhere::Refused)),
        "all-stay" => Some((json!({"replicas": 3}), Elsewhere::Editable)),
        _ => None,
    }
}

#[tokio::test]
async fn a_stored_resource_that_breaks_a_new_rule_takes_a_status_and_goes() -> Result<()> {
    // Its own cluster: the definition belongs to all tests of the shared one.
    let options = Options { audit: Audit::Off, ..Shape::ApiServer.into() };
    let cluster = TemporaryCluster::up(&unique("ratcheting"), options).await?;
    let client = Client::try_from(cluster.config("e2e-test/ratcheting").await?)?;
    let api = resources(&client, "default", VERSIONS[0]);
    install(&client, &loose()?).await?;
    let violators = violators();
    try_join_all(violators.iter().map(async |(name, spec, _)| {
        await_answer("it is stored", async || {
            let object = resource(name, VERSIONS[0], &json!({"spec": spec}));
            Ok(api.create(&PostParams::default(), &object).await?)
        })
        .await
    }))
    .await?;

    install(&client, &crd::crd()).await?;
    try_join_all(violators.iter().map(|(name, spec, elsewhere)| live(&api, name, spec, *elsewhere))).await?;
    Ok(())
}

/// What happens to a stored resource: its operator reports, its owner edits, and in the end it goes.
async fn live(api: &Api<DynamicObject>, name: &str, spec: &Value, elsewhere: Elsewhere) -> Result<()> {
    let again = resource(&format!("{name}-2"), VERSIONS[0], &json!({"spec": spec}));
    await_answer("a new one like it is refused", async || {
        ensure!(dry_run(api, &again).await?.is_err(), "{name} is taken");
        Ok(())
    })
    .await?;
    let merge = PatchParams::default();
    let condition = json!({
        "type": "Ready", "status": "False", "reason": "InvalidSpec", "message": "it is",
        "lastTransitionTime": "2026-11-21T10:00:00Z",
    });
    let status = json!({"status": {"observedGeneration": 1, "conditions": [condition]}});
    let patched = api.patch_status(name, &merge, &Patch::Merge(status)).await;
    let patched = patched.with_context(|| format!("{name}: its status is refused"))?;
    assert_eq!(patched.data["status"]["conditions"], json!([condition]), "{name}");
    let annotation = json!({"metadata": {"annotations": {"memcached.c5c3.io/restart-trigger": "1"}}});
    api.patch(name, &merge, &Patch::Merge(annotation))
        .await
        .with_context(|| format!("{name}: an annotation"))?;
    for (fields, expected) in [(json!({"paused": true}), elsewhere)].into_iter().chain(beside(name)) {
        let edit = api.patch(name, &merge, &Patch::Merge(json!({"spec": fields}))).await;
        match expected {
            Elsewhere::Editable => assert!(edit.is_ok(), "{name}, {fields}: {edit:?}"),
            Elsewhere::Refused => assert!(edit.is_err(), "{name}: {fields} is taken"),
        }
    }
    api.delete(name, &DeleteParams::default()).await.with_context(|| format!("{name}: its deletion"))?;
    Ok(())
}

/// The definition of an earlier release, which does not know these fields.
fn older() -> Result<CustomResourceDefinition> {
    let mut crd = serde_json::to_value(crd::crd())?;
    for version in crd["spec"]["versions"].as_array_mut().context("it has versions")? {
        let mut forget = |at: &str, field: &str| {
            let fields = version.pointer_mut(&format!("/schema/openAPIV3Schema/properties/{at}/properties"));
            fields.and_then(Value::as_object_mut)?.remove(field)
        };
        forget("spec/properties/pod", "priorityClassName").context("a field that reaches pods")?;
        forget("status", "templateGeneration").context("a field of the status")?;
        forget("status", "budgetedRolloutCause").context("a field of the status")?;
        forget("status", "budgetedRolloutStalled").context("a field of the status")?;
    }
    Ok(serde_json::from_value(crd)?)
}

/// Field, generation and version of a resource.
async fn read(api: &Api<DynamicObject>, name: &str) -> Result<(Value, Option<i64>, Option<String>)> {
    let DynamicObject { metadata, data, .. } = api.get(name).await?;
    let field = data["spec"]["pod"]["priorityClassName"].clone();
    Ok((field, metadata.generation, metadata.resource_version))
}

#[tokio::test]
async fn an_older_definition_hides_a_field_and_the_first_write_of_a_status_loses_it() -> Result<()> {
    let options = Options { audit: Audit::Off, ..Shape::ApiServer.into() };
    let cluster = TemporaryCluster::up(&unique("older"), options).await?;
    let client = Client::try_from(cluster.config("e2e-test/older").await?)?;
    let api = resources(&client, "default", VERSIONS[0]);
    let is = |name: &'static str, expected: Value| {
        let api = api.clone();
        async move {
            await_answer("the definition is in effect", async || {
                let (field, ..) = read(&api, name).await?;
                ensure!(field == expected, "{name}: {field}");
                Ok(())
            })
            .await
        }
    };
    install(&client, &crd::crd()).await?;
    let spec = json!({"spec": {"pod": {"priorityClassName": "fast"}}});
    for name in ["written", "untouched"] {
        api.create(&PostParams::default(), &resource(name, VERSIONS[0], &spec)).await?;
    }
    let before = read(&api, "written").await?;
    assert_eq!(before.0, json!("fast"));

    // Whoever looks does not see the field; nothing else says that anything changed, and nothing is lost.
    install(&client, &older()?).await?;
    is("written", Value::Null).await?;
    let hidden = read(&api, "written").await?;
    assert_eq!((hidden.1, &hidden.2), (before.1, &before.2));
    install(&client, &crd::crd()).await?;
    is("written", json!("fast")).await?;

    // The rollout is on record in the status, but without a cause that the older definition does not know.
    install(&client, &older()?).await?;
    is("written", Value::Null).await?;
    let status = async |status: Value| {
        api.patch_status("written", &PatchParams::default(), &Patch::Merge(json!({"status": status}))).await
    };
    let unknown = status(json!({"budgetedRollout": "Definition"})).await;
    assert!(matches!(&unknown, Err(kube::Error::Api(it)) if it.code == 422), "{unknown:?}");
    let turn = json!({
        "observedGeneration": 1, "templateGeneration": 1,
        "budgetedRollout": "Secret", "budgetedRolloutCause": "Definition",
    });
    let stored = status(turn).await?.data["status"].clone();
    assert_eq!(stored, json!({"observedGeneration": 1, "budgetedRollout": "Secret"}));

    // That write has stored the spec as it was read.
    install(&client, &crd::crd()).await?;
    is("untouched", json!("fast")).await?;
    let lost = read(&api, "written").await?;
    assert_eq!((lost.0, lost.1), (Value::Null, before.1));
    assert_ne!(lost.2, before.2);
    Ok(())
}
