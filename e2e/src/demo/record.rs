//! What the demo has on this machine, on disk: takes and gives a [`Record`]. Called by `stage` and `operator`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::process::Process;

/// The content of `demo.json`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Record {
    /// The context of kubectl's configuration; none for the demo's own cluster.
    pub(super) context: Option<String>,
    /// The API server's address.
    pub(super) server: String,
    /// The operator, once it was started.
    pub(super) operator: Option<Process>,
}

impl Record {
    /// The record in a folder, if it has one.
    ///
    /// # Errors
    /// When there is one that cannot be read.
    pub(super) fn load(folder: &Path) -> Result<Option<Self>> {
        let file = folder.join("demo.json");
        match fs::read(&file) {
            Ok(text) => Ok(Some(
                serde_json::from_slice(&text)
                    .with_context(|| format!("{} was written by another version", file.display()))?,
            )),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
        }
    }

    /// Writes it in one step.
    ///
    /// # Errors
    /// When the folder cannot be written to.
    pub(super) fn save(&self, folder: &Path) -> Result<()> {
        let file = folder.join("demo.json");
        let fresh = file.with_extension("new");
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&fresh, serde_json::to_vec_pretty(self)?))
            .and_then(|()| fs::rename(&fresh, &file))
            .with_context(|| format!("cannot write {}", file.display()))
    }
}
