//! Lists and watches that fail, each kind in each way: while a list is missing nothing is written, and when it is back
//! everything goes on as if nothing had been. While that of StatefulSets is missing, only resources with named pods wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::testing::Space;
use e2e::testing::control_plane::faults::{Aim, Fault, Faults, Lasting};
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::requests::Requests;
use e2e::testing::control_plane::transport::{Straight, Verb};
use e2e::testing::control_plane::{at_once, await_ready, in_space, message, secret};
use memcached_operator::api::Memcached;
use memcached_operator::api::spec::STATEFUL_SET;
use memcached_operator::kernel::object::ChildKind;

const NAME: &str = "cache";
/// Not every resource needs this kind.
const STATEFUL_SETS: &str = ChildKind::StatefulSet.plural();
const KINDS: [&str; 6] = ["memcacheds", "deployments", STATEFUL_SETS, "services", "secrets", "pods"];

fn lasting(at: usize) -> Lasting {
    if at.is_multiple_of(2) { Lasting::Once } else { Lasting::UntilCleared }
}

/// A resource without pods, which needs this kind.
fn resource(kind: &str, memory: i32) -> Result<Memcached> {
    let mut resource = e2e::testing::control_plane::resource(NAME, 0, memory)?;
    resource.spec.workload = (kind == STATEFUL_SETS).then(|| STATEFUL_SET.to_owned());
    Ok(resource)
}

/// The writes of children that an edit costs. The apply that brings another template to a StatefulSet lets its pods go, and
/// one more holds them again.
fn writes_of_an_edit(kind: &str) -> BTreeMap<String, usize> {
    let (workload, writes) = if kind == STATEFUL_SETS { (kind, 2) } else { ("deployments", 1) };
    [(format!("{workload} {NAME}"), writes)].into()
}

/// Without this list no resource is touched, and the operator is not ready.
async fn everything_waits(
    space: &Space,
    operator: &Operator,
    faults: &Faults,
    edit: &Memcached,
) -> Result<()> {
    let page = operator.readyz().await?;
    ensure!(page.starts_with("HTTP/1.0 503"), "it is ready without a list: {page}");
    space.apply(edit).await?;
    ensure!(faults.writes() == 0, "it wrote without a list");
    Ok(())
}

/// Without a list of StatefulSets the operator works. A resource that needs one says so, and no child of it is touched.
async fn it_alone_waits(
    space: &Space,
    operator: &Operator,
    requests: &Requests,
    edit: &Memcached,
) -> Result<()> {
    operator.ready().await?;
    space.apply(edit).await?;
    let says = |it: &Memcached| {
        let observed = it.status.as_ref().map(|status| status.observed_generation);
        let words = format!("list and watch {STATEFUL_SETS}");
        observed == it.metadata.generation && message(it, "Ready").is_some_and(|it| it.contains(&words))
    };
    space.wait::<Memcached>(NAME, "it says which list is missing", |it| it.is_some_and(says)).await?;
    let writes = requests.of_children()?;
    ensure!(writes.is_empty(), "wrote {writes:?} without a list");
    Ok(())
}

/// An operator that cannot list a kind: it waits, touches nothing, and is well afterwards.
async fn list_fails(space: &Space, aim: Aim, requests: &Requests, edit: &Memcached) -> Result<()> {
    let faults = Arc::new(Faults::default());
    faults.arm(aim.clone());
    let operator = Operator::spawn(space, Arc::clone(&faults) as Arc<_>, Kill::default()).await?;
    let strikes = if aim.lasting == Lasting::UntilCleared { 2 } else { 1 };
    faults.await_fired(&aim, strikes).await?;
    match aim.lasting {
        Lasting::Once => {
            space.apply(edit).await?;
        }
        Lasting::UntilCleared if aim.resource == STATEFUL_SETS => {
            it_alone_waits(space, &operator, requests, edit).await?;
        }
        Lasting::UntilCleared => everything_waits(space, &operator, &faults, edit).await?,
    }
    faults.clear("");
    operator.ready().await?;
    await_ready(space, NAME).await?;
    operator.end().await
}

/// An operator whose watch breaks off hears of an edit all the same.
async fn watch_fails(space: &Space, aim: Aim, edit: &Memcached) -> Result<()> {
    let faults = Arc::new(Faults::default());
    faults.arm(aim.clone());
    let operator = Operator::spawn(space, Arc::clone(&faults) as Arc<_>, Kill::default()).await?;
    let strikes = if aim.lasting == Lasting::UntilCleared { 2 } else { 1 };
    faults.await_fired(&aim, strikes).await?;
    space.apply(edit).await?;
    faults.clear("");
    await_ready(space, NAME).await?;
    operator.end().await
}

/// One kind through all faults, one after the other; gives their number.
async fn lane(space: &Space, kind: &'static str, verb: Verb) -> Result<usize> {
    space.apply(&secret(NAME, "first")?).await?;
    space.apply(&resource(kind, 64)?).await?;
    let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
    await_ready(space, NAME).await?;
    operator.end().await?;
    for (at, (fault, memory)) in Fault::of_lists().zip(65..).enumerate() {
        let verbs: &'static [Verb] = if verb == Verb::List { &[Verb::List] } else { &[Verb::Watch] };
        let aim = Aim { verbs, resource: kind, name: String::new(), fault, lasting: lasting(at) };
        let described = format!("{aim:?}");
        let (requests, edit) = (Requests::from_now_on(space)?, resource(kind, memory)?);
        let ended = match verb {
            Verb::List => list_fails(space, aim, &requests, &edit).await,
            _ => watch_fails(space, aim, &edit).await,
        };
        ended.with_context(|| described.clone())?;
        let writes = requests.of_children()?;
        ensure!(writes == writes_of_an_edit(kind), "{described}: wrote {writes:?} instead of one edit");
    }
    Ok(Fault::of_lists().count())
}

#[tokio::test]
async fn lists_and_watches_that_fail_in_any_way_cost_time_and_nothing_else() -> Result<()> {
    let lanes = KINDS.into_iter().flat_map(|kind| [(kind, Verb::List), (kind, Verb::Watch)]);
    let plans = at_once(
        2 * KINDS.len(),
        lanes.map(|(kind, verb)| async move {
            let mut plans = 0;
            in_space("watches", async |space: &Space| {
                plans = lane(space, kind, verb).await?;
                Ok(())
            })
            .await?;
            Ok(plans)
        }),
    )
    .await?;
    println!("{} plans, all with the same end", plans.iter().sum::<usize>());
    Ok(())
}
