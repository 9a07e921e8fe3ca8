//! A container of the node as this machine sees it: takes the id that a pod's status names, gives its process and its control
//! group. Called by tests and by the benchmark.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::process::Process;

/// The first process of a container: containerd names the control group after the container.
///
/// # Errors
/// When it has none.
pub fn first_process(container: &str) -> Result<Process> {
    let id = container.trim_start_matches("containerd://");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|it| it.parse().ok()) else { continue };
        let groups = fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
        found.extend(Process::observe(id, pid).filter(|_| groups.contains(id)));
    }
    found.sort_by_key(|process| process.pid);
    found.into_iter().next().with_context(|| format!("container {id} has no process"))
}

/// The folder of the control group that the process's memory is accounted to, of either version.
///
/// # Errors
/// When there is no such process, or its memory is not accounted for.
pub fn memory_group(process: &Process) -> Result<PathBuf> {
    let groups = fs::read_to_string(format!("/proc/{}/cgroup", process.pid))?;
    let group = |of: &str| groups.lines().find_map(|line| line.split_once(of).map(|(_, path)| path));
    let folder = |under: &str, path: &str| PathBuf::from(format!("/sys/fs/cgroup{under}{path}"));
    let first = group(":memory:").map(|path| folder("/memory", path));
    let found = first.or_else(|| group("0::").map(|path| folder("", path)));
    found.with_context(|| format!("its memory is not accounted for: {groups}"))
}

/// Leaves a container's control group no memory beyond what it has, so that its process is killed when it needs some.
///
/// # Errors
/// When its memory cannot be limited.
pub fn take_memory(process: &Process) -> Result<()> {
    let group = memory_group(process)?;
    let names = ["memory.max", "memory.limit_in_bytes"].map(|name| group.join(name));
    let file = names.iter().find(|file| file.exists()).context("its memory cannot be limited")?;
    // Version 1 refuses a limit that is below what cannot be given back.
    let accepted = (1..256_u32).find(|step| fs::write(file, (step * 128 * 1024).to_string()).is_ok());
    accepted.map(|_| ()).with_context(|| format!("cannot write {}", file.display()))
}
