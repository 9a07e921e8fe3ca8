//! The way to a release, without GitHub: the workflows and forms in `.github`, what `scripts/release` packs and publishes
//! to a registry on loopback, and the base for kustomize. No cluster.

mod forms;
mod kustomize;
mod publish;
mod workflows;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use e2e::chart::repository;
use serde::de::DeserializeOwned;

/// A file of this repository.
fn read(path: impl AsRef<Path>) -> Result<String> {
    let path = repository().join(path);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// A file of this repository, as YAML of this shape.
fn yaml<T: DeserializeOwned>(path: impl AsRef<Path>) -> Result<T> {
    let path = path.as_ref();
    serde_saphyr::from_str(&read(path)?).with_context(|| path.display().to_string())
}

/// The names in a folder of this repository, sorted.
fn names(folder: &str) -> Result<Vec<String>> {
    let entries = fs::read_dir(repository().join(folder))?;
    let mut names: Vec<_> =
        entries.map(|entry| Ok(entry?.file_name().display().to_string())).collect::<Result<_>>()?;
    names.sort();
    Ok(names)
}
