//! HTTP pages on a port that anybody may reach. Takes a listener and the pages; answers one request a connection. IO; the
//! operator's pages (`shell::admin`) and the exporter's (`exporter::serve`) are served by it.
//!
//! Probes come through the same port, so whoever opens connections and asks nothing must cost little and keep nobody
//! out: there are at most [`AT_ONCE`] connections, one more takes the place of one that has not asked yet, and
//! whoever has not asked within [`REQUEST_HEAD_TIMEOUT`] has to go. A connection ends with its answer: those who ask come seconds
//! apart, and an idle one would take a place.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet, yield_now};
use tower::ServiceExt as _;

/// Connections at once. A kubelet, some Prometheus servers and a person are a few.
pub const AT_ONCE: usize = 64;
/// How long a connection may take to say what it wants.
pub const REQUEST_HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest head of a request, in bytes: hyper's own would be 400 kB a connection.
const LONGEST_HEAD: usize = 16 * 1024;

/// Serves until `end`, and answers what was asked before that.
pub async fn serve(mut listener: TcpListener, pages: Router, end: impl Future<Output = ()>) {
    let mut connections = Connections::default();
    let mut end = pin!(end);
    loop {
        tokio::select! {
            () = &mut end => break,
            // Tries again by itself where a connection cannot be had.
            (stream, _) = Listener::accept(&mut listener) => connections.begin(stream, pages.clone()),
        }
        // Lets the new one ask before others come: a crowd would take its place at once.
        yield_now().await;
    }
    drop(listener);
    connections.end().await;
}

/// Those that are open.
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
    fn begin(&mut self, stream: TcpStream, pages: Router) {
        while self.tasks.try_join_next().is_some() {}
        self.open.retain(|connection| !connection.task.is_finished());
        if self.open.len() >= AT_ONCE {
            self.end_one();
        }
        let asked = Arc::<AtomicBool>::default();
        let task = self.tasks.spawn(converse(stream, pages, Arc::clone(&asked)));
        self.open.push_back(Connection { task, asked });
    }

    /// The oldest that has asked nothing; where all have, the oldest, which may be one that does not take its answer.
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

/// One request and its answer.
async fn converse(stream: TcpStream, pages: Router, asked: Arc<AtomicBool>) {
    let answer = service_fn(move |request: http::Request<Incoming>| {
        asked.store(true, Ordering::Relaxed);
        pages.clone().oneshot(request)
    });
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_HEAD_TIMEOUT)
        .max_buf_size(LONGEST_HEAD)
        .keep_alive(false);
    // Whoever hangs up, stays silent or speaks something else than HTTP is nobody to tell.
    let _ = server.serve_connection(TokioIo::new(stream), answer).await;
}
