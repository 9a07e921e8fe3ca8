//! A leader that ends, dies or stands still: another one takes over, and no write of the first takes effect after its own.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::testing::arena::{
    Arena, NAMES, PACE, Roles, Traffic, await_leader_writes, await_leads, await_writes, stop_and_go, two,
};
use jiff::{SignedDuration, Timestamp};
use rustix::process::Signal;

use crate::in_space;

/// How long the Lease of a killed leader lasts, in seconds, and the longest time without a leader: a follower reads the Lease
/// every second, so that it may see the last renewal a second late. A busy machine may add half a lease.
pub(crate) const LEASE: u32 = 8;
pub(crate) const LEADERLESS: SignedDuration = SignedDuration::from_millis(8_000 + 1_000 + 4_000);

pub(crate) async fn a_leader_that_is_asked_to_end_is_followed_within_3_s() -> Result<()> {
    in_space("ends", async |space| {
        let arena = Arena::new(space, 15)?;
        arena.let_go().await?;
        let traffic = Traffic::start(space, PACE).await?;
        let [first, second] = two(&arena).await?;
        let (_, page) = second.get("/metrics").await?;
        ensure!(page.contains("\nmemcached_operator_leader 0\n"), "it follows");
        ensure!(!page.contains("memcached_operator_instance_info{"), "the leader reports the resources");

        let asked = Timestamp::now();
        ensure!(first.terminate().await?.success(), "it ends cleanly");
        await_writes(&arena, "b", asked).await?;
        let account = arena.account()?;
        let taken = account.held_after(&arena.user("b"), asked)?.duration_since(asked);
        println!("taken over {} ms after SIGTERM", taken.as_millis());
        let stood_still = SignedDuration::try_from(arena.stalls.since(asked))?;
        ensure!(taken <= SignedDuration::from_secs(3) + stood_still, "that is more than 3 s");
        ensure!(account.writes_since(&arena.user("a"), account.held_after(&arena.user("b"), asked)?) == 0);
        let taken = account.held_after(&arena.user("b"), asked)?;
        ensure!(account.looked_first(&arena.user("b"), taken), "it wrote by what it knew as a follower");
        await_leads(&second, true).await?;
        drop(traffic);
        ensure!(second.terminate().await?.success(), "it ends cleanly");
        let log = arena.log_of("a")?;
        ensure!(log.contains("leads: holds the Lease") && log.contains("let the Lease"), "{log}");
        ensure!(arena.log_of("b")?.contains("follows a_"), "it says who leads");
        arena.judge().await?;
        Ok(())
    })
    .await
}

pub(crate) async fn a_leader_that_is_killed_is_followed_within_its_lease() -> Result<()> {
    in_space("killed", async |space| {
        let arena = Arena::new(space, LEASE)?;
        let _traffic = Traffic::start(space, PACE).await?;
        let mut operators = two(&arena).await?;
        for _ in 0..3 {
            let Roles { leader, follower } =
                await_leader_writes(&arena, &operators, Timestamp::now()).await?;
            let takes = NAMES[follower];
            let killed = Timestamp::now();
            operators[leader].signal(Signal::KILL)?;
            await_writes(&arena, takes, killed).await?;
            let taken = arena.account()?.held_after(&arena.user(takes), killed)?.duration_since(killed);
            println!("taken over {} ms after SIGKILL, with a lease of {LEASE} s", taken.as_millis());
            let stood_still = SignedDuration::try_from(arena.stalls.since(killed))?;
            ensure!(
                taken <= LEADERLESS + stood_still,
                "that is too late: {taken:?}, and no more than {LEADERLESS:?} is right"
            );
            operators[leader] = arena.start(NAMES[leader]).await?;
        }
        arena.judge().await?;
        Ok(())
    })
    .await
}

pub(crate) async fn a_leader_that_stood_still_for_a_minute_does_no_harm_when_it_goes_on() -> Result<()> {
    in_space("stopped", async |space| {
        let arena = Arena::new(space, 6)?;
        let _traffic = Traffic::start(space, PACE).await?;
        let operators = two(&arena).await?;
        let roles = await_leader_writes(&arena, &operators, Timestamp::now()).await?;
        let (stopped, other) = (NAMES[roles.leader], NAMES[roles.follower]);
        arena.stand_still(&operators, roles, Duration::from_secs(60)).await?;
        let went_on = Timestamp::now();
        await_writes(&arena, other, went_on).await?;
        ensure!(arena.log_of(stopped)?.contains("leads no longer: "), "it says so");

        // The former leader still watches, and can lead again.
        let killed = Timestamp::now();
        operators[roles.follower].signal(Signal::KILL)?;
        await_writes(&arena, stopped, killed).await?;
        arena.judge().await?;
        Ok(())
    })
    .await
}

pub(crate) async fn leaders_that_stand_still_again_and_again_never_write_over_another() -> Result<()> {
    in_space("stops", async |space| {
        println!("six stops: {:?}", stop_and_go(space, 6, PACE).await?);
        Ok(())
    })
    .await
}
