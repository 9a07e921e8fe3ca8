//! The control group that a node's pods live in: takes a name, makes and removes the group in every hierarchy of this
//! machine. Called by `node` and by `cluster` when it tears down.
//!
//! Namespaces end with their processes, and control groups do not: without this the pods' groups would stay for ever,
//! and two clusters' kubelets would clean up each other's.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

const ROOT: &str = "/sys/fs/cgroup";

/// Makes the group, without limits.
pub(crate) fn create(name: &str) -> Result<()> {
    for hierarchy in hierarchies() {
        // Version 2 only: a group has the controllers that its parent hands down. Where systemd runs it handed them
        // down already; where it cannot be done, kubelet says which one it lacks.
        for controller in ["cpuset", "cpu", "memory", "pids"] {
            let _ = fs::write(hierarchy.join("cgroup.subtree_control"), format!("+{controller}"));
        }
        let group = hierarchy.join(name);
        fs::create_dir_all(&group)
            .with_context(|| format!("cannot make the control group {}", group.display()))?;
        // Version 1 only: a group without processors and memory nodes can hold no process.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if hierarchy.join(file).exists() {
                fs::write(group.join(file), fs::read(hierarchy.join(file))?)
                    .with_context(|| format!("cannot fill {}", group.join(file).display()))?;
            }
        }
    }
    Ok(())
}

/// Removes the group and those below it, where they exist; their processes must have been killed.
pub(crate) fn remove(name: &str) -> Result<()> {
    let started = Instant::now();
    for hierarchy in hierarchies() {
        let group = hierarchy.join(name);
        // A killed process leaves its group a moment after its namespace is gone.
        while let Err(error) = remove_tree(&group) {
            if started.elapsed() > Duration::from_mins(1) {
                return Err(error).with_context(|| format!("cannot remove {}", group.display()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    Ok(())
}

/// All groups of this name that exist.
pub fn existing(name: &str) -> Vec<PathBuf> {
    hierarchies().into_iter().map(|hierarchy| hierarchy.join(name)).filter(|group| group.exists()).collect()
}

/// The files in a group are the kernel's and go with it; only folders can be removed.
fn remove_tree(group: &Path) -> std::io::Result<()> {
    let entries = match fs::read_dir(group) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries.flatten() {
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    fs::remove_dir(group)
}

/// One folder with cgroup version 2, one for each controller with version 1.
fn hierarchies() -> Vec<PathBuf> {
    let root = Path::new(ROOT);
    if root.join("cgroup.controllers").exists() {
        return vec![root.to_owned()];
    }
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    // Symlinks are other names (cpu for cpu,cpuacct).
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}
