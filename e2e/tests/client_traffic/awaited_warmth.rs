//! Rollouts of named pods that wait for warm pods: a client that stores again what it misses asks all the time, and each second
//! of the clock has its hit ratio. The client is pymemcache, as `docs/clients.md` has it for named pods.
//!
//! Tests begin in the order of their names, and this one takes minutes: by its name it does not begin last, when no other is left
//! to run beside it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::testing::cache::{Cache, condition, says};
use e2e::testing::guide::read;
use e2e::testing::status_history::Version;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::ListParams;
use memcached_operator::api::Memcached;
use memcached_operator::kernel::desired::default_images::OWN_IMAGE;
use memcached_operator::kernel::live::PARTITION;
use memcached_operator::kernel::object::FIELD_MANAGER;
use serde_json::{Value, json};
use tokio::time::{Instant, interval};

use super::found_again::rings::{Library, Machine, Ring};
use super::found_again::stores_all;
use super::with_cache;

/// Keys of one pod.
const KEYS: usize = 9_000;
const SECOND: Duration = Duration::from_secs(1);
/// A second with fewer reads goes on until it has as many. The ratio of n reads, equally many in each of p pods of which one is away,
/// deviates by sqrt(0.25 (p - 1) / p / n) at the most: of so many by less than a hundredth, where the bound leaves three. A client reads
/// less while it connects to a pod that is gone, for up to a second, and then makes up for it.
const LEAST_READS: usize = 2_000;
/// In a second that lasts longer a dip of one second may not show.
const LONG: Duration = Duration::from_secs(3);
/// Pods of the rollout that is measured.
const PODS: usize = 3;
/// `rollout.warmth.percent`.
const PERCENT: u16 = 80;
/// How many keys of each pod the client asks for every tenth of a second.
const TICK: usize = 100;

fn spec(threads: usize, warmth: &Value) -> Value {
    json!({
        "workload": "StatefulSet",
        "replicas": PODS,
        "memcached": {"threads": threads},
        "monitoring": {"enabled": true, "exporterImage": OWN_IMAGE},
        "rollout": {"warmth": warmth},
    })
}

/// The hit ratio that each second has at least: two pods are not filled, of which one is warm.
fn bound() -> Result<f64> {
    let pods = f64::from(u32::try_from(PODS)?);
    Ok((pods - 2.0 + f64::from(PERCENT) / 100.0) / pods * 0.95)
}

/// Longer than the pods take to start and to be filled, on a busy machine.
const ROLLOUT: Duration = Duration::from_mins(10);
/// `rollout.warmth.timeoutSeconds` where a wait has to end with a warm pod: longer.
const FILLING: u64 = 900;
/// `rollout.warmth.timeoutSeconds` where nobody asks.
const IDLE: SignedDuration = SignedDuration::from_secs(5);
/// A second in which a client asked, and how much it found.
#[derive(Clone, Copy)]
struct Second {
    begins: Instant,
    ends: Instant,
    ratio: f64,
}

/// A client of named pods, and which pods serve.
struct Shop<'a> {
    cache: &'a Cache<'a>,
    client: &'a mut Ring,
    /// The uids of the pods that the rollout replaces.
    older: BTreeMap<usize, String>,
    /// Those of the pods that serve.
    serving: BTreeMap<usize, String>,
}

impl<'a> Shop<'a> {
    /// The client is told the names in the ConfigMap, and has stored all its keys.
    async fn open(cache: &'a Cache<'a>, client: &'a mut Ring) -> Result<Self> {
        let told = cache.space.api::<ConfigMap>().get(&format!("{}-servers", cache.name)).await?.data;
        let servers = told.unwrap_or_default().remove("MEMCACHED_SERVERS").context("it names the servers")?;
        stores_all(client, async |client| client.fill(&servers, KEYS).await).await?;
        let mut shop = Self { cache, client, older: BTreeMap::new(), serving: BTreeMap::new() };
        shop.look().await?;
        shop.older = shop.serving.clone();
        ensure!(shop.older.len() == PODS, "these serve: {:?}", shop.older);
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
            let serves = is_ready && pod.metadata.deletion_timestamp.is_none();
            serves.then_some((number, pod.metadata.uid?))
        };
        self.serving = pods.into_iter().filter_map(serving).collect();
        Ok(())
    }

    /// Asks each pod equally often, and for each of its keys as likely as for any other. Gives how many were found.
    async fn tick(&mut self) -> Result<usize> {
        Ok(usize::try_from(self.client.any(TICK).await?)?)
    }

    /// Whether this pod of before the rollout has gone.
    fn is_replaced(&self, number: usize) -> bool {
        self.serving.get(&number).is_none_or(|uid| self.older.get(&number) != Some(uid))
    }
}

