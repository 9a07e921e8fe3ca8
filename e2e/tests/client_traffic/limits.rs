//! Memory: caches with the limit that [`headroom`] asks for survive when they are filled with everything that costs memory.
//! A cache with the least limit that is admitted is killed.

use std::iter::{repeat_n, successors};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::testing::await_answer;
use e2e::testing::cache::Cache;
use e2e::testing::memcached::Memcached;
use e2e::testing::tls::Authority;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::ListParams;
use memcached_operator::api::Validated;
use memcached_operator::api::headroom::headroom;
use memcached_operator::api::spec::{MEMORY_OVERHEAD_MB, Plaintext, Process, Security, Tls};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{pods, with_cache};

const MIB: usize = 1024 * 1024;
/// How many of the default 1024 connections the test opens; the rest is for threads, listeners and the client that asks.
const CONNECTIONS: usize = 900;
/// How long memcached may take to read or answer on a busy machine.
const MEMCACHED_ANSWERS_WITHIN: Duration = Duration::from_secs(60);

/// A cache by its size and encryption.
fn process(max_memory_mb: i32, tls: bool) -> Validated {
    let tls = tls.then(|| Tls {
        secret: "certificate".to_owned(),
        client_certificates: false,
        plaintext: Plaintext::Disabled,
    });
    Validated {
        memcached: Process { max_memory_mb, ..Process::default() },
        security: Security { tls, ..Security::default() },
        ..Validated::default()
    }
}

/// A cache as users write it, with a limit of so many MiB beyond its memory.
fn spec(process: &Validated, beyond: i32) -> Value {
    let memory = process.memcached.max_memory_mb;
    let tls = process.security.tls.as_ref();
    let tls = tls.map(|tls| json!({"enabled": true, "certificateSecretRef": {"name": tls.secret}}));
    json!({
        "memcached": {"maxMemoryMB": memory},
        "resources": {"requests": {"memory": "16Mi"}, "limits": {"memory": format!("{}Mi", memory + beyond)}},
        "security": {"tls": tls.unwrap_or_else(|| json!({"enabled": false}))},
    })
}

/// Stores `count` items of `size` bytes each, under keys that begin with the letter; somewhat more where they are many.
async fn store(stream: &mut TcpStream, letter: char, size: usize, count: usize) -> Result<()> {
    let item = |index: usize| {
        let mut item = format!("set {letter}....{index:04x} 0 0 {size} noreply\r\n").into_bytes();
        item.resize(item.len() + size, b'x');
        item.extend_from_slice(b"\r\n");
        item
    };
    let length = item(0).len();
    let at_once = count.min(MIB / length + 1);
    let mut batch: Vec<u8> = (0..at_once).flat_map(item).collect();
    // What is new in a batch is the middle of its keys: millions of whole items would take minutes to write.
    for number in 0..count.div_ceil(at_once) {
        let middle = format!("{number:04x}");
        for item in batch.chunks_exact_mut(length) {
            item[5..9].copy_from_slice(middle.as_bytes());
        }
        timeout(MEMCACHED_ANSWERS_WITHIN, stream.write_all(&batch))
            .await
            .context("memcached does not read")??;
    }
    // Whoever answers has read all of it.
    stream.write_all(b"mn\r\n").await?;
    let mut answer = [0; 4];
    timeout(MEMCACHED_ANSWERS_WITHIN, stream.read_exact(&mut answer))
        .await
        .context("memcached is silent")??;
    ensure!(&answer == b"MN\r\n", "{:?}", String::from_utf8_lossy(&answer));
    Ok(())
}

/// Sizes of items, so close to each other that every class of sizes gets one.
fn every_size() -> impl Iterator<Item = usize> {
    successors(Some(20), |size| Some(size + size / 12 + 1)).take_while(|size| *size < 1_000_000)
}

/// Fills a cache with items of one size, and then stores one of every size.
async fn fill(address: SocketAddr, memory: usize, size: usize) -> Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    // No item takes less than its value and 76 bytes: so it is full before the last.
    store(&mut stream, 'f', size, memory * MIB / (size + 76) * 6 / 5).await?;
    for each in every_size() {
        store(&mut stream, 'e', each, 1).await?;
    }
    let mut client = Memcached::connect(address).await?;
    let evictions: u64 = client.stats("").await?.get("evictions").context("it counts")?.parse()?;
    ensure!(evictions > 0, "it is not full");
    Ok(())
}

/// What a pod's memcached takes, in MiB: the highest of its own memory, and of all that counts against its limit.
async fn taken(cache: &Cache<'_>) -> Result<(usize, usize)> {
    let pod = pods::only_name(cache).await?;
    let status = pods::output(cache.space, &pod, &["cat", "/proc/1/status"]).await?;
    let own: usize = pods::field(&status, "VmHWM")?.first().context("no number")?.parse()?;
    let files = "cat /sys/fs/cgroup/memory/memory.max_usage_in_bytes || cat /sys/fs/cgroup/memory.peak";
    let all: usize = pods::output(cache.space, &pod, &["sh", "-c", files]).await?.trim().parse()?;
    Ok((own / 1024, all / MIB))
}

