//! A cluster of this machine, from the outside: takes a name and a shape, gives a [`Cluster`] that runs until
//! [`down`]. Called by the `e2e` binary and by tests.
//!
//! The cluster's folder is locked while it is worked on, so that any number of processes may call [`Cluster::shared`]
//! at once: one makes the cluster, the others wait and use it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::boot::Boot;
use crate::certs::Pki;
use crate::free_slot::FreeSlot;
use crate::image::Image;
use crate::lock::FolderLock;
pub use crate::options::{Audit, KubeletSync, Options, Owners, Shape};
use crate::process::{Process, kill_all, marked};
use crate::programs::Family;
use crate::record::{Phase, Record};
use crate::remover::Remover;
use crate::slot::{Port, Slot};
use crate::test_times::TestTime;
use crate::{
    busy_files, cgroups, chart, control_plane, kubeconfig, network, node, packages, paths, programs,
};

/// A cluster whose programs all run is broken only where its API server is not ready for so long. A busy one may need many
/// seconds for an answer, and who takes it for broken removes it under the tests that use it.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// A cluster that is up, as far as its record says. A plain description: dropping it changes nothing.
#[derive(Debug, Clone)]
pub struct Cluster {
    name: String,
    folder: PathBuf,
    record: Record,
}

impl Cluster {
    /// The cluster of this name, which is made where it is not up. A broken one is removed and made anew.
    ///
    /// # Errors
    /// When it is up in a smaller shape, or a component fails: that is then named, with its last log lines, and
    /// everything that was started is removed again.
    pub async fn shared(name: &str, options: impl Into<Options>) -> Result<Self> {
        let options = options.into();
        let folder = folder(name)?;
        let programs = programs::Kubernetes::build()?;
        if options.shape >= Shape::Node {
            if let Some(why) = packages::why_no_node() {
                bail!(
                    "{why}; a control plane without a node works: `e2e up --name {name} --only control-plane`"
                );
            }
            packages::ensure()?;
        }
        let lock = FolderLock::acquire_async(&folder).await?;
        if let Some(cluster) = Self::find(name)? {
            let broken = cluster.broken().await;
            if broken.is_none() && cluster.record.shape < options.shape {
                bail!(
                    "cluster {name} is up as {:?}, and {:?} is wanted; run `e2e down --name {name}` first",
                    cluster.record.shape,
                    options.shape
                );
            }
            if broken.is_none() && cluster.record.programs != programs.control_plane {
                bail!("cluster {name} is of another build of Kubernetes; run `e2e down --name {name}` first");
            }
            match broken {
                None => return Ok(cluster),
                Some(why) => eprintln!("cluster {name} is broken ({why}); making it anew"),
            }
        }
        tear_down(&folder)?;
        let unfinished = Unfinished { folder: folder.clone(), lock: Some(lock) };
        let record = claim_slot(name, &folder, &programs.control_plane, options)?;
        let mut boot = Boot::new(folder.clone(), record, programs);
        start(&mut boot)
            .await
            .with_context(|| format!("cluster {name} did not come up, and is removed again"))?;
        unfinished.finish();
        Ok(Self { name: name.to_owned(), folder, record: boot.record })
    }

    /// The cluster of this name, if there is one.
    ///
    /// # Errors
    /// When its record cannot be read.
    pub fn find(name: &str) -> Result<Option<Self>> {
        let folder = folder(name)?;
        let record = Record::load(&folder)?;
        Ok(record.map(|record| Self { name: name.to_owned(), folder, record }))
    }

