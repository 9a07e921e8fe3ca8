//! The demo, as a newcomer runs it: it shows what it says, can be shown again, and goes without a trace.

mod leftovers;

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use e2e::testing::cache::install;
use e2e::testing::control_plane::certificates;
use e2e::testing::guide::{Guide, OF_THE_RELEASE, README, TUTORIAL, pages_of_the_demo};
use e2e::testing::unique;
use e2e::{Cleanup, Cluster, Shape, TemporaryCluster, down, paths, process};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use leftovers::{Host, leftovers_of};
use memcached_operator::api::{Memcached, crd};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

/// The page that takes a reader for itself as long as the tutorial does.
const ROTATION: &str = "docs/rotation.md";
/// The page whose restore writes every resource of the cluster.
const BACKUP: &str = "docs/backup.md";
/// What the demo has to show, in this order.
const SHOWN: [&str; 12] = [
    "1. ",
    "is served",
    "is ready",
    "MemcachedReady: All 1 replicas are ready",
    "get greeting         hello",
    "MemcachedReady: All 3 replicas are ready",
    "get greeting         hello",
    // Which of them the status tells depends on how quickly pods come.
    "/3 replicas updated",
    "maxbytes 100663296 (96 MiB)",
    "get greeting         nothing, nothing, nothing",
    "memcached   3       3          MemcachedReady",
    "Replacing pods, cause spec: memcached.maxMemoryMB 64 -> 96, resources.limits.memory 128Mi -> 160Mi",
];

/// A demo under a name of its own, which is removed at the end also when its test fails.
struct Demo {
    name: String,
    place: &'static str,
    /// What kubectl points to.
    kubeconfig: PathBuf,
    /// Of a cluster that it makes.
    _cleanup: Cleanup,
}

impl Demo {
    fn new(place: &'static str, kubeconfig: &Path) -> Result<Self> {
        let name = unique("demo");
        Ok(Self { _cleanup: Cleanup::for_cluster(&name)?, name, place, kubeconfig: kubeconfig.to_owned() })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_e2e"));
        command.args(["demo", "--cluster", self.place, "--name", &self.name]).args(arguments);
        command.env("KUBECONFIG", &self.kubeconfig).stdin(Stdio::null());
        command
    }

    /// Shows it; gives what it said.
    fn show(&self) -> Result<String> {
        let said = succeed(self.command(&[]))?;
        let mut rest = said.as_str();
        for part in SHOWN {
            let found = rest.split_once(part).with_context(|| format!("no {part:?} in its place: {said}"))?;
            rest = found.1;
        }
        Ok(said)
    }

    fn remove(&self) -> Result<String> {
        succeed(self.command(&["--remove"]))
    }

