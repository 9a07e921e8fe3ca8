//! What a reader copies from `docs/clients.md` for a cache with TLS and passwords: the commands, the Pod that takes its variables
//! and a file from what they made, and the program that reads both; and the two Pods that take the ConfigMap with the servers, as
//! variables and as a file. All as the page has it, against pods of both workloads. But each Pod is called `shop` on the page, and
//! here they run side by side: so the two have other names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use e2e::chart::repository;
use e2e::image;
use e2e::testing::cache::Cache;
use e2e::testing::guide::{Guide, blocks, read};
use e2e::testing::tls::Authority;
use e2e::testing::{Space, await_answer, release};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use super::found_again::rings::Machine;
use super::in_restricted;

const PAGE: &str = "docs/clients.md";
/// The section with the commands and the Pod, and the one with the program.
const POD: &str = "What your pod needs";
const PROGRAM: &str = "A ring with TLS and a password";
/// The sections with the Pods that take the ConfigMap with the servers, and what these are called here.
const BY_ENVIRONMENT: (&str, &str) = ("Finding the pods", "shop-by-environment");
const BY_FILE: (&str, &str) = ("Named pods", "shop-by-file");
/// Where the programs of the page look for the list.
const LIST: &str = "/etc/cache/servers";
/// What the reader writes for `REPLACE-ME`.
const PASSWORD: &str = "known-to-few";
const PODS: usize = 2;
const KEYS: usize = 200;

/// A machine that is busy makes no miss: so the program waits longer here than it does as it is. One client stores the keys, and
/// another one, as after a restart, looks for them. Then each pod is asked how many of them it holds.
const EVERY_KEY: &str = "
import sys, pymemcache_named, pymemcache_ring, pymemcache_secure_ring
ca, pods, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for settings in pymemcache_named.SETTINGS, pymemcache_ring.SETTINGS:
    settings.update(connect_timeout=60, timeout=60)
def client():
    cache = pymemcache_secure_ring.of_environment(ca)
    clients = cache.ring().clients
    assert len(clients) == pods and all(it.sock for it in clients.values()), list(clients)
    return cache
first, other = client(), client()
keys = ['key-%d' % number for number in range(count)]
stored = [key for key in keys if first.ring().set(key, b'here', noreply=False)]
found = [key for key in stored if other.ring().get(key) == b'here']
print(len(stored), len(found))
for name, pod in other.ring().clients.items():
    print(name, len([key for key in keys if pod.get(key)]))
";

/// The first block of a section in this language.
fn block(section: &str, language: &str) -> Result<String> {
    let page = read(PAGE)?;
    let text = page.split("\n## ").find(|text| text.starts_with(section));
    let found = blocks(text.with_context(|| format!("no section {section}"))?, language);
    found.into_iter().next().with_context(|| format!("{section}: no block {language}"))
}

/// A folder with the programs that the page copies into the application's image, and with no others.
fn programs() -> Result<TempDir> {
    let folder = TempDir::new()?;
    let dockerfile = block(PROGRAM, "dockerfile")?;
    let words =
        dockerfile.lines().find_map(|line| line.strip_prefix("COPY ")).context("it copies nothing")?;
    let (names, _) = words.rsplit_once(' ').context("it says where to")?;
    for name in names.split(' ') {
        let copied = fs::copy(repository().join("e2e/clients").join(name), folder.path().join(name));
        copied.with_context(|| name.to_owned())?;
    }
    Ok(folder)
}

/// The cache, its Secrets and its users, by the names of the page.
async fn secured<'a>(space: &'a Space, workload: &str) -> Result<(Cache<'a>, Authority)> {
    let cache = Cache::follow(space, "cache").await?;
    let service = format!("cache.{}", space.name());
    let names = [service.clone(), format!("{service}.svc"), format!("*.{service}.svc")];
    let authority = names.into_iter().fold(Authority::create("our-authority")?, Authority::naming);
    authority.fill(space, "cache-tls").await?;
    cache.password("cache-users", &format!("shop:{PASSWORD}")).await?;
    let tls = json!({"enabled": true, "certificateSecretRef": {"name": "cache-tls"}});
    let sasl = json!({"enabled": true, "credentialsSecretRef": {"name": "cache-users"}});
    let security = json!({"tls": tls, "sasl": sasl});
    cache.apply(&json!({"workload": workload, "replicas": PODS, "security": security})).await?;
    cache.ready().await?;
    Ok((cache, authority))
}