    /// What is wrong with it, if something is.
    pub async fn broken(&self) -> Option<String> {
        // Its programs may have been started anew since this value was made.
        let record = match Record::load(&self.folder) {
            Ok(Some(record)) => record,
            Ok(None) => return Some("it was removed".to_owned()),
            Err(error) => return Some(format!("{error:#}")),
        };
        if record.phase == Phase::Starting {
            return Some("its start was interrupted".to_owned());
        }
        if let Some(gone) = record.processes.iter().find(|process| !process.is_running()) {
            return Some(format!("{} does not run", gone.name));
        }
        let mut last = "it does not answer".to_owned();
        let ready = async {
            while let Err(error) = self.is_ready().await {
                last = format!("{error:#}");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let in_time = tokio::time::timeout(READY_WITHIN, ready).await.is_ok();
        (!in_time).then(|| format!("its API server is not ready: {last}"))
    }

    async fn is_ready(&self) -> Result<()> {
        let client = kube::Client::try_from(self.config("e2e-status").await?)?;
        client.request_text(http::Request::get("/readyz").body(Vec::new())?).await?;
        Ok(())
    }

    /// The name of the cluster.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How much of Kubernetes runs.
    pub fn shape(&self) -> Shape {
        self.record.shape
    }

    /// The ports and addresses of the cluster.
    pub fn slot(&self) -> Slot {
        self.record.slot
    }

    /// The processes of the cluster, in the order of their start.
    pub fn processes(&self) -> &[Process] {
        &self.record.processes
    }

    /// The folder with all of its files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        Pki::for_cluster(&self.folder).kubeconfig("admin")
    }

    /// The API server's audit log, which is absent with [`Audit::Off`].
    pub fn audit_log(&self) -> PathBuf {
        paths::audit_log(&self.folder)
    }

    /// Loads the images in an archive (what `docker save` writes, or an OCI layout in a tar) into the node.
    ///
    /// # Errors
    /// When the cluster has no running node, or containerd does not take the archive.
    pub fn load_image(&self, archive: &Path) -> Result<()> {
        self.node()?.load(archive)
    }

    /// Packs an image of this machine's programs and loads it into the node.
    ///
    /// # Errors
    /// As [`Self::load_image`].
    pub fn load(&self, image: &Image) -> Result<()> {
        self.node()?.load_packed(image, &self.folder)
    }

    /// Kills one of its programs and starts it again: the kubelet, for example, without which the pods run on.
    ///
    /// # Errors
    /// When none of this name runs, or it cannot be started again.
    pub fn restart(&self, program: &str) -> Result<()> {
        let missing = || format!("cluster {} has no {program}", self.name);
        let mut record = Record::load(&self.folder)?.with_context(missing)?;
        let known = record.processes.iter_mut().find(|it| it.name == program).with_context(missing)?;
        *known = known.restart(&self.folder, &paths::log(&self.folder, program))?;
        record.save(&self.folder)
    }

    /// Keeps what etcd holds now, for [`Self::restore`].
    ///
    /// # Errors
    /// When etcd does not run, or its files cannot be copied.
    pub fn back_up(&self) -> Result<()> {
        let etcd = self.record.processes.iter().find(|it| it.name == "etcd");
        let etcd = etcd.with_context(|| format!("cluster {} has no etcd", self.name))?;
        let data = control_plane::etcd_data(&self.folder);
        etcd.while_stopped(|| copy_folder(&data, &data.with_extension("backup")))
    }

    /// Puts etcd back to what [`Self::back_up`] kept, so that resource versions go back. Its control plane is started anew, as
    /// it has to be then.
    ///
    /// # Errors
    /// When nothing was kept, a program does not end or start, or the cluster has a node: its programs would be left behind.
    pub async fn restore(&self) -> Result<()> {
        let Some(record) = Record::load(&self.folder)?.filter(|it| it.shape < Shape::Node) else {
            bail!("cluster {} is gone, or has a node", self.name);
        };
        kill_all(&record.processes)?;
        let data = control_plane::etcd_data(&self.folder);
        copy_folder(&data.with_extension("backup"), &data)?;
        let record = Record { processes: Vec::new(), ..record };
        let mut boot = Boot::new(self.folder.clone(), record, programs::Kubernetes::build()?);
        control_plane::start_api_server(&mut boot).await?;
        if boot.record.shape >= Shape::Controllers {
            control_plane::start_controllers(&mut boot)?;
            control_plane::await_controllers(&boot).await?;
        }
        Ok(())
    }

    fn node(&self) -> Result<node::Namespaces> {
        let node = node::Namespaces::from_processes(&self.record.processes);
        node.with_context(|| format!("cluster {} has no running node", self.name))
    }

    /// The program kubectl, with this cluster as its own.
    ///
    /// # Errors
    /// When it cannot be built.
    pub fn kubectl(&self) -> Result<Command> {
        let mut command = Command::new(Family::Kubernetes.build()?.join("kubectl"));
        // The usual cache is by address, which the next cluster may have too, with other resources.
        command.env("KUBECONFIG", self.kubeconfig()).env("KUBECACHEDIR", self.folder.join("kubectl-cache"));
        Ok(command)
    }

    /// The program helm, with this cluster as its own.
    ///
    /// # Errors
    /// When it cannot be built.
    pub fn helm(&self) -> Result<Command> {
        let mut command = chart::helm()?;
        command.env("KUBECONFIG", self.kubeconfig()).env("KUBECACHEDIR", self.folder.join("kubectl-cache"));
        Ok(command)
    }

    /// A client configuration for the administrator, with this user agent.
    ///
    /// # Errors
    /// When the kubeconfig is absent or the user agent is no header value.
    pub async fn config(&self, user_agent: &str) -> Result<kube::Config> {
        kubeconfig::client_config(&self.kubeconfig(), user_agent).await
    }
}

/// A cluster that is being made: unless that finishes, whatever was made is removed when this is dropped, because of
/// an error, a panic, or a Ctrl-C that drops the future.
#[derive(Debug)]
struct Unfinished {
    folder: PathBuf,
    lock: Option<FolderLock>,
}

impl Unfinished {
    fn finish(mut self) {
        self.lock = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let Some(lock) = self.lock.take() else { return };
        if let Err(error) = tear_down(&self.folder).and_then(|()| remove_folder(lock)) {
            eprintln!("{} is not removed: {error:#}", self.folder.display());
        }
    }
}

/// Removes the cluster of this name when it is dropped, or when the program ends without that: a signal drops nothing.
#[derive(Debug)]
pub struct Cleanup {
    name: String,
    remover: Option<Remover>,
    /// Of the test whose cluster it is, which begins with it and ends when that is removed.
    _time: TestTime,
}

impl Cleanup {
    /// To be asked for before the cluster is made.
    ///
    /// # Errors
    /// When nothing can be started that waits for the end of the program.
    pub fn for_cluster(name: &str) -> Result<Self> {
        let remover = Some(Remover::start(name)?);
        Ok(Self { name: name.to_owned(), remover, _time: TestTime::begin() })
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        // It removes the cluster if this one cannot.
        let Some(remover) = self.remover.take() else { return };
        match down(&self.name) {
            Ok(_) => remover.end(),
            Err(error) => eprintln!("cluster {} is not removed: {error:#}", self.name),
        }
    }
}

/// A cluster for one program, which is removed with this value or with the program.
#[derive(Debug)]
pub struct TemporaryCluster {
    cluster: Cluster,
    cleanup: Cleanup,
}

impl TemporaryCluster {
    /// A new cluster; one of this name that was left behind is removed first.
    ///
    /// # Errors
    /// As [`Cluster::shared`].
    pub async fn up(name: &str, options: impl Into<Options>) -> Result<Self> {
        down(name)?;
        let cleanup = Cleanup::for_cluster(name)?;
        Ok(Self { cluster: Cluster::shared(name, options).await?, cleanup })
    }