async fn memcached_status(cache: &Cache<'_>) -> Result<ContainerStatus> {
    let pods = cache.space.api::<Pod>().list(&ListParams::default()).await?.items;
    let status = pods.into_iter().next().context("no pod")?.status.context("no status")?;
    status.container_statuses.unwrap_or_default().pop().context("no container")
}

/// Prints what the cache takes, and fails if it was ever killed.
async fn survives(cache: &Cache<'_>, process: &Validated, use_: &str) -> Result<()> {
    let (own, all) = taken(cache).await?;
    let memory = process.memcached.max_memory_mb;
    println!(
        "{memory} MiB {use_}: {own} resident at most, {all} counted, limit {memory} + {}",
        headroom(process)
    );
    let status = memcached_status(cache).await?;
    ensure!(status.restart_count == 0, "it was killed: {:?}", status.last_state);
    ensure!(own > usize::try_from(memory)? / 2, "it was never filled");
    Ok(())
}

async fn under_the_headroom(name: &str, memory: i32, size: usize) -> Result<()> {
    with_cache(name, async |cache| {
        let process = process(memory, false);
        cache.apply(&spec(&process, headroom(&process))).await?;
        cache.ready().await?;
        assert_eq!(cache.warnings().await?, Vec::<String>::new());
        let address = cache.addresses(1).await?[0];
        let halves = stream::iter(0..CONNECTIONS).map(async |_| {
            let mut stream = TcpStream::connect(address).await?;
            stream.write_all(&[b'g'; 200]).await?;
            anyhow::Ok(stream)
        });
        let _held: Vec<TcpStream> = halves.buffer_unordered(50).try_collect().await?;
        fill(address, memory.try_into()?, size).await?;
        survives(cache, &process, &format!("full of {size} bytes each and one of every size")).await
    })
    .await
}

#[tokio::test]
async fn a_cache_full_of_small_items_lives_under_the_headroom() -> Result<()> {
    under_the_headroom("small", 64, 100).await
}

#[tokio::test]
async fn a_cache_full_of_the_smallest_items_lives_under_the_headroom() -> Result<()> {
    under_the_headroom("smallest", 256, 20).await
}

#[tokio::test]
async fn a_cache_full_of_large_items_lives_under_the_headroom() -> Result<()> {
    under_the_headroom("large", 64, 500_000).await
}

#[tokio::test]
async fn a_cache_full_of_connections_with_tls_lives_under_the_headroom() -> Result<()> {
    with_cache("encrypted", async |cache| {
        let authority = Authority::create("own")?;
        authority.fill(cache.space, "certificate").await?;
        let process = process(64, true);
        cache.apply(&spec(&process, headroom(&process))).await?;
        cache.ready().await?;
        assert_eq!(cache.warnings().await?, Vec::<String>::new());
        let address = cache.addresses(1).await?[0];
        let mut client = authority.connect(address, None).await?;
        // One by one: memcached 1.6.18 hangs on many sets at once over TLS.
        for (index, size) in repeat_n(500_000, 200).chain(every_size()).enumerate() {
            client.set(&format!("k{index}"), &vec![b'x'; size]).await?;
        }
        let greedy = stream::iter(0..CONNECTIONS).map(async |_| {
            let mut client = authority.connect(address, None).await?;
            client.ask("get k199 k198 k197 k196 k195\r\n".repeat(8).as_bytes()).await?;
            anyhow::Ok(client)
        });
        let _held: Vec<Memcached> = greedy.buffer_unordered(20).try_collect().await?;
        survives(cache, &process, "behind TLS, with 900 clients that ask for more than they read").await
    })
    .await
}

#[tokio::test]
async fn the_least_limit_that_is_admitted_is_warned_of_and_too_tight_for_items_of_every_size() -> Result<()> {
    with_cache("tight", async |cache| {
        let process = process(64, false);
        assert!(headroom(&process) > MEMORY_OVERHEAD_MB);
        cache.apply(&spec(&process, MEMORY_OVERHEAD_MB)).await?;
        cache.ready().await?;
        assert_eq!(cache.warnings().await?, ["MemoryLimitTight"]);
        assert!(fill(cache.addresses(1).await?[0], 64, 100).await.is_err());
        await_answer("the end of the container is reported", async || {
            let last = memcached_status(cache).await?.last_state.and_then(|last| last.terminated);
            let reason = last.and_then(|last| last.reason);
            ensure!(reason.as_deref() == Some("OOMKilled"), "{reason:?}");
            Ok(())
        })
        .await
    })
    .await
}
