//! The operator as a process: takes the path of its binary and a cluster, gives an [`Operator`] that is ready, and dies
//! when it is dropped. Called by tests, the demo and the benchmark.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::loopback::free_address;
use super::{await_answer, await_answer_within};
use crate::paths;

/// How an operator is started.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program; [`binary`] finds it.
    pub program: PathBuf,
    /// Whom it works for.
    pub kubeconfig: PathBuf,
    /// Its output is appended here.
    pub log: PathBuf,
    /// More arguments of `run`.
    pub args: Vec<OsString>,
    /// More environment.
    pub env: Vec<(OsString, OsString)>,
}

/// A running operator; dropping it kills it.
#[derive(Debug)]
pub struct Operator {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
}

/// The operator's binary: `OPERATOR_BIN`, or the one that cargo built beside this test's own program.
///
/// # Errors
/// When there is none: with the command that builds it.
pub fn binary() -> Result<PathBuf> {
    if let Some(path) = env::var_os("OPERATOR_BIN") {
        return Ok(path.into());
    }
    paths::built("memcached-operator")
        .context("the operator is not built; run `cargo build -p memcached-operator`, or set OPERATOR_BIN")
}

/// A build of the operator that knows one more template revision, as a later release will.
///
/// # Errors
/// When there is none: with the command that builds it.
pub fn next_binary() -> Result<PathBuf> {
    paths::built("memcached-operator-next").context(
        "there is no build of the operator with another template revision; `make test` makes it from \
         `cargo build --workspace --bins --features memcached-operator/next-revision`",
    )
}

impl Operator {
    /// Starts `memcached-operator run` on an address of loopback, without waiting for it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(launch: &Launch) -> Result<Self> {
        let address = free_address()?;
        let log = File::options()
            .create(true)
            .append(true)
            .open(&launch.log)
            .with_context(|| format!("cannot open the operator's log {}", launch.log.display()))?;
        let child = Command::new(&launch.program)
            .arg("run")
            .arg("--kubeconfig")
            .arg(&launch.kubeconfig)
            .arg(format!("--listen={address}"))
            // Its usual port is for one operator a machine.
            .arg("--journal-listen=off")
            .args(&launch.args)
            .envs(launch.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start the operator {}", launch.program.display()))?;
        Ok(Self { child, address, log: launch.log.clone() })
    }

    /// Starts it and waits until it says that it is ready.
    ///
    /// # Errors
    /// When it ends or is never ready: with the end of its log.
    pub async fn start(launch: &Launch) -> Result<Self> {
        let mut operator = Self::spawn(launch)?;
        operator.await_ready().await?;
        Ok(operator)
    }

    /// Waits until `/readyz` answers 200.
    ///
    /// # Errors
    /// When it ends first or never does: with the end of its log.
    pub async fn await_ready(&mut self) -> Result<()> {
        let address = self.address;
        let mut ended = None;
        let child = &mut self.child;
        let outcome = await_answer("the operator is ready", async || {
            ended = child.try_wait()?;
            if ended.is_some() {
                return Ok(()); // nothing to wait for
            }
            match get(address, "/readyz").await? {
                (200, _) => Ok(()),
                (code, body) => bail!("/readyz answers {code}: {body}"),
            }
        })
        .await;
        match ended {
            Some(status) => bail!("the operator ended with {status}. {}", self.log_tail()),
            None => outcome.with_context(|| self.log_tail()),
        }
    }

    /// Gets a path of its HTTP server: the status and the body.
    ///
    /// # Errors
    /// When it does not answer within 5 s.
    pub async fn get(&self, path: &str) -> Result<(u16, String)> {
        get(self.address, path).await
    }

    /// Waits until `/readyz` has this status and these words.
    ///
    /// # Errors
    /// When it never has: with what it says.
    pub async fn await_readyz(&self, wanted: u16, words: &str) -> Result<()> {
        await_answer(&format!("/readyz says {wanted} {words:?}"), async || {
            let (code, page) = self.get("/readyz").await?;
            ensure!(code == wanted && page.contains(words), "{code}: {page}");
            Ok(())
        })
        .await
    }

    /// Where its HTTP server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its log file.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When that is not possible.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("no process id")?;
        // It is this process' own child and not waited for yet, so the id is still its own.
        kill_process(pid, signal).context("cannot signal the operator")
    }

    /// Asks it to end (SIGTERM) and waits until it did.
    ///
    /// # Errors
    /// When it is still there after a minute.
    pub async fn terminate(mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        let child = &mut self.child;
        let limit = Duration::from_mins(1);
        await_answer_within("the operator ends after SIGTERM", limit, async || {
            child.try_wait()?.context("it still runs")
        })
        .await
    }

    /// Kills it (SIGKILL), as a machine that fails would.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn kill(mut self) -> Result<ExitStatus> {
        self.child.kill()?;
        Ok(self.child.wait()?)
    }

    fn log_tail(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        format!("The operator's last lines:\n  {}", lines[lines.len().saturating_sub(20)..].join("\n  "))
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One HTTP GET, by hand: a client library for two lines of text is more than they need.
///
/// # Errors
/// When nobody answers within a minute, or with something else than HTTP.
pub async fn get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        anyhow::Ok(answer)
    };
    let answer = tokio::time::timeout(Duration::from_secs(60), exchange)
        .await
        .with_context(|| format!("{address} does not answer"))??;
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer is no HTTP")?;
    let code =
        head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("the answer has no status")?;
    Ok((code, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unique;

    #[tokio::test]
    async fn an_operator_that_ends_is_reported_with_its_last_lines() -> Result<()> {
        let log = env::temp_dir().join(unique("operator"));
        let launch = Launch {
            program: "/bin/ls".into(),
            kubeconfig: "/no/kubeconfig".into(),
            log: log.clone(),
            args: vec![],
            env: vec![],
        };
        let error = Operator::start(&launch).await.err().context("it started")?.to_string();
        fs::remove_file(log)?;
        assert!(error.contains("ended with exit status: 2") && error.contains("--kubeconfig"), "{error}");
        Ok(())
    }
}
