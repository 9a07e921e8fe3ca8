//! Rollouts of named pods that wait for warm pods: a client that stores again what it misses asks all the time, and each second
//! has its hit ratio.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::testing::cache::{Cache, says};
use e2e::testing::memcached::Memcached as Client;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use memcached_operator::api::Memcached;
use memcached_operator::kernel::desired::default_images::OWN_IMAGE;
use serde_json::{Value, json};
use tokio::time::{Instant, interval, timeout};

use super::with_cache;

const PODS: usize = 3;
/// Keys of one pod.
const KEYS: usize = 9_000;
/// How many keys of each pod the client asks for every tenth of a second: so many that chance moves the ratio of a second by
/// less than a hundredth, also on a machine where a second has few ticks.
const A_TICK: usize = 100;
/// Longer than three pods take to start and to be filled, on a busy machine.
const ROLLOUT: Duration = Duration::from_secs(240);
/// `rollout.warmth.percent`.
const PERCENT: u16 = 80;

fn spec(threads: usize, warmth: &Value) -> Value {
    json!({
        "workload": "StatefulSet",
        "replicas": PODS,
        "memcached": {"threads": threads},
        "monitoring": {"enabled": true, "exporterImage": OWN_IMAGE},
        "rollout": {"warmth": warmth},
    })
}

/// A client of named pods: a key always has the same pod.
struct Shop<'a> {
    cache: &'a Cache<'a>,
    /// The uids of the pods that the rollout replaces.
    older: BTreeMap<usize, String>,
    /// The pods that serve.
    serving: BTreeMap<usize, (String, IpAddr)>,
    connections: BTreeMap<usize, (String, Client)>,
    random: u64,
}

impl<'a> Shop<'a> {
    async fn open(cache: &'a Cache<'a>) -> Result<Self> {
        let (connections, older) = (BTreeMap::new(), BTreeMap::new());
        let mut shop = Self { cache, older, serving: BTreeMap::new(), connections, random: 1 };
        shop.look().await?;
        shop.older = shop.serving.iter().map(|(number, (uid, _))| (*number, uid.clone())).collect();
        for number in 0..PODS {
            let keys: Vec<usize> = (0..KEYS).collect();
            for keys in keys.chunks(A_TICK) {
                shop.ask(number, keys).await;
            }
        }
        Ok(shop)
    }

    /// Finds the pods that are ready.
    async fn look(&mut self) -> Result<()> {
        let of_cache =
            ListParams::default().labels(&format!("app.kubernetes.io/instance={}", self.cache.name));
        let pods = self.cache.space.api::<Pod>().list(&of_cache).await?.items;
        let serving = |pod: Pod| {
            let status = pod.status?;
            let is_ready =
                status.conditions.iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True");
            let number = pod.metadata.name?.rsplit('-').next()?.parse().ok()?;
            let address = status.pod_ip?.parse().ok()?;
            let serves = is_ready && pod.metadata.deletion_timestamp.is_none();
            serves.then_some((number, (pod.metadata.uid?, address)))
        };
        self.serving = pods.into_iter().filter_map(serving).collect();
        let serving = &self.serving;
        self.connections
            .retain(|number, (uid, _)| serving.get(number).is_some_and(|(serving, _)| serving == uid));
        Ok(())
    }

    /// Reads keys of a pod, and stores those that are missed. Gives how many were found.
    async fn ask(&mut self, number: usize, keys: &[usize]) -> usize {
        let keys: Vec<String> = keys.iter().map(|key| format!("key-{key}")).collect();
        let found = self.read(number, &keys).await;
        if found.is_err() {
            self.connections.remove(&number);
        }
        found.unwrap_or_default()
    }

    async fn read(&mut self, number: usize, keys: &[String]) -> Result<usize> {
        if !self.connections.contains_key(&number) {
            let (uid, address) = self.serving.get(&number).context("it does not serve")?.clone();
            let connecting = Client::connect(SocketAddr::new(address, 11211));
            self.connections.insert(number, (uid, timeout(Duration::from_secs(1), connecting).await??));
        }
        let (_, connection) = self.connections.get_mut(&number).context("it is connected")?;
        let found = connection.get_all(keys).await?;
        let missed: Vec<&String> = keys.iter().filter(|key| !found.contains_key(*key)).collect();
        connection.set_all(&missed, b"value").await?;
        Ok(keys.len() - missed.len())
    }

