//! What is applied twice changes nothing, by the API server's own account; and an operator that starts anew writes
//! nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use e2e::testing::control_plane::due_warnings::{self, DueWarnings};
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::requests::Requests;
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{at_once, await_ready, in_space};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::{Space, await_answer};
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use memcached_operator::api::Memcached;
use memcached_operator::api::spec::{STATEFUL_SET, Workload, validate};
use memcached_operator::kernel::desired::Servers;
use memcached_operator::kernel::desired::default_images::BUILT_IN;
use memcached_operator::kernel::desired::partition::Partition;
use memcached_operator::kernel::desired::ports::Listening;
use memcached_operator::kernel::desired::{Desired, Intent, LiveTemplate, children};
use memcached_operator::kernel::object::{ChildKind, FIELD_MANAGER, Key, Uid};
use serde_json::{Value, json};

use crate::{generate, world};

const BATCHES: usize = 3;
const IN_A_BATCH: usize = 70;
const AT_ONCE: usize = 10;

/// The resourceVersion of each resource and of its children, by the resource's name and the kind.
type Versions = BTreeMap<(String, &'static str), String>;

/// Those of these resources.
async fn versions(space: &Space, names: &[String]) -> Result<Versions> {
    let all = ListParams::default();
    let mut versions = BTreeMap::new();
    for kind in ChildKind::ALL {
        let found = world::children(space, kind).list(&all).await?.items;
        let by_name: BTreeMap<_, _> = found.into_iter().map(|it| (it.name_any(), it)).collect();
        for name in names {
            let child = by_name.get(&*kind.name_of_child(name));
            let version = child.and_then(ResourceExt::resource_version);
            versions.extend(version.map(|version| ((name.clone(), kind.name()), version)));
        }
    }
    let resources = space.api::<Memcached>().list(&all).await?.items;
    versions.extend(
        resources.into_iter().filter_map(|it| Some(((it.name_any(), "Memcached"), it.resource_version()?))),
    );
    Ok(versions)
}

/// Waits until the controllers of some children have said what they have to say.
async fn await_reports(space: &Space, name: &str) -> Result<()> {
    for kind in [ChildKind::PodDisruptionBudget, ChildKind::HorizontalPodAutoscaler] {
        await_answer("its controller has reported", async || {
            let child = world::children(space, kind).get_opt(name).await?;
            let reported = |it: &DynamicObject| it.data["status"]["conditions"].is_array();
            ensure!(child.as_ref().is_none_or(reported), "{name}: {child:?}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// What the operator would apply now.
async fn desired(space: &Space, name: &str) -> Result<Desired> {
    let resource = space.api::<Memcached>().get(name).await?;
    let spec = validate(name, &resource.spec).map_err(|broken| anyhow!("{broken:?}"))?;
    let workload = json!(world::children(space, spec.workload.into()).get(name).await?);
    // On the workload itself, where pods take a changed Secret in place.
    let secret_hash =
        ["/spec/template/metadata/annotations", "/metadata/annotations"].iter().find_map(|at| {
            workload.pointer(at)?.get("memcached.c5c3.io/secret-hash")?.as_str().map(str::to_owned)
        });
    let uid = Uid::from(resource.uid().context("a stored object has a uid")?);
    let live = LiveTemplate::from_workload(&workload, None);
    let pods = workload["spec"]["replicas"].as_i64().context("a stored workload has a number of pods")?;
    let servers = match spec.workload {
        Workload::Deployment => Servers::Service,
        Workload::StatefulSet => Servers::Pods(i32::try_from(pods)?),
    };
    let intent = Intent {
        key: &Key { namespace: space.name().to_owned(), name: name.to_owned() },
        uid: &uid,
        replicas: spec.autoscaling.is_none().then_some(spec.replicas),
        partition: Partition::OF_NONE,
        servers,
        spec: &spec,
        secret_hash: secret_hash.as_deref(),
        restart_trigger: None,
        images: &BUILT_IN,
        counted: spec.workload.into(),
        listening: live
            .as_ref()
            .map(|live| Listening { revision: live.revision, for_tls: spec.security.tls.is_some() }),
        operator_pods: None,
    };
    Ok(children(&intent, live.as_ref()))
}

/// Applies everything once more: the resource as its user does, the children as the operator would.
async fn apply_again(space: &Space, name: &str, spec: &Value) -> Result<()> {
    world::apply(space, name, spec).await?;
    for (kind, body) in desired(space, name).await?.bodies {
        let params = PatchParams::apply(FIELD_MANAGER).force();
        world::children(space, kind).patch(&kind.name_of_child(name), &params, &Patch::Apply(body)).await?;
    }
    Ok(())
}

/// Applies all of these twice.
async fn twice(space: &Space, names: &[String], specs: &[Value]) -> Result<()> {
    for _ in 0..2 {
        // A warning that becomes due comes by itself, and changes the resource.
        let warned = due_warnings::warned(space).await?;
        let before = versions(space, names).await?;
        let again = names.iter().zip(specs).map(|(name, spec)| apply_again(space, name, spec));
        at_once(AT_ONCE, again).await?;
        // Not a wait: managers' times count seconds, so that a change within one would not show.
        tokio::time::sleep(Duration::from_millis(1_001)).await;
        let after = versions(space, names).await?;
        let warned_now = due_warnings::warned(space).await?;
        for (name, spec) in names.iter().zip(specs) {
            let of_resource = |versions: &Versions| {
                let all = versions.iter().filter(|((of, kind), _)| {
                    of == name && (*kind != "Memcached" || warned.contains(name) == warned_now.contains(name))
                });
                all.map(|((_, kind), version)| (*kind, version.clone())).collect::<BTreeMap<_, _>>()
            };
            let [before, after] = [&before, &after].map(of_resource);
            ensure!(after == before, "{name}: {before:?} became {after:?}: {spec}");
        }
    }
    Ok(())
}

async fn start(space: &Space) -> Result<Operator> {
    Operator::start(space, Arc::new(Straight), Kill::default()).await
}

/// Waits until an operator that has just started has looked at so many resources.
async fn await_looked_at(operator: &Operator, resources: usize) -> Result<()> {
    await_answer("every resource has been looked at", async || {
        let page = operator.page("/metrics").await?;
        let value = |name: &str| {
            let value =
                page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
            value.with_context(|| format!("no metric {name}"))
        };
        let passes: usize = value("memcached_operator_reconcile_total{result=\"success\"}")?;
        let waiting: usize = value("memcached_operator_queue_depth")?;
        ensure!(passes >= resources && waiting == 0, "{passes} passes, {waiting} waiting");
        Ok(())
    })
    .await
}

async fn batch(space: &Space, operator: Operator, specs: &[Value]) -> Result<Operator> {
    let names: Vec<_> = (0..specs.len()).map(|number| format!("cache-{number:03}")).collect();
    let settle = names.iter().zip(specs).map(|(name, spec)| async move {
        world::apply(space, name, spec).await?;
        await_ready(space, name).await.with_context(|| spec.to_string())?;
        await_reports(space, name).await
    });
    at_once(AT_ONCE, settle).await?;
    twice(space, &names, specs).await?;

    operator.end().await?;
    let (requests, due) = (Requests::from_now_on(space)?, DueWarnings::from_now_on(space).await?);
    let operator = start(space).await?;
    await_looked_at(&operator, specs.len()).await?;
    // Nothing but what time brings: an autoscaler without metrics is warned of after two minutes.
    await_answer("each write of a restart is a warning that was due", async || {
        let (writes, due) = (requests.writes()?, due.writes().await?);
        ensure!(writes == due, "a restart cost {writes:?}, and due was {due:?}");
        Ok(())
    })
    .await?;

    let all = ListParams::default();
    space.api::<Memcached>().delete_collection(&DeleteParams::background(), &all).await?;
    await_answer("the garbage is collected", async || {
        for kind in ChildKind::ALL.into_iter().filter(|kind| kind.is_workload()) {
            let left = world::children(space, kind).list(&all).await?.items.len();
            ensure!(left == 0, "{left} are left of {}", kind.plural());
        }
        Ok(())
    })
    .await?;
    Ok(operator)
}

#[tokio::test]
async fn what_is_applied_twice_changes_nothing_and_a_restart_writes_nothing() -> Result<()> {
    in_space("twice", async |space: &Space| {
        world::furnish(space).await?;
        let _kubelet = Kubelet::start(space);
        let specs = generate::specs(BATCHES * IN_A_BATCH);
        let mut operator = start(space).await?;
        for batch_of_specs in specs.chunks(IN_A_BATCH) {
            operator = batch(space, operator, batch_of_specs).await?;
        }
        let named = specs.iter().filter(|spec| spec["workload"] == STATEFUL_SET).count();
        let count = specs.len();
        println!("{count} generated resources, {named} with a StatefulSet, applied twice, {BATCHES} restarts without a write");
        ensure!((count / 4..count * 3 / 4).contains(&named), "each kind has its share");
        operator.end().await
    })
    .await
}
