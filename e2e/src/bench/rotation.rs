//! What it costs to take changed Secrets in place: the agents of a cache at rest, its clients while Secrets change, and the time
//! from a Secret's change to the pods where the kubelet looks as seldom as it does by default. Takes nothing, starts a real
//! node; called by [`super::run`].

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use memcached_operator::api::Memcached;
use memcached_operator::api::crd::crd;
use memcached_operator::kernel::desired::default_images::OWN_IMAGE;
use serde_json::json;

use super::memory;
use super::report::{Bound, Row};
use super::spread::Spread;
use crate::cluster::{Audit, KubeletSync, Options, Shape, TemporaryCluster};
use crate::image;
use crate::process::Process;
use crate::shipped::{self, Profile};
use crate::testing::cache::{Cache, install, says};
use crate::testing::changing_secrets::{COMMON, is_shown, lets_in, write_passwords};
use crate::testing::container::{first_process, memory_group};
use crate::testing::operator::{Launch, Operator, binary};
use crate::testing::tls::Authority;
use crate::testing::traffic::{Access, Keys, Traffic};
use crate::testing::{Space, in_namespace_of};

const PODS: usize = 3;
/// How long the agents are left alone.
const REST: Duration = Duration::from_secs(60);
const KEYS: usize = 50_000;
/// Clients at work without and with a rotation, in turns.
const PAIRS: usize = 5;
/// How long each of them works.
const WORK: Duration = Duration::from_secs(20);
/// Changes with the kubelet's default.
const SLOW_CHANGES: usize = 3;

/// What the agents cost at rest, and clients while Secrets change.
///
/// # Errors
/// When the cluster, the operator or a client fails.
pub(super) async fn cost() -> Result<Vec<Row>> {
    on_a_node("bench-rotation", KubeletSync::EverySecond, async |stage| {
        eprintln!("agents at rest for {} s", REST.as_secs());
        let rest = stage.rest().await?;
        eprintln!("{PAIRS} times {} s of clients without and with a rotation", WORK.as_secs());
        let latencies = stage.latencies().await?;
        Ok(vec![memory_row(&rest), processor_row(&rest), latency_row(&latencies)])
    })
    .await
}

/// How long a change takes where the kubelet looks as seldom as it does by default.
///
/// # Errors
/// When the cluster, the operator or a client fails.
pub(super) async fn delay() -> Result<Vec<Row>> {
    on_a_node("bench-slow-kubelet", KubeletSync::AsByDefault, async |stage| {
        let mut took = Vec::new();
        for _ in 0..SLOW_CHANGES {
            eprintln!("a change of both Secrets, with the kubelet's default");
            took.push(stage.timed_change().await?);
        }
        Ok(vec![delay_row(&took)])
    })
    .await
}

/// Starts a node with an operator and a cache, and gives what the body made of it.
async fn on_a_node(
    name: &str,
    sync: KubeletSync,
    body: impl AsyncFnOnce(&mut Stage<'_>) -> Result<Vec<Row>>,
) -> Result<Vec<Row>> {
    let options = Options { audit: Audit::Off, sync, ..Shape::Node.into() };
    let cluster = TemporaryCluster::up(name, options).await?;
    cluster.load(&image::operator(&shipped::static_binary(Profile::Release)?, OWN_IMAGE)?)?;
    install(&kube::Client::try_from(cluster.config("bench").await?)?, &crd()).await?;
    let launch = Launch {
        program: binary()?,
        kubeconfig: cluster.kubeconfig(),
        log: cluster.folder().join("operator.log"),
        args: Vec::new(),
        env: Vec::new(),
    };
    let _operator = Operator::start(&launch).await?;
    let mut rows = Vec::new();
    in_namespace_of(&cluster, "rotation", async |space: &Space| {
        let cache = Cache::follow(space, "rotated").await?;
        rows = body(&mut Stage::new(&cache).await?).await?;
        Ok(())
    })
    .await?;
    Ok(rows)
}

/// A cache that takes its Secrets in place, with keys in it.
struct Stage<'a> {
    cache: &'a Cache<'a>,
    access: Arc<Access>,
    addresses: Vec<SocketAddr>,
    keys: Vec<Keys>,
    changes: usize,
    /// Hash of the content that all pods used last.
    used: Option<String>,
}

