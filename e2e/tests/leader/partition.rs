//! A leader that is cut off from the API server: it stops before another one begins.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::testing::operator::Operator;
use jiff::Timestamp;
use serde_json::Value;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::in_space;
use e2e::testing::arena::{Arena, PACE, Traffic, await_leads, await_writes};

/// What becomes of the operator's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Open,
    /// Nothing passes, in either direction, and nobody is told.
    Silent,
    /// They break, and new ones are refused.
    Refused,
}

/// A proxy between one operator and the API server.
struct Proxy {
    address: SocketAddr,
    way: Arc<watch::Sender<Way>>,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    async fn to(server: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let way = Arc::new(watch::Sender::new(Way::Open));
        let ways = Arc::clone(&way);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, server, ways.subscribe()));
            }
        });
        Ok(Self { address, way, task })
    }
}

/// Forwards bytes while the connection is open; bytes that were not forwarded by then are lost.
async fn pass(mut client: TcpStream, server: SocketAddr, mut way: watch::Receiver<Way>) {
    if *way.borrow() == Way::Open
        && let Ok(mut server) = TcpStream::connect(server).await
    {
        tokio::select! {
            _ = copy_bidirectional(&mut client, &mut server) => return,
            _ = way.wait_for(|way| *way != Way::Open) => {}
        }
        // The server's end stays open too while nobody is told.
        let _ = way.wait_for(|way| *way != Way::Silent).await;
    } else {
        let _ = way.wait_for(|way| *way != Way::Silent).await;
    }
}

fn server_of(arena: &Arena<'_>) -> Result<SocketAddr> {
    let config: Value = serde_json::from_slice(&std::fs::read(arena.space.cluster().kubeconfig())?)?;
    let url = config.pointer("/clusters/0/cluster/server").and_then(Value::as_str).context("no server")?;
    Ok(url.trim_start_matches("https://").parse()?)
}

async fn cut_off(prefix: &str, way: Way) -> Result<()> {
    in_space(prefix, async |space| {
        let arena = Arena::new(space, 6)?;
        let _traffic = Traffic::start(space, PACE).await?;
        let proxy = Proxy::to(server_of(&arena)?).await?;
        let url = format!("https://{}", proxy.address);
        let first = Operator::start(&arena.launch("a", &["system:masters"], Some(&url))?).await?;
        tokio::time::timeout(Duration::from_secs(60), await_leads(&first, true)).await??;
        await_writes(&arena, "a", Timestamp::now()).await?;
        // Only now: where the machine stands still for some seconds, the first may lose the Lease to the second.
        let second = arena.start("b").await?;

        proxy.way.send_replace(way);
        let cut = Timestamp::now();
        await_leads(&first, false).await?;
        await_leads(&second, true).await?;
        await_writes(&arena, "b", cut).await?;
        ensure!(first.get("/readyz").await?.0 == 200, "an API server that is away makes nobody unready");
        ensure!(arena.log_of("a")?.contains("leads no longer: "), "it says so");

        proxy.way.send_replace(Way::Open);
        let healed = Timestamp::now();
        await_writes(&arena, "b", healed).await?;
        second.kill()?;
        await_writes(&arena, "a", healed).await?;
        await_leads(&first, true).await?;
        arena.judge().await?;
        Ok(())
    })
    .await
}

pub(crate) async fn a_leader_that_hears_nothing_any_more_stops_before_another_begins() -> Result<()> {
    cut_off("silent", Way::Silent).await
}

pub(crate) async fn a_leader_whose_connections_are_refused_stops_before_another_begins() -> Result<()> {
    cut_off("refused", Way::Refused).await
}
