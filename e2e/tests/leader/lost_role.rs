//! Two operators and two namespaces, of which one loses its Role: when the leader dies, the other one leads all the same, and
//! works in the namespace that is left.

use anyhow::{Context, Result, ensure};
use e2e::chart::RELEASE;
use e2e::testing::arena::{
    Arena, NAMES, PACE, Roles, Traffic, await_leader_writes, await_leads, await_writes, resource,
};
use e2e::testing::audit::Request;
use e2e::testing::operator::{Launch, Operator};
use e2e::testing::rights::{LEADER, Right, grant, granted};
use e2e::testing::{Space, await_answer};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{DeleteParams, Patch, PatchParams};
use rustix::process::Signal;
use serde_json::json;

use crate::endings::{LEADERLESS, LEASE};
use crate::in_space;
use crate::permissions::of_the_chart;

/// The resource in the namespace that loses its Role.
const CACHE: &str = "cache";

/// How an operator of both namespaces is started. The Lease is in the one that keeps its Role.
fn launch(arena: &Arena<'_>, loses: &Space, name: &str) -> Result<Launch> {
    let mut launch = arena.launch(name, &[], None)?;
    launch.args.retain(|arg| !arg.to_string_lossy().starts_with("--watch-namespaces="));
    launch.args.push(format!("--watch-namespaces={},{}", arena.space.name(), loses.name()).into());
    Ok(launch)
}

/// Gives both operators these rights in a namespace, by one RoleBinding.
async fn grant_both<'a>(
    arena: &Arena<'_>,
    space: &Space,
    rights: impl IntoIterator<Item = &'a Right>,
) -> Result<()> {
    let users = NAMES.map(|name| arena.user(name));
    grant(&space.client(), Some(space.name()), &users[0], rights).await?;
    let group = "rbac.authorization.k8s.io";
    let subjects = users.map(|user| json!({"apiGroup": group, "kind": "User", "name": user}));
    let patch = Patch::Merge(json!({"subjects": subjects}));
    space.api::<RoleBinding>().patch(RELEASE, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Takes the Role of a namespace away, and waits until the API server refuses what it gave: a write of the leader, or a list, where
/// another one leads meanwhile that had not listed yet, or a watch ended. Who may not list hears of no edit, and writes nothing.
async fn take_away(arena: &Arena<'_>, loses: &Space) -> Result<()> {
    loses.api::<RoleBinding>().delete(RELEASE, &DeleteParams::default()).await?;
    let mut memory = 100;
    await_answer("a write is refused", async || {
        // Another edit each time: one that came before the Role was gone is in place.
        memory += 1;
        loses.apply(&resource(CACHE, memory)?).await?;
        let account = arena.account()?;
        let mut there = account.writes.iter().filter(|it| it.namespace == loses.name());
        let mut no_list = false;
        for name in NAMES {
            let log = arena.log_of(name).unwrap_or_default();
            let is_refused =
                |it: &str| it.contains("may not list and watch memcacheds") && it.contains(loses.name());
            no_list |= log.lines().any(is_refused);
        }
        ensure!(no_list || there.any(|it| it.code == 403), "not yet");
        Ok(())
    })
    .await
}

async fn in_two(keeps: &Space, loses: &Space) -> Result<()> {
    let arena = Arena::new(keeps, LEASE)?;
    let (work, lease) = (of_the_chart()?, granted(LEADER, &json!({}))?);
    grant_both(&arena, keeps, work.iter().chain(&lease)).await?;
    grant_both(&arena, loses, &work).await?;
    arena.let_go().await?;
    let _traffic = Traffic::start(keeps, PACE).await?;
    loses.apply(&resource(CACHE, 64)?).await?;
    // A follower is ready when it has seen both namespaces.
    let first = Operator::start(&launch(&arena, loses, NAMES[0])?).await?;
    await_leads(&first, true).await?;
    let operators = [first, Operator::start(&launch(&arena, loses, NAMES[1])?).await?];
    loses.wait::<Deployment>(CACHE, "it is made", |it| it.is_some()).await?;

    take_away(&arena, loses).await?;
    let Roles { leader, follower } = await_leader_writes(&arena, &operators, Timestamp::now()).await?;
    let (takes, killed) = (NAMES[follower], Timestamp::now());
    operators[leader].signal(Signal::KILL)?;
    await_writes(&arena, takes, killed).await?;
    await_leads(&operators[follower], true).await?;

    let user = arena.user(takes);
    let by_it = |it: &&Request| it.user == user && it.at >= killed;
    let wrote = await_answer("it writes in the other namespace", async || {
        let writes = arena.account()?.writes;
        let mut taken = writes.iter().filter(by_it).filter(|it| it.code < 300);
        Ok(taken.find(|it| it.namespace == keeps.name()).context("nothing yet")?.at)
    })
    .await?;
    let (account, _) = arena.judge().await?;
    let [led, wrote] = [account.held_after(&user, killed)?, wrote].map(|at| at.duration_since(killed));
    println!(
        "without a Role, led {} ms after SIGKILL, wrote after {} ms",
        led.as_millis(),
        wrote.as_millis()
    );
    let stood_still = SignedDuration::try_from(arena.stalls.since(killed))?;
    ensure!(wrote <= LEADERLESS + stood_still, "that is too late");
    let blind = account.writes.iter().filter(by_it).find(|it| it.namespace == loses.name());
    ensure!(blind.is_none(), "it wrote where it could not look: {blind:?}");
    Ok(())
}

pub(crate) async fn a_namespace_that_loses_its_role_keeps_nobody_from_leading_in_the_other() -> Result<()> {
    in_space("keeps", async |keeps| {
        in_space("loses", async |loses| Box::pin(in_two(keeps, loses)).await).await
    })
    .await
}
