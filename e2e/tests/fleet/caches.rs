//! The caches of the fleet, and what their users and an older operator do to them. Called by the test.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::testing::{Space, await_answer};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use memcached_operator::api::Memcached;
use memcached_operator::api::validate::validate;
use memcached_operator::kernel::desired::deployment::deployment;
use memcached_operator::kernel::desired::meta::{SECRET_HASH, TEMPLATE_REVISION};
use memcached_operator::kernel::desired::peer::Carried;
use memcached_operator::kernel::desired::{Intent, LiveTemplate, Revision};
use memcached_operator::kernel::object::{ChildKind, FIELD_MANAGER, Key, Uid};
use serde_json::{Value, json};

use crate::support::children::api;
use crate::support::{at_once, plain, ready, secret};

/// Those that mount the Secret `shared`.
pub(crate) const SHARED: Range<usize> = 0..50;
/// Those that mount the Secret `own`.
pub(crate) const OWN: Range<usize> = 50..60;
/// Those that an older operator left.
pub(crate) const OLD: Range<usize> = 60..80;
/// All others.
pub(crate) const PLAIN: Range<usize> = 80..200;
/// All.
pub(crate) const NEW: Range<usize> = 0..200;

/// Requests of the test under way at once.
const AT_ONCE: usize = 16;

pub(crate) fn name(at: usize) -> String {
    format!("cache-{at:03}")
}

/// Makes them all.
pub(crate) async fn create(space: &Space) -> Result<()> {
    for name in ["shared", "own"] {
        space.apply(&secret(name, "first\n")?).await?;
    }
    let sasl = |secret: &str| json!({"enabled": true, "credentialsSecretRef": {"name": secret}});
    let spec = |at| match at {
        at if SHARED.contains(&at) => json!({"security": {"sasl": sasl("shared")}}),
        at if OWN.contains(&at) => json!({"security": {"sasl": sasl("own")}}),
        _ => json!({}),
    };
    at_once(AT_ONCE, NEW.map(async |at| space.apply(&plain(&name(at), &spec(at))?).await)).await?;
    Ok(())
}

/// Gives a Secret another content.
pub(crate) async fn rotate(space: &Space, of: &str) -> Result<()> {
    space.apply(&secret(of, "second\n")?).await?;
    Ok(())
}

/// Merges something into a spec, as its user.
pub(crate) async fn edit(space: &Space, at: usize, change: &Value) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": change}));
    space.api::<Memcached>().patch(&name(at), &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Waits until every resource says that it is ready.
pub(crate) async fn all_ready(space: &Space, limit: Duration) -> Result<()> {
    let resources: Api<Memcached> = space.api();
    await_answer(("all caches are ready", limit), async || {
        let all = resources.list(&ListParams::default()).await?;
        let missing = all.iter().filter(|it| !ready(it)).map(ResourceExt::name_any).collect::<Vec<_>>();
        ensure!(all.items.len() == NEW.end && missing.is_empty(), "not ready: {missing:?}");
        Ok(())
    })
    .await
}

/// All resources and children.
pub(crate) async fn state(space: &Space) -> Result<Value> {
    let mut objects = vec![json!(space.api::<Memcached>().list(&ListParams::default()).await?.items)];
    for kind in [ChildKind::Deployment, ChildKind::Service] {
        objects.push(json!(api(space, kind).list(&ListParams::default()).await?.items));
    }
    Ok(Value::from(objects))
}

/// Writes a Deployment as an operator that knew the first revision only would have, and waits until its pods are ready.
pub(crate) async fn predate(space: &Space, at: usize) -> Result<()> {
    let resource = space.api::<Memcached>().get(&name(at)).await?;
    let spec = validate(&name(at), &resource.spec).map_err(|violations| anyhow::anyhow!("{violations:?}"))?;
    let key = Key { namespace: space.name().to_owned(), name: name(at) };
    let uid = Uid(resource.uid().context("a stored object has a uid")?);
    let intent = Intent {
        key: &key,
        uid: &uid,
        spec: &spec,
        replicas: Some(spec.replicas),
        secret_hash: None,
        restart_trigger: None,
    };
    let (revision, carried) = (Revision::PEER, Carried::default());
    let live = LiveTemplate { revision, hash: intent.hash(), carried, foreign: None };
    let body: DynamicObject = serde_json::from_value(deployment(&intent, Some(&live)).body)?;
    let params = PatchParams::apply(FIELD_MANAGER).force();
    api(space, ChildKind::Deployment).patch(&name(at), &params, &Patch::Apply(&body)).await?;
    let rolled = |it: Option<&Deployment>| {
        let status = it.and_then(|it| it.status.as_ref().map(|status| (it.metadata.generation, status)));
        status.is_some_and(|(generation, status)| {
            status.observed_generation >= generation
                && status.updated_replicas == Some(1)
                && status.replicas == Some(1)
                && status.available_replicas == Some(1)
        })
    };
    space.wait(&name(at), ("it runs the older template", Duration::from_secs(60)), rolled).await?;
    Ok(())
}

/// Lets a rollout count as failed after this many seconds; the operator leaves that field to whoever sets it.
pub(crate) async fn give_up_after(space: &Space, at: usize, seconds: u32) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": {"progressDeadlineSeconds": seconds}}));
    api(space, ChildKind::Deployment).patch(&name(at), &PatchParams::default(), &patch).await?;
    Ok(())
}

/// The hashes that these templates carry.
pub(crate) async fn secret_hashes(space: &Space, range: Range<usize>) -> Result<BTreeSet<String>> {
    let all = deployments(space, range).await?;
    let hash = |it: &Deployment| {
        let annotations = it.spec.as_ref()?.template.metadata.as_ref()?.annotations.as_ref()?;
        annotations.get(SECRET_HASH).cloned()
    };
    all.iter().map(|it| hash(it).context("a template without a hash")).collect()
}

/// How many are rendered by this build's newest rules.
pub(crate) async fn at_newest(space: &Space, range: Range<usize>) -> Result<usize> {
    let newest = Revision::NEWEST.0.to_string();
    let all = deployments(space, range).await?;
    Ok(all.iter().filter(|it| it.annotations().get(TEMPLATE_REVISION) == Some(&newest)).count())
}

async fn deployments(space: &Space, range: Range<usize>) -> Result<Vec<Deployment>> {
    let names: BTreeSet<String> = range.map(name).collect();
    let all = space.api::<Deployment>().list(&ListParams::default()).await?.items;
    Ok(all.into_iter().filter(|it| names.contains(&it.name_any())).collect())
}
