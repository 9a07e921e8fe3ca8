//! A memcached: takes arguments, starts it at a loopback address, ends it with the test. Called by the tests of the exporter
//! and of the client libraries.

#[path = "../../e2e/src/test_times.rs"]
#[allow(unreachable_pub, reason = "it is a part of a library too")]
pub(crate) mod test_times;

use std::future::Future;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use test_times::{TestTime, Wait};

/// Longer than anything takes on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// What the future gives, within the deadline.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let _wait = Wait::begin(what);
    tokio::time::timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("{what} took too long"))
}

/// A memcached that ends with the test.
pub(crate) struct Memcached {
    child: Child,
    pub(crate) address: SocketAddr,
    _folder: TempDir,
    _time: TestTime,
}

impl Memcached {
    /// With these arguments, at a free port of 127.0.0.1.
    pub(crate) async fn start(arguments: &[&str]) -> Self {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), arguments).await
    }

    /// At this address; port 0 is a free one.
    pub(crate) async fn start_at(address: SocketAddr, arguments: &[&str]) -> Self {
        Self::try_start_at(address, arguments).await.expect("memcached ended")
    }

    /// At a free port; `None` if memcached ends by itself.
    pub(crate) async fn try_start(arguments: &[&str]) -> Option<Self> {
        Self::try_start_at((Ipv4Addr::LOCALHOST, 0).into(), arguments).await
    }

    async fn try_start_at(address: SocketAddr, arguments: &[&str]) -> Option<Self> {
        let time = TestTime::begin();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("port");
        let port = if address.port() == 0 { "-1".to_owned() } else { address.port().to_string() };
        let child = Command::new("memcached")
            // Without effect but for root, whom memcached refuses otherwise.
            .args(["-u", "root", "-t", "1", "-m", "64", "-l", &address.ip().to_string(), "-p", &port])
            .args(arguments)
            .env("MEMCACHED_PORT_FILENAME", &file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("memcached starts (Debian's package memcached)");
        let mut memcached = Self { child, address, _folder: folder, _time: time };
        let port = within("memcached's start", async {
            loop {
                if memcached.child.try_wait().unwrap().is_some() {
                    return None;
                }
                if let Some(port) = port_in(&file) {
                    return Some(port);
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        memcached.address.set_port(port.await?);
        Some(memcached)
    }

    /// It stands still with `Signal::STOP`, and goes on with `Signal::CONT`.
    #[allow(dead_code, reason = "the clients' tests use it")]
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Sends requests that are answered with a line each, and returns the answers.
    pub(crate) async fn says(&self, requests: &[&str]) -> Vec<String> {
        within("the conversation", async {
            let mut stream = BufReader::new(TcpStream::connect(self.address).await.unwrap());
            let mut answers = Vec::new();
            for request in requests {
                stream.write_all(format!("{request}\r\n").as_bytes()).await.unwrap();
                let mut answer = String::new();
                stream.read_line(&mut answer).await.unwrap();
                answers.push(answer.trim_end().to_owned());
            }
            answers
        })
        .await
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `TCP INET: 12345`; memcached renames the complete file into place.
fn port_in(file: &Path) -> Option<u16> {
    match std::fs::read_to_string(file) {
        Ok(text) => Some(text.lines().next()?.strip_prefix("TCP INET: ")?.parse().unwrap()),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => panic!("{error}"),
    }
}
