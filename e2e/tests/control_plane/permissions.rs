//! The chart grants exactly what the operator uses: no more, because the audit log shows every verb of every rule; no less,
//! because the operator has nothing else. Permissions that only the admission plugin for owner references asks for are in
//! no log; the clusters of this program have that plugin.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Result, ensure};
use e2e::chart::RELEASE;
use e2e::testing::audit::Request;
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::requests::Requests;
use e2e::testing::control_plane::transport::{Answer, Call, Forward, Interposer, Verb};
use e2e::testing::control_plane::{await_ready, children, everything, in_space, plain, reason};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::rights::{self, Right};
use e2e::testing::{LONGEST_WAIT, Space, await_answer};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use memcached_operator::api::Memcached;
use memcached_operator::kernel::object::ChildKind;
use serde_json::json;

use crate::name_conflicts;
use crate::support::features::Features;

const NAME: &str = "cache";

/// All that the chart grants, without what only the admission plugin for owner references asks for.
fn granted() -> Result<BTreeSet<Right>> {
    rights::granted(RELEASE, &json!({"rbac": {"ownerReferences": false}}))
}

/// What was used, and granted.
fn used(requests: &Requests) -> Result<BTreeSet<Right>> {
    let mut used = BTreeSet::new();
    for Request { group, resource, verb, code, .. } in requests.all()?.into_iter().filter(|it| it.code < 300)
    {
        let right = Right { group, resource, verb };
        // An apply that creates is logged as a patch, and needs both.
        if right.verb == "patch" && code == 201 {
            used.insert(Right { verb: "create".to_owned(), ..right.clone() });
        }
        used.insert(right);
    }
    Ok(used)
}

/// Somebody makes an object of their own at the very moment when the operator is about to make a child there.
struct Overtaken(Space);

impl Interposer for Overtaken {
    fn interpose(self: Arc<Self>, call: Call, forward: Forward) -> BoxFuture<'static, Answer> {
        Box::pin(async move {
            let taken = ChildKind::ALL.into_iter().find(|kind| {
                kind.plural() == call.resource
                    && kind.name_of_child(&name_conflicts::name(*kind)) == call.name
            });
            if let (Verb::Create, Some(kind)) = (call.verb, taken) {
                let object = serde_json::from_value(name_conflicts::theirs(kind))?;
                let objects = children::api(&self.0, kind);
                // It is there already when the operator tries again.
                let _ = objects.create(&PostParams::default(), &object).await;
                // Its controller reports on these at once. Told of that by its watch, the operator need not look.
                if kind == ChildKind::PodDisruptionBudget || kind.is_workload() {
                    let reported = |it: Option<&DynamicObject>| {
                        it.is_some_and(|it| it.data["status"]["observedGeneration"] == 1)
                    };
                    tokio::time::timeout(LONGEST_WAIT, await_condition(objects, &call.name, reported))
                        .await??;
                }
            }
            forward.send().await
        })
    }
}

/// Switches every feature on and off again.
async fn on_and_off(space: &Space) -> Result<()> {
    space.apply(&Features::Scaled.resource(NAME)?).await?;
    await_ready(space, NAME).await?;
    space.apply(&plain(NAME, &json!({"replicas": 1}))?).await?;
    await_ready(space, NAME).await?;
    await_answer("what was switched off is gone", async || {
        for kind in ChildKind::ALL.into_iter().filter(|kind| !children::is_of_every_resource(*kind)) {
            ensure!(children::of(space, kind, NAME).get_opt().await?.is_none(), "a {} is left", kind.name());
        }
        Ok(())
    })
    .await
}

