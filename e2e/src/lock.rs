//! A lock on a folder, held by at most one process: takes a path, gives a guard. Called by `programs` and `cluster`.
//!
//! The folder itself is locked, not a file in it, so that `down` leaves no lock file behind. The kernel drops the
//! lock when its holder dies, whatever kills it.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// An exclusive lock on a folder, released when dropped.
#[derive(Debug)]
pub struct FolderLock {
    path: PathBuf,
    _held: File,
}

impl FolderLock {
    /// Locks `path`, which is made when it is absent, and waits for another holder to end.
    ///
    /// # Errors
    /// When the folder cannot be made or opened.
    pub fn acquire(path: &Path) -> Result<Self> {
        let mut lock_wait = LockWait::new(path);
        loop {
            if let Some(lock) = Self::try_acquire(path)? {
                return Ok(lock);
            }
            std::thread::sleep(lock_wait.pause());
        }
    }

    /// As [`FolderLock::acquire`], for a future that may be dropped while it waits.
    ///
    /// # Errors
    /// When the folder cannot be made or opened.
    pub async fn acquire_async(path: &Path) -> Result<Self> {
        let mut lock_wait = LockWait::new(path);
        loop {
            if let Some(lock) = Self::try_acquire(path)? {
                return Ok(lock);
            }
            tokio::time::sleep(lock_wait.pause()).await;
        }
    }

    fn try_acquire(path: &Path) -> Result<Option<Self>> {
        // Where it fails, another process may have removed the folder above, which goes with the last cluster, on the way.
        fs::create_dir_all(path)
            .or_else(|_| fs::create_dir_all(path))
            .with_context(|| format!("cannot make the folder {}", path.display()))?;
        let held = match File::open(path) {
            Ok(held) => held,
            // Removed by another process between the two calls.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot open {}", path.display())),
        };
        match held.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        // The last holder may have removed the folder while this one waited: the lock would then be on a folder
        // that nobody else finds, and two processes would believe that they are alone.
        let same =
            fs::metadata(path).is_ok_and(|now| held.metadata().is_ok_and(|own| own.ino() == now.ino()));
        Ok(same.then(|| Self { path: path.to_owned(), _held: held }))
    }

    /// Removes the locked folder with everything in it, then gives the lock up.
    ///
    /// # Errors
    /// When something in the folder cannot be removed.
    pub fn remove(self) -> Result<()> {
        fs::remove_dir_all(&self.path).with_context(|| format!("cannot remove {}", self.path.display()))
    }
}

/// Says once what is waited for, when that takes longer than a moment.
struct LockWait<'a> {
    path: &'a Path,
    since: Instant,
    told: bool,
}

impl<'a> LockWait<'a> {
    fn new(path: &'a Path) -> Self {
        Self { path, since: Instant::now(), told: false }
    }

    fn pause(&mut self) -> Duration {
        if !self.told && self.since.elapsed() > Duration::from_secs(1) {
            eprintln!("waiting for another process that works on {}", self.path.display());
            self.told = true;
        }
        Duration::from_millis(50)
    }
}
