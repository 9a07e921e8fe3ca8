//! The pods of one cache and what becomes of them: takes a cache, gives what clients are told to use, and deletes, evicts and
//! replaces pods. Each step ends when as many pods as wanted serve and none is left of those that had to go.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, ensure};
use e2e::testing::await_answer;
use e2e::testing::cache::Cache;
use e2e::testing::memcached::Memcached as Client;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, EvictParams, ListParams};
use kube::{Api, ResourceExt};
use memcached_operator::kernel::desired::default_images::OWN_IMAGE;
use serde_json::{Value, json};

use super::rings::{KEYS, Machine};

/// How many keys a pod is asked for at a time.
const AT_A_TIME: usize = 500;

/// A pod that serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    uid: String,
    address: SocketAddr,
}

impl Member {
    fn from_pod(pod: &Pod) -> Option<Self> {
        let status = pod.status.as_ref()?;
        let ready = status.conditions.iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True");
        let serves = ready && pod.metadata.deletion_timestamp.is_none();
        let address = SocketAddr::new(status.pod_ip.as_ref()?.parse::<IpAddr>().ok()?, 11211);
        serves.then_some(Self { name: pod.name_any(), uid: pod.uid()?, address })
    }

    /// How many keys it holds.
    pub(crate) async fn items(&self) -> Result<i32> {
        let stats = Client::connect(self.address).await?.stats("").await?;
        Ok(stats.get("curr_items").context("memcached counts its items")?.parse()?)
    }

    /// The numbers of a ring's keys that it holds, whose names begin like this.
    pub(crate) async fn holds(&self, keys: &str) -> Result<BTreeSet<i32>> {
        let (mut client, mut held) = (Client::connect(self.address).await?, BTreeSet::new());
        let numbers: Vec<_> = (0..KEYS).collect();
        for some in numbers.chunks(AT_A_TIME) {
            let names: Vec<_> = some.iter().map(|number| format!("{keys}-{number}")).collect();
            let found = client.get_all(&names).await?;
            let there = some.iter().zip(&names).filter(|(_, name)| found.contains_key(*name));
            held.extend(there.map(|(number, _)| *number));
        }
        Ok(held)
    }
}

/// The pods of a cache.
pub(crate) struct Pods<'a> {
    cache: &'a Cache<'a>,
    workload: &'static str,
    of_cache: ListParams,
    /// With a client that takes a refusal for an answer: by default it would try again for minutes.
    to_evict: Api<Pod>,
}

impl<'a> Pods<'a> {
    pub(crate) async fn for_cache(cache: &'a Cache<'a>, workload: &'static str) -> Result<Self> {
        let mut config = cache.space.cluster().config("e2e-test").await?;
        config.default_retry = false;
        let of_cache = ListParams::default().labels(&format!("app.kubernetes.io/instance={}", cache.name));
        let to_evict = Api::namespaced(kube::Client::try_from(config)?, cache.space.name());
        Ok(Self { cache, workload, of_cache, to_evict })
    }

    pub(crate) fn have_names(&self) -> bool {
        self.workload == "StatefulSet"
    }

    /// All that serve, by name.
    pub(crate) async fn serving(&self) -> Result<Vec<Member>> {
        let mut pods = self.all().await?;
        pods.sort_by_key(ResourceExt::name_any);
        Ok(pods.iter().filter_map(Member::from_pod).collect())
    }

    async fn all(&self) -> Result<Vec<Pod>> {
        Ok(self.cache.space.api::<Pod>().list(&self.of_cache).await?.items)
    }

    /// What a client is to use now, with commas: the names in the ConfigMap, or the addresses that the Service's name leads to.
    pub(crate) async fn servers(&self) -> Result<String> {
        self.servers_of(&self.serving().await?).await
    }