    /// Where a demo on kubectl's cluster keeps its files.
    fn folder(&self) -> Result<PathBuf> {
        Ok(paths::state()?.join(format!("{}@current", self.name)))
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            eprintln!("the demo {} is not removed: {error:#}", self.name);
        }
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

fn succeed(mut command: Command) -> Result<String> {
    let output = command.output()?;
    ensure!(output.status.success(), "{command:?} failed: {}", text(&output));
    Ok(text(&output))
}

/// The operators that carry the mark of a demo's folder.
fn operators(folder: &Path) -> Vec<i32> {
    let marked = process::marked(folder).into_iter();
    marked.filter(|process| process.name.starts_with("memcached-opera")).map(|process| process.pid).collect()
}

/// Asks the address that the demo names for this path, as a person does with curl.
fn page(said: &str, path: &str) -> Result<String> {
    let mut curls = said.lines().filter_map(|line| line.split_once("curl http://")?.1.strip_suffix(path));
    let address: SocketAddr = curls.next().with_context(|| format!("it names no {path}"))?.parse()?;
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_mins(1))?;
    stream.set_read_timeout(Some(Duration::from_mins(1)))?;
    std::io::Write::write_all(&mut stream, format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn metrics(said: &str) -> Result<String> {
    page(said, "/metrics")
}

/// The samples of `manifests`.
fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/samples")
}

/// What kubectl answers to who applies a file, as the first command of several pages does.
fn apply(cluster: &Cluster, file: &Path) -> Result<String> {
    let mut kubectl = cluster.kubectl()?;
    kubectl.args(["apply", "-f"]).arg(file);
    succeed(kubectl)
}

/// All samples become ready on the demo's node, which can pull nothing: it has memcached's image and the operator's own, which
/// is exporter and agent too.
fn every_sample_becomes_ready(cluster: &Cluster) -> Result<()> {
    let certificates = json!(certificates()?);
    let secret = |name| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": certificates});
    let secrets = ["memcached-tls", "memcached-production-tls"].map(secret);
    let mut file = tempfile::NamedTempFile::new()?;
    std::io::Write::write_all(
        &mut file,
        json!({"apiVersion": "v1", "kind": "List", "items": secrets}).to_string().as_bytes(),
    )?;
    apply(cluster, file.path())?;
    let applied = apply(cluster, &samples())?;
    let caches = applied.lines().filter(|line| line.starts_with("memcached.memcached.c5c3.io/")).count();
    ensure!(caches == std::fs::read_dir(samples())?.count(), "a sample is no cache: {applied}");
    let mut kubectl = cluster.kubectl()?;
    kubectl.args(["wait", "mcd", "--all", "--for=condition=Ready", "--timeout=120s"]);
    let ready = succeed(kubectl)?;
    ensure!(ready.lines().count() == caches, "{ready}");
    Ok(())
}

/// Pages say that their commands work on the demo's own cluster too. Four read at once: the README, the tutorial, the page on
/// rotation, and all others. `backup.md` comes last: its restore would undo their edits.
fn pages_work_on_the_demo(cluster: &Cluster) -> Result<()> {
    let desk = tempfile::TempDir::new()?;
    let kubeconfig = desk.path().join("kubeconfig");
    std::fs::copy(cluster.kubeconfig(), &kubeconfig)?;
    let open = |page: &str| Guide::open(page, kubeconfig.clone());
    let follow_readme = || -> Result<()> { open(README)?.type_readme(desk.path()).context(README) };
    let follow_tutorial = || -> Result<()> { open(TUTORIAL)?.type_tutorial(desk.path()).context(TUTORIAL) };
    let follow_pages = || -> Result<()> {
        let mut others = pages_of_the_demo()?;
        others.retain(|page| ![ROTATION, BACKUP].contains(&page.as_str()));
        for page in others {
            open(&page)?.run_all_but(&OF_THE_RELEASE).context(page)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let others = [scope.spawn(follow_readme), scope.spawn(follow_tutorial), scope.spawn(follow_pages)];
        open(ROTATION)?.run_all().context(ROTATION)?;
        others.into_iter().try_for_each(|it| it.join().map_err(|_| anyhow!("a reader panicked"))?)
    })?;
    let saved = desk.path().join("caches.yaml").display().to_string();
    let mut backup = open(BACKUP)?.with("/tmp/caches.yaml", &saved)?;
    for (section, blocks) in [("# Backing up", 2), ("To another namespace", 3), ("Restarting a cache", 1)] {
        for _ in 0..blocks {
            backup.run(section).context(BACKUP)?;
        }
    }
    backup.is_done().context(BACKUP)
}

#[test]
fn the_demo_can_be_shown_again_and_leaves_nothing() -> Result<()> {
    let host = Host::now();
    // What kubectl points to is none of its business.
    let demo = Demo::new("local", Path::new("/no/kubeconfig"))?;
    let first = demo.show()?;
    let cluster = Cluster::find(&demo.name)?.context("it keeps running")?;
    let one = "memcached_operator_instance_replicas_ready{namespace=\"default\",name=\"memcached\"} 3";
    assert!(metrics(&first)?.contains(one), "{}", metrics(&first)?);
    assert!(!first.contains("Warning"), "{first}");
    let before = operators(cluster.folder());
    assert_eq!(before.len(), 1);

    let second = demo.show()?;

    assert!(metrics(&second)?.contains(one));
    assert_eq!(Cluster::find(&demo.name)?.context("it keeps running")?.processes(), cluster.processes());
    let now = operators(cluster.folder());
    assert!(
        now.len() == 1 && now != before,
        "another operator takes the place of the first: {before:?}, {now:?}"
    );

    assert!(page(&second, "/debug/journal")?.contains("\"snapshot\""), "what it did can be replayed");
    let again = apply(&cluster, &samples().join("memcached.yaml"))?;
    assert_eq!(again, "memcached.memcached.c5c3.io/memcached configured\n");
    every_sample_becomes_ready(&cluster)?;
    pages_work_on_the_demo(&cluster)?;

    assert!(demo.remove()?.contains("are gone"));
    assert_eq!(leftovers_of(&cluster), Vec::<String>::new());
    assert_eq!(host.additions(), Vec::<PathBuf>::new());
    assert!(demo.remove()?.contains("there is no demo"));
    Ok(())
}

#[test]
fn down_ends_the_operator_of_the_demo_too() -> Result<()> {
    let demo = Demo::new("local", Path::new("/no/kubeconfig"))?;
    let interrupted = until(&demo, " is ready\n")?;
    let cluster = Cluster::find(&demo.name)?.context("it is up")?;
    assert_eq!(operators(cluster.folder()).len(), 1, "{interrupted}");
    assert!(down(&demo.name)?);
    assert_eq!(leftovers_of(&cluster), Vec::<String>::new());
    Ok(())
}

#[test]
fn who_cannot_run_a_node_is_told_what_works() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: it is about whom root can become");
        return Ok(());
    }
    let program = std::env::temp_dir().join(unique("demo-as-nobody"));
    process::copy_program(Path::new(env!("CARGO_BIN_EXE_e2e")), &program)?;
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program).arg("demo");
    let refused = command.env("HOME", "/nonexistent").output()?;
    std::fs::remove_file(program)?;
    assert!(!refused.status.success());
    for part in ["a node needs root", "`make demo CLUSTER=current`"] {
        assert!(text(&refused).contains(part), "{}", text(&refused));
    }
    Ok(())
}

