//! Clients at work on the pods of a cache, over TLS with a certificate and a password: some keep their connections, others make
//! new ones all the time. Takes the pods and what clients need; gives what became of their operations. Called by tests and by the benchmark.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::memcached::Memcached;
use super::tls::Authority;

/// All clients together.
pub const OPERATIONS_A_SECOND: usize = 2_000;
/// Connections that last, for each pod.
const CONNECTIONS: usize = 2;
/// Operations of a client at a time, and then it waits. The first stores a key; the others fetch keys at one go, as clients do that
/// need many: a request for each would make the test's own client the slowest part of a busy machine.
const BURST: usize = 20;
/// Keys that are stored or counted at one go.
const AT_ONCE: usize = 100;
/// How often a new connection is made to each pod.
const NEW_CONNECTION: Duration = Duration::from_millis(200);

/// What a client needs to get in.
pub struct Access {
    /// Who certified the caches and the clients.
    pub authority: Authority,
    /// Who logs in.
    pub user: &'static str,
    /// The user's password.
    pub password: &'static str,
}

impl Access {
    /// A connection over which everything is allowed.
    ///
    /// # Errors
    /// When the pod lets nobody in.
    pub async fn connect(&self, pod: SocketAddr) -> Result<Memcached> {
        let mut client = self.authority.connect(pod, Some(self.authority.client())).await?;
        client.authenticate(self.user, self.password).await?;
        Ok(client)
    }
}

/// The keys of one pod, which all have their own name as value.
#[derive(Clone, Copy)]
pub struct Keys {
    /// Where they are.
    pub pod: SocketAddr,
    /// How many.
    pub count: usize,
}

impl Keys {
    fn key(self, at: usize) -> String {
        format!("key-{}-{}", self.pod.ip(), at % self.count)
    }

    fn all(self) -> Vec<String> {
        (0..self.count).map(|at| self.key(at)).collect()
    }

    /// Stores all.
    ///
    /// # Errors
    /// When the pod does not take one.
    pub async fn store(self, access: &Access) -> Result<()> {
        let mut client = access.connect(self.pod).await?;
        for keys in self.all().chunks(AT_ONCE) {
            client.set_named(keys).await?;
        }
        Ok(())
    }

    /// How many are there.
    ///
    /// # Errors
    /// When the pod does not answer.
    pub async fn found(self, access: &Access) -> Result<usize> {
        let mut client = access.connect(self.pod).await?;
        let mut found = 0;
        for keys in self.all().chunks(AT_ONCE) {
            let values = client.get_all(keys).await?;
            let is_there = |key: &&String| values.get(*key).is_some_and(|value| value == key.as_bytes());
            found += keys.iter().filter(is_there).count();
        }
        Ok(found)
    }
}

/// What clients did.
#[derive(Debug, Default)]
pub struct Done {
    /// Operations on connections that last.
    pub operations: usize,
    /// Connections made meanwhile.
    pub connections: usize,
    /// How long each operation took; those of one request as long as the request.
    latencies: Vec<Duration>,
}

impl Done {
    /// Of a hundred operations one takes longer.
    pub fn p99(&self) -> Option<Duration> {
        let mut sorted = self.latencies.clone();
        sorted.sort();
        sorted.get(sorted.len() * 99 / 100).copied()
    }
}

/// Clients that work until they are told to end.
pub struct Traffic {
    clients: JoinSet<Result<Done>>,
    end: watch::Sender<bool>,
}

impl Traffic {
    /// Connects all clients and starts them.
    ///
    /// # Errors
    /// When a client cannot connect.
    pub async fn start(access: &Arc<Access>, pods: &[Keys]) -> Result<Self> {
        let (end, ended) = watch::channel(false);
        let mut clients = JoinSet::new();
        let pause = Duration::from_secs(1) * u32::try_from(pods.len() * CONNECTIONS * BURST)?
            / u32::try_from(OPERATIONS_A_SECOND)?;
        for keys in pods {
            for first in 0..CONNECTIONS {
                let client = access.connect(keys.pod).await?;
                clients.spawn(operate(client, *keys, first, pause, ended.clone()));
            }
            clients.spawn(connect_again(Arc::clone(access), *keys, ended.clone()));
        }
        Ok(Self { clients, end })
    }

    /// Ends them. An operation that failed, or a client that was refused, is the error.
    ///
    /// # Errors
    /// The first operation that failed, or the first client that was refused.
    pub async fn finish(mut self) -> Result<Done> {
        self.end.send_replace(true);
        let mut all = Done::default();
        while let Some(client) = self.clients.join_next().await {
            let Done { operations, connections, latencies } = client??;
            all.operations += operations;
            all.connections += connections;
            all.latencies.extend(latencies);
        }
        Ok(all)
    }
}

/// Stores one key of each burst again and fetches the others, over one connection.
async fn operate(
    mut client: Memcached,
    keys: Keys,
    first: usize,
    pause: Duration,
    ended: watch::Receiver<bool>,
) -> Result<Done> {
    let mut done = Done::default();
    let mut bursts = interval(pause);
    bursts.set_missed_tick_behavior(MissedTickBehavior::Burst);
    while !*ended.borrow() {
        bursts.tick().await;
        let burst: Vec<String> =
            (0..BURST).map(|at| keys.key(first + CONNECTIONS * (done.operations + at))).collect();
        let Some((stored, fetched)) = burst.split_first() else { break };
        let start = Instant::now();
        client.set(stored, stored.as_bytes()).await.context("an operation on an open connection")?;
        done.latencies.push(start.elapsed());
        let start = Instant::now();
        let values = client.get_all(fetched).await.context("an operation on an open connection")?;
        done.latencies.extend(std::iter::repeat_n(start.elapsed(), fetched.len()));
        for key in fetched {
            ensure!(values.get(key).is_some_and(|value| value == key.as_bytes()), "{key} is lost");
        }
        done.operations += BURST;
    }
    Ok(done)
}

/// Makes one new connection after the other, and reads over each.
async fn connect_again(access: Arc<Access>, keys: Keys, ended: watch::Receiver<bool>) -> Result<Done> {
    let mut done = Done::default();
    let mut turns = interval(NEW_CONNECTION);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !*ended.borrow() {
        turns.tick().await;
        let mut client = access.connect(keys.pod).await.context("a new connection")?;
        let key = keys.key(done.connections);
        let value = client.get(&key).await.context("the first operation on a new connection")?;
        ensure!(value.as_deref() == Some(key.as_bytes()), "{key} is lost");
        done.connections += 1;
    }
    Ok(done)
}
