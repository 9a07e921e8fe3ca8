//! One start of a cluster: starts its programs one by one, puts each on the record, and waits for them. Called by
//! `cluster`, used by `control_plane` and `node`.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::certs::Pki;
use crate::process::{Launch, Process};
use crate::programs::Kubernetes;
use crate::record::Record;
use crate::{kubeconfig, paths, process};

/// A cluster while it starts.
#[derive(Debug)]
pub(crate) struct Boot {
    pub(crate) folder: PathBuf,
    pub(crate) record: Record,
    pub(crate) programs: Kubernetes,
    pub(crate) pki: Pki,
}

impl Boot {
    pub(crate) fn new(folder: PathBuf, record: Record, programs: Kubernetes) -> Self {
        let pki = Pki::for_cluster(&folder);
        Self { folder, record, programs, pki }
    }

    /// Starts a program and puts it on the record.
    pub(crate) fn start(&mut self, launch: &Launch) -> Result<Process> {
        fs::create_dir_all(self.folder.join("log"))?;
        let process = Process::start(launch, &self.folder, &self.log(launch.name))?;
        self.record.processes.push(process.clone());
        self.record.save(&self.folder)?;
        Ok(process)
    }

    /// Asks the question until it succeeds. Fails when a program ends meanwhile, or after `limit`. `name` is the component
    /// that is waited for.
    pub(crate) async fn wait(
        &self,
        name: &str,
        limit: Duration,
        question: impl AsyncFn() -> Result<()>,
    ) -> Result<()> {
        let started = Instant::now();
        loop {
            let answer = tokio::time::timeout(Duration::from_secs(5), question()).await;
            if matches!(answer, Ok(Ok(()))) {
                return Ok(());
            }
            if let Some(gone) = self.record.processes.iter().find(|process| !process.is_running()) {
                return Err(self.failure(&gone.name, "ended"));
            }
            if started.elapsed() > limit {
                let last = match answer {
                    Ok(Err(error)) => format!("{error:#}"),
                    _ => "no answer within 5 s".to_owned(),
                };
                return Err(self.failure(name, &format!("is not ready after {} s: {last}", limit.as_secs())));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// An error that names a component and shows the end of its log.
    pub(crate) fn failure(&self, name: &str, what: &str) -> anyhow::Error {
        let tail = process::end_of(&self.log(name));
        anyhow!("{name} {what}. The last lines of its log:\n{tail}")
    }

    /// A client with the administrator's rights.
    pub(crate) async fn client(&self) -> Result<kube::Client> {
        Ok(kube::Client::try_from(kubeconfig::client_config(&self.pki.kubeconfig("admin"), "e2e-up").await?)?)
    }

    pub(crate) fn log(&self, name: &str) -> PathBuf {
        paths::log(&self.folder, name)
    }

    pub(crate) fn audit_log(&self) -> PathBuf {
        paths::audit_log(&self.folder)
    }
}
