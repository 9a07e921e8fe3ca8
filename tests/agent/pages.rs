//! Who asks how often, and from whom that keeps an answer: the agent's pages by themselves, before a memcached that is played.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use memcached_operator::agent::serve::{Pages, serve};
use memcached_operator::exporter::serve::Exporter;
use memcached_operator::exporter::target::{Address, Target};
use memcached_operator::figures::AGENTS_PAGE;
use memcached_operator::secrets::rotation_check::{Digests, RotationQuestion};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::pod::DEADLINE;

const OPERATOR: Ipv4Addr = Ipv4Addr::LOCALHOST;
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// The least time from one look at memcached to the next.
const MOMENT: Duration = Duration::from_millis(250);

/// What memcached does with a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memcached {
    Closes,
    StaysSilent,
}

/// An agent's pages, and how often its memcached was looked at.
async fn pages_before(memcached: Memcached) -> (SocketAddr, watch::Receiver<usize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (count, looks) = watch::channel(0);
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            count.send_modify(|count| *count += 1);
            if memcached == Memcached::StaysSilent {
                held.push(stream);
            }
        }
    });
    let address = Address { host: address.ip().to_string(), port: address.port() };
    let target = Target { address, tls: None, password_file: None, timeout: DEADLINE };
    let pages = Pages { published: Arc::default(), exporter: Exporter::new(target), is_scraped: true };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, pages, std::future::pending()));
    (address, looks)
}

/// A client of this address that has asked.
async fn ask(from: Ipv4Addr, agent: SocketAddr, path: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((from, 0))).unwrap();
    let mut stream = socket.connect(agent).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// The status of the answer.
async fn get(from: Ipv4Addr, agent: SocketAddr, path: &str) -> u16 {
    let talk = async {
        let mut answer = String::new();
        ask(from, agent, path).await.read_to_string(&mut answer).await.unwrap();
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    };
    timeout(DEADLINE, talk).await.unwrap()
}

async fn ask_until_refused(from: Ipv4Addr, agent: SocketAddr, path: &str) {
    let refused = async { while get(from, agent, path).await != 429 {} };
    timeout(DEADLINE, refused).await.unwrap();
}

#[tokio::test]
async fn who_asks_all_the_time_keeps_no_answer_from_another() {
    let (agent, _looks) = pages_before(Memcached::Closes).await;
    let question = RotationQuestion::new([9; 32], &Digests::new()).path();
    for _ in 0..40 {
        assert_eq!(get(STRANGER, agent, "/rotation/x/y").await, 400);
    }
    assert_eq!(get(STRANGER, agent, &question).await, 200, "what is no question counts for nothing");
    ask_until_refused(STRANGER, agent, &question).await;
    assert_eq!(get(OPERATOR, agent, &question).await, 200);
    assert_eq!(get(STRANGER, agent, AGENTS_PAGE).await, 200, "figures are no question");
    ask_until_refused(STRANGER, agent, AGENTS_PAGE).await;
    let answered = timeout(Duration::from_secs(2), get(OPERATOR, agent, AGENTS_PAGE)).await;
    assert_eq!(answered, Ok(200));
}

#[tokio::test]
async fn who_asks_for_figures_in_the_same_moment_shares_one_look_at_memcached() {
    let (agent, looks) = pages_before(Memcached::Closes).await;
    let start = Instant::now();
    let asked = (3..43).map(|last| get(Ipv4Addr::new(127, 0, 0, last), agent, AGENTS_PAGE));
    assert_eq!(join_all(asked).await, [200; 40]);
    let most = start.elapsed().as_millis() / MOMENT.as_millis() + 1;
    assert!((1..=most).contains(&(*looks.borrow() as u128)), "{} of {most}", *looks.borrow());
}

#[tokio::test]
async fn who_hangs_up_has_memcached_looked_at_no_more_often() {
    let (agent, mut looks) = pages_before(Memcached::StaysSilent).await;
    let start = Instant::now();
    for client in 1..=6 {
        let asked = ask(Ipv4Addr::new(127, 0, 1, client), agent, AGENTS_PAGE).await;
        let look = looks.wait_for(|looks| *looks == usize::from(client));
        timeout(DEADLINE, look).await.expect("the look before ended with its client").unwrap();
        drop(asked);
    }
    assert!(start.elapsed() >= 5 * MOMENT, "{:?}", start.elapsed());
}
