//! `memcached-operator crd`: prints the CustomResourceDefinition, byte for byte `manifests/crd.yaml`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};

use super::yaml;
use crate::api;

/// The definition as YAML, the same bytes for every run of a build.
///
/// # Errors
/// When it cannot be written as YAML.
pub fn crd_yaml() -> Result<String> {
    yaml::document(&api::crd::crd())
}

/// Prints the definition on standard output.
///
/// # Errors
/// When that cannot be written to.
pub fn run() -> Result<ExitCode> {
    let text = crd_yaml()?;
    std::io::stdout().write_all(text.as_bytes()).context("cannot print the CustomResourceDefinition")?;
    Ok(ExitCode::SUCCESS)
}
