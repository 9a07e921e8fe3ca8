//! Where a cluster keeps what it writes all the time, etcd's data and the audit log: in memory, where the machine has much of it
//! free, else in the cluster's folder. Takes that folder, gives a path in it. Called by `control_plane` and `cluster`.
//!
//! Writing back what nobody ever reads from the disk took a tenth of the processors while the tests ran.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A file system in memory.
const MEMORY: &str = "/dev/shm";
/// What has to be free there, in bytes: more than all clusters of the tests at a time have written.
const ROOM: u64 = 8 << 30;

/// The folder of these files, or the link to it.
pub(crate) fn path(cluster: &Path) -> PathBuf {
    cluster.join("busy")
}

/// Makes the folder.
///
/// # Errors
/// When it cannot be made.
pub(crate) fn create(cluster: &Path) -> Result<()> {
    let (path, memory) = (path(cluster), in_memory(cluster));
    let made = match memory {
        // The link comes first: who is killed in between leaves nothing that no link tells of.
        Some(memory) => symlink(&memory, &path).and_then(|()| private().create(&memory)),
        None => private().create(&path),
    };
    made.with_context(|| format!("cannot make {}", path.display()))
}

/// Removes what is in memory. The rest goes with the cluster's folder.
///
/// # Errors
/// When it cannot be removed.
pub(crate) fn remove(cluster: &Path) -> Result<()> {
    let Ok(memory) = fs::read_link(path(cluster)) else { return Ok(()) };
    match fs::remove_dir_all(&memory) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", memory.display()))
        }
        _ => Ok(()),
    }
}

/// A folder in memory that nobody has; `None` where there is too little room.
fn in_memory(cluster: &Path) -> Option<PathBuf> {
    let there = rustix::fs::statvfs(MEMORY).ok()?;
    let name = format!("memcached-operator-e2e-{}-{}", cluster.file_name()?.to_str()?, std::process::id());
    let folder = Path::new(MEMORY).join(name);
    (there.f_bavail * there.f_frsize >= ROOM && !folder.exists()).then_some(folder)
}

/// Others of the machine may not read the cluster's Secrets.
fn private() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}
