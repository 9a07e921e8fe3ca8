//! The operator as a process that outlives the demo: takes a stage, gives where it is found. Called by the demo.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::narration::{say, shell};
use super::record;
use super::stage::Stage;
use crate::process::{Launch, Process, kill_all};
use crate::testing::await_answer;
use crate::testing::operator::{binary, get};

/// A running operator.
pub(super) struct Operator {
    /// Where it serves `/metrics`.
    pub(super) address: SocketAddr,
    /// Where its log goes.
    pub(super) log: PathBuf,
}

/// Starts it, in place of the one that an earlier demo may have left: that may be of an older build.
///
/// # Errors
/// When it does not become ready: with the end of its log.
pub(super) async fn start(stage: &Stage) -> Result<Operator> {
    let folder = &stage.folder;
    let mut known = record::Record::load(folder)?.context("the demo has lost its own record")?;
    kill_all(known.operator.as_slice())?;
    // The port is free again when the operator takes it.
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let mut arguments = ["run", &format!("--listen={address}"), "--journal-listen=off", "--log-format=text"]
        .map(str::to_owned)
        .to_vec();
    if let Some(kubeconfig) = &stage.kubeconfig {
        arguments.push(format!("--kubeconfig={}", kubeconfig.display()));
    }
    shell(&format!("memcached-operator {}", arguments.join(" ")));
    let log = folder.join("operator.log");
    let program = binary()?;
    let args = arguments.into_iter().map(Into::into).collect();
    let process = Process::start(&Launch { name: "operator", program, args }, folder, &log)?;
    known.operator = Some(process.clone());
    known.save(folder)?;

    await_answer("the operator is ready", Duration::from_secs(30), async || {
        if !process.is_running() {
            return Ok(false);
        }
        let (code, body) = get(address, "/readyz").await?;
        ensure!(code == 200, "/readyz answers {code}: {body}");
        Ok(true)
    })
    .await
    .and_then(|runs| {
        ensure!(runs, "the operator ended");
        Ok(())
    })
    .with_context(|| tail(&log))?;
    say(&format!("process {} is ready", process.pid));
    Ok(Operator { address, log })
}

fn tail(log: &PathBuf) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    format!("the operator's last lines:\n  {}\n", lines[lines.len().saturating_sub(10)..].join("\n  "))
}
