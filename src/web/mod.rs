//! HTTP pages on a port that anybody may reach. Takes a listener, a [`Transport`] and the pages; answers one request a
//! connection. IO; it serves the operator's pages (`shell::admin`, `shell::secure_metrics`), the exporter's
//! (`exporter::serve`) and the agent's (`agent`).
//!
//! Probes come through the same port. So clients that open connections and send nothing must cost little and keep nobody out:
//! there are at most [`AT_ONCE`] connections, one more replaces a connection that has not sent a request yet, and a connection
//! that has not sent the head of a request within [`REQUEST_HEAD_TIMEOUT`] is closed; with TLS, its handshake may take
//! [`HANDSHAKE_TIMEOUT`] before that. A connection is closed after its answer: requests come seconds apart, and an idle
//! connection would take a place.
//!
//! A page that wants to know who asks takes a [`ConnectInfo`] of a [`SocketAddr`].

use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet, yield_now};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt as _;

/// Connections at once. A kubelet, some Prometheus servers and a person need a few.
pub const AT_ONCE: usize = 64;
/// How long a client may take to send the head of its request.
pub const REQUEST_HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a TLS handshake may take.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest head of a request, in bytes. hyper's default would be 400 kB a connection.
const LONGEST_HEAD: usize = 16 * 1024;

/// What HTTP is spoken over.
#[derive(Clone, Debug)]
pub enum Transport {
    /// The connection as it is.
    Plain,
    /// TLS, with the newest certificate that there is. A handshake waits for the first one.
    Tls(watch::Receiver<Option<Arc<ServerConfig>>>),
}

/// Serves until `end`, and then answers the requests that came before.
pub async fn serve(
    mut listener: TcpListener,
    transport: Transport,
    pages: Router,
    end: impl Future<Output = ()>,
) {
    let mut connections = Connections::default();
    let mut end = pin!(end);
    loop {
        tokio::select! {
            () = &mut end => break,
            // The listener tries again by itself when it cannot accept a connection.
            (stream, peer) = Listener::accept(&mut listener) => {
                connections.begin(|asked| converse(stream, peer, transport.clone(), pages.clone(), asked));
            }
        }
        // Lets the new connection send its request before others come: a crowd would replace it at once.
        yield_now().await;
    }
    drop(listener);
    connections.end().await;
}

/// The open connections.
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    /// Oldest first.
    open: VecDeque<Connection>,
}

struct Connection {
    task: AbortHandle,
    asked: Arc<AtomicBool>,
}

impl Connection {
    fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Connections {
    fn begin<C>(&mut self, converse: impl FnOnce(Arc<AtomicBool>) -> C)
    where
        C: Future<Output = ()> + Send + 'static,
    {
        while self.tasks.try_join_next().is_some() {}
        self.open.retain(|connection| !connection.task.is_finished());
        if self.open.len() >= AT_ONCE {
            self.end_one();
        }
        let asked = Arc::<AtomicBool>::default();
        let task = self.tasks.spawn(converse(Arc::clone(&asked)));
        self.open.push_back(Connection { task, asked });
    }

    /// The oldest connection without a request. If all have sent one, the oldest, which may be one that does not take its answer.
    fn end_one(&mut self) {
        let silent = self.open.iter().position(|connection| !connection.asked());
        if let Some(connection) = self.open.remove(silent.unwrap_or_default()) {
            connection.task.abort();
        }
    }

    async fn end(mut self) {
        self.open.iter().filter(|connection| !connection.asked()).for_each(|silent| silent.task.abort());
        while self.tasks.join_next().await.is_some() {}
    }
}

/// The life of a connection.
async fn converse(
    stream: TcpStream,
    peer: SocketAddr,
    transport: Transport,
    pages: Router,
    asked: Arc<AtomicBool>,
) {
    match transport {
        Transport::Plain => answer(stream, peer, pages, asked).await,
        Transport::Tls(certificates) => {
            // There is nobody to tell of a client that does not speak TLS, or stays silent.
            if let Ok(Some(stream)) = timeout(HANDSHAKE_TIMEOUT, shake_hands(stream, certificates)).await {
                answer(stream, peer, pages, asked).await;
            }
        }
    }
}

async fn shake_hands(
    stream: TcpStream,
    mut certificates: watch::Receiver<Option<Arc<ServerConfig>>>,
) -> Option<TlsStream<TcpStream>> {
    let newest = certificates.wait_for(Option::is_some).await.ok()?.clone()?;
    TlsAcceptor::from(newest).accept(stream).await.ok()
}

/// One request and its answer.
async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    pages: Router,
    asked: Arc<AtomicBool>,
) {
    let answer = service_fn(move |mut request: http::Request<Incoming>| {
        asked.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(ConnectInfo(peer));
        pages.clone().oneshot(request)
    });
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_HEAD_TIMEOUT)
        .max_buf_size(LONGEST_HEAD)
        .keep_alive(false);
    // There is nobody to tell of a client that hangs up, stays silent or does not speak HTTP.
    let _ = server.serve_connection(TokioIo::new(stream), answer).await;
}
