//! A crowd before a server of pages: takes its address, opens thousands of connections that send half a request or half a
//! handshake, and says how many are held and whether somebody who asks is answered meanwhile. Shared by the tests of all
//! servers.

use std::io::{ErrorKind, Read as _};
use std::net::SocketAddr;
use std::time::Duration;

use memcached_operator::web;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

/// Times that a part of the crowd comes: not all at once, because a test may open a thousand files.
const WAVES: usize = 4;
const WAVE: usize = 500;
/// How often a wait looks.
const LOOK: Duration = Duration::from_millis(10);

/// Half a request.
const HALF_A_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: no";

/// Whoever asks for the page in front of the crowd gets one, and few of the crowd are still connected then.
pub(crate) async fn keeps_nobody_out(address: SocketAddr, path: &str) {
    stands_before(address, HALF_A_REQUEST, async || ask(address, path).await).await;
}

/// Whoever asks so in front of a crowd that says this gets an answer of HTTP, and few of the crowd are still connected then.
pub(crate) async fn stands_before(address: SocketAddr, says: &[u8], ask: impl AsyncFn() -> String) {
    let mut told = 0;
    // While a machine stands still the server's deadline passes, and then a part of the crowd tells nothing.
    for _ in 0..3 * WAVES {
        let began = Instant::now();
        let mut crowd = Vec::new();
        for _ in 0..WAVE {
            let mut one = TcpStream::connect(address).await.unwrap();
            one.write_all(says).await.unwrap();
            crowd.push(one.into_std().unwrap());
        }
        let answer = timeout(Duration::from_mins(1), ask()).await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 "), "{answer:?}");
        // Whoever makes room for another is told a moment later.
        while held(&mut crowd) > web::AT_ONCE && began.elapsed() < web::REQUEST_HEAD_TIMEOUT {
            sleep(LOOK).await;
        }
        told += usize::from(began.elapsed() < web::REQUEST_HEAD_TIMEOUT);
        if told == WAVES {
            return;
        }
    }
    panic!(
        "somebody waited for the crowd to go, or more than {} of {WAVE} that ask nothing were held",
        web::AT_ONCE
    );
}

/// Whoever sends half a request and nothing more is not waited for longer than the server says. Time has to be paused.
pub(crate) async fn who_does_not_finish_has_to_go(address: SocketAddr) {
    let started = Instant::now();
    let mut half = TcpStream::connect(address).await.unwrap();
    half.write_all(HALF_A_REQUEST).await.unwrap();
    // An end or a reset: what counts is that nobody waits for the rest.
    let closed = timeout(2 * web::REQUEST_HEAD_TIMEOUT, half.read_to_end(&mut Vec::new())).await;
    let waited = started.elapsed();
    assert!(closed.is_ok() && waited >= web::REQUEST_HEAD_TIMEOUT, "{closed:?} after {waited:?}");
}

/// How many of the crowd are still connected.
fn held(crowd: &mut [std::net::TcpStream]) -> usize {
    let still = |one: &mut std::net::TcpStream| {
        one.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    crowd.iter_mut().map(still).filter(|still| *still).count()
}

async fn ask(address: SocketAddr, path: &str) -> String {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(format!("GET {path} HTTP/1.1\r\nhost: pages\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    answer
}
