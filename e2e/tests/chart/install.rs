//! A release on a real node, as its documentation says: in a namespace that enforces the restricted Pod Security
//! profile, with the operator's image and the chart's permissions. Nothing that happens to it harms a cache.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use e2e::Cluster;
use e2e::chart::{self, NAMESPACE, RELEASE, said};
use e2e::testing::audit::AuditLog;
use e2e::testing::cache::Cache;
use e2e::testing::guide::{Guide, blocks, pages_of_a_release, read};
use e2e::testing::{Space, await_answer, in_namespace_of, release};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use memcached_operator::api::Memcached;
use memcached_operator::cli::yaml;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::notes;

/// The page whose commands are the test's own.
const INSTALLING: &str = "docs/install.md";
/// The page whose restore writes every resource of the cluster.
const BACKUP: &str = "docs/backup.md";
/// The cache that the documentation makes.
const CACHE: &str = "minimal";

/// A release and a cache on a cluster.
struct Site<'a> {
    client: Client,
    cache: Cache<'a>,
}

impl Site<'_> {
    /// Two pods are ready, and each serves its metrics.
    async fn is_installed(&self) -> Result<()> {
        let pods = release::pods(&self.client).await?;
        ensure!(pods.len() == 2, "{} pods", pods.len());
        Ok(())
    }

    /// The cache has the same pod as before, with the same content.
    async fn serves(&self, pod: &str) -> Result<()> {
        ensure!(self.cache.only_pod().await? == pod, "the cache's pod was replaced");
        let kept = self.cache.connect().await?.get("kept").await?;
        ensure!(kept.as_deref() == Some(b"all along".as_slice()), "the cache lost what it had");
        Ok(())
    }

    /// What the definition calls the resource in short.
    async fn short_names(&self) -> Result<Vec<String>> {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let definition = definitions.get("memcacheds.memcached.c5c3.io").await?;
        Ok(definition.spec.names.short_names.unwrap_or_default())
    }

    /// A user with the role `view` in a namespace may view resources there.
    async fn viewers_see_resources(&self) -> Result<()> {
        let roles: Api<ClusterRole> = Api::all(self.client.clone());
        await_answer("the role view is about resources too", async || {
            let rules = roles.get("view").await?.rules.unwrap_or_default();
            let about = |it: &String| it == "memcacheds";
            ensure!(rules.iter().any(|rule| rule.resources.iter().flatten().any(about)), "{rules:?}");
            Ok(())
        })
        .await
    }

    /// The resource, its Deployment and its Service exist, and none of them is being deleted.
    async fn is_left_alone(&self) -> Result<()> {
        let space = self.cache.space;
        let deletions = [
            space.api::<Memcached>().get(CACHE).await?.metadata.deletion_timestamp,
            space.api::<Deployment>().get(CACHE).await?.metadata.deletion_timestamp,
            space.api::<Service>().get(CACHE).await?.metadata.deletion_timestamp,
        ];
        ensure!(deletions.iter().all(Option::is_none), "{deletions:?}");
        Ok(())
    }

    /// Neither the definition nor any resource of its kind is left.
    async fn nobody_has_a_cache(&self) -> Result<()> {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let left = definitions.get_opt("memcacheds.memcached.c5c3.io").await?;
        ensure!(left.is_none(), "the definition is still there");
        let deployments = self.cache.space.api::<Deployment>();
        await_answer("the caches go with their resources", async || {
            let left = deployments.list(&ListParams::default()).await?.items.len();
            ensure!(left == 0, "{left} Deployments are left");
            Ok(())
        })
        .await
    }

    /// An operator acts on an edit.
    async fn acts(&self, replicas: i32) -> Result<()> {
        self.cache.apply(&json!({"replicas": replicas})).await?;
        self.cache.ready().await?;
        self.cache.addresses(usize::try_from(replicas)?).await.map(|_| ())
    }
}

/// Puts the definition of an older release in place of the chart's, one without a short name, and replaces the pods.
fn age_the_definition(cluster: &Cluster, folder: &Path) -> Result<()> {
    let chart = folder.join("chart");
    said(std::process::Command::new("cp").arg("-r").arg(chart::folder()).arg(&chart))?;
    let file = chart.join("files/crd.yaml");
    let definition = fs::read_to_string(&file)?;
    let older = definition.replace("    shortNames:\n    - mcd\n", "");
    ensure!(older != definition, "the definition has changed: adapt this test");
    fs::write(&file, older)?;
    let upgrade = ["upgrade", RELEASE, "--namespace", NAMESPACE, "--wait", "--set=log.level=debug"];
    said(cluster.helm()?.args(upgrade).arg(&chart)).map(|_| ())
}

/// What pages speak of without making it: the sample, on those that one reads when something is wrong, and the Secret of a
/// cache with TLS, as cert-manager writes it for a private authority.
const THERE: &str = "kubectl apply -f manifests/samples/memcached.yaml
kubectl wait --for=condition=Ready mcd/memcached --timeout=120s
authority=$(mktemp)
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=authority -keyout $authority.key -out $authority
kubectl create secret generic cache-tls --from-file=ca.crt=$authority
rm $authority $authority.key";

