//! What probes and Prometheus are told.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use jiff::Timestamp;
use memcached_operator::kernel::event::Event;
use memcached_operator::kernel::instance_metrics::InstanceMetrics;
use memcached_operator::kernel::object::{Key, Scope, Watched};
use memcached_operator::kernel::observation::Observation;
use memcached_operator::kernel::reconciler::{Reconciler, Settings};
use memcached_operator::shell::admin::{
    Admin, Gate, Gates, Loopback, MAIN_LOOP_TIMEOUT, Ping, serve, show_journal,
};
use memcached_operator::shell::journal::{Entry, Journal};
use memcached_operator::shell::metrics::{Metrics, PART};
use memcached_operator::web;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::crowd;
use crate::support::get;

/// The pages, without an operator behind them.
struct Pages {
    address: SocketAddr,
    gates: Gates,
    metrics: Arc<Metrics>,
    pings: mpsc::Receiver<Ping>,
}

async fn pages() -> Pages {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (gates, metrics) = (Gates::new(&[Scope::All]), Arc::new(Metrics::new().unwrap()));
    let (sender, pings) = mpsc::channel(1);
    let admin = Admin { metrics: Some(Arc::clone(&metrics)), gates: gates.clone(), pings: sender };
    tokio::spawn(serve(listener, admin));
    Pages { address, gates, metrics, pings }
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
async fn the_page_on_troubleshooting_shows_what_an_operator_that_is_ready_answers() {
    let pages = pages().await;
    // As the chart starts it: with an election.
    pages.gates.close(Gate::Election, "not yet");
    [Gate::CrdServed, Gate::Election].iter().for_each(|gate| pages.gates.open(gate));
    Watched::ALL.into_iter().for_each(|kind| pages.gates.open(&Gate::Listed(kind, Scope::All)));
    let page = include_str!("../../docs/troubleshooting.md");
    let shown = page.split("<!-- readyz -->\n```text\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(get(pages.address, "/readyz").await, (200, shown.to_owned()));
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
    assert!(started.elapsed() >= MAIN_LOOP_TIMEOUT);
}

#[tokio::test]
async fn metrics_are_prometheus_text() {
    let pages = pages().await;
    let (status, body) = get(pages.address, "/metrics").await;
    assert_eq!(status, 200);
    let build = concat!("\nmemcached_operator_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1\n");
    assert!(body.contains(build), "{body}");
}

#[tokio::test]
async fn the_metrics_of_a_thousand_resources_arrive_whole_though_they_are_sent_in_parts() {
    let pages = pages().await;
    pages.metrics.leading(true);
    for number in 0..1_000 {
        let resource = Key { namespace: "shop".into(), name: format!("cache-{number:04}") };
        let instance_metrics = InstanceMetrics { ready: number, ..InstanceMetrics::default() };
        pages.metrics.observe(Observation::Instance { resource, instance_metrics });
    }
    let (status, body) = get(pages.address, "/metrics").await;
    // What is measured of the process differs each time.
    let of_resources =
        |text: &str| text.split_once("# HELP memcached_operator_certificate").unwrap().1.to_owned();
    let expected = of_resources(&pages.metrics.render().unwrap());
    assert!(status == 200 && expected.len() > 5 * PART, "{status}, {} bytes", expected.len());
    assert!(of_resources(&body) == expected);
}

#[tokio::test]
async fn the_journal_has_a_port_of_loopback_and_is_on_no_other() {
    let reconciler = Reconciler::new(Settings::default());
    let mut journal = Journal::start(None, &reconciler, Arc::new(Metrics::new().unwrap()));
    journal.record(Entry::new(Timestamp::UNIX_EPOCH, &Event::Leading(true)), &[], &reconciler);
    // The port is free again when it is taken. Of an address of its own, where nobody else takes it.
    let address = TcpListener::bind("127.0.0.4:0").await.unwrap().local_addr().unwrap();
    let shown = tokio::spawn(show_journal(Loopback::try_from(address).unwrap(), journal.ring()));
    let (status, body) = asked_until_there(address, "/debug/journal").await;
    let step = "{\"at\":\"1970-01-01T00:00:00Z\",\"event\":{\"Leading\":true},\"effects\":[]}\n";
    let (snapshot, steps) = body.split_once('\n').unwrap();
    assert_eq!((status, steps), (200, step));
    assert!(snapshot.starts_with("{\"version\":"), "{snapshot}");
    assert_eq!(get(address, "/metrics").await.0, 404);
    shown.abort();

    assert_eq!(
        get(pages().await.address, "/debug/journal").await.0,
        404,
        "a sidecar may hand on from loopback"
    );
}

/// The page, once somebody listens there.
async fn asked_until_there(address: SocketAddr, path: &str) -> (u16, String) {
    while TcpStream::connect(address).await.is_err() {
        tokio::task::yield_now().await;
    }
    get(address, path).await
}

#[tokio::test]
async fn a_port_of_the_journal_that_is_taken_keeps_nothing_from_going_on() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = Loopback::try_from(taken.local_addr().unwrap()).unwrap();
    let journal =
        Journal::start(None, &Reconciler::new(Settings::default()), Arc::new(Metrics::new().unwrap()));
    // It says so in the log, and ends.
    show_journal(address, journal.ring()).await;
}

#[tokio::test]
async fn a_crowd_that_asks_nothing_holds_few_connections_and_keeps_nobody_out() {
    crowd::keeps_nobody_out(pages().await.address, "/readyz").await;
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_finish_asking_has_to_go() {
    crowd::who_does_not_finish_has_to_go(pages().await.address).await;
}

#[tokio::test]
async fn a_connection_ends_with_its_answer() {
    let pages = pages().await;
    let mut idle = TcpStream::connect(pages.address).await.unwrap();
    idle.write_all(b"GET /readyz HTTP/1.1\r\nhost: operator\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    let ended = timeout(web::REQUEST_HEAD_TIMEOUT / 2, idle.read_to_string(&mut answer)).await;
    assert!(ended.is_ok(), "the connection is held");
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
}