    /// Keeps the cluster until the program ends.
    #[must_use]
    pub fn until_the_end(mut self) -> Cluster {
        if let Some(remover) = self.cleanup.remover.take() {
            remover.keep();
        }
        self.cluster
    }
}

impl std::ops::Deref for TemporaryCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

/// Removes the cluster of this name with everything it has on this machine. Gives whether there was one.
///
/// # Errors
/// When a process cannot be ended or a file not be removed.
pub fn down(name: &str) -> Result<bool> {
    let folder = folder(name)?;
    let existed = folder.exists();
    let lock = FolderLock::acquire(&folder)?;
    tear_down(&folder)?;
    remove_folder(lock)?;
    Ok(existed)
}

fn remove_folder(lock: FolderLock) -> Result<()> {
    lock.remove()?;
    // The folder of all clusters goes with the last one.
    let _ = fs::remove_dir(paths::state()?);
    Ok(())
}

/// Makes `to` a copy of the folder `from`. A log of etcd is mostly room that it has taken in advance.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    let copied = Command::new("cp").args(["--archive", "--sparse=always"]).args([from, to]).status();
    if !copied.context("cannot start cp")?.success() {
        bail!("cannot copy {} to {}", from.display(), to.display());
    }
    Ok(())
}

/// The folder of a cluster.
///
/// # Errors
/// When the name cannot be a folder's and a cgroup's.
fn folder(name: &str) -> Result<PathBuf> {
    let valid = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if name.is_empty() || name.len() > 30 || !valid {
        bail!("{name:?} cannot be a cluster's name: 1 to 30 of a-z, 0-9 and - are needed");
    }
    Ok(paths::state()?.join(name))
}