/// The seconds of a rollout in which the second pod has been replaced; the last one ends after the rollout.
async fn seconds_of_a_rollout(shop: &mut Shop<'_>, edit: &Value) -> Result<Vec<Second>> {
    let cache = shop.cache;
    cache.apply(edit).await?;
    let generation = cache.space.api::<Memcached>().get(cache.name).await?.metadata.generation;
    let is_over = |it: Option<&Memcached>| {
        let observed = |it: &Memcached| it.status.as_ref().map(|it| it.observed_generation) == generation;
        it.is_some_and(|it| observed(it) && says(it, "True", "MemcachedReady"))
    };
    let rollout = cache.space.wait_within::<Memcached>(cache.name, "all pods are new", ROLLOUT, is_over);
    tokio::pin!(rollout);
    let mut ticks = interval(Duration::from_millis(100));
    let (mut seconds, mut begins, mut found, mut asked) = (Vec::new(), Instant::now(), 0, 0);
    let mut over = None;
    loop {
        tokio::select! {
            biased;
            ended = &mut rollout, if over.is_none() => {
                ended?;
                over = Some(Instant::now());
            }
            _ = ticks.tick() => {}
        }
        found += shop.tick().await?;
        asked += PODS * TICK;
        if begins.elapsed() >= SECOND && asked >= LEAST_READS {
            let ends = Instant::now();
            shop.look().await?;
            if !seconds.is_empty() || shop.is_replaced(PODS - 2) {
                seconds.push(Second { begins, ends, ratio: ratio(found, asked) });
            }
            (begins, found, asked) = (ends, 0, 0);
            if let Some(over) = over {
                ensure!((0..PODS).all(|pod| shop.is_replaced(pod)), "some pod is not new");
                holds_each_second(&seconds, over)?;
                return Ok(seconds);
            }
        }
    }
}

/// Fails where a second is not among these.
fn holds_each_second(seconds: &[Second], over: Instant) -> Result<()> {
    for pair in seconds.windows(2) {
        let missing = pair[1].begins.duration_since(pair[0].ends);
        ensure!(missing.is_zero(), "nobody asked for {missing:?}");
    }
    let last = seconds.last().context("nobody asked")?;
    let missing = over.duration_since(last.ends);
    ensure!(missing.is_zero(), "nobody asked for {missing:?} at the end");
    Ok(())
}

fn lasting(seconds: &[Second]) -> impl Iterator<Item = Duration> {
    seconds.iter().map(|it| it.ends.duration_since(it.begins))
}

