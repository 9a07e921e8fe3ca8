//! A memcached, an exporter before it, and what the exporter's page says.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};

use memcached_operator::exporter::serve;
use memcached_operator::exporter::target::{Address, Target};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

pub(crate) use crate::memcached_process::{DEADLINE, Memcached, within};

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
