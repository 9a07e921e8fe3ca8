//! The operator as it is shipped: takes a cluster, gives a process that works on all of it, and replays its journal.
//! Called by the tests that are about the process: what it costs, what it logs, how it ends.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::Cluster;
use e2e::testing::operator::{Launch, Operator, binary};
use e2e::testing::permissions::as_installed;
use tempfile::TempDir;

/// An operator's process, with a journal that begins new files while it works.
pub(crate) struct Process {
    launch: Launch,
    folder: TempDir,
}

impl Process {
    /// With the permissions that the chart gives.
    pub(crate) async fn for_cluster(cluster: &Cluster) -> Result<Self> {
        let folder = TempDir::new()?;
        let journal = folder.path().join("journal");
        let args = ["--journal".into(), journal.into(), "--journal-max-bytes=524288".into()];
        let launch = Launch {
            program: binary()?,
            kubeconfig: as_installed(cluster).await?,
            log: folder.path().join("log"),
            args: args.into(),
            env: Vec::new(),
        };
        Ok(Self { launch, folder })
    }

    /// As somebody else.
    pub(crate) fn with_kubeconfig(mut self, kubeconfig: PathBuf) -> Self {
        self.launch.kubeconfig = kubeconfig;
        self
    }

    /// Starts it and waits until it is ready.
    pub(crate) async fn start(&self) -> Result<Operator> {
        Operator::start(&self.launch).await
    }

    /// Starts it.
    pub(crate) fn spawn(&self) -> Result<Operator> {
        Operator::spawn(&self.launch)
    }

    /// Replays every file of its journal with the operator's own command; gives their number and the steps of all.
    pub(crate) fn replay(&self) -> Result<(usize, u64)> {
        let files =
            ["journal", "journal.1", "journal.2", "journal.3"].map(|name| self.folder.path().join(name));
        let files: Vec<_> = files.into_iter().filter(|file| file.exists()).collect();
        let steps = files.iter().map(|file| self.replay_file(file)).sum::<Result<u64>>()?;
        println!("{steps} steps in {} files of a journal replayed to the letter", files.len());
        Ok((files.len(), steps))
    }

    fn replay_file(&self, file: &Path) -> Result<u64> {
        let output = Command::new(&self.launch.program).arg("replay").arg(file).output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        // "17 steps, 35 effects, identical"
        let steps = said.split(' ').next().and_then(|steps| steps.parse().ok());
        steps.with_context(|| format!("replay says {said:?}"))
    }
}