/// Whether at most one in five of these lasted long.
fn are_rarely_long(seconds: &[Second]) -> bool {
    lasting(seconds).filter(|it| *it > LONG).count() * 5 <= seconds.len()
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn ratio(found: usize, asked: usize) -> f64 {
    found as f64 / asked as f64
}

fn ratios(seconds: &[Second]) -> Vec<f64> {
    seconds.iter().map(|it| it.ratio).collect()
}

fn lowest(ratios: &[f64]) -> f64 {
    ratios.iter().copied().fold(1.0, f64::min)
}

/// When the operator last let the pod of this number go, to the second.
fn let_go(versions: &[Version], number: i64) -> Result<Timestamp> {
    let at = |version: &Version| version.object.as_ref()?.pointer(PARTITION)?.as_i64();
    let lowered = |pair: &&[Version]| at(&pair[0]) != Some(number) && at(&pair[1]) == Some(number);
    let pair = versions.windows(2).rfind(lowered).with_context(|| format!("pod {number} stays"))?;
    let object = pair[1].object.as_ref().context("it is there")?;
    let entries = object["metadata"]["managedFields"].as_array().context("it has field managers")?;
    let ours = entries.iter().find(|it| it["manager"] == FIELD_MANAGER && it["operation"] == "Apply");
    let time = ours.and_then(|it| it["time"].as_str()).context("the operator applied it")?;
    Ok(time.parse()?)
}

/// Nobody asks any more, and the new pods stay empty. How much later than its time a wait ends depends on the machine.
async fn without_traffic_each_wait_ends_with_its_time(cache: &Cache<'_>, edit: &Value) -> Result<()> {
    cache.apply(edit).await?;
    let waits = RefCell::new(BTreeMap::new());
    let has_waited_twice = |resource: &Memcached| {
        let warming = resource.status.as_ref().and_then(|status| status.warming.clone());
        let told = condition(resource, "Ready").map(|it| it.message.clone()).unwrap_or_default();
        // A pod that misses a probe is told of instead, and the time of the wait goes on.
        if let Some(warming) = warming
            && told.contains("is warm")
        {
            waits.borrow_mut().insert(warming.pod.clone(), (warming, told));
        }
        waits.borrow().len() == PODS - 1
    };
    cache.is("the next pod waits", has_waited_twice).await?;
    cache.ready().await?;
    let versions = cache.history().await?.stateful_set;
    for (pod, next) in [("warm-2", 1), ("warm-1", 0)] {
        let waits = waits.borrow();
        let (warming, told) = waits.get(pod).with_context(|| format!("{waits:?}"))?;
        let (end, gone) = (warming.since.0 + IDLE, let_go(&versions, next)?);
        println!("{told}; pod {next} went at {gone}");
        let is_told = told.contains(&format!("until {pod} is warm ({} %, or at {end})", PERCENT));
        let shares = [warming.items_percent, warming.hit_ratio_percent].map(Option::unwrap_or_default);
        ensure!(is_told && shares == [0, 0], "{told}");
        // It was never warm, so that the time alone ended the wait.
        ensure!(gone >= end, "pod {next} went at {gone}, and the wait ends at {end}");
    }
    Ok(())
}

#[tokio::test]
async fn the_next_named_pod_is_replaced_when_the_last_one_is_warm_or_its_time_is_over() -> Result<()> {
    with_cache("warm", async |cache| {
        let machine = Machine::new(cache.space)?;
        let mut client = machine.ring("pymemcache", Library::Python("pymemcache-named"))?;
        let mut threads = 1..;
        let mut next = |warmth: Value| spec(threads.next().unwrap_or(1), &warmth);
        let warm = json!({"percent": PERCENT, "timeoutSeconds": FILLING});
        cache.apply(&next(Value::Null)).await?;
        cache.ready().await?;
        let mut shop = Shop::open(cache, &mut client).await?;
        let with = seconds_of_a_rollout(&mut shop, &next(warm)).await?;
        let mut shop = Shop::open(cache, &mut client).await?;
        let without = seconds_of_a_rollout(&mut shop, &next(Value::Null)).await?;
        let longest = [&with, &without].map(|it| lasting(it).max().unwrap_or_default().as_secs_f32());
        let lasted: Vec<Duration> = lasting(&with).collect();
        let rarely_long = are_rarely_long(&with);
        let [with, without] = [with, without].map(|it| ratios(&it));
        let bound = bound()?;
        println!(
            "{PODS} pods, hit ratio of pymemcache in each second from the second pod on: with warmth of {PERCENT} % {:.3} or more \
             (of {}; must {bound:.3}), without {:.3} (of {}); with {LEAST_READS} reads one lasted {longest:.1?} s at the most",
            lowest(&with),
            with.len(),
            lowest(&without),
            without.len(),
        );
        assert!(rarely_long, "many are long: {lasted:.1?}");
        assert!(with.len() > 10 && lowest(&with) >= bound, "{with:.2?}");
        assert!(lowest(&without) < lowest(&with), "warmth changes nothing: {with:.2?}, {without:.2?}");

        // The last pod of a rollout may be empty yet, where the client is slow; and where the others of a new pod hold nothing,
        // nobody waits for it. So the client fills all of them, and then asks no more.
        drop(Shop::open(cache, &mut client).await?);
        let warmth = json!({"percent": PERCENT, "timeoutSeconds": IDLE.as_secs()});
        without_traffic_each_wait_ends_with_its_time(cache, &next(warmth)).await
    })
    .await
}

#[test]
fn a_second_that_is_missing_is_noticed() {
    let start = Instant::now();
    let second = |begins: u64, ends: u64| {
        let [begins, ends] = [begins, ends].map(|millis| start + Duration::from_millis(millis));
        Second { begins, ends, ratio: 1.0 }
    };
    let is_whole = |seconds: &[Second], over: u64| {
        holds_each_second(seconds, start + Duration::from_millis(over)).is_ok()
    };
    assert!(is_whole(&[second(0, 1_000), second(1_000, 2_100), second(2_100, 7_100)], 7_000));
    assert!(!is_whole(&[], 0), "none");
    assert!(!is_whole(&[second(0, 1_000), second(2_000, 3_000)], 3_000), "none between two");
    assert!(!is_whole(&[second(0, 1_000), second(1_000, 2_000)], 3_000), "none at the end");
}

#[test]
fn seconds_that_last_long_are_noticed_where_they_are_not_rare() {
    let begins = Instant::now();
    let lasting = |millis: u64| Second { begins, ends: begins + Duration::from_millis(millis), ratio: 1.0 };
    assert!(are_rarely_long(&[1_000, 2_900, 3_000, 1_000, 3_400].map(lasting)));
    assert!(!are_rarely_long(&[1_000, 2_900, 1_000, 3_400].map(lasting)));
}

#[test]
fn the_pages_name_the_hit_ratio_that_is_asked_of_each_second() -> Result<()> {
    let bound = format!("a hit ratio of at least {:.0} %", bound()? * 100.0);
    for page in ["docs/clients.md", "docs/named-pods.md"] {
        let text = read(page)?.split_whitespace().collect::<Vec<_>>().join(" ");
        let least = format!("fewer than {},{:03} reads", LEAST_READS / 1_000, LEAST_READS % 1_000);
        for words in [&bound, &least] {
            ensure!(text.contains(words), "{page} does not say {words:?}");
        }
    }
    Ok(())
}
