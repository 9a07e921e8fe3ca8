//! Secrets that change while something else goes wrong, once each: pods whose memcached goes on lose no key and no client, and in
//! the end every pod uses the new content. On a cluster of its own, because its operators and its kubelet are killed.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::certs::NODE;
use e2e::chart::NAMESPACE;
use e2e::process::Process;
use e2e::testing::cache::{Cache, install, says};
use e2e::testing::changing_secrets::{COMMON, is_shown, lets_in, write_passwords};
use e2e::testing::container::{first_process, take_memory};
use e2e::testing::operator::{Launch, Operator, binary};
use e2e::testing::permissions::as_installed;
use e2e::testing::tls::Authority;
use e2e::testing::traffic::{Access, Keys, Traffic};
use e2e::testing::{Space, await_answer, in_namespace_of, unique};
use e2e::{Cluster, Shape, TemporaryCluster, image};
use futures::future::try_join_all;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, Secret};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use memcached_operator::api::crd::crd;
use memcached_operator::api::secret_rotation::SecretRotation;
use memcached_operator::kernel::desired::default_images::OWN_IMAGE;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::time::Instant;

const PODS: usize = 3;
/// In each pod.
const KEYS: usize = 50_000 / PODS;
/// Operators that are told apart by these names.
const OPERATORS: [&str; 2] = ["first", "second"];
/// In seconds.
const LEASE: u32 = 4;

/// A pod, and the ids of its two containers, which are other ones when they are started again.
#[derive(Clone, Debug)]
struct Member {
    name: String,
    address: SocketAddr,
    memcached: String,
    agent: ContainerStatus,
}

impl Member {
    fn from_pod(pod: &Pod) -> Option<Self> {
        let status = pod.status.as_ref()?;
        let all = status.container_statuses.as_ref()?;
        let container = |name: &str| all.iter().find(|it| it.name == name);
        let goes_on = pod.metadata.deletion_timestamp.is_none();
        Some(Self {
            name: pod.metadata.name.clone().filter(|_| goes_on)?,
            address: SocketAddr::new(status.pod_ip.as_ref()?.parse().ok()?, 11211),
            memcached: container("memcached")?.container_id.clone()?,
            agent: container("agent")?.clone(),
        })
    }

    fn agent(&self) -> Result<Process> {
        first_process(self.agent.container_id.as_deref().context("the agent runs")?)
    }
}

fn signal(process: &Process, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(process.pid).context("no process id")?;
    Ok(kill_process(pid, signal)?)
}

/// The cache, its clients and its operators.
struct Scene<'a> {
    cluster: &'a Cluster,
    cache: &'a Cache<'a>,
    access: Arc<Access>,
    launches: Vec<Launch>,
    /// Those that run; the first one leads.
    operators: Vec<Operator>,
    changes: usize,
    certificate: String,
    /// Hash of the content that all pods used last.
    used: Option<String>,
    /// Containers in which all keys are.
    filled: BTreeSet<String>,
}

/// Clients at work on pods that nothing is done to.
struct Work {
    members: Vec<Member>,
    keys: Vec<Keys>,
    traffic: Traffic,
}

impl<'a> Scene<'a> {
    async fn new(cluster: &'a Cluster, cache: &'a Cache<'a>) -> Result<Self> {
        let (user, password) = COMMON;
        let access = Arc::new(Access { authority: Authority::create("authority")?, user, password });
        let mut launches = Vec::new();
        for name in OPERATORS {
            let args = [
                "--leader-elect".to_owned(),
                format!("--lease-namespace={NAMESPACE}"),
                format!("--lease-duration={LEASE}"),
            ];
            launches.push(Launch {
                program: binary()?,
                kubeconfig: as_installed(cluster).await?,
                log: cluster.folder().join(format!("operator-{name}.log")),
                args: args.map(Into::into).into(),
                env: vec![("POD_NAME".into(), name.into()), e2e::process::mark(cluster.folder())],
            });
        }
        let mut scene = Self {
            cluster,
            cache,
            access,
            launches,
            operators: Vec::new(),
            changes: 0,
            certificate: String::new(),
            used: None,
            filled: BTreeSet::new(),
        };
        scene.change().await?;
        scene.start_operators().await?;
        cache.apply(&spec(PODS, 4)).await?;
        cache.ready().await?;
        scene.is_taken(PODS).await?;
        Ok(scene)
    }

    async fn start_operators(&mut self) -> Result<()> {
        let first = Operator::start(&self.launches[0]).await?;
        self.leads(OPERATORS[0]).await?;
        self.operators = vec![first, Operator::start(&self.launches[1]).await?];
        Ok(())
    }