/// What the ConfigMap has to tell the application, and which servers its ring has to be made from.
async fn servers(cache: &Cache<'_>, workload: &str) -> Result<(String, BTreeSet<String>)> {
    let service = format!("cache.{}", cache.space.name());
    let addresses = cache.addresses(PODS).await?;
    if workload == "StatefulSet" {
        let names: Vec<_> = (0..PODS).map(|pod| format!("cache-{pod}.{service}.svc:11212")).collect();
        return Ok((names.join(","), names.into_iter().collect()));
    }
    let pods = addresses.iter().map(|pod| format!("{}:11212", pod.ip()));
    Ok((format!("{service}:11212"), pods.collect()))
}

/// What the application finds in its pods.
struct Application {
    variables: BTreeMap<String, String>,
    authority: String,
    /// All variables of the pod that takes the whole ConfigMap.
    environment: BTreeMap<String, String>,
    /// The file of the pod that mounts it.
    list: String,
}

/// The Pod of this section under this name.
fn renamed((section, name): (&str, &str)) -> Result<String> {
    let (manifest, line) = (block(section, "yaml")?, "\n  name: shop\n");
    ensure!(manifest.contains(line), "{section}: another name");
    Ok(manifest.replacen(line, &format!("\n  name: {name}\n"), 1))
}

/// Applies the Pods of the page, all together. memcached's image, which the node has, takes the name of the application's.
async fn start(space: &Space, reader: &Guide, folder: &Path) -> Result<Application> {
    static LOADED: OnceCell<()> = OnceCell::const_new();
    let manifests = [block(POD, "yaml")?, renamed(BY_ENVIRONMENT)?, renamed(BY_FILE)?];
    let mut pods = Vec::<Value>::new();
    for manifest in &manifests {
        pods.push(serde_saphyr::from_str(manifest).context("no object")?);
    }
    let container = &pods[0]["spec"]["containers"][0];
    let tag = container["image"].as_str().context("no image")?;
    ensure!(
        pods.iter().all(|it| it["spec"]["containers"][0]["image"] == tag),
        "not all have the image {tag}"
    );
    LOADED.get_or_try_init(async || space.cluster().load(&image::memcached()?.tagged(tag))).await?;
    // The page's Pods say nothing of the user that they run as, which the restricted level asks for.
    let labels = json!({"pod-security.kubernetes.io/enforce": "baseline"});
    let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
    let namespaces: Api<Namespace> = Api::all(space.client());
    namespaces.patch(space.name(), &PatchParams::default(), &patch).await?;
    let file = folder.join("shop.yaml");
    fs::write(&file, manifests.join("---\n"))?;
    let apply = format!("kubectl apply --filename={}", file.display());
    // Whoever admits pods sees the other level a moment later.
    await_answer("the Pods are taken", async || reader.shell(&apply)).await?;
    for pod in &pods {
        let name = pod["metadata"]["name"].as_str().context("no name")?;
        space.wait::<Pod>(name, "it is ready", |pod| pod.is_some_and(is_ready)).await?;
    }
    let print = |name: &str, path: &str| reader.shell(&format!("kubectl exec {name} -- cat {path}"));
    let environment = |name: &str| -> Result<BTreeMap<String, String>> {
        let printed = print(name, "/proc/self/environ")?;
        let set = printed.split('\0').filter_map(|it| it.split_once('='));
        Ok(set.map(|(name, it)| (name.to_owned(), it.to_owned())).collect())
    };
    let mut variables = environment("shop")?;
    let named = container["env"].as_array().context("no variables")?;
    variables.retain(|name, _| named.iter().any(|it| it["name"] == name.as_str()));
    let mounted = container["volumeMounts"][0]["mountPath"].as_str().context("nothing is mounted")?;
    Ok(Application {
        variables,
        authority: print("shop", &format!("{mounted}/ca.crt"))?,
        environment: environment(BY_ENVIRONMENT.1)?,
        list: print(BY_FILE.1, LIST)?,
    })
}

