//! A Lease that people delete and damage, and holders whose clocks are wrong.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::testing::await_answer;
use jiff::{SignedDuration, Timestamp};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::{Instant, interval, sleep};

use crate::in_space;
use e2e::testing::arena::{
    Arena, NAMES, PACE, Traffic, await_leader_writes, await_leads, await_writes, roles,
};

/// How long these Leases last, in seconds: long enough that a leader on a busy machine renews in time.
const LEASE: u32 = 6;

/// Waits until an operator of this arena holds the Lease, and says so in it.
async fn await_held(arena: &Arena<'_>) -> Result<String> {
    await_answer("an operator holds the Lease", async || {
        let holder = arena.holder().await?.context("nobody does")?;
        ensure!(["a", "b"].contains(&holder.as_str()), "{holder} does");
        Ok(holder)
    })
    .await
}

pub(crate) async fn a_lease_that_is_deleted_comes_back_and_has_no_two_holders() -> Result<()> {
    in_space("deleted", async |space| {
        let arena = Arena::new(space, LEASE)?;
        let _traffic = Traffic::start(space, PACE).await?;
        let operators = tokio::try_join!(arena.start("a"), arena.start("b"))?.into();
        roles(&operators).await?;
        for round in 0..6_u64 {
            let deleted = Timestamp::now();
            arena.delete().await?;
            await_held(&arena).await?;
            await_leader_writes(&arena, &operators, deleted).await?;
            sleep(Duration::from_millis(73 * round)).await; // at another point of the renewal each time
        }
        // The leader dies with its Lease.
        let holder = await_held(&arena).await?;
        let (dies, lives) = if holder == NAMES[0] { (0, 1) } else { (1, 0) };
        let killed = Timestamp::now();
        operators[dies].signal(Signal::KILL)?;
        arena.delete().await?;
        await_leads(&operators[lives], true).await?;
        await_writes(&arena, NAMES[lives], killed).await?;
        arena.judge().await?;
        Ok(())
    })
    .await
}

/// Damages the Lease of two operators in one way after the other; each time one of the two leads again.
async fn damaged(prefix: &str, damages: impl IntoIterator<Item = Value>) -> Result<()> {
    in_space(prefix, async |space| {
        let arena = Arena::new(space, LEASE)?;
        let _traffic = Traffic::start(space, PACE).await?;
        let operators = tokio::try_join!(arena.start("a"), arena.start("b"))?.into();
        roles(&operators).await?;
        for damage in damages {
            let damaged = Timestamp::now();
            let led = async {
                arena.edit(&damage).await?;
                let roles = await_leader_writes(&arena, &operators, damaged).await?;
                anyhow::Ok(NAMES[roles.leader])
            };
            let holder = led.await.with_context(|| damage.to_string())?;
            println!(
                "{damage}: {holder} leads after {} ms",
                Timestamp::now().duration_since(damaged).as_millis()
            );
        }
        arena.judge().await?;
        Ok(())
    })
    .await
}

/// Later than any clock shows.
const FUTURE: &str = "9000-01-01T00:00:00.000000Z";

pub(crate) async fn a_lease_that_is_damaged_is_repaired_and_has_no_two_holders() -> Result<()> {
    let damages = [
        json!({"spec": {"holderIdentity": ""}}),
        json!({"spec": {"holderIdentity": null}}),
        json!({"spec": null}),
        json!({"spec": {"holderIdentity": "nobody"}}),
        json!({"spec": {"renewTime": FUTURE, "acquireTime": FUTURE}}),
        json!({"spec": {"renewTime": "0001-01-01T00:00:01.000000Z", "leaseDurationSeconds": 1}}),
        json!({"spec": {"leaseTransitions": i32::MAX}}),
        json!({"metadata": {"labels": {"touched": "yes"}}}),
    ];
    damaged("damaged", damages).await
}

pub(crate) async fn nobody_waits_as_long_as_a_damaged_lease_says() -> Result<()> {
    let longest = json!({"holderIdentity": "nobody", "leaseDurationSeconds": i32::MAX, "renewTime": FUTURE});
    damaged("longest", [json!({"spec": longest})]).await
}

/// Holds the Lease like a program whose clock is `hours` wrong, for twice the duration of the Lease.
async fn hold_by_wrong_clock(arena: &Arena<'_>, hours: i64) -> Result<()> {
    let mut pace = interval(Duration::from_millis(500));
    let mut renewed = Instant::now();
    for turn in 0..4 * LEASE {
        pace.tick().await;
        let shown = Timestamp::now() + SignedDuration::from_hours(hours);
        let renewal = json!({"spec": {
            "holderIdentity": "other_1", "leaseDurationSeconds": LEASE, "renewTime": format!("{shown:.6}"),
        }});
        if turn > 0 {
            let is_held = arena.holder().await?.as_deref() == Some("other");
            // A machine that stands still for a whole lease lets the Lease run out.
            let in_time = renewed.elapsed() < Duration::from_secs(LEASE.into());
            ensure!(is_held || !in_time, "somebody took it before turn {turn}");
        }
        arena.edit(&renewal).await?;
        renewed = Instant::now();
    }
    Ok(())
}

pub(crate) async fn a_holder_whose_clock_is_wrong_is_followed_neither_too_early_nor_too_late() -> Result<()> {
    in_space("skewed", async |space| {
        let arena = Arena::new(space, LEASE)?;
        let _traffic = Traffic::start(space, PACE).await?;
        let operator = arena.start("a").await?;
        await_leads(&operator, true).await?;
        for hours in [-5, 5] {
            hold_by_wrong_clock(&arena, hours).await?;
            let ended = Timestamp::now();
            // Not hours later.
            await_leads(&operator, true).await?;
            let waited = Timestamp::now().duration_since(ended);
            println!("with a clock {hours} h off, taken over after {} ms", waited.as_millis());
        }
        let spec: Value = serde_json::to_value(arena.lease().get("operators").await?)?;
        let renewed: Timestamp =
            spec.pointer("/spec/renewTime").and_then(Value::as_str).context("no time")?.parse()?;
        let off = Timestamp::now().duration_since(renewed).abs();
        let stood_still = SignedDuration::try_from(arena.stalls.total())?;
        ensure!(off < SignedDuration::from_secs(10) + stood_still, "what people read is {off} off");
        Ok(())
    })
    .await
}
