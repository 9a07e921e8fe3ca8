//! kubectl's plugin as a user runs it: takes a namespace and a user, gives what `kubectl mcd` prints. Called by tests.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Output;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use super::Space;
use super::operator::binary;
use crate::image::OTHER_NAMES;
use crate::programs::Family;

/// A user with kubectl and its plugin, who works in one namespace.
pub struct Plugin {
    /// The kubeconfig, and the links by which kubectl finds the plugin.
    folder: TempDir,
    path: OsString,
}

impl Plugin {
    /// The administrator.
    ///
    /// # Errors
    /// As [`Plugin::for_user`].
    pub fn for_administrator(space: &Space) -> Result<Self> {
        Self::new(space, None)
    }

    /// Makes the links, and a kubeconfig by which the administrator acts as this user.
    ///
    /// # Errors
    /// When a program is missing or a file cannot be written.
    pub fn for_user(space: &Space, user: &str) -> Result<Self> {
        Self::new(space, Some(user))
    }

    fn new(space: &Space, user: Option<&str>) -> Result<Self> {
        let folder = TempDir::new()?;
        let mut config: Value = serde_json::from_slice(&fs::read(space.cluster().kubeconfig())?)?;
        if let Some(user) = user {
            config["users"][0]["user"]["as"] = json!(user);
        }
        config["contexts"][0]["context"]["namespace"] = json!(space.name());
        fs::write(folder.path().join("kubeconfig"), config.to_string())?;
        let program = fs::canonicalize(binary()?)?;
        for name in OTHER_NAMES {
            symlink(&program, folder.path().join(name))?;
        }
        let programs = [folder.path().to_owned(), Family::Kubernetes.build()?];
        let usual = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths(programs.into_iter().chain(env::split_paths(&usual)))?;
        Ok(Self { folder, path })
    }

    /// What `kubectl` does with these arguments; none of them has a space in it.
    ///
    /// # Errors
    /// When kubectl cannot be started.
    pub async fn kubectl(&self, arguments: &str) -> Result<Output> {
        let mut kubectl = Command::new(Family::Kubernetes.build()?.join("kubectl"));
        kubectl.args(arguments.split(' ')).env("PATH", &self.path).env("KUBECONFIG", self.kubeconfig());
        kubectl.env("KUBECACHEDIR", self.folder.path().join("cache"));
        kubectl.output().await.with_context(|| arguments.to_owned())
    }

    /// What `kubectl mcd` prints.
    ///
    /// # Errors
    /// When it fails: with what it says.
    pub async fn mcd(&self, arguments: &str) -> Result<String> {
        let Output { status, stdout, stderr } = self.kubectl(&format!("mcd {arguments}")).await?;
        let said = String::from_utf8_lossy(&stderr);
        ensure!(status.success(), "kubectl mcd {arguments}: {status}: {said}");
        Ok(String::from_utf8(stdout)?)
    }

    /// What `kubectl mcd` prints for programs.
    ///
    /// # Errors
    /// When it fails, or does not print JSON.
    pub async fn json(&self, arguments: &str) -> Result<Value> {
        let printed = self.mcd(&format!("{arguments} -o json")).await?;
        serde_json::from_str(&printed).with_context(|| printed)
    }

    /// What `kubectl mcd` says when it fails.
    ///
    /// # Errors
    /// When it does not fail.
    pub async fn refusal(&self, arguments: &str) -> Result<String> {
        let output = self.kubectl(&format!("mcd {arguments}")).await?;
        ensure!(output.status.code() == Some(1), "kubectl mcd {arguments}: {}", output.status);
        Ok(String::from_utf8(output.stderr)?)
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }
}
