//! What the agent says of a memcached that has no free connection.

use std::net::{Ipv4Addr, SocketAddr};

use memcached_operator::agent::memcached;
use memcached_operator::exporter::protocol::{Credentials, UNAUTHENTICATED};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::world::COMMON;

const FULL: &str = "ERROR Too many open connections";

/// A memcached that wants a password, and has this many free connections.
async fn with_free_connections(mut free: usize) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let answer = if free > 0 { UNAUTHENTICATED } else { FULL };
            free = free.saturating_sub(1);
            // What is asked is read first: else the kernel may reset the connection before the answer is read.
            assert!(client.read(&mut [0; 64]).await.unwrap() > 0, "a question");
            client.write_all(format!("{answer}\r\n").as_bytes()).await.unwrap();
        }
    });
    address
}

#[tokio::test]
async fn a_memcached_without_a_free_connection_is_not_said_to_ask_for_no_password_or_to_know_no_entry() {
    let credentials = Credentials::every(COMMON.as_bytes());
    let said = format!("memcached answered: {FULL}");
    let login = memcached::log_in(with_free_connections(0).await, &credentials).await;
    assert_eq!(login.unwrap_err().to_string(), said);
    for free in [0, 1] {
        let refresh = memcached::refresh(with_free_connections(free).await, &credentials).await;
        assert_eq!(refresh.unwrap_err().to_string(), said, "{free} free");
    }
}
