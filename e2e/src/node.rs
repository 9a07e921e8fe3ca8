//! The one node, in pid, mount, network and uts namespaces of its own: takes a [`Boot`], starts containerd, kubelet,
//! kube-proxy and CoreDNS in them, and loads the images. Called by `cluster`.
//!
//! The first process of the namespaces does nothing but exist: killing it ends everything on the node, and with the
//! namespaces go its mounts, links and routes. What survives is the control group, the host's end of the link and
//! the files in the cluster's folder, which `cluster` removes.
//!
//! Inside, `<cluster>/node` is `/run/e2e`; `/run` and `/var/log` are the node's own, and what is written to `/var/lib`
//! stays in the node too (kubelet and the network plugins have paths there that no option changes).

use std::ffi::OsString;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::boot::Boot;
use crate::certs::NODE;
use crate::image::Image;
use crate::process::{Launch, Process};
use crate::slot::Slot;
use crate::{cgroups, image, network, node_files};

/// What the node's first process does. `$1` is `<cluster>/node`. The shell takes the exit status of processes whose
/// parent is gone, as a first process must.
const INIT: &str = r#"
set -e
mount -t proc proc /proc
mount --bind "$1" /mnt
mount -t tmpfs tmpfs /run
mkdir -p /run/e2e /run/lock /run/lib/upper /run/lib/work
mount --move /mnt /run/e2e
mount --bind /run/e2e/log /var/log
mount -t overlay -o lowerdir=/var/lib,upperdir=/run/lib/upper,workdir=/run/lib/work overlay /var/lib
hostname node
echo 1 > /proc/sys/net/ipv4/ip_forward
: > /run/e2e/ready
while :; do sleep 3600 & wait $!; done
"#;

/// The name on the record of the namespaces' first process.
const FIRST: &str = "node-init";

/// A running node: its first process.
#[derive(Debug, Clone)]
pub(crate) struct Namespaces {
    pid: i32,
}

/// Makes the node's network link, with the address that the API server listens on, and its control group.
pub(crate) fn prepare(slot: Slot) -> Result<()> {
    network::create(slot)?;
    cgroups::create(&slot.cgroup())
}

/// Makes the namespaces and starts containerd in them, which needs no API server.
pub(crate) async fn start_runtime(boot: &mut Boot) -> Result<Namespaces> {
    let folder = boot.folder.join("node");
    node_files::write(boot)?;
    let flags = ["--pid", "--fork", "--kill-child", "--mount", "--net", "--uts", "sh", "-c", INIT, "sh"];
    let mut args: Vec<OsString> = flags.map(OsString::from).into();
    args.push(folder.clone().into());
    let outer = boot.start(&Launch { name: "node", program: "unshare".into(), args })?;
    boot.wait("node", Duration::from_mins(2), async || Ok(fs::metadata(folder.join("ready")).map(|_| ())?))
        .await?;
    let namespaces = Namespaces::from_unshare(&outer)?;
    // On the record too, so that `down` waits for its end, which is the end of all on the node.
    boot.record.processes.extend(Process::observe(FIRST, namespaces.pid));
    boot.record.save(&boot.folder)?;
    network::join(boot.record.slot, namespaces.pid)?;
    boot.start(&namespaces.launch(
        "containerd",
        Path::new("containerd"),
        &["--config=/run/e2e/containerd.toml"],
    ))?;
    Ok(namespaces)
}

/// Loads the images, starts the programs that need the API server, and waits until pods can run.
pub(crate) async fn start(boot: &mut Boot, namespaces: &Namespaces) -> Result<()> {
    boot.wait("containerd", Duration::from_mins(2), async || {
        network::run(&mut namespaces.enter(Path::new("ctr"), &["version"]))
    })
    .await?;
    for image in [image::pause()?, image::memcached()?] {
        namespaces.load_packed(&image, &boot.folder)?;
    }
    let programs = boot.programs.clone();
    let proxy = format!("--cluster-cidr={}", boot.record.slot.pods());
    let address = format!("--node-ip={}", boot.record.slot.node());
    for launch in [
        namespaces.launch(
            "kubelet",
            &programs.node.join("kubelet"),
            &[
                "--config=/run/e2e/kubelet.json",
                "--kubeconfig=/run/e2e/kubelet.kubeconfig",
                "--root-dir=/run/e2e/kubelet",
                "--cert-dir=/run/e2e/kubelet/pki",
                &format!("--hostname-override={NODE}"),
                // The collector removes no dead container that is younger than this. It takes a created container that has
                // not started for a dead one and keeps only one of these: the record of the killed one was lost.
                "--minimum-container-ttl-duration=10m",
                &address,
            ],
        ),
        namespaces.launch(
            "kube-proxy",
            &programs.node.join("kube-proxy"),
            &[
                "--kubeconfig=/run/e2e/kube-proxy.kubeconfig",
                "--proxy-mode=iptables",
                "--conntrack-max-per-core=0", // a setting of the whole machine
                &format!("--hostname-override={NODE}"),
                &proxy,
            ],
        ),
        namespaces.launch("coredns", &programs.coredns.join("coredns"), &["-conf=/run/e2e/Corefile"]),
    ] {
        boot.start(&launch)?;
    }
    let client = boot.client().await?;
    publish_dns(&client, boot.record.slot).await?;
    await_ready(boot, &client).await
}