    /// What a client is to use while these pods serve, as [`Self::servers`] says it.
    pub(crate) async fn servers_of(&self, serving: &[Member]) -> Result<String> {
        if !self.have_names() {
            let mut addresses: Vec<_> = serving.iter().map(|it| it.address).collect();
            addresses.sort_unstable();
            return Ok(addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
        }
        let name = format!("{}-servers", self.cache.name);
        let told = self.cache.space.api::<ConfigMap>().get(&name).await?.data;
        told.unwrap_or_default().remove("MEMCACHED_SERVERS").context("it names the servers")
    }

    /// Waits until this many serve, none is on its way out, and none of `gone` is left.
    pub(crate) async fn become_many(&self, count: usize, gone: &[Member]) -> Result<()> {
        await_answer("the pods serve", async || {
            let (serving, there) = (self.serving().await?, self.all().await?.len());
            let left = serving.iter().filter(|it| gone.iter().any(|gone| gone.uid == it.uid)).count();
            ensure!((serving.len(), there, left) == (count, count, 0), "{there} are there: {serving:?}");
            Ok(())
        })
        .await?;
        self.cache.ready().await?;
        Ok(())
    }

    /// Waits until the name server has the address of each pod under its name, where pods have names.
    pub(crate) async fn are_known(&self, machine: &Machine) -> Result<()> {
        if !self.have_names() {
            return Ok(());
        }
        await_answer("the name server knows the pods", async || {
            for Member { name, address, .. } in self.serving().await? {
                let found = machine.address_of(&format!(
                    "{name}.{}.{}.svc",
                    self.cache.name,
                    self.cache.space.name()
                ))?;
                ensure!(found == address.ip(), "{name} has {found}, not {address}");
            }
            Ok(())
        })
        .await
    }

    /// There are this many, as the spec says from now on.
    pub(crate) async fn are(&self, count: usize) -> Result<()> {
        self.cache.apply(&self.spec(count)).await?;
        self.become_many(count, &[]).await
    }

    fn spec(&self, replicas: usize) -> Value {
        json!({
            "workload": self.workload,
            "replicas": replicas,
            // It is asked how full the pods are.
            "monitoring": {"enabled": self.have_names(), "exporterImage": OWN_IMAGE},
            "highAvailability": {"podDisruptionBudget": {"enabled": true, "maxUnavailable": 1}},
        })
    }

    /// Somebody deletes a pod; does not wait for another one.
    pub(crate) async fn delete(&self, pod: &Member) -> Result<()> {
        self.cache.space.api::<Pod>().delete(&pod.name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// A rollout replaces all of them, for a cause that was not there before.
    pub(crate) async fn are_replaced(&self, cause: &str) -> Result<()> {
        let before = self.serving().await?;
        self.cache.trigger(cause).await?;
        self.become_many(before.len(), &before).await
    }

    /// A rollout replaces all of them, and each pod is so many percent as full as older ones before the next one goes.
    pub(crate) async fn are_replaced_when_warm(&self, cause: &str, percent: u16) -> Result<()> {
        let mut spec = self.spec(self.serving().await?.len());
        // Longer than is waited for: with a shorter one the operator goes on from a cold pod where clients are slow, as it should.
        spec["rollout"] = json!({"warmth": {"percent": percent, "timeoutSeconds": 3600}});
        self.cache.apply(&spec).await?;
        self.are_replaced(cause).await
    }

    /// The last two are evicted, as by a drain of the node that holds them: each as soon as the budget lets it go.
    pub(crate) async fn lose_a_node_of_two(&self) -> Result<()> {
        let before = self.serving().await?;
        let held = before.get(before.len() - 2..).context("there are two")?;
        let mut refused = false;
        for pod in held {
            refused = false;
            await_answer("the pod may go", async || {
                let answer = self.to_evict.evict(&pod.name, &EvictParams::default()).await;
                refused |= matches!(&answer, Err(kube::Error::Api(status)) if status.code == 429);
                Ok(answer.map(|_| ())?)
            })
            .await?;
        }
        ensure!(refused, "the second pod went before the first was replaced");
        self.become_many(before.len(), held).await
    }
}