    /// Waits until the operator of this name has the Lease.
    async fn leads(&self, name: &str) -> Result<()> {
        let leases: Api<Lease> = Api::namespaced(self.cache.space.client(), NAMESPACE);
        await_answer("the other operator leads", async || {
            let lease = leases.get("memcached-operator").await?;
            let holder = lease.spec.and_then(|it| it.holder_identity).unwrap_or_default();
            ensure!(holder.starts_with(&format!("{name}_")), "{holder:?} holds it");
            Ok(())
        })
        .await
    }

    /// The pods, once this many are ready.
    async fn members(&self, count: usize) -> Result<Vec<Member>> {
        let addresses = self.cache.addresses(count).await?;
        let of_cache =
            ListParams::default().labels(&format!("app.kubernetes.io/instance={}", self.cache.name));
        let pods = self.cache.space.api::<Pod>().list(&of_cache).await?.items;
        let mut members: Vec<_> = pods.iter().filter_map(Member::from_pod).collect();
        members.retain(|member| addresses.contains(&member.address));
        ensure!(members.len() == count, "{members:?}");
        Ok(members)
    }

    /// A renewed certificate, and other passwords beside the one of all.
    async fn change(&mut self) -> Result<()> {
        self.changes += 1;
        self.certificate = self.access.authority.fill(self.cache.space, "certificate").await?;
        write_passwords(self.cache, self.changes).await
    }

    async fn is_served_by(&self, members: &[Member]) -> Result<()> {
        let addresses: Vec<_> = members.iter().map(|member| member.address).collect();
        is_shown(&self.access, &addresses, &self.certificate).await?;
        lets_in(&self.access, &addresses, self.changes).await
    }

    /// Waits until every pod uses the new content, and the status says so.
    async fn is_taken(&mut self, count: usize) -> Result<()> {
        let before = self.used.take();
        let ended = |it: &memcached_operator::api::Memcached| {
            used(record(it)).is_some_and(|now| Some(now) != before) && says(it, "True", "MemcachedReady")
        };
        let resource = self.cache.is("all pods use the new content", ended).await?;
        self.used = used(record(&resource));
        self.is_served_by(&self.members(count).await?).await
    }

    /// Clients begin to work on these pods.
    async fn begin(&mut self, members: &[Member]) -> Result<Work> {
        let keys: Vec<_> = members.iter().map(|it| Keys { pod: it.address, count: KEYS }).collect();
        let empty = members.iter().zip(&keys).filter(|(it, _)| !self.filled.contains(&it.memcached));
        try_join_all(empty.map(|(_, keys)| keys.store(&self.access))).await?;
        self.filled.extend(members.iter().map(|it| it.memcached.clone()));
        let traffic = Traffic::start(&self.access, &keys).await?;
        Ok(Work { members: members.to_vec(), keys, traffic })
    }

    /// Clients end. No operation failed, nobody was refused, no key is lost.
    async fn end(&self, Work { members, keys, traffic }: Work) -> Result<()> {
        let done = traffic.finish().await?;
        ensure!(done.operations > 0 && done.connections > 0, "{done:?}");
        let found: usize = try_join_all(keys.iter().map(|keys| keys.found(&self.access))).await?.iter().sum();
        ensure!(found == KEYS * keys.len(), "{found} of {} keys are left", KEYS * keys.len());
        for member in members {
            let pod = self.cache.space.api::<Pod>().get(&member.name).await?;
            let now = Member::from_pod(&pod).context("the pod goes on")?;
            ensure!(now.memcached == member.memcached, "memcached of {} was started again", member.name);
        }
        Ok(())
    }

    /// Waits until the status says that this many of the pods use the new content.
    async fn half_way(&self, taken: i32) -> Result<()> {
        let half = |it: &memcached_operator::api::Memcached| {
            let known = record(it).and_then(|it| it.updated_pods.zip(it.pods));
            known == Some((taken, i32::try_from(PODS).unwrap_or_default()))
        };
        self.cache.is("some pods use the new content", half).await.map(|_| ())
    }
}

fn record(resource: &memcached_operator::api::Memcached) -> Option<&SecretRotation> {
    resource.status.as_ref()?.secret_rotation.as_deref()
}

fn used(record: Option<&SecretRotation>) -> Option<String> {
    record.filter(|it| it.wanted_hash.is_none()).map(|it| it.used_hash.clone())
}

