//! A memcached, an exporter before it, and what the exporter's page says.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use memcached_operator::exporter::serve;
use memcached_operator::exporter::target::{Address, Target};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Longer than anything takes on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// What the future gives, within the deadline.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("{what} took too long"))
}

/// A memcached that ends with the test.
pub(crate) struct Memcached {
    child: Child,
    pub(crate) address: SocketAddr,
    _folder: TempDir,
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
        let mut memcached = Self { child, address, _folder: folder };
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

/// The memcached at this address, without TLS or password.
pub(crate) fn plain(address: SocketAddr) -> Target {
    let address = Address { host: address.ip().to_string(), port: address.port() };
    Target { address, tls: None, password_file: None, timeout: DEADLINE / 2 }
}

/// An exporter in this process.
pub(crate) struct Exporter {
    pub(crate) address: SocketAddr,
}

impl Exporter {
    pub(crate) async fn watch(target: Target) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve::serve(listener, target, std::future::pending()));
        Self { address }
    }

    pub(crate) async fn scrape(&self) -> Page {
        scrape(self.address).await
    }

    pub(crate) async fn up(&self) -> f64 {
        self.scrape().await.value("memcached_up")
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        get(self.address, path).await
    }
}

/// The page of the exporter there.
pub(crate) async fn scrape(address: SocketAddr) -> Page {
    let (status, text) = get(address, "/metrics").await;
    assert_eq!(status, 200, "{text}");
    Page::parse(&text)
}

async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let answer = within(path, async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: exporter\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    });
    let answer = answer.await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// A page of metrics.
#[derive(Debug)]
pub(crate) struct Page {
    /// By name and labels, as written.
    series: BTreeMap<String, f64>,
    /// Name and type.
    pub(crate) types: BTreeSet<(String, String)>,
}

impl Page {
    fn parse(text: &str) -> Self {
        let mut page = Self { series: BTreeMap::new(), types: BTreeSet::new() };
        for line in text.lines() {
            if let Some(family) = line.strip_prefix("# TYPE ") {
                let (name, kind) = family.split_once(' ').unwrap();
                assert!(page.types.insert((name.to_owned(), kind.to_owned())), "{name} is there twice");
            } else if !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let twice = page.series.insert(series.to_owned(), value.parse().unwrap());
                assert_eq!(twice, None, "{series} is there twice");
            }
        }
        page
    }

    pub(crate) fn find(&self, series: &str) -> Option<f64> {
        self.series.get(series).copied()
    }

    pub(crate) fn value(&self, series: &str) -> f64 {
        self.find(series).unwrap_or_else(|| panic!("no {series} in {:?}", self.series.keys()))
    }

    /// The names that begin so.
    pub(crate) fn names(&self, prefix: &str) -> BTreeSet<&str> {
        self.types.iter().map(|(name, _)| name.as_str()).filter(|name| name.starts_with(prefix)).collect()
    }
}