/// What one agent took in an idle minute.
struct IdleUsage {
    /// In bytes: what the kernel holds the container to account for, without files that it can read again.
    memory: u64,
    /// In bytes: the same with them, as `kubectl top` counts.
    working_set: u64,
    /// Share of a core.
    processor: f64,
}

/// The slowest of a hundred operations, with and without a rotation.
struct Latencies {
    without: Vec<Duration>,
    with: Vec<Duration>,
    /// How often both Secrets changed meanwhile.
    changes: usize,
}

impl<'a> Stage<'a> {
    async fn new(cache: &'a Cache<'a>) -> Result<Self> {
        let (user, password) = COMMON;
        let access = Arc::new(Access { authority: Authority::create("authority")?, user, password });
        access.authority.fill(cache.space, "certificate").await?;
        write_passwords(cache, 0).await?;
        let security = json!({
            "rotation": "InPlace",
            "tls": {"enabled": true, "certificateSecretRef": {"name": "certificate"}, "enableClientCert": true},
            "sasl": {"enabled": true, "credentialsSecretRef": {"name": "users"}},
        });
        cache
            .apply(&json!({"replicas": PODS, "security": security, "monitoring": {"enabled": true}}))
            .await?;
        cache.ready().await?;
        let addresses = cache.addresses(PODS).await?;
        let keys: Vec<_> =
            addresses.iter().map(|pod| Keys { pod: *pod, count: KEYS.div_ceil(PODS) }).collect();
        try_join_all(keys.iter().map(|keys| keys.store(&access))).await?;
        Ok(Self { cache, access, addresses, keys, changes: 0, used: None })
    }

    /// Changes both Secrets, and waits until the status says that all pods use the new content. Who asks the pods meanwhile
    /// takes time from their clients.
    async fn change(&mut self) -> Result<()> {
        self.changes += 1;
        self.access.authority.fill(self.cache.space, "certificate").await?;
        write_passwords(self.cache, self.changes).await?;
        let before = self.used.take();
        let ended = |it: &Memcached| {
            used(it).is_some_and(|now| Some(now) != before) && says(it, "True", "MemcachedReady")
        };
        let resource = self.cache.is("all pods use the new content", ended).await?;
        self.used = used(&resource);
        Ok(())
    }

    /// Changes both Secrets; gives how long it was until all pods used the new content.
    async fn timed_change(&mut self) -> Result<Duration> {
        self.changes += 1;
        let certificate = self.access.authority.fill(self.cache.space, "certificate").await?;
        write_passwords(self.cache, self.changes).await?;
        let written = Instant::now();
        is_shown(&self.access, &self.addresses, &certificate).await?;
        lets_in(&self.access, &self.addresses, self.changes).await?;
        Ok(written.elapsed())
    }

    async fn agents(&self) -> Result<Vec<Process>> {
        let of_cache =
            ListParams::default().labels(&format!("app.kubernetes.io/instance={}", self.cache.name));
        let pods = self.cache.space.api::<Pod>().list(&of_cache).await?.items;
        ensure!(pods.len() == PODS, "{} pods", pods.len());
        let agent = |pod: &Pod| {
            let containers = pod.status.as_ref()?.container_statuses.as_ref()?;
            containers.iter().find(|it| it.name == "agent")?.container_id.clone()
        };
        pods.iter().map(|pod| first_process(&agent(pod).context("a pod without an agent")?)).collect()
    }

    /// Leaves the cache alone.
    async fn rest(&self) -> Result<Vec<IdleUsage>> {
        let agents = self.agents().await?;
        let pid = |agent: &Process| u32::try_from(agent.pid).context("no process id");
        let before: Vec<_> =
            agents.iter().map(|agent| memory::processor(pid(agent)?)).collect::<Result<_>>()?;
        let start = Instant::now();
        tokio::time::sleep(REST).await;
        let took = start.elapsed().as_secs_f64();
        let rest = |(agent, before): (&Process, &Duration)| {
            let worked = memory::processor(pid(agent)?)?.saturating_sub(*before);
            let group = memory_group(agent)?;
            let used = number_in(&group, &["memory.current", "memory.usage_in_bytes"])?;
            let of_files = |names: &[&str]| statistic(&group, names);
            Ok(IdleUsage {
                memory: used.saturating_sub(of_files(&["file", "total_cache"])?),
                working_set: used.saturating_sub(of_files(&["inactive_file", "total_inactive_file"])?),
                processor: worked.as_secs_f64() / took,
            })
        };
        agents.iter().zip(&before).map(rest).collect()
    }