/// Takes a slot that nothing on this machine uses, and records it before anything is made.
fn claim_slot(name: &str, folder: &Path, programs: &Path, options: Options) -> Result<Record> {
    let free = FreeSlot::find(name)?;
    let Options { shape, audit, owners, sync } = options;
    let (phase, programs) = (Phase::Starting, programs.to_owned());
    let record =
        Record { slot: free.slot, shape, audit, owners, sync, programs, phase, processes: Vec::new() };
    record.save(folder)?;
    Ok(record)
}

async fn start(boot: &mut Boot) -> Result<()> {
    let started = Instant::now();
    let slot = boot.record.slot;
    let server = format!("https://{}:{}", boot.record.shape.api_address(slot), slot.port(Port::ApiServer));
    boot.pki.create(slot, &server)?;
    busy_files::create(&boot.folder)?;
    let runtime = if boot.record.shape >= Shape::Node {
        node::prepare(slot)?;
        Some(node::start_runtime(boot).await?)
    } else {
        None
    };
    control_plane::start_api_server(boot).await?;
    if boot.record.shape >= Shape::Controllers {
        control_plane::start_controllers(boot)?;
    }
    if let Some(runtime) = runtime {
        node::start(boot, &runtime).await?;
    }
    if boot.record.shape >= Shape::Controllers {
        control_plane::await_controllers(boot).await?;
    }
    boot.record.phase = Phase::Up;
    boot.record.save(&boot.folder)?;
    eprintln!("up in {:.1} s", started.elapsed().as_secs_f32());
    Ok(())
}

/// Removes what a cluster has outside its folder: processes, and with them its namespaces and their mounts.
fn tear_down(folder: &Path) -> Result<()> {
    let record = Record::load(folder)?;
    if let Some(record) = &record {
        kill_all(&record.processes)?;
    }
    // Processes that are on no record too, until none is left: one of them may have started another meanwhile.
    loop {
        let rest = marked(folder);
        if rest.is_empty() {
            break;
        }
        kill_all(&rest)?;
    }
    if let Some(Record { slot, shape: Shape::Node, .. }) = record {
        network::remove(slot)?;
        cgroups::remove(&slot.cgroup())?;
    }
    busy_files::remove(folder)?;
    for entry in fs::read_dir(folder)?.flatten() {
        let path = entry.path();
        let removed =
            if entry.file_type()?.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}
