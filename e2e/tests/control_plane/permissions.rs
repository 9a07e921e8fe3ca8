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
use e2e::testing::control_plane::{SOON, await_ready, children, everything, in_space, plain, reason};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::rights::{self, Right};
use e2e::testing::{Space, await_answer};
use futures::future::BoxFuture;
use kube::api::{DynamicObject, PostParams};
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
                if matches!(kind, ChildKind::PodDisruptionBudget | ChildKind::Deployment) {
                    let reported = |it: Option<&DynamicObject>| {
                        it.is_some_and(|it| it.data["status"]["observedGeneration"] == 1)
                    };
                    tokio::time::timeout(SOON, await_condition(objects, &call.name, reported)).await??;
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
    await_answer("what was switched off is gone", SOON, async || {
        for kind in ChildKind::ALL.into_iter().filter(|kind| !children::is_of_every_resource(*kind)) {
            ensure!(children::of(space, kind, NAME).get_opt().await?.is_none(), "a {} is left", kind.name());
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn every_verb_that_the_chart_grants_is_used_and_none_beyond() -> Result<()> {
    in_space("permissions", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        let requests = Requests::from_now_on(space)?;
        let operator = Operator::start(space, Arc::new(Overtaken(space.clone())), Kill::default()).await?;
        for kind in ChildKind::ALL {
            space.apply(&name_conflicts::resource(kind, true)?).await?;
        }
        space.apply(&everything(NAME)?).await?;
        on_and_off(space).await?;
        // The second time there is nothing new to tell, so that Events are counted up.
        on_and_off(space).await?;
        for kind in ChildKind::ALL {
            let stalled = |it: &Memcached| reason(it, "Stalled") == Some("NameConflict");
            let wanted = format!("somebody's {} is in its way", kind.name());
            let name = name_conflicts::name(kind);
            space.wait::<Memcached>(&name, &wanted, SOON, |it| it.is_some_and(stalled)).await?;
        }
        let granted = granted()?;
        // Events, and lines of the log, come a little later.
        await_answer("what is used is what is granted", SOON, async || {
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
