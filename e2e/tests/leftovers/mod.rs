//! What a cluster left on this machine: takes a cluster that is down, gives a line for each thing that is still there.
//! Called by `local_kubernetes` and `demo`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::{Cluster, cgroups, process};

/// Everything that bears the cluster's mark, name or addresses.
pub(crate) fn leftovers_of(cluster: &Cluster) -> Vec<String> {
    let slot = cluster.slot();
    let mut leftovers = Vec::new();
    let running = cluster.processes().iter().filter(|process| process.is_running()).cloned();
    for process in running.chain(process::marked(cluster.folder())) {
        leftovers.push(format!("process {} {}", process.pid, process.name));
    }
    for link in [slot.link(), slot.peer()] {
        if fs::symlink_metadata(Path::new("/sys/class/net").join(&link)).is_ok() {
            leftovers.push(format!("link {link}"));
        }
    }
    let network: String = slot.host().to_string().split_inclusive('.').take(2).collect();
    let routes = Command::new("ip").args(["-4", "route", "show", "table", "all"]).output();
    let routes =
        routes.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    leftovers
        .extend(routes.lines().filter(|line| line.contains(&network)).map(|line| format!("route {line}")));
    let folder = cluster.folder().to_string_lossy().into_owned();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    leftovers
        .extend(mounts.lines().filter(|line| line.contains(&folder)).map(|line| format!("mount {line}")));
    leftovers
        .extend(cgroups::existing(&slot.cgroup()).iter().map(|group| format!("group {}", group.display())));
    let name = cluster.folder().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let in_memory = fs::read_dir("/dev/shm").into_iter().flatten().flatten().map(|entry| entry.path());
    let of_this = in_memory.filter(|path| path.to_string_lossy().contains(&format!("-{name}-")));
    leftovers.extend(of_this.map(|path| format!("in memory {}", path.display())));
    if cluster.folder().exists() {
        leftovers.push(format!("folder {folder}"));
    }
    leftovers
}

/// The folders of the host where programs of a node leave things behind when nobody stops them.
const FOLDERS: [&str; 12] = [
    "/etc",
    "/etc/cni",
    "/opt",
    "/opt/cni",
    "/run",
    "/usr/libexec",
    "/var/lib",
    "/var/lib/cni",
    "/var/lib/kubelet",
    "/var/log",
    "/var/log/pods",
    "/root/.kube/cache/discovery",
];

/// What is in these folders at one time.
pub(crate) struct Host(BTreeSet<PathBuf>);

impl Host {
    pub(crate) fn now() -> Self {
        let entries = FOLDERS.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        Self(entries.map(|entry| entry.path()).collect())
    }

    /// What is there now, and was not then.
    pub(crate) fn additions(&self) -> Vec<PathBuf> {
        Self::now().0.difference(&self.0).cloned().collect()
    }
}
