//! The lists of servers of a cache with named pods whose number an autoscaler decides on: in which order that number, both lists
//! and the pods change, and where clients inside the cluster get by the names.
//!
//! The node serves no metrics, so that the real autoscaler only keeps the number between its bounds; within them the test does
//! what it would do with metrics, by the same subresource. What was written before what is told by versions, which count the
//! writes of the whole cluster: how long anything takes depends on the machine, and is printed.
//!
//! No version of the resource is judged by the kstatus library: its spec does not say how many pods there are to be.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, ensure};
use e2e::testing::cache::Cache;
use e2e::testing::memcached::Memcached as Client;
use e2e::testing::{Change, Watchable, await_answer, every_change};
use futures::future::try_join_all;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{AttachParams, ListParams, Patch, PatchParams, WatchParams};
use kube::{Resource, ResourceExt};
use memcached_operator::api::Memcached;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::named_pods::{names, servers};
use super::with_cache;

/// The numbers that the workload has, one after the other.
const NUMBERS: [usize; 3] = [1, 3, 2];

const WORKLOAD: &str = "the workload";
const STATUS: &str = "the status";
const CONFIG_MAP: &str = "the ConfigMap";
const LISTS: [&str; 2] = [STATUS, CONFIG_MAP];

const NOT_READY: &str = "not ready";
const READY: &str = "ready";
const GOING: &str = "going";
const GONE: &str = "gone";

/// What somebody says from a version on.
#[derive(Clone)]
struct Said {
    version: u64,
    /// When the test heard it.
    at: Instant,
    who: String,
    what: String,
}

fn of_workload(change: &Change<StatefulSet>) -> Option<(String, String)> {
    let Change::Stored(it) = change else { return None };
    Some((WORKLOAD.to_owned(), it.spec.as_ref()?.replicas?.to_string()))
}

fn of_status(change: &Change<Memcached>) -> Option<(String, String)> {
    let Change::Stored(it) = change else { return None };
    Some((STATUS.to_owned(), it.status.as_ref()?.server_list.join(",")))
}

fn of_config_map(change: &Change<ConfigMap>) -> Option<(String, String)> {
    let Change::Stored(it) = change else { return None };
    Some((CONFIG_MAP.to_owned(), it.data.as_ref()?.get("MEMCACHED_SERVERS")?.clone()))
}

fn of_pod(change: &Change<Pod>) -> (String, String) {
    let is_ready = |pod: &Pod| {
        let mut conditions = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
        conditions.any(|it| it.type_ == "Ready" && it.status == "True")
    };
    let (pod, state) = match change {
        Change::Deleted(pod) => (pod, GONE),
        Change::Stored(pod) if pod.metadata.deletion_timestamp.is_some() => (pod, GOING),
        Change::Stored(pod) => (pod, if is_ready(pod) { READY } else { NOT_READY }),
    };
    (pod.name_any(), state.to_owned())
}

/// All that the workload, both lists and the pods of a cache have said, which are listened to until this is dropped.
struct Heard<'a> {
    cache: &'a Cache<'a>,
    said: Arc<Mutex<Vec<Said>>>,
    watches: Vec<JoinHandle<Result<Infallible>>>,
}

impl Drop for Heard<'_> {
    fn drop(&mut self) {
        self.watches.iter().for_each(JoinHandle::abort);
    }
}

fn lock(said: &Mutex<Vec<Said>>) -> MutexGuard<'_, Vec<Said>> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From one moment to the other; below zero where the other one was earlier.
fn seconds(from: Instant, to: Instant) -> f64 {
    let later = to.saturating_duration_since(from).as_secs_f64();
    later - from.saturating_duration_since(to).as_secs_f64()
}

impl<'a> Heard<'a> {
    /// From before the cache exists.
    async fn follow(cache: &'a Cache<'a>) -> Result<Self> {
        let mut heard = Self { cache, said: Arc::default(), watches: Vec::new() };
        let called = |name: &str| WatchParams::default().fields(&format!("metadata.name={name}"));
        heard.listen::<StatefulSet>(called(cache.name), of_workload).await?;
        heard.listen::<Memcached>(called(cache.name), of_status).await?;
        heard.listen::<ConfigMap>(called(&format!("{}-servers", cache.name)), of_config_map).await?;
        let of_cache = format!("app.kubernetes.io/instance={}", cache.name);
        let pods = WatchParams::default().labels(&of_cache);
        heard.listen::<Pod>(pods, |change| Some(of_pod(change))).await?;
        Ok(heard)
    }

