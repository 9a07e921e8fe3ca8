//! What probes and Prometheus are told.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use memcached_operator::kernel::kernel::{Kernel, Settings};
use memcached_operator::kernel::object::{Scope, Watched};
use memcached_operator::shell::admin::{Admin, Gate, Gates, PATIENCE, Ping, serve};
use memcached_operator::shell::journal::Journal;
use memcached_operator::shell::metrics::Metrics;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::support::get;

/// The pages, without an operator behind them.
struct Pages {
    address: SocketAddr,
    gates: Gates,
    pings: mpsc::Receiver<Ping>,
}

async fn pages() -> Pages {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (gates, metrics) = (Gates::new(&[Scope::All]), Arc::new(Metrics::new().unwrap()));
    let journal = Journal::start(None, &Kernel::new(Settings::default()), Arc::clone(&metrics));
    let (sender, pings) = mpsc::channel(1);
    let admin = Admin { metrics, gates: gates.clone(), pings: sender, ring: journal.ring() };
    tokio::spawn(serve(listener, admin));
    Pages { address, gates, pings }
}

#[tokio::test]
async fn ready_means_that_every_gate_is_open_and_a_closed_one_says_why() {
    let pages = pages().await;
    pages.gates.open(&Gate::CrdServed);
    for kind in Watched::ALL {
        pages.gates.open(&Gate::Listed(kind, Scope::All));
    }
    let opened = get(pages.address, "/readyz").await;
    pages.gates.close(Gate::CrdServed, "it was deleted");
    pages.gates.explain(&Gate::Listed(Watched::Pod, Scope::All), "does not matter, the gate is open");
    let closed = get(pages.address, "/readyz").await;

    let lists = "[+] list of Memcached complete\n[+] list of Service complete\n[+] list of Deployment complete\n\
                 [+] list of Secret complete\n[+] list of Pod complete\n";
    assert_eq!(opened, (200, format!("[+] the API server serves Memcached\n{lists}")));
    assert_eq!(closed, (503, format!("[-] the API server serves Memcached: it was deleted\n{lists}")));
}

#[tokio::test]
async fn at_the_start_every_gate_is_closed() {
    let pages = pages().await;
    let (status, body) = get(pages.address, "/readyz").await;
    assert_eq!((status, body.lines().filter(|line| line.ends_with(": not yet")).count()), (503, 6));
}

#[tokio::test]
async fn alive_means_that_the_main_loop_answers() {
    let mut pages = pages().await;
    let answer = async { pages.pings.recv().await.unwrap().send(()) };
    let (probe, answered) = tokio::join!(get(pages.address, "/livez"), answer);
    assert_eq!((probe, answered), ((200, "ok\n".into()), Ok(())));
}

#[tokio::test(start_paused = true)]
async fn a_main_loop_that_hangs_is_not_alive() {
    let pages = pages().await;
    let started = Instant::now();
    let (status, body) = get(pages.address, "/livez").await;
    assert_eq!((status, body.as_str()), (500, "the main loop did not answer within 5 s\n"));
    assert!(started.elapsed() >= PATIENCE);
}

#[tokio::test]
async fn metrics_are_prometheus_text() {
    let pages = pages().await;
    let (status, body) = get(pages.address, "/metrics").await;
    assert_eq!(status, 200);
    assert!(body.contains("\nmemcached_operator_build_info{version=\"0.1.0\"} 1\n"), "{body}");
}

#[tokio::test]
async fn the_journal_is_shown_to_loopback() {
    let pages = pages().await;
    assert_eq!(get(pages.address, "/debug/journal").await, (200, String::new()));
}