fn spec(replicas: usize, threads: i32) -> Value {
    json!({"replicas": replicas, "memcached": {"threads": threads}, "security": {
        "rotation": "InPlace",
        "tls": {"enabled": true, "certificateSecretRef": {"name": "certificate"}, "enableClientCert": true},
        "sasl": {"enabled": true, "credentialsSecretRef": {"name": "users"}},
    }})
}

async fn the_agent_is_killed(scene: &mut Scene<'_>) -> Result<()> {
    let members = scene.members(PODS).await?;
    let work = scene.begin(&members).await?;
    members[0].agent()?.kill();
    scene.change().await?;
    scene.is_taken(PODS).await?;
    scene.end(work).await
}

async fn the_agent_has_no_memory_left(scene: &mut Scene<'_>) -> Result<()> {
    let members = scene.members(PODS).await?;
    let work = scene.begin(&members).await?;
    take_memory(&members[1].agent()?)?;
    // More than there is room for.
    scene.access.authority.fill_with(scene.cache.space, "certificate", &"x".repeat(900_000)).await?;
    let pods = scene.cache.space.api::<Pod>();
    await_answer("the agent was killed for its memory", async || {
        let pod = pods.get(&members[1].name).await?;
        let agent = Member::from_pod(&pod).context("the pod goes on")?.agent;
        let last = agent.last_state.and_then(|it| it.terminated).and_then(|it| it.reason);
        ensure!(last.as_deref() == Some("OOMKilled"), "{last:?}");
        Ok(())
    })
    .await?;
    the_kubelet_counts_no_kill(&scene.cache.space.client(), &members[1].name).await?;
    scene.change().await?;
    scene.is_taken(PODS).await?;
    scene.end(work).await
}

/// Why the dashboard does not use the kubelet's counter, as `docs/metrics.md` says. Where it counts, use it.
async fn the_kubelet_counts_no_kill(client: &Client, pod: &str) -> Result<()> {
    let page = http::Request::get(format!("/api/v1/nodes/{NODE}/proxy/metrics/cadvisor")).body(Vec::new())?;
    let page = client.request_text(page).await?;
    let of_pod = |line: &&str| {
        line.starts_with("container_oom_events_total{") && line.contains(&format!("pod=\"{pod}\""))
    };
    let series: Vec<_> = page.lines().filter(of_pod).collect();
    let is_zero = |line: &&str| line.split("} ").last().is_some_and(|it| it.starts_with("0 "));
    ensure!(!series.is_empty() && series.iter().all(is_zero), "{series:#?}");
    Ok(())
}

async fn memcached_of_a_pod_is_killed(scene: &mut Scene<'_>) -> Result<()> {
    let members = scene.members(PODS).await?;
    let work = scene.begin(&members[..2]).await?;
    scene.change().await?;
    first_process(&members[2].memcached)?.kill();
    scene.is_taken(PODS).await?;
    scene.end(work).await
}

async fn a_pod_comes_and_a_pod_goes(scene: &mut Scene<'_>) -> Result<()> {
    let members = scene.members(PODS).await?;
    let work = scene.begin(&members[..2]).await?;
    scene.change().await?;
    scene.cache.apply(&spec(PODS + 1, 4)).await?;
    let pods = scene.cache.space.api::<Pod>();
    drop(pods.delete(&members[2].name, &DeleteParams::default()).await?);
    scene.is_taken(PODS + 1).await?;
    scene.end(work).await?;
    scene.cache.apply(&spec(PODS, 4)).await?;
    scene.members(PODS).await.map(|_| ())
}

async fn the_kubelet_is_killed(scene: &mut Scene<'_>) -> Result<()> {
    let members = scene.members(PODS).await?;
    let work = scene.begin(&members).await?;
    scene.change().await?;
    scene.cluster.restart("kubelet")?;
    scene.is_taken(PODS).await?;
    scene.end(work).await
}

async fn no_operator_is_there_while_secrets_change(scene: &mut Scene<'_>) -> Result<()> {
    let members = scene.members(PODS).await?;
    let work = scene.begin(&members).await?;
    scene.operators.clear();
    scene.change().await?;
    scene.is_served_by(&members).await?;
    scene.start_operators().await?;
    scene.is_taken(PODS).await?;
    scene.end(work).await
}

async fn an_agent_hangs_and_the_operators_go_before_it_answers(scene: &mut Scene<'_>) -> Result<()> {
    let members = scene.members(PODS).await?;
    let work = scene.begin(&members).await?;
    let hanging = members[0].agent()?;
    signal(&hanging, Signal::STOP)?;
    scene.change().await?;
    scene.half_way(2).await?;
    scene.operators.clear();
    signal(&hanging, Signal::CONT)?;
    scene.start_operators().await?;
    scene.is_taken(PODS).await?;
    scene.end(work).await
}

