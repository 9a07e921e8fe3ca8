//! The operator as a process that outlives the demo: takes a stage, gives where its pages and its log are. Called by the demo.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use memcached_operator::kernel::desired::default_images::OWN_IMAGE;

use super::narration::{say, shell};
use super::record;
use super::stage::Stage;
use crate::process::{Launch, Process, kill_all};
use crate::testing::await_answer_within;
use crate::testing::operator::{binary, get};

/// A running operator.
pub(super) struct Operator {
    /// Where it serves `/metrics`.
    pub(super) address: SocketAddr,
    /// Where it serves `/debug/journal`.
    pub(super) journal: SocketAddr,
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
    let [address, journal] = free_addresses()?;
    let mut arguments =
        ["run", &format!("--listen={address}"), &format!("--journal-listen={journal}"), "--log-format=text"]
            .map(str::to_owned)
            .to_vec();
    if let Some(kubeconfig) = &stage.kubeconfig {
        arguments.push(format!("--kubeconfig={}", kubeconfig.display()));
        // As on any cluster that cannot pull upstream's exporter: the operator's own image is one too.
        arguments.push(format!("--exporter-image={OWN_IMAGE}"));
    }
    shell(&format!("memcached-operator {}", arguments.join(" ")));
    let log = folder.join("operator.log");
    let program = binary()?;
    let args = arguments.into_iter().map(Into::into).collect();
    let process = Process::start(&Launch { name: "operator", program, args }, folder, &log)?;
    known.operator = Some(process.clone());
    known.save(folder)?;

    await_answer_within("the operator is ready", Duration::from_secs(30), async || {
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
    Ok(Operator { address, journal, log })
}

/// Two addresses of this machine, whose ports are free again when the operator takes them.
fn free_addresses() -> Result<[SocketAddr; 2]> {
    let [first, second] = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    // Both are held until both are known: else they could be the same.
    let (first, second) = (first?, second?);
    Ok([first.local_addr()?, second.local_addr()?])
}

fn tail(log: &PathBuf) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    format!("the operator's last lines:\n  {}\n", lines[lines.len().saturating_sub(10)..].join("\n  "))
}
