//! What only somebody inside a pod sees: takes a pod, gives the output of a command in it, or a connection to one of
//! its own addresses.

use anyhow::{Context, Result, bail};
use e2e::testing::Space;
use e2e::testing::cache::Cache;
use e2e::testing::memcached::Memcached;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{AttachParams, ListParams};
use tokio::io::AsyncReadExt;

/// The only pod of a cache.
pub(crate) async fn only(cache: &Cache<'_>) -> Result<Pod> {
    let of_cache = ListParams::default().labels(&format!("app.kubernetes.io/instance={}", cache.name));
    let mut pods = cache.space.api::<Pod>().list(&of_cache).await?.items;
    match pods.len() {
        1 => pods.pop().context("there is one"),
        count => bail!("there are {count} pods of {}", cache.name),
    }
}

/// The only pod's name.
pub(crate) async fn only_name(cache: &Cache<'_>) -> Result<String> {
    only(cache).await?.metadata.name.context("a pod has a name")
}

/// What a command prints in a pod's memcached container.
pub(crate) async fn output(space: &Space, pod: &str, command: &[&str]) -> Result<String> {
    let params = AttachParams::default().container("memcached").stderr(false);
    let mut attached = space.api::<Pod>().exec(pod, command.iter().copied(), &params).await?;
    let mut output = String::new();
    attached.stdout().context("no output")?.read_to_string(&mut output).await?;
    attached.join().await?;
    Ok(output)
}

/// A line of a container's first process in `/proc/1/status`: its words after `name:`.
pub(crate) fn field<'a>(status: &'a str, name: &str) -> Result<Vec<&'a str>> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Ok(line.with_context(|| format!("no {name} in {status:?}"))?.split_whitespace().collect())
}

/// A connection to 127.0.0.1 inside a pod.
pub(crate) async fn connect_inside(space: &Space, pod: &str, port: u16) -> Result<Memcached> {
    let mut forward = space.api::<Pod>().portforward(pod, &[port]).await?;
    Ok(Memcached::from_stream(forward.take_stream(port).context("the port is not forwarded")?))
}