async fn an_agent_hangs_and_another_operator_leads(scene: &mut Scene<'_>) -> Result<()> {
    let members = scene.members(PODS).await?;
    let work = scene.begin(&members).await?;
    let hanging = members[0].agent()?;
    signal(&hanging, Signal::STOP)?;
    scene.change().await?;
    scene.half_way(2).await?;
    scene.operators.remove(0).kill()?;
    scene.leads(OPERATORS[1]).await?;
    signal(&hanging, Signal::CONT)?;
    scene.is_taken(PODS).await?;
    scene.end(work).await?;
    scene.operators.clear();
    scene.start_operators().await
}

async fn a_secret_goes_and_comes_back(scene: &mut Scene<'_>) -> Result<()> {
    let members = scene.members(PODS).await?;
    let work = scene.begin(&members).await?;
    let secrets = scene.cache.space.api::<Secret>();
    drop(secrets.delete("users", &DeleteParams::default()).await?);
    scene.cache.is("its Secret is missing", |it| says(it, "False", "SecretNotFound")).await?;
    scene.is_served_by(&members).await?;
    write_passwords(scene.cache, scene.changes).await?;
    let again = scene.cache.ready().await?;
    ensure!(used(record(&again)) == scene.used, "the same content again is no other one: {again:?}");
    scene.is_served_by(&members).await?;
    drop(secrets.delete("users", &DeleteParams::default()).await?);
    scene.cache.is("its Secret is missing", |it| says(it, "False", "SecretNotFound")).await?;
    scene.change().await?;
    scene.is_taken(PODS).await?;
    scene.end(work).await
}

async fn an_edit_replaces_the_pods(scene: &mut Scene<'_>) -> Result<()> {
    let before = scene.members(PODS).await?;
    scene.change().await?;
    scene.cache.apply(&spec(PODS, 2)).await?;
    scene.is_taken(PODS).await?;
    let after = scene.members(PODS).await?;
    let kept = after.iter().filter(|it| before.iter().any(|before| before.name == it.name)).count();
    ensure!(kept == 0, "{kept} pods are left of those before the edit");
    ensure!(scene.cache.template_records().await? == 2, "the pods were replaced once");
    let work = scene.begin(&after).await?;
    scene.end(work).await
}

async fn timed(name: &str, disturbance: impl Future<Output = Result<()>>) -> Result<()> {
    let start = Instant::now();
    disturbance.await.with_context(|| name.to_owned())?;
    println!("{name}: {:.1} s", start.elapsed().as_secs_f32());
    Ok(())
}

async fn disturbances(cluster: &Cluster, space: &Space) -> Result<()> {
    let cache = Cache::follow(space, "disturbed").await?;
    let mut scene = Scene::new(cluster, &cache).await?;
    timed("the agent is killed", the_agent_is_killed(&mut scene)).await?;
    timed("the agent has no memory left", the_agent_has_no_memory_left(&mut scene)).await?;
    timed("memcached of a pod is killed", memcached_of_a_pod_is_killed(&mut scene)).await?;
    timed("a pod comes and a pod goes", a_pod_comes_and_a_pod_goes(&mut scene)).await?;
    timed("the kubelet is killed", the_kubelet_is_killed(&mut scene)).await?;
    timed("no operator is there while secrets change", no_operator_is_there_while_secrets_change(&mut scene))
        .await?;
    timed(
        "an agent hangs and the operators go before it answers",
        an_agent_hangs_and_the_operators_go_before_it_answers(&mut scene),
    )
    .await?;
    timed("an agent hangs and another operator leads", an_agent_hangs_and_another_operator_leads(&mut scene))
        .await?;
    timed("a secret goes and comes back", a_secret_goes_and_comes_back(&mut scene)).await?;
    timed("an edit replaces the pods", an_edit_replaces_the_pods(&mut scene)).await?;
    Ok(())
}

#[tokio::test]
async fn whatever_happens_while_secrets_change_pods_that_go_on_lose_no_key_and_no_client() -> Result<()> {
    let cluster = TemporaryCluster::up(&unique("disturbed"), Shape::Node).await?;
    cluster.load(&image::stripped_operator(&binary()?, OWN_IMAGE)?)?;
    let client = Client::try_from(cluster.config("e2e-test/install").await?)?;
    install(&client, &crd()).await?;
    in_namespace_of(&cluster, "disturbed", async |space| disturbances(&cluster, space).await).await
}
