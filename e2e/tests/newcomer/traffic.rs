//! The client of a cache that is used while its operator comes and goes: takes a cache, sets and gets many times a
//! second on one connection, and on a new one each time, and says at any moment whether every answer was right.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use e2e::testing::LONGEST_WAIT;
use e2e::testing::cache::Cache;
use e2e::testing::memcached::Memcached;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{interval, timeout};

/// A cache's traffic; ends when dropped.
pub(crate) struct Traffic {
    rounds: watch::Receiver<u64>,
    task: JoinHandle<Result<Infallible>>,
}

impl Traffic {
    /// Connects to the cache's only pod, and begins.
    pub(crate) async fn start(cache: &Cache<'_>) -> Result<Self> {
        let address = cache.addresses(1).await?[0];
        let mut client = Memcached::connect(address).await?;
        client.set("kept", b"all along").await?;
        let (done, rounds) = watch::channel(0);
        Ok(Self { rounds, task: tokio::spawn(exchange(client, address, done)) })
    }

    /// Every answer until now was right, and they go on.
    pub(crate) async fn flows(&mut self) -> Result<()> {
        let before = *self.rounds.borrow_and_update();
        match timeout(LONGEST_WAIT, self.rounds.changed()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_ended)) => {
                let Err(why) = (&mut self.task).await.context("the client panicked")?;
                Err(why).with_context(|| format!("the cache failed its client after {before} rounds"))
            }
            Err(_) => bail!("the cache is silent after {before} rounds"),
        }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Goes on until an answer is wrong or missing.
async fn exchange(
    mut client: Memcached,
    address: SocketAddr,
    done: watch::Sender<u64>,
) -> Result<Infallible> {
    let mut pace = interval(Duration::from_millis(50));
    for round in 0_u64.. {
        pace.tick().await;
        let value = round.to_string();
        client.set("round", value.as_bytes()).await?;
        let got = Memcached::connect(address).await?.get("round").await?;
        ensure!(got.as_deref() == Some(value.as_bytes()), "the value of round {round} is {got:?}");
        let kept = client.get("kept").await?;
        ensure!(kept.as_deref() == Some(b"all along".as_slice()), "the first value is {kept:?}");
        done.send_replace(round + 1);
    }
    bail!("the last round is over")
}
