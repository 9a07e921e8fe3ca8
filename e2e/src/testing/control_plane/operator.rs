//! An operator inside this program: takes a namespace and an [`Interposer`], gives an operator that works on that
//! namespace alone and can be killed at any of its requests. Called by the tests.
//!
//! It is `shell::run` on a runtime of its own, as in the operator's process; killing it drops that runtime with all pending
//! requests. The journal is kept, and replayed when the operator is gone.

use std::fs::File;
use std::io::BufReader;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::testing::permissions::as_installed;
use crate::testing::{Space, await_answer};
use anyhow::{Context, Result, anyhow};
use memcached_operator::cli::replay::{ReplayError, replay};
use memcached_operator::kernel::reconciler::Settings;
use memcached_operator::shell::clock::Clock;
use memcached_operator::shell::{self, Options, client, journal};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc, oneshot};

use super::transport::{Interposer, confined};

/// Steps that were replayed, of all operators of this program.
pub static REPLAYED: AtomicU64 = AtomicU64::new(0);

/// Kills an operator; an interposer holds it.
#[derive(Clone, Default)]
pub struct Kill(Arc<Notify>);

impl Kill {
    /// Kills the operator now.
    pub fn strike(&self) {
        self.0.notify_one();
    }
}

/// A running operator. Dropping it kills it.
pub struct Operator {
    admin: SocketAddr,
    kill: Kill,
    signals: mpsc::Sender<()>,
    ended: Option<oneshot::Receiver<Result<()>>>,
    journal: TempDir,
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.kill.strike();
    }
}

impl Operator {
    /// Starts one and waits until it is ready.
    pub async fn start(space: &Space, interposer: Arc<dyn Interposer>, kill: Kill) -> Result<Self> {
        let operator = Self::spawn(space, interposer, kill).await?;
        operator.ready().await?;
        Ok(operator)
    }

    /// Starts an operator, without waiting until it is ready.
    pub async fn spawn(space: &Space, interposer: Arc<dyn Interposer>, kill: Kill) -> Result<Self> {
        let kubeconfig = as_installed(space.cluster()).await?;
        let journal = TempDir::new()?;
        let (told, address) = oneshot::channel();
        let (ending, ended) = oneshot::channel();
        let (signals, inbox) = mpsc::channel(2);
        let worker = Worker {
            kubeconfig,
            namespace: space.name().to_owned(),
            journal: journal.path().join("journal"),
            interposer,
            kill: kill.clone(),
        };
        thread::spawn(move || {
            // Nobody may be listening any more.
            let _ = ending.send(worker.run(told, inbox));
        });
        let admin = address.await.context("the operator did not start")?;
        Ok(Self { admin, kill, signals, ended: Some(ended), journal })
    }

    /// Waits until `/readyz` says so.
    pub async fn ready(&self) -> Result<()> {
        await_answer("the operator is ready", async || {
            let page = self.readyz().await?;
            page.starts_with("HTTP/1.0 200").then_some(()).with_context(|| page)
        })
        .await
    }

    /// The answer of `/readyz`, head and all.
    pub async fn readyz(&self) -> Result<String> {
        self.page("/readyz").await
    }

    /// The answer of a page, head and all.
    pub async fn page(&self, path: &str) -> Result<String> {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = TcpStream::connect(self.admin).await?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    /// Kills it now.
    pub async fn kill(self) -> Result<()> {
        self.kill.strike();
        self.gone().await
    }

    /// Asks it to end, as SIGTERM does.
    pub async fn end(self) -> Result<()> {
        self.signals.send(()).await.map_err(|_| anyhow!("the operator is gone already"))?;
        self.gone().await
    }

    /// Waits until it is gone, and replays its journal.
    pub async fn gone(mut self) -> Result<()> {
        let ended = self.ended.take().context("it is waited for once")?;
        let ended =
            tokio::time::timeout(Duration::from_secs(30), ended).await.context("the operator hangs")?;
        ended.context("the operator panicked")??;
        // The journal's own thread may still have a line in hand.
        let path = self.journal.path().join("journal");
        await_answer("the journal can be read", async || Ok(File::open(&path)?)).await?;
        REPLAYED.fetch_add(replayed(&path)?, Ordering::Relaxed);
        Ok(())
    }
}

/// Replays a file of a journal, which has to give the same effects, and gives the number of its steps.
pub fn replayed(journal: &Path) -> Result<u64> {
    match replay(BufReader::new(File::open(journal)?)) {
        Ok(summary) => Ok(summary.steps),
        // Killed before even the snapshot was written.
        Err(ReplayError::NoSnapshot(_)) => Ok(0),
        Err(error) => Err(error).with_context(|| format!("replay of {}", journal.display())),
    }
}

/// The thread of an operator.
struct Worker {
    kubeconfig: PathBuf,
    namespace: String,
    journal: PathBuf,
    interposer: Arc<dyn Interposer>,
    kill: Kill,
}

impl Worker {
    fn run(self, told: oneshot::Sender<SocketAddr>, signals: mpsc::Receiver<()>) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let listener = shell::listen((Ipv4Addr::LOCALHOST, 0).into()).await?;
            // Whoever started it may have given up.
            let _ = told.send(listener.local_addr()?);
            let inner = client::connect(Some(&self.kubeconfig)).await?;
            let client = confined(inner, &self.namespace, self.interposer);
            let journal = journal::Options { path: self.journal, max_bytes: u64::MAX };
            let options = Options {
                journal: Some(journal),
                journal_page: None,
                secure_metrics: None,
                election: None,
                clock: Clock::start(),
                settings: Settings::default(),
            };
            tokio::select! {
                ended = shell::run(listener, client, options, signals) => ended.map(|_| ()).map_err(Into::into),
                () = self.kill.0.notified() => Ok(()),
            }
        })
    }
}