/// Waits until the operator's pods are those that stay.
const NONE_IS_GOING: &str = "timeout 120 sh -c 'until going=$(kubectl -n memcached-operator-system get pods \
    --output=jsonpath={.items[*].metadata.deletionTimestamp}) && [ -z \"$going\" ]; do sleep 1; done'";

/// What a restore has to leave as it is: what people and the operator wrote into resources.
const RESOURCES: &str = "kubectl get mcd --output=jsonpath=\
    '{range .items[*]}{.metadata.name} {.metadata.generation} {.metadata.labels} {.metadata.annotations}{\"\\n\"}{end}'";
/// The pods of two caches that no page edits.
const PODS: &str = "kubectl get pods --selector='app.kubernetes.io/instance in (minimal, first-cache)' \
    --output=jsonpath='{range .items[*]}{.metadata.name} {.metadata.uid}{\"\\n\"}{end}'";

/// What somebody does who has the cluster for himself: backs up, restores while all is there, moves a cache, restarts one.
fn back_up_and_move(guide: &mut Guide) -> Result<()> {
    let beginning = "# Backing up";
    guide.run(beginning)?;
    let [resources, pods] = [guide.shell(RESOURCES)?, guide.shell(PODS)?];
    ensure!(pods.lines().count() == 3, "{pods}");
    let restored = guide.run(beginning)?;
    ensure!(restored.contains("memcached.memcached.c5c3.io/minimal serverside-applied"), "{restored}");
    let left = guide.shell(RESOURCES)?;
    ensure!(left == resources, "the restore changes {resources} to {left}");
    // The operator sees the restore before it makes another cache ready.
    guide.run("To another namespace")?;
    let kept = guide.shell(PODS)?;
    ensure!(kept == pods, "the restore replaces {pods} by {kept}");
    for section in ["To another namespace", "To another namespace", "Restarting a cache"] {
        guide.run(section)?;
    }
    guide.is_done()
}

/// What people do who have the release and the cache: one follows the notes, one every page that needs a release; all other pages
/// are read on the demo. Both at once, because most of it is waiting for pods; but for the page whose restore would undo their edits.
fn read_everything(space: &Space, folder: &Path, notes: &str) -> Result<()> {
    let kubeconfig = release::kubeconfig(space, folder)?;
    let open = |page: &str| Guide::open(page, kubeconfig.clone());
    let follow_notes = || -> Result<()> {
        let printed = open(INSTALLING)?.shell(&notes::commands(notes)).context("the notes")?;
        ensure!(printed.contains("memcached.memcached.c5c3.io/first-cache condition met"), "{printed}");
        Ok(())
    };
    let follow_pages = || -> Result<()> {
        open(INSTALLING)?.shell(THERE)?;
        for page in pages_of_a_release()?.iter().filter(|page| ![INSTALLING, BACKUP].contains(&page.as_str()))
        {
            open(page)?.run_all().with_context(|| page.clone())?;
            // The next page may ask each of the operator's pods.
            open(page)?.shell(NONE_IS_GOING).with_context(|| format!("after {page}"))?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let notes = scope.spawn(follow_notes);
        follow_pages()?;
        notes.join().map_err(|_| anyhow!("a reader panicked"))?
    })?;
    back_up_and_move(&mut open(BACKUP)?).context(BACKUP)
}

/// What somebody does who has saved the caches of a cluster and then lost all of them, with their definition.
async fn lose_and_restore(site: &Site<'_>, guide: &mut Guide, folder: &Path) -> Result<()> {
    let kubeconfig = release::kubeconfig(site.cache.space, folder)?;
    let saved = folder.join("caches.yaml").display().to_string();
    let mut second_reading = Guide::open(INSTALLING, kubeconfig.clone())?;
    let mut backup = Guide::open(BACKUP, kubeconfig)?.with("/tmp/caches.yaml", &saved)?;
    let beginning = "# Backing up";
    backup.run(beginning)?;
    second_reading.run("Uninstalling")?;
    guide.run("Removing everything")?;
    site.nobody_has_a_cache().await?;
    second_reading.run("Uninstalling")?;
    site.is_installed().await?;
    backup.run(beginning)?;
    site.cache.ready().await?;
    site.cache.addresses(3).await.map(|_| ())
}

/// Whether there is an election may be changed on a living release. helm applies as this does, on the server.
async fn the_election_is_turned_off(space: &Space) -> Result<()> {
    let deployments = space.api::<Deployment>();
    for election in [true, false, true] {
        let values = json!({"replicaCount": 0, "leaderElection": {"enabled": election}});
        let objects = yaml::objects(&chart::render(space.name(), &values)?)?;
        let rendered = objects.into_iter().find(|it| it["kind"] == "Deployment").context("a Deployment")?;
        let name = rendered["metadata"]["name"].as_str().context("it has a name")?;
        let by_helm = PatchParams::apply("helm").force();
        let applied = deployments.patch(name, &by_helm, &Patch::Apply(&rendered)).await;
        let applied = applied.with_context(|| format!("with an election: {election}"))?;
        let strategy = applied.spec.and_then(|spec| spec.strategy?.type_);
        let expected = if election { "RollingUpdate" } else { "Recreate" };
        ensure!(strategy.as_deref() == Some(expected), "{strategy:?}");
    }
    deployments.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    Ok(())
}

