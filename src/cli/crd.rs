//! `memcached-operator crd`: prints the CustomResourceDefinition, byte for byte `manifests/crd.yaml`.

use std::process::ExitCode;

use anyhow::Result;

use super::{stdout, yaml};
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
    stdout::print(&crd_yaml()?)?;
    Ok(ExitCode::SUCCESS)
}