    /// Keeps what these objects say, each time it is something else.
    async fn listen<K>(
        &mut self,
        whom: WatchParams,
        says: impl Fn(&Change<K>) -> Option<(String, String)> + Send + 'static,
    ) -> Result<()>
    where
        K: Watchable + Resource<Scope = NamespaceResourceScope>,
    {
        let api = self.cache.space.api::<K>();
        let list = api.list(&ListParams::default().limit(1)).await?;
        let from = list.metadata.resource_version.context("a list has a version")?;
        let said = Arc::clone(&self.said);
        let hear = move |change: Change<K>| {
            let (Change::Stored(object) | Change::Deleted(object)) = &change;
            let version = object.resource_version().context("an object has a version")?.parse::<u64>()?;
            if let Some((who, what)) = says(&change) {
                let mut said = lock(&said);
                let last = said.iter().rfind(|it| it.who == who);
                if last.is_none_or(|it| it.what != what) {
                    said.push(Said { version, at: Instant::now(), who, what });
                }
            }
            anyhow::Ok(())
        };
        self.watches.push(tokio::spawn(async move { every_change(&api, &whom, from, hear).await }));
        Ok(())
    }

    fn pod(&self, number: usize) -> String {
        format!("{}-{number}", self.cache.name)
    }

    /// The list for so many pods.
    fn list(&self, number: usize) -> String {
        names(self.cache, number).join(",")
    }

    /// The last words of all but those pods that are gone.
    fn last_words(&self) -> BTreeMap<String, String> {
        let said = lock(&self.said);
        let mut last: BTreeMap<_, _> = said.iter().map(|it| (it.who.clone(), it.what.clone())).collect();
        last.retain(|_, what| *what != GONE);
        last
    }

    /// Waits until the workload has this number, both lists name as many pods, and these are ready and no others are left.
    async fn rests_at(&self, number: usize) -> Result<()> {
        let mut wanted: BTreeMap<_, _> = (0..number).map(|pod| (self.pod(pod), READY.to_owned())).collect();
        wanted.insert(WORKLOAD.to_owned(), number.to_string());
        wanted.extend(LISTS.map(|who| (who.to_owned(), self.list(number))));
        await_answer(&format!("everything is as {number} pods need it"), async || {
            ensure!(!self.watches.iter().any(JoinHandle::is_finished), "a watch ended");
            let last = self.last_words();
            ensure!(last == wanted, "{last:?}");
            Ok(())
        })
        .await
    }

    /// All that it said, in order.
    fn all_of(&self, who: &str) -> Vec<String> {
        lock(&self.said).iter().filter(|it| it.who == who).map(|it| it.what.clone()).collect()
    }

    /// When it said this for the first time.
    fn first(&self, who: &str, what: &str) -> Result<Said> {
        let found = lock(&self.said).iter().find(|it| it.who == who && it.what == what).cloned();
        found.with_context(|| format!("{who} never says {what}"))
    }

    /// Each list was exact for each number that the workload had, in its order and after it, and was nothing else at any time: it
    /// names pods that are not ready yet, and none that had to go.
    fn lists_follow_the_workload(&self) -> Result<()> {
        assert_eq!(self.all_of(WORKLOAD), NUMBERS.map(|number| number.to_string()));
        let exact = NUMBERS.map(|number| self.list(number));
        for who in LISTS {
            // Before there is a Service the names lead nowhere.
            let said: Vec<_> = self.all_of(who).into_iter().skip_while(String::is_empty).collect();
            assert_eq!(said, exact, "{who}");
            // The first number is that of the spec.
            for (number, list) in NUMBERS.iter().zip(&exact).skip(1) {
                let (asked, listed) = (self.first(WORKLOAD, &number.to_string())?, self.first(who, list)?);
                ensure!(asked.version < listed.version, "{who} has {number} servers before the workload");
            }
        }
        Ok(())
    }

    /// Prints how long after the workload the lists change, and how long they name pods that clients do not find, given when the
    /// names of the second pod and the third one first led to them.
    fn print_leads(&self, known: &[Instant]) -> Result<()> {
        let [_, more, fewer] = NUMBERS.map(|number| self.list(number));
        for who in LISTS {
            let listed = self.first(who, &more)?.at;
            let asked = self.first(WORKLOAD, &NUMBERS[1].to_string())?.at;
            println!("{who} follows the number of the workload after {:.2} s", seconds(asked, listed));
            for (number, known) in (1..).zip(known) {
                let pod = self.pod(number);
                let (ready, known) = (seconds(listed, self.first(&pod, READY)?.at), seconds(listed, *known));
                println!(
                    "{who} names {pod} {ready:.1} s before it is ready, {known:.1} s before its name leads to it"
                );
            }
            let (pod, dropped) = (self.pod(2), self.first(who, &fewer)?.at);
            let [going, gone] = [self.first(&pod, GOING)?, self.first(&pod, GONE)?].map(|it| it.at);
            let (going, gone) = (seconds(going, dropped), seconds(dropped, gone));
            println!("{who} drops {pod} {going:.1} s after it begins to go, {gone:.1} s before it is gone");
        }
        Ok(())
    }

