//! A newcomer's path from a clean cluster: install the chart, apply a sample, watch it, break it, see the alert, repair
//! it, upgrade the chart, deliver caches by helm and server-side apply, uninstall. One client talks to the first cache
//! all the while, on one connection, and nothing of all that may disturb it.

mod delivery;
mod traffic;
mod watched;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::chart::{self, NAMESPACE, RELEASE, said};
use e2e::shipped;
use e2e::testing::audit::AuditLog;
use e2e::testing::cache::{Cache, condition, says};
use e2e::testing::release::OperatorPod;
use e2e::testing::{Space, await_answer, in_namespace_of, monitors, release};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt};
use memcached_operator::api::Memcached;
use memcached_operator::kernel::object::{ChildKind, Watched};
use memcached_operator::shell::kinds;
use tempfile::TempDir;

use self::traffic::Traffic;
use self::watched::Watch;

/// The resource in `manifests/samples/monitoring.yaml`.
const SAMPLE: &str = "memcached-monitored";

/// Somebody at a terminal, whose kubectl and helm work in the namespace of the caches.
struct Newcomer<'a> {
    space: &'a Space,
    folder: TempDir,
    kubeconfig: PathBuf,
}

impl<'a> Newcomer<'a> {
    fn new(space: &'a Space) -> Result<Self> {
        let folder = TempDir::new()?;
        let kubeconfig = release::kubeconfig(space, folder.path())?;
        Ok(Self { space, folder, kubeconfig })
    }

    fn kubectl(&self, arguments: &str) -> Result<String> {
        self.run(self.space.cluster().kubectl()?, arguments)
    }

    fn helm(&self, arguments: &str) -> Result<String> {
        self.run(self.space.cluster().helm()?, arguments)
    }

    /// As typed; no argument here has a space in it.
    fn run(&self, mut program: Command, arguments: &str) -> Result<String> {
        program.args(arguments.split_ascii_whitespace()).env("KUBECONFIG", &self.kubeconfig);
        said(program.current_dir(chart::repository())).with_context(|| arguments.to_owned())
    }

    /// The operator's two pods, of which, soon, exactly one leads.
    async fn operators(&self) -> Result<Vec<OperatorPod>> {
        let client = self.space.client();
        await_answer("exactly one of two operators leads", async || {
            let pods = release::pods(&client).await?;
            let leaders = pods.iter().filter(|pod| pod.leads()).count();
            ensure!((pods.len(), leaders) == (2, 1), "{} pods, {leaders} leaders", pods.len());
            Ok(pods)
        })
        .await
    }

    /// Every resource and every child: kind, name, uid, and whether somebody asks for its deletion.
    async fn belongings(&self) -> Result<BTreeSet<String>> {
        let kinds = [Watched::Memcached, Watched::Child(ChildKind::ServiceMonitor)];
        let mut apis: Vec<_> = kinds.map(kinds::api_resource).into();
        apis.extend([
            kube::api::ApiResource::erase::<Deployment>(&()),
            kube::api::ApiResource::erase::<Service>(&()),
            kube::api::ApiResource::erase::<EndpointSlice>(&()),
        ]);
        let mut found = BTreeSet::new();
        for kind in apis {
            let api: Api<DynamicObject> = Api::namespaced_with(self.space.client(), self.space.name(), &kind);
            found.extend(api.list(&ListParams::default()).await?.items.iter().map(|it| {
                let going = it.metadata.deletion_timestamp.is_some();
                format!("{} {} {:?} {going}", kind.kind, it.name_any(), it.uid())
            }));
        }
        Ok(found)
    }
}

