//! What a process takes of the machine's memory: takes its id, gives bytes. Called by the measurements.

use std::fs;

use anyhow::{Context, Result};

/// The most memory that the process ever had resident (`VmHWM`), in bytes.
///
/// # Errors
/// When there is no such process.
pub(super) fn peak(pid: u32) -> Result<u64> {
    let file = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().context("VmHWM is no number")?;
    Ok(kibibytes * 1024)
}
