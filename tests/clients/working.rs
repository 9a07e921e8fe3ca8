//! `HitRatios.java` as the tests on a cluster use it: a client that lives on and is told what to do. What it measures there are
//! shares of pods only if it takes no late answer for a miss, and finds each pod that came back.

use std::fs;
use std::net::SocketAddr;
use std::process::Stdio;

use rstest::rstest;
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::memcached_process::Memcached;
use super::memcached_process::test_times::Wait;
use super::{DEADLINE, hit_ratios_of_java};

/// What the program says when it asks memcached, also when it asks again.
const ASKS: &str = "...";

/// The program; it ends with the test.
struct Client {
    orders: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Client {
    fn start(mut program: Command) -> Self {
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = program.spawn().unwrap();
        let (orders, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { orders, lines: BufReader::new(output).lines(), _child: child }
    }

    async fn is_told(&mut self, order: &str) {
        self.orders.write_all(format!("{order}\n").as_bytes()).await.unwrap();
    }

    async fn line(&mut self) -> String {
        let _wait = Wait::begin("the program says a line");
        timeout(DEADLINE, self.lines.next_line()).await.unwrap().unwrap().unwrap()
    }

    /// The share that it says in the end, in percent.
    async fn share(&mut self) -> i32 {
        loop {
            let line = self.line().await;
            if line != ASKS {
                return line.parse().unwrap();
            }
        }
    }
}

#[rstest]
#[case::names("NAMED")]
#[case::addresses("CONSISTENT")]
#[tokio::test]
async fn what_a_working_client_is_told_late_is_no_miss(#[case] ring: &str) {
    let memcached = Memcached::start(&[]).await;
    let server = memcached.address;
    let mut client = Client::start(hit_ratios_of_java(ring));
    client.is_told(&format!("store {server} late")).await;
    assert_eq!(client.share().await, 100);
    memcached.signal(Signal::STOP);
    client.is_told(&format!("work {server} 50")).await;
    assert_eq!([client.line().await, client.line().await], [ASKS, ASKS], "it asks, and asks again");
    memcached.signal(Signal::CONT);
    assert_eq!(client.share().await, 100);

    memcached.says(&["flush_all"]).await;
    client.is_told(&format!("work {server} 50")).await;
    assert_eq!(client.share().await, 0, "what is gone is a miss");
}

/// In a rollout the next pod goes as soon as the last one is back.
#[tokio::test]
async fn a_ring_of_names_in_java_comes_to_a_pod_that_is_back_while_another_one_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let names = folder.path().join("hosts");
    let are_known = |names_of: &[(&str, SocketAddr)]| {
        let lines = names_of.iter().map(|(name, address)| format!("{} {name}\n", address.ip()));
        fs::write(&names, lines.collect::<String>()).unwrap();
    };
    let at = |ip: [u8; 4], port| Memcached::start_at((ip, port).into(), &[]);
    let (first, second) = (at([127, 0, 0, 1], 0).await, at([127, 0, 0, 2], 0).await);
    let port = first.address.port();
    let servers = format!("cache-0:{port},cache-1:{}", second.address.port());
    are_known(&[("cache-0", first.address), ("cache-1", second.address)]);

    let mut program = hit_ratios_of_java("NAMED");
    program.env("JDK_JAVA_OPTIONS", format!("-Djdk.net.hosts.file={}", names.display()));
    let mut client = Client::start(program);
    client.is_told(&format!("store {servers} names")).await;
    assert_eq!(client.share().await, 100);

    // Before the first one ends: so nobody else can take its port.
    let back = at([127, 0, 0, 3], port).await;
    drop((first, second));
    are_known(&[("cache-0", back.address)]);
    client.is_told("again").await;
    let found = client.share().await;
    assert!((25..=75).contains(&found), "{found} % are in the pod that is back");
}
