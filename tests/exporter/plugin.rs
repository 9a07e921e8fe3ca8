//! What kubectl's plugin reads off a memcached or its exporter, on a connection that somebody else opened: in place of a
//! forwarded port there is one of loopback.

use std::path::Path;

use memcached_operator::cli::mcd::forward::talk;
use memcached_operator::cli::mcd::view::figures_source::FiguresSource;
use memcached_operator::figures::Figures;
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::certificates::Authority;
use crate::support::{Exporter, Memcached, plain, within};

/// What is told on a new connection to this port.
async fn told(port: u16, source: fn(u16) -> FiguresSource) -> Result<Figures, String> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    within("the answer", talk(stream, source(port))).await
}

/// The options of a memcached that speaks TLS with a certificate of nobody whom the plugin knows.
fn tls(folder: &Path) -> Vec<String> {
    let identity = Authority::new(folder, "authority").issue(folder, "memcached.test");
    let [certificate, key] = [("ssl_chain_cert", identity.certificate), ("ssl_key", identity.key)]
        .map(|(option, file)| format!("{option}={}", file.display()));
    ["-Z", "-o", &certificate, "-o", &key].map(str::to_owned).into()
}

#[tokio::test]
async fn memcached_and_its_exporter_tell_the_same_figures_also_behind_tls() {
    let memcached = Memcached::start(&[]).await;
    memcached.says(&["set a 0 0 1\r\n1", "mg a", "mg none"]).await;
    let exporter = Exporter::watch(plain(memcached.address)).await;
    let itself = told(memcached.address.port(), FiguresSource::Plaintext).await.unwrap();
    assert_eq!((itself.items, itself.hit_ratio), (Some(1.0), Some(0.5)));
    let by_exporter = told(exporter.address.port(), FiguresSource::Exporter).await.unwrap();
    assert_eq!((by_exporter.items, by_exporter.hit_ratio), (itself.items, itself.hit_ratio));

    let folder = TempDir::new().unwrap();
    let options = tls(folder.path());
    let encrypted = Memcached::start(&options.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let figures = told(encrypted.address.port(), FiguresSource::Tls).await.unwrap();
    assert_eq!(
        (figures.items, figures.hit_ratio),
        (Some(0.0), None),
        "nothing is stored, and nothing was read"
    );
}

#[tokio::test]
async fn whoever_does_not_answer_as_expected_is_told_of() {
    let memcached = Memcached::start(&[]).await;
    let port = memcached.address.port();
    let said = told(port, FiguresSource::Tls).await.unwrap_err();
    assert!(said.contains("TLS handshake failed"), "{said}");
    let said = told(port, FiguresSource::Exporter).await.unwrap_err();
    assert!(said.contains("the exporter does not answer"), "{said}");

    let folder = TempDir::new().unwrap();
    let file = folder.path().join("users");
    std::fs::write(&file, "ann:right\n").unwrap();
    let closed = Memcached::start(&["-Y", file.to_str().unwrap()]).await;
    let said = told(closed.address.port(), FiguresSource::Plaintext).await.unwrap_err();
    assert!(said.contains("wants a user and a password"), "{said}");
}