    /// Asks each pod equally often, and for each of its keys as likely as for any other. Gives how many were found.
    async fn tick(&mut self) -> Result<usize> {
        let mut found = 0;
        for number in 0..PODS {
            let mut keys = Vec::with_capacity(A_TICK);
            for _ in 0..A_TICK {
                // Knuth's generator, whose upper half is as good as random: the same in every run.
                self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                keys.push(usize::try_from(self.random >> 32)? % KEYS);
            }
            found += self.ask(number, &keys).await;
        }
        Ok(found)
    }

    /// Whether this pod of before the rollout has gone.
    fn is_replaced(&self, number: usize) -> bool {
        self.serving.get(&number).is_none_or(|(uid, _)| self.older.get(&number) != Some(uid))
    }
}

/// The hit ratio of each second of a rollout in which the second pod has been replaced.
async fn ratios_of_a_rollout(cache: &Cache<'_>, edit: &Value) -> Result<Vec<f64>> {
    let mut shop = Shop::open(cache).await?;
    cache.apply(edit).await?;
    let generation = cache.space.api::<Memcached>().get(cache.name).await?.metadata.generation;
    let is_over = |it: Option<&Memcached>| {
        let observed = |it: &Memcached| it.status.as_ref().map(|it| it.observed_generation) == generation;
        it.is_some_and(|it| observed(it) && says(it, "True", "MemcachedReady"))
    };
    let rollout = cache.space.wait_within::<Memcached>(cache.name, "all pods are new", ROLLOUT, is_over);
    tokio::pin!(rollout);
    let mut ticks = interval(Duration::from_millis(100));
    let (mut seconds, mut second, mut found, mut asked) = (Vec::new(), Instant::now(), 0, 0);
    loop {
        tokio::select! {
            biased;
            ended = &mut rollout => {
                ended?;
                ensure!((0..PODS).all(|pod| shop.is_replaced(pod)), "some pod is not new");
                return Ok(seconds);
            }
            _ = ticks.tick() => {}
        }
        shop.look().await?;
        found += shop.tick().await?;
        asked += PODS * A_TICK;
        if second.elapsed() >= Duration::from_secs(1) {
            if shop.is_replaced(PODS - 2) {
                seconds.push(ratio(found, asked));
            }
            (second, found, asked) = (Instant::now(), 0, 0);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn ratio(found: usize, asked: usize) -> f64 {
    found as f64 / asked as f64
}

fn lowest(ratios: &[f64]) -> f64 {
    ratios.iter().copied().fold(1.0, f64::min)
}

#[tokio::test]
async fn the_next_named_pod_is_replaced_when_the_last_one_is_warm_or_its_time_is_over() -> Result<()> {
    with_cache("warm", async |cache| {
        cache.apply(&spec(1, &json!({"percent": PERCENT}))).await?;
        cache.ready().await?;
        let with = ratios_of_a_rollout(cache, &spec(2, &json!({"percent": PERCENT}))).await?;
        let without = ratios_of_a_rollout(cache, &spec(3, &Value::Null)).await?;
        let pods = f64::from(u32::try_from(PODS)?);
        let bound = (pods - 2.0 + f64::from(PERCENT) / 100.0) / pods * 0.95;
        println!(
            "hit ratio in any second from the second pod on: with warmth {:.3} or more ({} s; must {bound:.3}), without {:.3} \
             ({} s)",
            lowest(&with),
            with.len(),
            lowest(&without),
            without.len(),
        );
        assert!(with.len() > 10 && lowest(&with) >= bound, "{with:.2?}");

        // Nobody asks any more, and the new pods stay empty: each wait ends with its time.
        cache.apply(&spec(4, &json!({"percent": PERCENT, "timeoutSeconds": 5}))).await?;
        let waits = RefCell::new(BTreeMap::new());
        let has_waited_twice = |resource: &Memcached| {
            let status = resource.status.as_ref();
            if let Some(warming) = status.and_then(|it| it.warming.clone()) {
                let told = status.and_then(|it| it.conditions.iter().find(|it| it.type_ == "Ready"));
                let told = told.map(|it| it.message.clone()).unwrap_or_default();
                waits.borrow_mut().insert(warming.pod, (warming.items_percent.unwrap_or_default(), told));
            }
            waits.borrow().len() == PODS - 1
        };
        cache.is("the next pod waits", has_waited_twice).await?;
        for pod in ["warm-2", "warm-1"] {
            let waits = waits.borrow();
            let (items, told) = waits.get(pod).with_context(|| format!("{waits:?}"))?;
            println!("{told}");
            ensure!(*items == 0 && told.contains(&format!("until {pod} is warm (80 %, or at ")), "{told}");
        }
        cache.ready().await?;
        Ok(())
    })
    .await
}
