//! The caches of the fleet, and what their users and an older operator do to them. Called by the test.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use anyhow::{Context, Result, ensure};
use e2e::testing::control_plane::children::{self, api};
use e2e::testing::control_plane::{at_once, define, plain, ready, secret};
use e2e::testing::{Space, await_answer, await_answer_within};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use memcached_operator::api::Memcached;
use memcached_operator::api::crd::crd;
use memcached_operator::api::spec::validate;
use memcached_operator::kernel::desired::Servers;
use memcached_operator::kernel::desired::default_images::BUILT_IN;
use memcached_operator::kernel::desired::meta::{
    INSTANCE_LABEL, SECRET_HASH, TEMPLATE_HASH, TEMPLATE_REVISION,
};
use memcached_operator::kernel::desired::partition::Partition;
use memcached_operator::kernel::desired::workload::workload;
use memcached_operator::kernel::desired::{Intent, LiveTemplate, Revision};
use memcached_operator::kernel::go_operator::pod_template::PreservedMetadata;
use memcached_operator::kernel::object::{ChildKind, FIELD_MANAGER, Key, Uid, Watched};
use memcached_operator::shell::kinds;
use serde_json::{Value, json};

use crate::ALL_READY_WITHIN;

/// Those that mount the Secret `shared`.
pub(crate) const SHARED: Range<usize> = 0..50;
/// Those that mount the Secret `own`.
pub(crate) const OWN: Range<usize> = 50..60;
/// Those that an older operator left.
pub(crate) const OLD: Range<usize> = 60..80;
/// All others; two of them are special.
pub(crate) const PLAIN: Range<usize> = 80..200;
/// Those of them whose pods have names.
pub(crate) const NAMED: Range<usize> = 190..200;
/// The cache that has a NetworkPolicy.
pub(crate) const GUARDED: usize = 96;
/// The cache whose pods have a limit.
pub(crate) const LIMITED: usize = 97;
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
        space.apply(&secret(name, "first")?).await?;
    }
    let sasl = |secret: &str| json!({"enabled": true, "credentialsSecretRef": {"name": secret}});
    let spec = |at| match at {
        at if SHARED.contains(&at) => json!({"security": {"sasl": sasl("shared")}}),
        at if OWN.contains(&at) => json!({"security": {"sasl": sasl("own")}}),
        GUARDED => json!({"security": {"networkPolicy": {"enabled": true}}}),
        LIMITED => json!({"resources": {"limits": {"memory": "256Mi"}}}),
        at if NAMED.contains(&at) => json!({"workload": "StatefulSet"}),
        _ => json!({}),
    };
    at_once(AT_ONCE, NEW.map(async |at| space.apply(&plain(&name(at), &spec(at))?).await)).await?;
    Ok(())
}

/// Gives a Secret another content.
pub(crate) async fn rotate(space: &Space, of: &str) -> Result<()> {
    space.apply(&secret(of, "second")?).await?;
    Ok(())
}

/// Merges something into a spec, as its user.
pub(crate) async fn edit(space: &Space, at: usize, change: &Value) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": change}));
    space.api::<Memcached>().patch(&name(at), &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Waits until every resource says that it is ready.
pub(crate) async fn all_ready(space: &Space) -> Result<()> {
    let resources: Api<Memcached> = space.api();
    await_answer_within("all caches are ready", ALL_READY_WITHIN, async || {
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
    for kind in children::built_in() {
        objects.push(json!(api(space, kind).list(&ListParams::default()).await?.items));
    }
    Ok(Value::from(objects))
}

/// Writes a Deployment as an operator that knew the first revision only would have, and waits until its pods are ready.
pub(crate) async fn predate(space: &Space, at: usize) -> Result<()> {
    let resource = space.api::<Memcached>().get(&name(at)).await?;
    let spec = validate(&name(at), &resource.spec).map_err(|violations| anyhow::anyhow!("{violations:?}"))?;
    let key = Key { namespace: space.name().to_owned(), name: name(at) };
    let uid = Uid::from(resource.uid().context("a stored object has a uid")?);
    let intent = Intent {
        key: &key,
        uid: &uid,
        spec: &spec,
        replicas: Some(spec.replicas),
        partition: Partition::OF_NONE,
        servers: Servers::Service,
        secret_hash: None,
        restart_trigger: None,
        images: &BUILT_IN,
        counted: spec.workload.into(),
        listening: None,
        operator_pods: None,
    };
    let live = LiveTemplate {
        revision: Revision::GO_OPERATOR,
        hash: intent.hash(),
        preserved: PreservedMetadata::default(),
        secret_hash: None,
        of_unknown_revision: None,
        images: None,
    };
    let body: DynamicObject = serde_json::from_value(workload(&intent, Some(&live)).body)?;
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
    space.wait(&name(at), "it runs the older template", rolled).await?;
    Ok(())
}

/// Sets `progressDeadlineSeconds` of a Deployment, a field that the operator leaves to others.
pub(crate) async fn give_up_after(space: &Space, at: usize, seconds: u32) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": {"progressDeadlineSeconds": seconds}}));
    api(space, ChildKind::Deployment).patch(&name(at), &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Deletes the ReplicaSets of earlier templates. For a rollout that goes back to one of them Kubernetes counts a deadline only
/// where its controller sees the numbers of both change one after the other.
pub(crate) async fn forget_earlier_templates(space: &Space, range: Range<usize>) -> Result<()> {
    let names: BTreeSet<String> = range.map(name).collect();
    let all = space.api::<ReplicaSet>();
    for set in all.list(&ListParams::default()).await? {
        let is_of_one = set.labels().get(INSTANCE_LABEL).is_some_and(|cache| names.contains(cache));
        if is_of_one && set.spec.as_ref().and_then(|spec| spec.replicas) == Some(0) {
            all.delete(&set.name_any(), &DeleteParams::default()).await?;
        }
    }
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

/// The hash by which each Deployment knows the intent that its template was rendered from, by name.
pub(crate) async fn template_hashes(space: &Space) -> Result<BTreeMap<String, String>> {
    let hash = |it: &Deployment| Some((it.name_any(), it.annotations().get(TEMPLATE_HASH)?.clone()));
    Ok(deployments(space, NEW).await?.iter().filter_map(hash).collect())
}

/// Gives the definition one more field, which no build here knows.
pub(crate) async fn define_later(space: &Space) -> Result<()> {
    let mut definition = serde_json::to_value(crd())?;
    for version in definition["spec"]["versions"].as_array_mut().context("it has versions")? {
        let fields = version.pointer_mut("/schema/openAPIV3Schema/properties/spec/properties");
        fields.context("its spec has fields")?["later"] = json!({"type": "string"});
    }
    define(&space.client(), &serde_json::from_value(definition)?).await
}

/// Sets that field, as its user, once the API server knows it.
pub(crate) async fn set_later(space: &Space, at: usize) -> Result<()> {
    await_answer("the API server knows the field", async || {
        edit(space, at, &json!({"later": "kept"})).await?;
        ensure!(later(space, at).await? == "kept", "it prunes it");
        Ok(())
    })
    .await
}

/// What that field holds.
pub(crate) async fn later(space: &Space, at: usize) -> Result<Value> {
    let resource = kinds::api_resource(Watched::Memcached);
    let resources: Api<DynamicObject> = Api::namespaced_with(space.client(), space.name(), &resource);
    Ok(resources.get(&name(at)).await?.data["spec"]["later"].clone())
}

/// How many pod templates are of this build's newest revision.
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
