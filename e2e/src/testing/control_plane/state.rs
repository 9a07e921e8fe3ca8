//! The state of a resource in a form in which two resources can be compared: every field of the resource, its children and
//! their ReplicaSets, without times, uids, versions and the namespace's name. Called by tests that compare an end state
//! with one that was reached without a failure.

use std::time::{Duration, Instant};

use crate::testing::{Space, await_answer};
use anyhow::{Result, ensure};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::api::ListParams;
use kube::{Resource, ResourceExt};
use memcached_operator::api::Memcached;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Fields that differ from one run to the next and mean nothing.
const MASKED: [&str; 6] =
    ["uid", "resourceVersion", "creationTimestamp", "lastTransitionTime", "lastUpdateTime", "time"];

/// A resource whose state is the same for so long is at rest, if it was looked at three times. A look takes six requests, and many
/// tests look.
const REST: Duration = Duration::from_millis(1500);

/// The state of everything that belongs to a resource.
pub async fn of(space: &Space, name: &str) -> Result<Value> {
    let mut uids = vec![space.name().to_owned()];
    let resource = get::<Memcached>(space, name, &mut uids).await?;
    with_children(space, name, resource, uids).await
}

/// The state of everything that belongs to a resource, which has been read.
async fn with_children(space: &Space, name: &str, resource: Value, mut uids: Vec<String>) -> Result<Value> {
    let mut objects = serde_json::Map::new();
    objects.insert("resource".to_owned(), resource);
    objects.insert("secret".to_owned(), get::<Secret>(space, name, &mut uids).await?);
    objects.insert("deployment".to_owned(), get::<Deployment>(space, name, &mut uids).await?);
    objects.insert("statefulSet".to_owned(), get::<StatefulSet>(space, name, &mut uids).await?);
    objects.insert("service".to_owned(), get::<Service>(space, name, &mut uids).await?);
    let selector = ListParams::default().labels(&format!("app.kubernetes.io/instance={name}"));
    let mut sets = space.api::<ReplicaSet>().list(&selector).await?.items;
    sets.sort_by_key(ResourceExt::name_any);
    objects.insert("replicaSets".to_owned(), json!(sets));
    masked(&Value::from(objects), &uids)
}

/// Objects without what means nothing: these uids, and [`MASKED`].
fn masked(objects: &Value, uids: &[String]) -> Result<Value> {
    let mut text = objects.to_string();
    for uid in uids {
        text = text.replace(uid, "some-uid");
    }
    let mut state = serde_json::from_str(&text)?;
    mask(&mut state);
    Ok(state)
}

async fn get<K>(space: &Space, name: &str, uids: &mut Vec<String>) -> Result<Value>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned + Serialize,
    K::DynamicType: Default,
{
    let found = space.api::<K>().get_opt(name).await?;
    uids.extend(found.as_ref().and_then(ResourceExt::uid));
    Ok(json!(found))
}

fn mask(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !MASKED.contains(&name.as_str()));
            fields.values_mut().for_each(mask);
        }
        Value::Array(items) => {
            items.iter_mut().for_each(mask);
            // Conditions and managers stand in the order of their times.
            let named = |item: &Value| item.get("type").or(item.get("manager")).is_some();
            if items.iter().all(named) {
                items.sort_by_key(ToString::to_string);
            }
        }
        _ => {}
    }
}

/// The state without the resource's name and without the hashes that depend on the name.
pub fn anonymous(state: &Value, name: &str) -> Value {
    let mut text = state.to_string().replace(name, "some-name");
    let sets = state["replicaSets"].as_array().into_iter().flatten();
    for set in sets {
        let revision = &set["metadata"]["annotations"]["deployment.kubernetes.io/revision"];
        if let Some(hash) = set["metadata"]["labels"]["pod-template-hash"].as_str() {
            text = text.replace(hash, &format!("revision-{revision}").replace('"', ""));
        }
    }
    let ours = ["template-hash", "secret-hash"].map(|hash| format!("memcached.c5c3.io/{hash}"));
    // Those of a StatefulSet end with a hash of its template.
    let of_names = [&ours[..], &["currentRevision", "updateRevision"].map(str::to_owned)].concat();
    let mut state = serde_json::from_str(&text).unwrap_or(Value::Null);
    blank(&mut state, &of_names);
    if let Some(sets) = state["replicaSets"].as_array_mut() {
        sets.sort_by_key(|set| set["metadata"]["name"].to_string());
    }
    state
}

fn blank(value: &mut Value, names: &[String]) {
    match value {
        Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| {
            if value.is_string() && names.contains(name) {
                *value = json!("some-hash");
            }
            blank(value, names);
        }),
        Value::Array(items) => items.iter_mut().for_each(|item| blank(item, names)),
        _ => {}
    }
}

/// Paths at which two states differ, with both values.
pub fn differences(wanted: &Value, found: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    compare("", wanted, found, &mut paths);
    paths
}

fn compare(path: &str, wanted: &Value, found: &Value, paths: &mut Vec<String>) {
    match (wanted, found) {
        (Value::Object(a), Value::Object(b)) => {
            let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
            for name in names {
                let side =
                    |fields: &serde_json::Map<String, Value>| fields.get(name).cloned().unwrap_or_default();
                compare(&format!("{path}/{name}"), &side(a), &side(b), paths);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (wanted, found)) in a.iter().zip(b).enumerate() {
                compare(&format!("{path}/{at}"), wanted, found, paths);
            }
        }
        _ if wanted == found => {}
        _ => paths.push(format!("{path}: wanted {wanted}, found {found}")),
    }
}

/// Waits until the state is the wanted one. While the resource itself differs, nothing else is read.
pub async fn await_equal(space: &Space, name: &str, wanted: &Value) -> Result<()> {
    await_answer("the same end as without a fault", async || {
        let mut uids = vec![space.name().to_owned()];
        let resource = get::<Memcached>(space, name, &mut uids).await?;
        let mut differences = Vec::new();
        // Uids of others stand in fields only that are masked.
        compare("/resource", &wanted["resource"], &masked(&resource, &uids)?, &mut differences);
        if differences.is_empty() {
            let state = with_children(space, name, resource, uids).await?;
            differences = self::differences(wanted, &state);
        }
        ensure!(differences.is_empty(), "{}", differences.join("\n  "));
        Ok(())
    })
    .await
}

/// The ReplicaSets whose Deployment is gone, or another one: the collector of garbage takes its time.
async fn orphans(space: &Space, name: &str) -> Result<Vec<String>> {
    let owner = space.api::<Deployment>().get_opt(name).await?.and_then(|it| it.uid());
    let selector = ListParams::default().labels(&format!("app.kubernetes.io/instance={name}"));
    let mut sets = space.api::<ReplicaSet>().list(&selector).await?.items;
    sets.retain(|it| it.owner_references().first().is_some_and(|of| Some(&of.uid) != owner.as_ref()));
    Ok(sets.iter().map(ResourceExt::name_any).collect())
}

/// Waits until nothing has changed for a while and no garbage is left, and gives the state then.
pub async fn at_rest(space: &Space, name: &str) -> Result<Value> {
    let (mut last, mut same, mut since) = (Value::Null, 0, Instant::now());
    await_answer("it comes to rest", async || {
        let state = of(space, name).await?;
        if state == last {
            same += 1;
        } else {
            (last, same, since) = (state.clone(), 0, Instant::now());
        }
        ensure!(same >= 2 && since.elapsed() >= REST, "it still moves");
        let orphans = orphans(space, name).await?;
        ensure!(orphans.is_empty(), "not collected yet: {orphans:?}");
        Ok(state)
    })
    .await
}