/// Runs a demo until it says `word`, then ends it as a person does; gives what it said.
fn until(demo: &Demo, word: &str) -> Result<String> {
    let mut child = demo.command(&[]).stdout(Stdio::piped()).spawn()?;
    let mut output = BufReader::new(child.stdout.take().context("its output")?);
    let mut said = String::new();
    while !said.contains(word) && output.read_line(&mut said)? > 0 {}
    let pid = Pid::from_raw(i32::try_from(child.id())?).context("a process id")?;
    kill_process(pid, Signal::INT)?;
    child.wait()?;
    ensure!(said.contains(word), "it never says {word:?}: {said}");
    Ok(said)
}

/// Namespaces and definitions: what a demo could leave on a cluster.
async fn of_cluster(client: &Client) -> Result<Vec<String>> {
    let all = ListParams::default();
    let namespaces = Api::<Namespace>::all(client.clone()).list(&all).await?;
    let definitions = Api::<CustomResourceDefinition>::all(client.clone()).list(&all).await?;
    let names = namespaces.iter().map(ResourceExt::name_any);
    Ok(names.chain(definitions.iter().map(ResourceExt::name_any)).collect())
}

#[tokio::test]
async fn on_kubectls_cluster_the_demo_touches_only_what_it_made() -> Result<()> {
    let cluster = TemporaryCluster::up(&unique("current"), Shape::Node).await?;
    let client = Client::try_from(cluster.config("e2e-test/demo").await?)?;
    let demo = Demo::new("current", &cluster.kubeconfig())?;
    let before = of_cluster(&client).await?;

    let said = demo.show()?;
    let place = said.find("context memcached-operator-e2e, server https://").context("it says where")?;
    assert!(place < said.find("the demo makes there").context("and what it makes")?, "{said}");
    assert!(metrics(&said)?.contains("namespace=\"memcached-demo\",name=\"memcached\"} 3"));
    assert_eq!(operators(&demo.folder()?).len(), 1);
    assert!(demo.remove()?.contains("is gone: the demo had made it"));
    assert_eq!(of_cluster(&client).await?, before);
    assert_eq!((operators(&demo.folder()?), demo.folder()?.exists()), (vec![], false));
    assert!(demo.remove()?.contains("there is no demo"));

    // Somebody works with the operator there: another one would get in the way.
    install(&client, &crd::crd()).await?;
    let others: Api<Memcached> = Api::namespaced(client.clone(), "default");
    let other = Memcached::new("theirs", memcached_operator::api::MemcachedSpec::default());
    others.create(&PostParams::default(), &other).await?;
    let refused = demo.command(&[]).output()?;
    assert!(!refused.status.success() && text(&refused).contains("default/theirs"), "{}", text(&refused));
    assert!(text(&refused).contains("nothing was touched") && !demo.folder()?.exists());

    // Somebody installed the definition: it is used, and stays.
    others.delete("theirs", &DeleteParams::default()).await?;
    let with_definition = of_cluster(&client).await?;
    until(&demo, "was there before, and stays as it is")?;
    assert!(demo.remove()?.contains("stays: it was there before the demo"));
    assert_eq!(of_cluster(&client).await?, with_definition);
    Ok(())
}
