//! What a process takes of the machine: takes its id, gives bytes and time. Called by the measurements.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// The most memory that the process ever had resident (`VmHWM`), in bytes.
///
/// # Errors
/// When there is no such process.
pub fn peak(pid: u32) -> Result<u64> {
    let file = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().context("VmHWM is no number")?;
    Ok(kibibytes * 1024)
}

/// How long the process's threads have been on a processor.
///
/// # Errors
/// When there is no such process.
pub(super) fn processor(pid: u32) -> Result<Duration> {
    let folder = format!("/proc/{pid}/task");
    let mut sum = Duration::ZERO;
    for thread in fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))? {
        let file = thread?.path().join("schedstat");
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let nanoseconds = text.split(' ').next().context("an empty schedstat")?;
        sum += Duration::from_nanos(nanoseconds.parse().context("schedstat is no number")?);
    }
    Ok(sum)
}
