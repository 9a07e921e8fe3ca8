//! Where things are kept: takes the environment, gives folders. Called by `programs`, `boot` and `cluster`.
//!
//! | what | folder | override |
//! |---|---|---|
//! | built programs, kept for ever | `$XDG_CACHE_HOME/memcached-operator-e2e` | `E2E_CACHE_DIR` |
//! | running clusters, removed by `down` | `$XDG_STATE_HOME/memcached-operator-e2e` | `E2E_STATE_DIR` |

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::busy_files;

/// The folder of the built programs, shared by all clones of this user.
///
/// # Errors
/// When neither an override nor `HOME` is set.
pub fn cache() -> Result<PathBuf> {
    folder("E2E_CACHE_DIR", "XDG_CACHE_HOME", ".cache")
}

/// The folder of the running clusters, one subfolder for each.
///
/// # Errors
/// When neither an override nor `HOME` is set.
pub fn state() -> Result<PathBuf> {
    folder("E2E_STATE_DIR", "XDG_STATE_HOME", ".local/state")
}

/// The audit log of the API server, in the folder of its cluster.
pub(crate) fn audit_log(cluster: &Path) -> PathBuf {
    busy_files::path(cluster).join("audit.log")
}

/// The log of a program of a cluster, in the cluster's folder.
pub(crate) fn log(cluster: &Path, program: &str) -> PathBuf {
    cluster.join("log").join(format!("{program}.log"))
}

/// A program of this workspace, in cargo's folder of what this very program was built with.
pub(crate) fn built(name: &str) -> Result<PathBuf> {
    // target/debug/e2e, or target/debug/deps/<test>.
    let own = env::current_exe()?;
    let mut found = own.ancestors().skip(1).take(2).map(|folder| folder.join(name));
    found.find(|path| path.is_file()).with_context(|| format!("there is no {name} beside {}", own.display()))
}

fn folder(own: &str, xdg: &str, under_home: &str) -> Result<PathBuf> {
    if let Some(folder) = absolute(own) {
        return Ok(folder);
    }
    let base = match absolute(xdg) {
        Some(base) => base,
        None => absolute("HOME")
            .with_context(|| format!("none of {own}, {xdg} and HOME names a folder; set {own}"))?
            .join(under_home),
    };
    Ok(base.join("memcached-operator-e2e"))
}

/// The value of an environment variable, when it is an absolute path (the XDG rules say to ignore others).
fn absolute(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}