    /// Prints what was said, as it was written; of a list how many servers it has.
    fn print_order(&self) {
        let mut said = lock(&self.said).clone();
        said.sort_by_key(|it| it.version);
        let short = |Said { who, what, .. }: &Said| match LISTS.contains(&who.as_str()) {
            true => format!("{who}: {} servers", what.split(',').filter(|it| !it.is_empty()).count()),
            false => format!("{who}: {what}"),
        };
        println!("{}", said.iter().map(short).collect::<Vec<_>>().join("; "));
    }
}

/// Gives the workload another number as an autoscaler does.
async fn scale(cache: &Cache<'_>, number: usize) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": {"replicas": number}}));
    cache.space.api::<StatefulSet>().patch_scale(cache.name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Asks from within the first pod until the cluster knows the name of this server; gives its address, and when it was known.
async fn look_up(cache: &Cache<'_>, server: &str) -> Result<(SocketAddr, Instant)> {
    let (host, port) = server.split_once(':').context("a server has a port")?;
    let command = format!("until getent hosts {host}; do sleep 0.1; done");
    let params = AttachParams::default().container("memcached").stderr(false);
    let (pods, first) = (cache.space.api::<Pod>(), format!("{}-0", cache.name));
    let address = await_answer("the name server knows the pod", async || {
        let mut attached = pods.exec(&first, ["sh", "-c", command.as_str()], &params).await?;
        let mut output = String::new();
        attached.stdout().context("no output")?.read_to_string(&mut output).await?;
        attached.join().await?;
        Ok(output.split_whitespace().next().context("no address")?.parse::<IpAddr>()?)
    });
    Ok((SocketAddr::new(address.await?, port.parse()?), Instant::now()))
}

/// Both lists are those of so many pods, and a client that reads them finds each pod under its name.
async fn clients_find_each_pod(cache: &Cache<'_>, number: usize) -> Result<()> {
    let pods = cache.space.api::<Pod>();
    let listed = servers(cache, &cache.ready().await?).await?;
    assert_eq!(listed, names(cache, number));
    for (number, server) in listed.iter().enumerate() {
        let (address, _) = look_up(cache, server).await?;
        let status = pods.get(&format!("{}-{number}", cache.name)).await?.status;
        let of_pod = status.context("it has a status")?.pod_ip.context("it has an address")?;
        ensure!(address.ip().to_string() == of_pod, "{server} leads to {address}, and the pod has {of_pod}");
        Client::connect(address).await?.set("found", server.as_bytes()).await?;
    }
    Ok(())
}

#[tokio::test]
async fn both_lists_follow_the_number_of_an_autoscaler_exactly_and_clients_find_each_pod_by_its_name()
-> Result<()> {
    with_cache("autoscaled", async |cache| {
        let heard = Heard::follow(cache).await?;
        let spec = json!({
            "workload": "StatefulSet",
            "resources": {"requests": {"cpu": "10m"}},
            "autoscaling": {"enabled": true, "minReplicas": 1, "maxReplicas": 3},
        });
        cache.apply(&spec).await?;
        let [first, more, fewer] = NUMBERS;
        heard.rests_at(first).await?;
        scale(cache, more).await?;
        let added = names(cache, more).split_off(first);
        let known = try_join_all(added.iter().map(|server| look_up(cache, server))).await?;
        heard.rests_at(more).await?;
        clients_find_each_pod(cache, more).await?;
        scale(cache, fewer).await?;
        heard.rests_at(fewer).await?;
        clients_find_each_pod(cache, fewer).await?;
        let looked = |it: Option<&HorizontalPodAutoscaler>| {
            it.and_then(|it| it.status.as_ref()?.current_replicas) == i32::try_from(fewer).ok()
        };
        let wanted = "the autoscaler has seen the number";
        cache.space.wait::<HorizontalPodAutoscaler>(cache.name, wanted, looked).await?;
        heard.print_order();
        heard.print_leads(&known.into_iter().map(|(_, at)| at).collect::<Vec<_>>())?;
        heard.lists_follow_the_workload()?;
        assert_eq!(cache.history().await?.templates(), 1, "another number replaces no pod");
        Ok(())
    })
    .await
}
