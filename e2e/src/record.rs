//! What a cluster has on this machine, on disk: takes and gives a [`Record`]. Called by `cluster` and its parts.
//!
//! Everything is recorded before or as it is made, so that `down` and the next `up` find it after any crash.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::options::{Audit, KubeletSync, Owners, Shape};
use crate::process::Process;
use crate::slot::Slot;

/// How far `up` came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Phase {
    /// `up` works on it, or was killed while it did.
    Starting,
    /// `up` ended well.
    Up,
}

/// The content of `cluster.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) slot: Slot,
    pub(crate) shape: Shape,
    pub(crate) audit: Audit,
    #[serde(default)]
    pub(crate) owners: Owners,
    #[serde(default)]
    pub(crate) sync: KubeletSync,
    /// The folder of the control plane's programs: which Kubernetes it is.
    #[serde(default)]
    pub(crate) programs: PathBuf,
    pub(crate) phase: Phase,
    pub(crate) processes: Vec<Process>,
}

impl Record {
    fn file(folder: &Path) -> PathBuf {
        folder.join("cluster.json")
    }

    /// The record in a cluster's folder, if it has one.
    ///
    /// # Errors
    /// When there is one that cannot be read.
    pub(crate) fn load(folder: &Path) -> Result<Option<Self>> {
        let file = Self::file(folder);
        let text = match fs::read(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
        };
        let record = serde_json::from_slice(&text)
            .with_context(|| format!("{} was written by another version of this program", file.display()))?;
        Ok(Some(record))
    }

    /// Writes the record in one step: a reader sees the old one or the new one.
    ///
    /// # Errors
    /// When the folder cannot be written to.
    pub(crate) fn save(&self, folder: &Path) -> Result<()> {
        let file = Self::file(folder);
        let fresh = file.with_extension("new");
        fs::write(&fresh, serde_json::to_vec_pretty(self)?)
            .and_then(|()| fs::rename(&fresh, &file))
            .with_context(|| format!("cannot write {}", file.display()))
    }
}