    /// Has clients at work, in turns while nothing happens and while one rotation follows the other.
    async fn latencies(&mut self) -> Result<Latencies> {
        let mut latencies = Latencies { without: Vec::new(), with: Vec::new(), changes: 0 };
        for _ in 0..PAIRS {
            let traffic = Traffic::start(&self.access, &self.keys).await?;
            tokio::time::sleep(WORK).await;
            latencies.without.extend(traffic.finish().await?.p99());
            let traffic = Traffic::start(&self.access, &self.keys).await?;
            let start = Instant::now();
            while start.elapsed() < WORK {
                self.change().await?;
                latencies.changes += 1;
            }
            latencies.with.extend(traffic.finish().await?.p99());
        }
        Ok(latencies)
    }
}

/// Hash of the content that all pods use; `None` during a rotation.
fn used(resource: &Memcached) -> Option<String> {
    let record = resource.status.as_ref()?.secret_rotation.as_ref()?;
    record.wanted_hash.is_none().then(|| record.used_hash.clone())
}

/// The number in the first of these files that the group has.
fn number_in(group: &Path, names: &[&str]) -> Result<u64> {
    let text = names.iter().find_map(|name| fs::read_to_string(group.join(name)).ok());
    Ok(text.with_context(|| format!("{} accounts for no memory", group.display()))?.trim().parse()?)
}

/// The first of these lines of the group's `memory.stat`, in bytes.
fn statistic(group: &Path, names: &[&str]) -> Result<u64> {
    let text = fs::read_to_string(group.join("memory.stat"))?;
    let value = |name: &&str| text.lines().find_map(|line| line.strip_prefix(*name)?.strip_prefix(' '));
    Ok(names.iter().find_map(value).with_context(|| format!("no {names:?} in memory.stat"))?.parse()?)
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn memory_row(rest: &[IdleUsage]) -> Row {
    let most = |of: fn(&IdleUsage) -> u64| megabytes(rest.iter().map(of).max().unwrap_or_default());
    Row {
        what: "agent at rest: memory, MB".to_owned(),
        resources: None,
        figure: most(|rest| rest.memory),
        must: Bound::AtMost(6.0),
        hope: Some(Bound::AtMost(3.0)),
        detail: format!(
            "{} agents; with the pages of its program at most {:.1}",
            rest.len(),
            most(|rest| rest.working_set)
        ),
    }
}

fn processor_row(rest: &[IdleUsage]) -> Row {
    let shares: Vec<_> = rest.iter().map(|rest| format!("{:.3}", 100.0 * rest.processor)).collect();
    Row {
        what: "agent at rest: % of a core".to_owned(),
        resources: None,
        figure: 100.0 * rest.iter().map(|rest| rest.processor).fold(0.0, f64::max),
        must: Bound::AtMost(0.1),
        hope: Some(Bound::AtMost(0.05)),
        detail: shares.join(", "),
    }
}

fn latency_row(latencies: &Latencies) -> Row {
    let (without, with) = (Spread::from_times(&latencies.without), Spread::from_times(&latencies.with));
    Row {
        what: "slowest of 100 operations while Secrets rotate, over those without".to_owned(),
        resources: None,
        figure: with.median / without.median,
        must: Bound::AtMost(1.2),
        hope: Some(Bound::AtMost(1.0)),
        detail: format!("{} changes of both Secrets: {with}, without {without}", latencies.changes),
    }
}

fn delay_row(took: &[Duration]) -> Row {
    let spread = Spread::from_times(took);
    Row {
        what: "from a Secret's change to its use in all pods, with the kubelet's default, s".to_owned(),
        resources: None,
        figure: spread.max,
        must: Bound::AtMost(120.0),
        hope: None,
        detail: spread.to_string(),
    }
}

/// The rows of rotations that nobody measured, for their bounds.
#[cfg(test)]
pub(super) fn rows_of_nothing() -> [Row; 4] {
    let second = vec![Duration::from_secs(1)];
    let latencies = Latencies { without: second.clone(), with: second.clone(), changes: 1 };
    [memory_row(&[]), processor_row(&[]), latency_row(&latencies), delay_row(&second)]
}
