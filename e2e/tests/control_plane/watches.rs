//! Lists and watches that fail, each kind in each way: while a list is missing nothing is written, and when it is back
//! everything goes on as if nothing had been. While that of StatefulSets is missing, only resources with named pods wait.
//!
//! Of a list that is missing each kind tells another story. A watch that fails has to do nothing but begin anew, so that those of all kinds
//! fail at the same time, each in another way, and each in every way in turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::testing::Space;
use e2e::testing::control_plane::faults::{Aim, Fault, Faults, Lasting};
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::requests::Requests;
use e2e::testing::control_plane::transport::{Answer, Call, Forward, Interposer, Straight, Verb};
use e2e::testing::control_plane::{at_once, await_ready, in_space, message, secret};
use futures::future::BoxFuture;
use memcached_operator::api::Memcached;
use memcached_operator::api::spec::STATEFUL_SET;
use memcached_operator::kernel::object::ChildKind;

const NAME: &str = "cache";
/// Not every resource needs this kind.
const STATEFUL_SETS: &str = ChildKind::StatefulSet.plural();
/// Kinds that one resource needs.
const KINDS: [&[&str]; 2] = [&["memcacheds", "deployments", "services", "secrets", "pods"], &[STATEFUL_SETS]];

fn lasting(at: usize) -> Lasting {
    if at.is_multiple_of(2) { Lasting::Once } else { Lasting::UntilCleared }
}

/// How often it has to strike.
fn strikes(aim: &Aim) -> usize {
    if aim.lasting == Lasting::UntilCleared { 2 } else { 1 }
}

/// A resource without pods, which needs these kinds.
fn resource(kinds: &[&str], memory: i32) -> Result<Memcached> {
    let mut resource = e2e::testing::control_plane::resource(NAME, 0, memory)?;
    resource.spec.workload = kinds.contains(&STATEFUL_SETS).then(|| STATEFUL_SET.to_owned());
    Ok(resource)
}

/// The writes of children that an edit costs. The apply that brings another template to a StatefulSet lets its pods go, and
/// one more holds them again.
fn writes_of_an_edit(kinds: &[&str]) -> BTreeMap<String, usize> {
    let named = kinds.contains(&STATEFUL_SETS);
    let (workload, writes) = if named { (STATEFUL_SETS, 2) } else { ("deployments", 1) };
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
async fn list_fails(space: &Space, aim: &Aim, requests: &Requests, edit: &Memcached) -> Result<()> {
    let faults = Arc::new(Faults::default());
    faults.arm(aim.clone());
    let operator = Operator::spawn(space, Arc::clone(&faults) as Arc<_>, Kill::default()).await?;
    faults.await_fired(aim, strikes(aim)).await?;
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

/// Fails the requests of each kind in a way of its own.
struct OfKinds(Vec<(Aim, Arc<Faults>)>);

impl OfKinds {
    fn armed(aims: &[Aim]) -> Self {
        let armed = |aim: &Aim| {
            let faults = Faults::default();
            faults.arm(aim.clone());
            (aim.clone(), Arc::new(faults))
        };
        Self(aims.iter().map(armed).collect())
    }
}

impl Interposer for OfKinds {
    fn interpose(self: Arc<Self>, call: Call, forward: Forward) -> BoxFuture<'static, Answer> {
        match self.0.iter().find(|(aim, _)| aim.resource == call.resource) {
            Some((_, faults)) => Arc::clone(faults).interpose(call, forward),
            None => Box::pin(forward.send()),
        }
    }
}

/// An operator whose watches break off hears of an edit all the same.
async fn watches_fail(space: &Space, aims: &[Aim], edit: &Memcached) -> Result<()> {
    let all = Arc::new(OfKinds::armed(aims));
    let operator = Operator::spawn(space, Arc::<OfKinds>::clone(&all), Kill::default()).await?;
    for (aim, faults) in &all.0 {
        faults.await_fired(aim, strikes(aim)).await?;
    }
    space.apply(edit).await?;
    for (_, faults) in &all.0 {
        faults.clear("");
    }
    await_ready(space, NAME).await?;
    operator.end().await
}

/// These kinds through all faults, one after the other; gives their number.
async fn lane(space: &Space, kinds: &[&'static str], verb: Verb) -> Result<usize> {
    space.apply(&secret(NAME, "first")?).await?;
    space.apply(&resource(kinds, 64)?).await?;
    let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
    await_ready(space, NAME).await?;
    operator.end().await?;
    let faults: Vec<_> = Fault::of_lists().collect();
    let verbs: &'static [Verb] = if verb == Verb::List { &[Verb::List] } else { &[Verb::Watch] };
    for (turn, memory) in (0..faults.len()).zip(65..) {
        let aim = |(number, kind): (usize, &&'static str)| {
            let at = (turn + number) % faults.len();
            Aim { verbs, resource: kind, name: String::new(), fault: faults[at], lasting: lasting(at) }
        };
        let aims: Vec<_> = kinds.iter().enumerate().map(aim).collect();
        let described = format!("{aims:?}");
        let (requests, edit) = (Requests::from_now_on(space)?, resource(kinds, memory)?);
        let ended = match (verb, aims.as_slice()) {
            (Verb::List, [aim]) => list_fails(space, aim, &requests, &edit).await,
            _ => watches_fail(space, &aims, &edit).await,
        };
        ended.with_context(|| described.clone())?;
        let writes = requests.of_children()?;
        ensure!(writes == writes_of_an_edit(kinds), "{described}: wrote {writes:?} instead of one edit");
    }
    Ok(faults.len() * kinds.len())
}

#[tokio::test]
async fn lists_and_watches_that_fail_in_any_way_cost_time_and_nothing_else() -> Result<()> {
    let lists = KINDS.concat().into_iter().map(|kind| (vec![kind], Verb::List));
    let watches = KINDS.into_iter().map(|kinds| (kinds.to_vec(), Verb::Watch));
    let lanes: Vec<_> = lists.chain(watches).collect();
    let plans = at_once(
        lanes.len(),
        lanes.into_iter().map(|(kinds, verb)| async move {
            let mut plans = 0;
            in_space("watches", async |space: &Space| {
                plans = lane(space, &kinds, verb).await?;
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
