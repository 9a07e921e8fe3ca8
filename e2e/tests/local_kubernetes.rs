//! The local Kubernetes itself: it comes up, is usable, and leaves nothing behind, whatever happens to it.
//! Its clusters are its own, not the one that the other tests share.

mod leftovers;

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::programs::{Family, Kubernetes};
use e2e::testing::audit::{AuditLog, Request};
use e2e::testing::memcached::Memcached;
use e2e::testing::{Space, TestTime, await_answer, in_namespace_of, unique};
use e2e::{Cleanup, Cluster, Shape, TemporaryCluster, down, image, process};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::ListParams;
use leftovers::{Host, leftovers_of};
use rustix::process::{Pid, Signal};
use serde_json::json;
use tokio::sync::{Mutex, MutexGuard};

/// How long an API server stands still that is only slow.
const STANDS_STILL: Duration = Duration::from_secs(6);

/// One test at a time: clusters that start at once would take the processors from the other lanes.
static MACHINE: Mutex<()> = Mutex::const_new(());

/// The turn of a test, with which its time begins.
async fn turn() -> (MutexGuard<'static, ()>, TestTime) {
    (MACHINE.lock().await, TestTime::begin())
}

/// A memcached pod and its Service, ready.
async fn run_memcached(space: &Space, image: &str) -> Result<(Service, Pod)> {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "cache", "labels": {"app": "cache"}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "memcached", "image": image, "imagePullPolicy": "IfNotPresent",
                "readinessProbe": {"tcpSocket": {"port": 11211}, "periodSeconds": 1},
            }],
        },
    }))?;
    let service: Service = serde_json::from_value(json!({
        "metadata": {"name": "cache"},
        "spec": {"selector": {"app": "cache"}, "ports": [{"port": 11211}]},
    }))?;
    let service = space.apply(&service).await?;
    space.apply(&pod).await?;
    let ready = space.wait::<Pod>("cache", "it is ready", |pod| {
        let conditions =
            pod.and_then(|pod| pod.status.as_ref()).and_then(|status| status.conditions.as_ref());
        conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
    });
    Ok((service, ready.await?.context("the pod is gone")?))
}

fn service_address(service: &Service) -> Result<IpAddr> {
    let address = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_ref());
    Ok(address.context("the Service has no address")?.parse()?)
}

/// A connection through the Service. Its address leads somewhere only once kube-proxy has heard of the ready pod, which
/// nothing in the API says.
async fn connect_through(service: &Service) -> Result<Memcached> {
    let address = service_address(service)?;
    await_answer("the Service leads to its pod", async || Memcached::connect((address, 11211)).await).await
}