async fn await_ready(boot: &Boot, client: &kube::Client) -> Result<()> {
    let dns = (boot.record.slot.node(), 53);
    boot.wait("coredns", Duration::from_mins(2), async || Ok(TcpStream::connect(dns).map(|_| ())?)).await?;
    let nodes: Api<Node> = Api::all(client.clone());
    boot.wait("kubelet", Duration::from_mins(2), async || {
        let conditions =
            nodes.get(NODE).await?.status.and_then(|status| status.conditions).unwrap_or_default();
        match conditions.into_iter().find(|condition| condition.type_ == "Ready") {
            Some(ready) if ready.status == "True" => Ok(()),
            Some(ready) => bail!("{}", ready.message.unwrap_or_default()),
            None => bail!("its node has no conditions"),
        }
    })
    .await
}

/// The Service for DNS. CoreDNS runs on the node and not in a pod, so no selector finds it.
async fn publish_dns(client: &kube::Client, slot: Slot) -> Result<()> {
    let ports: Value = ["UDP", "TCP"]
        .iter()
        .map(|protocol| json!({"name": protocol.to_lowercase(), "port": 53, "protocol": protocol}))
        .collect();
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns"},
        "spec": {"clusterIP": slot.dns_service(), "ports": ports},
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "kube-dns", "labels": {"kubernetes.io/service-name": "kube-dns"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [slot.node()], "conditions": {"ready": true}}],
        "ports": ports,
    });
    let params = PatchParams::apply("e2e").force();
    let services: Api<Service> = Api::namespaced(client.clone(), "kube-system");
    services.patch("kube-dns", &params, &Patch::Apply(service)).await.context("cannot publish kube-dns")?;
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), "kube-system");
    slices.patch("kube-dns", &params, &Patch::Apply(slice)).await.context("cannot publish kube-dns")?;
    Ok(())
}

impl Namespaces {
    /// The namespaces of a cluster that is up.
    pub(crate) fn from_processes(processes: &[Process]) -> Option<Self> {
        let first = processes.iter().find(|process| process.name == FIRST && process.is_running())?;
        Some(Self { pid: first.pid })
    }

    /// The namespaces whose first process is the child of `unshare`.
    fn from_unshare(outer: &Process) -> Result<Self> {
        let file = format!("/proc/{0}/task/{0}/children", outer.pid);
        let children = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
        let pid =
            children.split_ascii_whitespace().next().context("the node has no first process")?.parse()?;
        Ok(Self { pid })
    }

    fn arguments(&self, program: &Path, args: &[&str]) -> Vec<OsString> {
        let target = format!("--target={}", self.pid);
        let mut all: Vec<OsString> =
            [&target, "--mount", "--net", "--pid", "--uts", "--"].map(OsString::from).into();
        all.push(program.into());
        all.extend(args.iter().map(OsString::from));
        all
    }

    /// A program that runs in the namespaces until it is killed.
    fn launch(&self, name: &'static str, program: &Path, args: &[&str]) -> Launch {
        Launch { name, program: "nsenter".into(), args: self.arguments(program, args) }
    }

    /// A command in the namespaces.
    fn enter(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(self.arguments(program, args)).stdin(Stdio::null());
        command
    }

    /// Packs an image and loads it; the archive is for a moment in the cluster's folder.
    pub(crate) fn load_packed(&self, image: &Image, folder: &Path) -> Result<()> {
        let archive = folder.join("image.tar");
        fs::write(&archive, image.pack()?).with_context(|| format!("cannot write {}", archive.display()))?;
        self.load(&archive)?;
        Ok(fs::remove_file(&archive)?)
    }

    /// Loads the images in an archive: what `docker save` writes, or an OCI layout in a tar.
    pub(crate) fn load(&self, archive: &Path) -> Result<()> {
        let file = fs::File::open(archive).with_context(|| format!("cannot open {}", archive.display()))?;
        // From its input, because the file may be where the node has a folder of its own.
        let mut command = self.enter(Path::new("ctr"), &["--namespace=k8s.io", "images", "import", "-"]);
        network::run(command.stdin(file))
            .with_context(|| format!("containerd cannot load {}", archive.display()))
    }
}
