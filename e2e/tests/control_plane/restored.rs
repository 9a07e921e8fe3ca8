//! Etcd is put back to an earlier time while the operator runs, and the control plane is started anew: resource versions go
//! back, edits and a resource are lost, and another resource is there again.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, ensure};
use e2e::Shape;
use e2e::testing::control_plane::faults::{Aim, Fault, Faults, Lasting};
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::requests::Requests;
use e2e::testing::control_plane::transport::Verb;
use e2e::testing::control_plane::{at_once, await_ready, plain, resource, secret, state, up};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::{Space, await_answer, in_namespace_of};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::api::{DeleteParams, ListParams};
use memcached_operator::api::Memcached;
use serde_json::{Value, json};

/// What the backup holds.
const NAMES: [&str; 4] = ["deleted", "edited", "kept", "rotated"];
/// Kinds of which this test awaits a list. There is no StatefulSet here: a watch without any object may go on from a version that
/// does not exist any more, and be begun anew only after minutes.
const LISTED: [&str; 6] = ["memcacheds", "deployments", "services", "configmaps", "secrets", "pods"];

fn cache(name: &str, memory: i32) -> Result<Memcached> {
    plain(name, &json!({"replicas": 1, "memcached": {"maxMemoryMB": memory}}))
}

/// Waits until these are at rest, and gives the state of each.
async fn at_rest<const N: usize>(
    space: &Space,
    names: [&'static str; N],
) -> Result<Vec<(&'static str, Value)>> {
    at_once(N, names.map(|name| async move { Ok((name, state::at_rest(space, name).await?)) })).await
}

/// Waits until the pods of this resource have had so many templates, and the last one is ready.
async fn await_templates(space: &Space, name: &str, wanted: usize) -> Result<()> {
    let selector = ListParams::default().labels(&format!("app.kubernetes.io/instance={name}"));
    await_answer(&format!("{name} has had {wanted} pod templates"), async || {
        let had = space.api::<ReplicaSet>().list(&selector).await?.items.len();
        ensure!(had == wanted, "{had}");
        Ok(())
    })
    .await?;
    await_ready(space, name).await?;
    Ok(())
}

/// What a backup of before lacks.
async fn go_on(space: &Space) -> Result<()> {
    space.apply(&cache("edited", 65)?).await?;
    space.apply(&secret("rotated", "second")?).await?;
    space.api::<Memcached>().delete("deleted", &DeleteParams::background()).await?;
    space.apply(&cache("made", 64)?).await?;
    await_templates(space, "edited", 2).await?;
    await_templates(space, "rotated", 2).await?;
    await_templates(space, "made", 1).await?;
    at_rest(space, ["edited", "made", "rotated"]).await?;
    Ok(())
}

/// Puts etcd back, and waits until the operator has listed all of [`LISTED`] since.
async fn restore(space: &Space, faults: &Faults, requests: &Requests) -> Result<()> {
    // A watch that goes on from a version that does not exist any more hears of nothing, and is begun anew only after minutes.
    faults.arm(Aim {
        verbs: &[Verb::Watch],
        resource: "memcacheds",
        name: String::new(),
        fault: Fault::Gone,
        lasting: Lasting::Once,
    });
    space.cluster().restore().await?;
    await_answer("the operator lists anew", async || {
        let all = requests.all()?;
        let listed = |kind: &str| {
            let mut of_kind = all.iter().filter(|it| it.resource == kind);
            of_kind.any(|it| it.verb == "list" && it.code == 200)
        };
        let missing: Vec<_> = LISTED.into_iter().filter(|kind| !listed(kind)).collect();
        ensure!(missing.is_empty(), "not yet: {missing:?}");
        Ok(())
    })
    .await
}

/// Everything is as it was at the backup, and the operator has nothing to do with that.
async fn as_at_the_backup(
    space: &Space,
    before: &[(&str, Value)],
    operator: &Operator,
    requests: &Requests,
) -> Result<()> {
    operator.ready().await?;
    for (name, wanted) in before {
        state::await_equal(space, name, wanted).await?;
    }
    await_answer("nothing waits to be looked at", async || {
        let page = operator.page("/metrics").await?;
        ensure!(page.lines().any(|line| line == "memcached_operator_queue_depth 0"), "{page}");
        Ok(())
    })
    .await?;
    let made = space.api::<Deployment>().get_opt("made").await?;
    ensure!(made.is_none(), "what was lost is made again: {made:?}");
    let writes = requests.of_children()?;
    ensure!(writes.is_empty(), "pods run what they should, and it wrote {writes:?}");
    Ok(())
}

/// The operator, which was not started again, goes on with what comes next.
async fn goes_on(space: &Space, requests: &Requests) -> Result<()> {
    let _kubelet = Kubelet::start(space);
    space.apply(&cache("edited", 66)?).await?;
    space.apply(&secret("rotated", "third")?).await?;
    space.apply(&cache("made", 64)?).await?;
    await_templates(space, "edited", 2).await?;
    await_templates(space, "rotated", 2).await?;
    await_templates(space, "made", 1).await?;
    let writes = requests.of_children()?;
    let once = ["configmaps made-servers", "deployments edited", "deployments made", "deployments rotated"];
    let wanted: BTreeMap<_, _> =
        once.into_iter().chain(["services made"]).map(|it| (it.to_owned(), 1)).collect();
    ensure!(writes == wanted, "{writes:?} instead of {wanted:?}");
    Ok(())
}

#[tokio::test]
async fn after_a_restore_of_etcd_no_pod_rolls_what_was_lost_stays_lost_and_edits_go_on() -> Result<()> {
    let cluster = up("restored", Shape::Controllers).await?;
    in_namespace_of(&cluster, "restored", async |space| {
        let faults = Arc::new(Faults::default());
        let operator = Operator::start(space, Arc::clone(&faults) as Arc<_>, Kill::default()).await?;
        let kubelet = Kubelet::start(space);
        space.apply(&secret("rotated", "first")?).await?;
        space.apply(&resource("rotated", 1, 64)?).await?;
        for name in ["deleted", "edited", "kept"] {
            space.apply(&cache(name, 64)?).await?;
        }
        for name in NAMES {
            await_ready(space, name).await?;
        }
        let before = at_rest(space, NAMES).await?;
        cluster.back_up()?;
        go_on(space).await?;
        // Its watch is one of the history that goes.
        drop(kubelet);

        let requests = Requests::from_now_on(space)?;
        restore(space, &faults, &requests).await?;
        as_at_the_backup(space, &before, &operator, &requests).await?;
        goes_on(space, &requests).await?;
        operator.end().await
    })
    .await?;
    e2e::down(cluster.name())?;
    Ok(())
}
