//! What removes a cluster when this program ends, however it ends. Started by [`crate::cluster`] for clusters that belong to
//! one program.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::paths;

/// A child that waits for the end of this program: its standard input ends with the program, or with this value.
#[derive(Debug)]
pub(crate) struct Remover(Child);

impl Remover {
    /// Starts it, before there is anything to remove. It heeds no signal: who interrupts tests interrupts their whole group,
    /// and the cluster would stay.
    ///
    /// # Errors
    /// When the child cannot be started.
    pub(crate) fn start(cluster: &str) -> Result<Self> {
        Command::new("/bin/sh")
            .args(["-c", "trap '' INT TERM HUP; read -r _; exec \"$0\" down --name \"$1\""])
            .arg(paths::built("e2e")?)
            .arg(cluster)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map(Self)
            .context("cannot start what removes the cluster")
    }

    /// Leaves the cluster to it until this program ends.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }

    /// Ends it: the cluster is gone, and the next one may have its name.
    pub(crate) fn end(mut self) {
        // Where these fail, it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