fn e2e(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_e2e"));
    command.args(args).stdin(Stdio::null());
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

fn succeed(mut command: Command) -> Result<String> {
    let output = command.output()?;
    let text = text(&output);
    ensure!(output.status.success(), "{command:?} failed: {text}");
    Ok(text)
}

/// A cache folder with everything that is built, in which a test may replace a program.
fn borrowed_cache(folder: &Path) -> Result<PathBuf> {
    let cache = folder.join("cache");
    let built = Kubernetes::build()?;
    for family in [built.node, built.etcd, built.coredns] {
        let copy = cache.join(family.file_name().context("a folder has a name")?);
        fs::create_dir_all(&copy)?;
        for program in fs::read_dir(&family)?.flatten() {
            let target = copy.join(program.file_name());
            fs::hard_link(program.path(), &target)
                .or_else(|_| process::copy_program(&program.path(), &target))?;
        }
    }
    Ok(cache)
}

#[tokio::test]
async fn a_node_is_ready_after_up_and_up_and_down_can_be_repeated() -> Result<()> {
    let _turn = turn().await;
    let name = unique("ready");
    let _cleanup = Cleanup::for_cluster(&name)?;
    let host = Host::now();
    Kubernetes::build()?;
    let first = succeed(e2e(&["up", "--name", &name]))?;
    assert!(first.contains("is up (Node)"), "{first}");
    let cluster = Cluster::find(&name)?.context("it is up")?;
    in_namespace_of(&cluster, "pod", async |space| run_memcached(space, "memcached:1.6").await.map(|_| ()))
        .await?;
    let again = succeed(e2e(&["up", "--name", &name]))?;
    assert!(again.contains("is already up (Node)"), "{again}");
    assert_eq!(Cluster::find(&name)?.context("it is up")?.processes(), cluster.processes());
    assert!(succeed(e2e(&["status", "--name", &name]))?.contains("is up"));
    assert!(succeed(e2e(&["down", "--name", &name]))?.contains("is gone"));
    assert_eq!(leftovers_of(&cluster), Vec::<String>::new());
    assert_eq!(host.additions(), Vec::<PathBuf>::new());
    assert!(succeed(e2e(&["down", "--name", &name]))?.contains("is not up"));
    assert!(!e2e(&["status", "--name", &name]).output()?.status.success());
    Ok(())
}

#[test]
fn who_asks_for_a_cluster_that_is_not_there_is_told_what_makes_it() -> Result<()> {
    let nowhere = tempfile::TempDir::new()?;
    for (arguments, said) in [
        (["status"].as_slice(), "there is no cluster demo; make it with `make demo`"),
        (&["status", "--name", "trial"], "there is no cluster trial; make it with `e2e up --name trial`"),
    ] {
        let asked = e2e(arguments).env("E2E_STATE_DIR", nowhere.path()).output()?;
        ensure!(!asked.status.success() && text(&asked).contains(said), "{}", text(&asked));
    }
    Ok(())
}

/// What is said of a cluster whose API server takes its time.
async fn broken_while_its_api_server_stands_still(cluster: &Cluster) -> Result<Option<String>> {
    let found = cluster.processes().iter().find(|it| it.name == "kube-apiserver");
    let server = found.context("the cluster has an API server")?.clone();
    let (stopped, is_stopped) = tokio::sync::oneshot::channel();
    let stop = tokio::task::spawn_blocking(move || {
        server.while_stopped(|| {
            let _ = stopped.send(());
            std::thread::sleep(STANDS_STILL);
            Ok(())
        })
    });
    is_stopped.await?;
    let broken = cluster.broken().await;
    stop.await??;
    Ok(broken)
}

#[tokio::test]
async fn after_kill_minus_9_of_everything_down_leaves_nothing_and_up_works() -> Result<()> {
    let _turn = turn().await;
    let name = unique("killed");
    let cluster = TemporaryCluster::up(&name, Shape::Node).await?;
    in_namespace_of(&cluster, "pod", async |space| run_memcached(space, "memcached:1.6").await.map(|_| ()))
        .await?;
    assert_eq!(broken_while_its_api_server_stands_still(&cluster).await?, None);
    process::kill_all(cluster.processes())?;
    assert!(cluster.broken().await.is_some());
    let second = Cluster::shared(&name, Shape::Node).await?;
    assert_eq!(second.broken().await, None);
    process::kill_all(&process::marked(second.folder()))?;
    // As if `up` had been killed between starting a process and recording it.
    let stray = process::Launch { name: "stray", program: "/bin/sleep".into(), args: vec!["600".into()] };
    let stray = process::Process::start(&stray, second.folder(), Path::new("/dev/null"))?;
    assert!(stray.is_running());
    assert!(down(&name)?);
    assert_eq!([leftovers_of(&cluster), leftovers_of(&second)].concat(), Vec::<String>::new());
    Ok(())
}

/// A pod runs an image that was loaded, and resolves a Service by its name.
async fn pods_resolve_names_and_run_loaded_images(cluster: &Cluster) -> Result<()> {
    let tag = "registry.example/cache:loaded";
    let archive = cluster.folder().join("cache.tar");
    fs::write(&archive, image::memcached()?.tagged(tag).pack()?)?;
    succeed(e2e(&["load-image", "--name", cluster.name(), archive.to_str().context("a path")?]))?;
    in_namespace_of(cluster, "dns", async |space| {
        let (service, _) = run_memcached(space, tag).await?;
        let name = format!("cache.{}.svc.cluster.local", space.name());
        // CoreDNS hears of the Service as everybody does: some time after it was made.
        let found = await_answer("the name is known", async || {
            let mut resolve = cluster.kubectl()?;
            resolve.args(["exec", "-n", space.name(), "cache", "--", "getent", "hosts", &name]);
            succeed(resolve)
        })
        .await?;
        assert_eq!(
            found.split_whitespace().collect::<Vec<_>>(),
            [service_address(&service)?.to_string(), name]
        );
        let description = space.describe().await;
        for part in [
            "--- Pod cache\n{",
            "--- Service cache",
            "--- event Pod cache: Started",
            "--- log of cache, container memcached\n",
        ] {
            assert!(description.contains(part), "no {part:?} in {description}");
        }
        assert!(!description.contains("no log:"), "{description}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn two_clusters_at_once_do_not_meet_and_pods_resolve_services_by_name_and_run_images_that_were_loaded()
-> Result<()> {
    let _turn = turn().await;
    let (name, other) = (unique("one"), unique("two"));
    let (first, second) =
        tokio::join!(TemporaryCluster::up(&name, Shape::Node), TemporaryCluster::up(&other, Shape::Node));
    let (first, second) = (first?, second?);
    assert_ne!(first.slot(), second.slot());
    let body = async |space: &Space| {
        let (service, _) = run_memcached(space, "memcached:1.6").await?;
        let mut client = connect_through(&service).await?;
        client.set("from", space.cluster().name().as_bytes()).await?;
        assert_eq!(client.get("from").await?.as_deref(), Some(space.cluster().name().as_bytes()));
        Ok(())
    };
    let (one, two) =
        tokio::join!(in_namespace_of(&first, "meet", body), in_namespace_of(&second, "meet", body));
    one.and(two)?;
    let gone = (*first).clone();
    drop(first);
    assert_eq!(leftovers_of(&gone), Vec::<String>::new());
    assert_eq!(second.broken().await, None);
    in_namespace_of(&second, "after", body).await?;
    // It needs a cluster, and none of its own.
    pods_resolve_names_and_run_loaded_images(&second).await
}

#[tokio::test]
async fn a_failed_up_names_the_component_shows_its_last_lines_and_cleans_up() -> Result<()> {
    let _turn = turn().await;
    let scratch = std::env::temp_dir().join(unique("failed"));
    let cache = borrowed_cache(&scratch)?;
    for (family, program) in
        [(Family::Kubernetes, "kubelet"), (Family::Etcd, "etcd"), (Family::CoreDns, "coredns")]
    {
        let name = unique("failed");
        let file = cache.join(family.build()?.file_name().context("a folder has a name")?).join(program);
        let kept = file.with_extension("kept");
        fs::rename(&file, &kept)?;
        fs::write(&file, "#!/bin/sh\necho a first line\necho that is why\nexit 3\n")?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
        let state = scratch.join("state");
        let mut command = e2e(&["up", "--name", &name]);
        let output = command.env("E2E_CACHE_DIR", &cache).env("E2E_STATE_DIR", &state).output()?;
        assert!(!output.status.success());
        let text = text(&output);
        let wanted = format!("{program} ended. The last lines of its log:\n  a first line\n  that is why");
        assert!(text.contains(&wanted), "{text}");
        assert!(!state.exists());
        assert_eq!(process::marked(&state.join(&name)), vec![]);
        fs::rename(&kept, &file)?;
    }
    Ok(fs::remove_dir_all(&scratch)?)
}

#[tokio::test]
async fn an_up_that_is_interrupted_or_killed_half_way_leaves_nothing() -> Result<()> {
    let _turn = turn().await;
    for signal in ["TERM", "KILL"] {
        let name = unique("half");
        let _cleanup = Cleanup::for_cluster(&name)?;
        let mut up = e2e(&["up", "--name", &name]).stderr(Stdio::null()).stdout(Stdio::null()).spawn()?;
        let half = await_answer("some of it runs", async || {
            let cluster = Cluster::find(&name)?.context("no record yet")?;
            ensure!(cluster.processes().len() >= 3, "{} processes", cluster.processes().len());
            Ok(cluster)
        })
        .await?;
        ensure!(up.try_wait()?.is_none(), "up ended before it could be interrupted");
        succeed({
            let mut kill = Command::new("kill");
            kill.args([&format!("-{signal}"), &up.id().to_string()]);
            kill
        })?;
        assert!(!up.wait()?.success());
        if signal == "KILL" {
            assert!(down(&name)?);
        }
        assert_eq!(leftovers_of(&half), Vec::<String>::new());
    }
    Ok(())
}

#[tokio::test]
async fn a_program_that_is_killed_takes_its_cluster_along() -> Result<()> {
    let _turn = turn().await;
    // A search that makes a cluster of its own.
    let name = "stopgo";
    ensure!(Cluster::find(name)?.is_none(), "somebody else searches");
    let mut search = e2e(&["stopgo", "--times", "1"]);
    let mut search = search.stderr(Stdio::null()).stdout(Stdio::null()).spawn()?;
    let cluster = await_answer("some of it runs", async || {
        Cluster::find(name)?.filter(|it| !it.processes().is_empty()).context("no process yet")
    })
    .await?;
    let pid = Pid::from_child(&search);
    rustix::process::kill_process(pid, Signal::KILL)?;
    assert!(!search.wait()?.success());
    // The record of a cluster goes before its folder does.
    await_answer("its cluster is gone", async || {
        let left = leftovers_of(&cluster);
        ensure!(Cluster::find(name)?.is_none() && left.is_empty(), "it has left {left:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_bare_api_server_stores_objects_and_its_audit_log_has_each_request_once() -> Result<()> {
    let _turn = turn().await;
    let cluster = TemporaryCluster::up(&unique("bare"), Shape::ApiServer).await?;
    assert_eq!(
        cluster.processes().iter().map(|one| &one.name).collect::<Vec<_>>(),
        ["etcd", "kube-apiserver"]
    );
    in_namespace_of(&cluster, "audit", async |space| {
        let log = AuditLog::for_cluster(&cluster);
        space.api::<Service>().list(&ListParams::default()).await?;
        let mark = log.mark()?;
        let service: Service = serde_json::from_value(json!({
            "metadata": {"name": "cache"}, "spec": {"ports": [{"port": 1}]},
        }))?;
        space.apply(&service).await?;
        space.api::<Service>().get("cache").await?;
        let mine = |mut requests: Vec<Request>| {
            requests.retain(|request| request.user_agent == format!("e2e-test/{}", space.name()));
            requests
        };
        // A request is logged a little after it was answered.
        let requests = await_answer("both requests are logged", async || {
            let requests = mine(log.since(mark)?);
            let seen: Vec<_> =
                requests.iter().map(|one| (one.verb.as_str(), one.name.as_str(), one.code)).collect();
            ensure!(seen == [("patch", "cache", 201), ("get", "cache", 200)], "{seen:?}");
            Ok(requests)
        })
        .await?;
        assert!(requests.iter().all(|one| one.resource == "services" && one.namespace == space.name()));
        assert_eq!(mine(log.since(log.mark()?)?), vec![]);
        let limit = Duration::from_secs(15);
        let late =
            space.wait_within::<Service>("cache", "it is gone", limit, |service| service.is_none()).await;
        let message = late.err().context("it is still there")?.to_string();
        assert!(message.contains("Service cache: it is gone. Seen last: {"), "{message}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn without_root_there_is_a_control_plane_and_a_sentence() -> Result<()> {
    let _turn = turn().await;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: it is about whom root can become");
        return Ok(());
    }
    let scratch = std::env::temp_dir().join(unique("nobody"));
    let cache = borrowed_cache(&scratch)?;
    let program = scratch.join("e2e");
    process::copy_program(Path::new(env!("CARGO_BIN_EXE_e2e")), &program)?;
    let state = scratch.join("state");
    fs::create_dir_all(&state)?;
    for folder in [&cache, &state] {
        std::os::unix::fs::chown(folder, Some(65534), Some(65534))?;
    }
    let as_nobody = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program).args(args);
        command.env("E2E_CACHE_DIR", &cache).env("E2E_STATE_DIR", state.join("e2e")).env("HOME", &state);
        command
    };
    let up = succeed(as_nobody(&["up", "--name", "nobody"]))?;
    assert!(up.contains("a node needs root") && up.contains("is up (ControlPlane)"), "{up}");
    let refused = as_nobody(&["up", "--name", "other", "--only", "node"]).output()?;
    assert!(!refused.status.success() && text(&refused).contains("a node needs root"));
    succeed(as_nobody(&["down", "--name", "nobody"]))?;
    assert!(!state.join("e2e").exists());
    Ok(fs::remove_dir_all(&scratch)?)
}
