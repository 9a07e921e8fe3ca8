//! An operator that lacks something of what the chart lets it do with the Lease.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use e2e::chart::RELEASE;
use e2e::testing::operator::Operator;
use e2e::testing::rights::{LEADER, Right, grant, granted};
use jiff::Timestamp;
use serde_json::json;

use crate::in_space;
use e2e::testing::arena::{Arena, PACE, Traffic, await_leads, await_writes};

/// What the chart lets an operator of some namespaces do there.
pub(crate) fn of_the_chart() -> Result<BTreeSet<Right>> {
    granted(RELEASE, &json!({"watchNamespaces": ["anywhere"]}))
}

pub(crate) async fn an_operator_that_may_not_have_the_lease_says_so_writes_nothing_and_goes_on_when_it_may()
-> Result<()> {
    in_space("lease-roles", async |space| {
        let arena = Arena::new(space, 6)?;
        let _traffic = Traffic::start(space, PACE).await?;
        let user = arena.user("a");
        let client = space.client();
        let (work, lease) = (of_the_chart()?, granted(LEADER, &json!({}))?);
        let verbs: Vec<_> = lease.iter().map(|right| right.verb.as_str()).collect();
        ensure!(verbs == ["create", "get", "update"], "what the chart grants on the Lease: {verbs:?}");
        let grant = async |verbs: &[&str]| {
            let lease = lease.iter().filter(|right| verbs.contains(&right.verb.as_str()));
            grant(&client, Some(space.name()), &user, work.iter().chain(lease)).await
        };
        grant(&[]).await?;
        let operator = Operator::spawn(&arena.launch("a", &[], None)?)?;
        let pid = operator.pid();
        for (granted, missing) in
            [(&[][..], "get"), (&["get"][..], "create"), (&["get", "create"][..], "update")]
        {
            grant(granted).await?;
            let words = format!(
                "lacks the verb {missing} on leases.coordination.k8s.io in namespace {}",
                space.name()
            );
            operator.await_readyz(503, &words).await?;
            ensure!(arena.log_of("a")?.contains(&words), "it says {words:?}");
        }
        ensure!(arena.account()?.writes.is_empty(), "it wrote without the Lease");
        says_each_problem_once(&arena.log_of("a")?)?;

        grant(&["get", "create", "update"]).await?;
        await_leads(&operator, true).await?;
        operator.await_readyz(200, "[+] leader election works").await?;
        await_writes(&arena, "a", Timestamp::now()).await?;

        // Taken away from a leader: it stops in time, and says why.
        grant(&["get", "create"]).await?;
        await_leads(&operator, false).await?;
        let stopped = Timestamp::now();
        operator.await_readyz(503, "lacks the verb update on leases").await?;
        ensure!(arena.account()?.writes_since(&user, stopped) == 0, "it goes on");
        let log = arena.log_of("a")?;
        let (_, since) = log.split_once("leads: holds the Lease").context("it says that it leads")?;
        says_each_problem_once(since)?;
        grant(&["get", "create", "update"]).await?;
        await_writes(&arena, "a", stopped).await?;
        ensure!(operator.pid() == pid, "it is the same process");
        let last = arena.judge().await?.0.writes.last().cloned().context("it wrote")?;
        ensure!(last.user == user);
        Ok(())
    })
    .await
}

/// A problem is a line when it begins, not with each request. It begins again after another one, such as a request that
/// a slow machine answered too late, and after a request that succeeded.
fn says_each_problem_once(log: &str) -> Result<()> {
    let words = ["lacks the verb", "cannot ", "with success again"];
    let problem = |line: &str| words.iter().find_map(|it| line.find(it)).map(|at| line[at..].to_owned());
    let problems: Vec<_> = log.lines().filter_map(problem).collect();
    let repeated = problems.windows(2).find(|two| two[0] == two[1]);
    ensure!(repeated.is_none(), "it says twice in a row: {repeated:?}");
    Ok(())
}
