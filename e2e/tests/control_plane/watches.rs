//! Lists and watches that fail, each kind in each way: while a list is missing nothing is written, and when it is back
//! everything goes on as if nothing had been.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::testing::Space;
use e2e::testing::control_plane::faults::{Aim, Fault, Faults, Lasting};
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::requests::Requests;
use e2e::testing::control_plane::transport::{Straight, Verb};
use e2e::testing::control_plane::{at_once, await_ready, in_space, resource, secret};

const NAME: &str = "cache";
const KINDS: [&str; 5] = ["memcacheds", "deployments", "services", "secrets", "pods"];
/// What a list or a watch can meet: it changes nothing, so that nothing can be done without an answer.
const FAULTS: [Fault; 11] = [
    Fault::Forbidden,
    Fault::Quota,
    Fault::Conflict,
    Fault::Gone,
    Fault::Invalid,
    Fault::TooMany,
    Fault::Internal,
    Fault::Unavailable,
    Fault::Reset,
    Fault::Silence,
    Fault::Garbage,
];

fn lasting(at: usize) -> Lasting {
    if at.is_multiple_of(2) { Lasting::Once } else { Lasting::UntilCleared }
}

/// An operator that cannot list a kind: it waits, touches nothing, and is well afterwards.
async fn list_fails(space: &Space, aim: Aim, edit: i32) -> Result<()> {
    let faults = Arc::new(Faults::default());
    faults.arm(aim.clone());
    let operator = Operator::spawn(space, Arc::clone(&faults) as Arc<_>, Kill::default()).await?;
    let strikes = if aim.lasting == Lasting::UntilCleared { 2 } else { 1 };
    faults.await_fired(&aim, strikes).await?;
    if aim.lasting == Lasting::UntilCleared {
        let page = operator.readyz().await?;
        ensure!(page.starts_with("HTTP/1.0 503"), "it is ready without a list of {}: {page}", aim.resource);
        space.apply(&resource(NAME, 0, edit)?).await?;
        ensure!(faults.writes() == 0, "it wrote without a list of {}", aim.resource);
        faults.clear("");
    } else {
        space.apply(&resource(NAME, 0, edit)?).await?;
    }
    operator.ready().await?;
    await_ready(space, NAME).await?;
    operator.end().await
}

/// An operator whose watch breaks off hears of an edit all the same.
async fn watch_fails(space: &Space, aim: Aim, edit: i32) -> Result<()> {
    let faults = Arc::new(Faults::default());
    faults.arm(aim.clone());
    let operator = Operator::spawn(space, Arc::clone(&faults) as Arc<_>, Kill::default()).await?;
    let strikes = if aim.lasting == Lasting::UntilCleared { 2 } else { 1 };
    faults.await_fired(&aim, strikes).await?;
    space.apply(&resource(NAME, 0, edit)?).await?;
    faults.clear("");
    await_ready(space, NAME).await?;
    operator.end().await
}

/// One kind through all faults, one after the other; gives their number.
async fn lane(space: &Space, kind: &'static str, verb: Verb) -> Result<usize> {
    space.apply(&secret(NAME, "first")?).await?;
    space.apply(&resource(NAME, 0, 64)?).await?;
    let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
    await_ready(space, NAME).await?;
    operator.end().await?;
    for (at, (fault, edit)) in FAULTS.into_iter().zip(65..).enumerate() {
        let verbs: &'static [Verb] = if verb == Verb::List { &[Verb::List] } else { &[Verb::Watch] };
        let aim = Aim { verbs, resource: kind, name: String::new(), fault, lasting: lasting(at) };
        let described = format!("{aim:?}");
        let requests = Requests::from_now_on(space)?;
        let ended = match verb {
            Verb::List => list_fails(space, aim, edit).await,
            _ => watch_fails(space, aim, edit).await,
        };
        ended.with_context(|| described.clone())?;
        let writes = requests.of_children()?;
        let wanted = [("deployments cache".to_owned(), 1)].into();
        ensure!(writes == wanted, "{described}: wrote {writes:?} instead of one edit");
    }
    Ok(FAULTS.len())
}

#[tokio::test]
async fn lists_and_watches_that_fail_in_any_way_cost_time_and_nothing_else() -> Result<()> {
    let lanes = KINDS.into_iter().flat_map(|kind| [(kind, Verb::List), (kind, Verb::Watch)]);
    let plans = at_once(
        10,
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