/// Asks for a StatefulSet, two of whose pods fail and get another template, and for a Deployment again.
async fn named_and_back(space: &Space, kubelet: &Kubelet) -> Result<()> {
    let spec =
        |memory: i32| json!({"workload": "StatefulSet", "replicas": 2, "memcached": {"maxMemoryMB": memory}});
    space.apply(&plain(NAME, &spec(64))?).await?;
    await_ready(space, NAME).await?;
    kubelet.hold(NAME);
    let mut failed = Vec::new();
    for number in 0..2 {
        failed.push(fail(space, &format!("{NAME}-{number}")).await?);
    }
    space.apply(&plain(NAME, &spec(65))?).await?;
    let deleted = |it: Option<&Pod>| it.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some());
    for number in 0..2 {
        let first = failed.get(number).cloned().unwrap_or_default();
        let gone = |it: Option<&Pod>| deleted(it) || it.is_some_and(|pod| pod.metadata.uid != first);
        space.wait::<Pod>(&format!("{NAME}-{number}"), "it is replaced", gone).await?;
    }
    await_answer("an Event says that the operator deleted one", async || {
        let events = space.api::<Event>().list(&ListParams::default()).await?.items;
        let says = |it: &Event| {
            it.reason.as_deref() == Some("StuckPodDeleted")
                && it.note.as_ref().is_some_and(|note| note.contains("cannot pull memcached:1.6: not found"))
        };
        ensure!(events.iter().any(says), "no Event of {} does", events.len());
        Ok(())
    })
    .await?;
    kubelet.release(NAME);
    await_ready(space, NAME).await?;
    space.apply(&plain(NAME, &json!({"replicas": 1}))?).await?;
    await_ready(space, NAME).await?;
    await_answer("the StatefulSet is gone", async || {
        let left = children::of(space, ChildKind::StatefulSet, NAME).get_opt().await?;
        ensure!(left.is_none(), "it is there");
        Ok(())
    })
    .await
}

/// The kubelet says of a pod that its container cannot start. Gives the uid of the pod.
async fn fail(space: &Space, pod: &str) -> Result<Option<String>> {
    let waiting = json!({"waiting": {"reason": "ErrImagePull", "message": "not found"}});
    let container = json!({
        "name": "memcached", "image": "memcached:1.6", "imageID": "", "ready": false, "restartCount": 0, "state": waiting,
    });
    let status = json!({"status": {
        "conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": [container],
    }});
    let (params, patch) = (PatchParams::default(), Patch::Strategic(status));
    Ok(space.api::<Pod>().patch_status(pod, &params, &patch).await?.metadata.uid)
}

#[tokio::test]
async fn every_verb_that_the_chart_grants_is_used_and_none_beyond() -> Result<()> {
    in_space("permissions", async |space: &Space| {
        let kubelet = Kubelet::start(space);
        let requests = Requests::from_now_on(space)?;
        let operator = Operator::start(space, Arc::new(Overtaken(space.clone())), Kill::default()).await?;
        for kind in ChildKind::ALL {
            space.apply(&name_conflicts::resource(kind, true)?).await?;
        }
        space.apply(&everything(NAME)?).await?;
        on_and_off(space).await?;
        // The second time there is nothing new to tell, so that Events are counted up.
        on_and_off(space).await?;
        named_and_back(space, &kubelet).await?;
        for kind in ChildKind::ALL {
            let stalled = |it: &Memcached| reason(it, "Stalled") == Some("NameConflict");
            let wanted = format!("somebody's {} is in its way", kind.name());
            let name = name_conflicts::name(kind);
            space.wait::<Memcached>(&name, &wanted, |it| it.is_some_and(stalled)).await?;
        }
        let granted = granted()?;
        // Events, and lines of the log, come a little later.
        await_answer("what is used is what is granted", async || {
            let used = used(&requests)?;
            let idle: Vec<_> = granted.difference(&used).collect();
            let beyond: Vec<_> = used.difference(&granted).collect();
            ensure!(
                idle.is_empty() && beyond.is_empty(),
                "idle: {idle:?}, beyond what is granted: {beyond:?}"
            );
            Ok(())
        })
        .await?;
        operator.end().await
    })
    .await
}