/// Somebody installs by kubectl, and deletes all of it but the definition; then helm takes over what is left.
async fn live_without_helm(cluster: &Cluster, site: &Site<'_>, guide: &mut Guide, pod: &str) -> Result<()> {
    let start = AuditLog::for_cluster(cluster).mark()?;
    guide.run("Without helm")?;
    site.is_installed().await?;
    site.serves(pod).await?;
    site.acts(2).await?;
    // Whoever loses its Role while it ends is forbidden to let the Lease go.
    release::nothing_was_forbidden(cluster, start)?;
    guide.run("Uninstalling without helm")?;
    release::is_gone(&site.client).await?;
    site.is_left_alone().await?;
    site.cache.addresses(2).await?;

    let start = AuditLog::for_cluster(cluster).mark()?;
    guide.run("Uninstalling")?;
    site.is_installed().await?;
    site.acts(3).await?;
    release::nothing_was_forbidden(cluster, start)
}

async fn life_of_a_release(cluster: &Cluster, space: &Space) -> Result<()> {
    let folder = TempDir::new()?;
    let mut guide = Guide::open(INSTALLING, release::kubeconfig(space, folder.path())?)?;
    let client = Client::try_from(cluster.config("e2e-test/chart").await?)?;
    the_election_is_turned_off(space).await?;
    let start = AuditLog::for_cluster(cluster).mark()?;

    guide.run("Is there a release")?;
    let installed = guide.run("With helm")?;
    let cache = Cache::follow(space, CACHE).await?;
    let site = Site { client, cache };
    site.is_installed().await?;
    site.viewers_see_resources().await?;
    let shown = guide.run("With helm")?;
    ensure!(shown.contains("MemcachedReady"), "{shown}");
    guide.run("Values that matter")?;
    let images = guide.run("Is there a release")?;
    ensure!(images.contains("memcached:1.6"), "the page shows the node's images: {images}");
    site.cache.connect().await?.set("kept", b"all along").await?;
    let pod = site.cache.only_pod().await?;

    age_the_definition(cluster, folder.path())?;
    ensure!(site.short_names().await?.is_empty(), "the definition is an older one");
    // An older release of the same name took it along: `docs/changing-over.md` says that an upgrade brings it back.
    guide.shell("kubectl delete clusterrole memcached-operator-view")?;
    let kubeconfig = release::kubeconfig(space, folder.path())?;
    let changes = || Guide::open("docs/upgrade.md", kubeconfig.clone())?.run("# Upgrading the operator");
    ensure!(changes()?.contains("+    - mcd"), "the page shows what the upgrade changes");
    guide.run("Upgrading")?;
    let changes = changes()?;
    ensure!(changes.contains("nothing changes"), "the same chart changes {changes}");
    ensure!(site.short_names().await? == ["mcd"], "the definition is upgraded with the chart");
    site.viewers_see_resources().await?;
    site.is_installed().await?;
    site.serves(&pod).await?;
    release::nothing_was_forbidden(cluster, start)?;
    read_everything(space, folder.path(), notes::of(&installed)?)?;

    guide.run("Uninstalling")?;
    release::is_gone(&site.client).await?;
    site.is_left_alone().await?;
    site.serves(&pod).await?;

    live_without_helm(cluster, &site, &mut guide, &pod).await?;
    lose_and_restore(&site, &mut guide, folder.path()).await?;
    // Last, because all that follows would be in that namespace.
    guide.run("Another namespace")?;
    let chosen = guide.shell("kubectl config view --minify --output=jsonpath='{..namespace}'")?;
    ensure!(chosen == "shop", "the context has the namespace {chosen:?}");
    guide.is_done()
}

#[tokio::test]
async fn a_release_is_installed_upgraded_uninstalled_and_taken_over_while_its_caches_serve() -> Result<()> {
    let cluster = release::cluster("chart").await?;
    let whole = in_namespace_of(&cluster, "caches", async |space| life_of_a_release(&cluster, space).await);
    let outcome =
        tokio::time::timeout(Duration::from_secs(1200), whole).await.context("it takes too long")?;
    if outcome.is_err() {
        eprintln!("{}", release::describe(&cluster));
    }
    outcome
}

#[test]
fn the_values_of_the_documentation_are_accepted() -> Result<()> {
    let mut accepted = 0;
    for page in [INSTALLING, "docs/secure-metrics.md"] {
        for block in blocks(&read(page)?, "yaml") {
            let values: Value = serde_saphyr::from_str(&block)?;
            // An object with a kind is no set of values, and neither is the configuration of Prometheus.
            if values.get("kind").is_none() && values.get("scrape_configs").is_none() {
                chart::render(NAMESPACE, &values).context(block)?;
                accepted += 1;
            }
        }
    }
    assert!(accepted > 4, "{accepted}");
    Ok(())
}