fn is_ready(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|it| it.type_ == "Ready" && it.status == "True")
}

/// The Pods that take the ConfigMap have all that is in it, which is what the page says: as variables, and a server in each line
/// of a file.
async fn has_all_of_the_list(space: &Space, workload: &str, told: &str, found: &Application) -> Result<()> {
    let data = space.api::<ConfigMap>().get("cache-servers").await?.data.unwrap_or_default();
    let taken: BTreeMap<_, _> =
        found.environment.iter().filter(|(name, _)| data.contains_key(*name)).collect();
    let lines = told.split(',').map(|server| format!("{server}\n")).collect::<String>();
    let wanted = json!({
        "MEMCACHED_SERVERS": told,
        "servers": lines,
        "MEMCACHED_SERVERS_ARE": if workload == "StatefulSet" { "pods" } else { "service" },
        "MEMCACHED_PORT": "11212",
        "MEMCACHED_TLS": "true",
    });
    assert_eq!((json!(taken), &found.list), (wanted, &lines));
    Ok(())
}

/// The program of the page with what the application has found, where the name server leads to the pods.
async fn finds_every_key(space: &Space, workload: &str) -> Result<()> {
    let (cache, authority) = secured(space, workload).await?;
    let (folder, programs) = (TempDir::new()?, programs()?);
    let kubeconfig = release::kubeconfig(space, folder.path())?;
    let mut reader = Guide::open(PAGE, kubeconfig)?.with("REPLACE-ME", PASSWORD)?;
    reader.run(POD)?;
    let application = start(space, &reader, folder.path()).await?;
    ensure!(application.authority.trim_end() == authority.certificate().trim_end(), "another authority");
    let (told, pods) = servers(&cache, workload).await?;
    let variables = &application.variables;
    let wanted = json!({"MEMCACHED_SERVERS": told, "CACHE_USER": "shop", "CACHE_PASSWORD": PASSWORD});
    assert_eq!(json!(variables), wanted);
    has_all_of_the_list(space, workload, &told, &application).await?;

    let file = folder.path().join("ca.crt");
    fs::write(&file, &application.authority)?;
    let ca = file.display().to_string();
    let (machine, copied) = (Machine::new(space)?, programs.path());
    let program = copied.join("pymemcache_secure_ring.py").display().to_string();
    let greeting = await_answer("the program finds what it stored", async || {
        machine.python(copied, &[&program, &ca], variables).await
    });
    assert_eq!(greeting.await?, "hello\n");
    let [count, keys] = [PODS, KEYS].map(|it| it.to_string());
    let printed = await_answer("the program reaches all pods", async || {
        machine.python(copied, &["-c", EVERY_KEY, &ca, &count, &keys], variables).await
    });
    let printed = printed.await?;
    println!("{workload}: {printed}");
    let mut lines = printed.lines();
    assert_eq!(lines.next(), Some(format!("{KEYS} {KEYS}").as_str()), "stored and found");
    let held = lines.filter_map(|line| line.split_once(' '));
    let held = held.map(|(pod, keys)| anyhow::Ok((pod.to_owned(), keys.parse::<usize>()?)));
    let held: BTreeMap<_, _> = held.collect::<Result<_>>()?;
    assert_eq!(held.keys().cloned().collect::<BTreeSet<_>>(), pods);
    // Each key is in one pod, and each pod has some.
    ensure!(held.values().all(|it| *it > 0) && held.values().sum::<usize>() == KEYS, "{held:?}");
    Ok(())
}

#[tokio::test]
async fn an_application_that_is_copied_from_the_page_finds_every_key_that_it_stored() -> Result<()> {
    let both = ["StatefulSet", "Deployment"].map(async |workload| {
        let body = async |space: &Space| finds_every_key(space, workload).await;
        in_restricted("copied", body).await.context(workload)
    });
    try_join_all(both).await.map(drop)
}