/// The sample's image is changed to one that nobody has, and back: the alert fires and is resolved, the resource says
/// why, and the old pod serves.
async fn breaks_and_is_repaired(newcomer: &Newcomer<'_>, cache: &Cache<'_>) -> Result<()> {
    Watch::by_page(cache).await?.all_is_well().await?;
    let watch = Watch::by_monitors(cache).await?;
    watch.all_is_well().await?;
    let edit = |image: &str| {
        let patch = format!(r#"{{"spec":{{"image":"{image}"}}}}"#);
        newcomer.kubectl(&format!("patch mcd/{SAMPLE} --type=merge --patch={patch}"))
    };
    edit("memcached:none")?;
    watch.alarms().await?;
    let told = |it: &Memcached| {
        says(it, "False", "MemcachedNotReady")
            && condition(it, "Ready").is_some_and(|ready| ready.message.contains("cannot pull"))
    };
    cache.is("it says that the image is not to be had", told).await?;
    edit("memcached:1.6")?;
    cache.ready().await?;
    watch.calms_down().await
}

async fn path(space: &Space) -> Result<()> {
    let cluster = space.cluster();
    let newcomer = Newcomer::new(space)?;
    let start = AuditLog::for_cluster(cluster).mark()?;
    monitors::install(&space.client()).await?; // as whoever has Prometheus' operator
    newcomer.kubectl(&format!("create namespace {NAMESPACE}"))?;
    for namespace in [NAMESPACE, space.name()] {
        let level = "pod-security.kubernetes.io/enforce=restricted";
        newcomer.kubectl(&format!("label namespace {namespace} {level}"))?;
    }
    // The node has this image, and can pull none: so the sample's exporter is the operator's own.
    newcomer.helm(&format!(
        "install {RELEASE} charts/memcached-operator --namespace {NAMESPACE} --wait --set=replicaCount=2 \
         --set=serviceMonitor.enabled=true,serviceMonitor.interval=1s,serviceMonitor.scrapeTimeout=1s \
         --set=cacheImages.exporter={}",
        shipped::IMAGE
    ))?;
    let before = newcomer.operators().await?;

    let cache = Cache::follow(space, SAMPLE).await?;
    newcomer.kubectl("apply --filename manifests/samples/monitoring.yaml")?;
    newcomer.kubectl(&format!("wait mcd/{SAMPLE} --for=condition=Ready --timeout=60s"))?;
    let pod = cache.only_pod().await?;
    let mut traffic = Traffic::start(&cache).await?;
    breaks_and_is_repaired(&newcomer, &cache).await?;
    traffic.flows().await?;
    ensure!(cache.only_pod().await? == pod, "a bad image that was taken back replaced the pod");

    newcomer.helm(&format!(
        "upgrade {RELEASE} charts/memcached-operator --namespace {NAMESPACE} --wait --reset-then-reuse-values \
         --set=log.level=debug"
    ))?;
    let after = newcomer.operators().await?;
    ensure!(after.iter().all(|new| before.iter().all(|old| old.uid != new.uid)), "a pod was not replaced");
    traffic.flows().await?;

    delivery::is_applied(&newcomer)?;
    delivery::by_helm(&newcomer).await?;
    delivery::is_applied_again(&newcomer).await?;
    traffic.flows().await?;
    release::nothing_was_forbidden(cluster, start)?;
    let mine = newcomer.belongings().await?;

    newcomer.helm(&format!("uninstall {RELEASE} --namespace {NAMESPACE} --wait"))?;
    release::is_gone(&space.client()).await?;
    traffic.flows().await?;
    ensure!(cache.only_pod().await? == pod, "the cache's pod was replaced");
    let left = newcomer.belongings().await?;
    ensure!(left == mine, "before {mine:?}, after {left:?}");
    traffic.flows().await
}

// The traffic has to flow while helm and kubectl are waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_cache_serves_throughout_all_that_a_newcomer_does_and_outlives_the_operator() -> Result<()> {
    let cluster = release::cluster("newcomer").await?;
    let whole = in_namespace_of(&cluster, "caches", path);
    let outcome = tokio::time::timeout(Duration::from_secs(840), whole).await.context("it takes too long")?;
    if outcome.is_err() {
        eprintln!("{}", release::describe(&cluster));
    }
    outcome
}
