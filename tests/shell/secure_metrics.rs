//! `/metrics` with TLS, for those whom the API server lets read them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use http::Response;
use memcached_operator::shell::metrics::Metrics;
use memcached_operator::shell::secure_metrics::SecureMetrics;
use memcached_operator::shell::secure_metrics::cache::LIFE;
use memcached_operator::shell::secure_metrics::certificate::Source;
use memcached_operator::web::HANDSHAKE_TIMEOUT;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, advance, pause, resume, timeout};

use crate::crowd;
use crate::support::{Call, Calls, api, get_securely, in_parts, ok, refusal};

/// The first bytes of a handshake.
const HALF_A_HANDSHAKE: &[u8] = b"\x16\x03\x01\x02\x00\x01";

/// The page, before an API server that knows the tokens `prometheus`, who may read metrics, and `stranger`, who may not.
struct Page {
    address: SocketAddr,
    calls: Calls,
    away: Arc<AtomicBool>,
}

impl Page {
    async fn serving() -> Self {
        let away = Arc::<AtomicBool>::default();
        let is_away = Arc::clone(&away);
        let (client, calls) = api(move |call| {
            let is_away = is_away.load(Ordering::Relaxed);
            async move { if is_away { refusal(503, "ServiceUnavailable", "etcd is away") } else { answer(&call) } }
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let page = SecureMetrics::new(Arc::new(Metrics::new().unwrap()), client);
        tokio::spawn(page.serve(listener, Source::SelfMade));
        Self { address, calls, away }
    }

    /// Status and body of the answer to this token.
    async fn get(&self, token: &str) -> (u16, String) {
        in_parts(&get_securely(self.address, Some(token)).await.unwrap())
    }

    /// How often the API server was asked.
    fn asked(&self) -> usize {
        self.calls.all().len()
    }
}

fn answer(Call { path, body, .. }: &Call) -> Response<Body> {
    let status = match path.as_str() {
        "/apis/authentication.k8s.io/v1/tokenreviews" => {
            let token = body["spec"]["token"].as_str().unwrap();
            let known = ["prometheus", "stranger"].contains(&token);
            json!({"authenticated": known, "user": {"username": token, "groups": ["monitoring"]}})
        }
        "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
            let asked = json!({"path": "/metrics", "verb": "get"});
            assert_eq!(
                [&body["spec"]["nonResourceAttributes"], &body["spec"]["groups"]],
                [&asked, &json!(["monitoring"])]
            );
            json!({"allowed": body["spec"]["user"] == "prometheus"})
        }
        other => panic!("nobody asks for {other}"),
    };
    let mut answer: Value = body.clone();
    answer["status"] = status;
    ok(&answer)
}

#[tokio::test]
async fn without_a_token_nobody_reads_metrics_and_the_api_server_is_not_asked() {
    let page = Page::serving().await;
    let answer = get_securely(page.address, None).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 401 ") && answer.contains("\r\nwww-authenticate: Bearer\r\n"),
        "{answer}"
    );
    assert_eq!((in_parts(&answer).1.as_str(), page.asked()), (UNAUTHENTICATED, 0));
}

const UNAUTHENTICATED: &str = "send a token that the API server takes, as Authorization: Bearer\n";

#[tokio::test]
async fn the_api_server_says_who_may_read_metrics() {
    let page = Page::serving().await;
    assert_eq!(page.get("guess").await, (401, UNAUTHENTICATED.to_owned()));
    assert_eq!(page.asked(), 1, "a user that nobody knows has no rights");
    let refused = "stranger may not read the metrics: bind this user to a ClusterRole with the verb get on the nonResourceURL \
                   /metrics\n";
    assert_eq!(page.get("stranger").await, (403, refused.to_owned()));
    let (status, metrics) = page.get("prometheus").await;
    assert_eq!(status, 200);
    assert!(metrics.contains("\nmemcached_operator_build_info{version=\"0.1.0\"} 1\n"), "{metrics}");
}

#[tokio::test]
async fn an_answer_of_the_api_server_counts_for_a_minute() {
    let page = Page::serving().await;
    for (token, status, asks) in [("prometheus", 200, 2), ("stranger", 403, 4), ("guess", 401, 5)] {
        for _ in 0..3 {
            assert_eq!(page.get(token).await.0, status);
            assert_eq!(page.asked(), asks, "{token}");
        }
    }
    pause();
    advance(LIFE).await;
    resume();
    assert_eq!((page.get("prometheus").await.0, page.asked()), (200, 7));
}

#[tokio::test]
async fn while_the_api_server_does_not_answer_only_those_read_metrics_who_did_before() {
    let page = Page::serving().await;
    page.get("prometheus").await;
    page.away.store(true, Ordering::Relaxed);
    assert_eq!(page.get("prometheus").await.0, 200);
    let unknown = "the API server does not say who may read the metrics: the log of the operator says why\n";
    assert_eq!(page.get("stranger").await, (500, unknown.to_owned()));

    page.away.store(false, Ordering::Relaxed);
    assert_eq!(page.get("stranger").await.0, 403, "the failure is not remembered");
}

#[tokio::test]
async fn nothing_is_told_to_who_does_not_speak_tls() {
    let page = Page::serving().await;
    let mut plain = TcpStream::connect(page.address).await.unwrap();
    plain.write_all(b"GET /metrics HTTP/1.1\r\nauthorization: Bearer prometheus\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // An end or a reset.
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP"), "{answer:?}");
    assert_eq!(page.asked(), 0);
}

#[tokio::test]
async fn a_crowd_that_never_ends_its_handshake_holds_few_connections_and_keeps_nobody_out() {
    let page = Page::serving().await;
    let ask = async || get_securely(page.address, None).await.unwrap();
    crowd::stands_before(page.address, HALF_A_HANDSHAKE, ask).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_finish_a_handshake_has_to_go() {
    let page = Page::serving().await;
    let started = Instant::now();
    let mut half = TcpStream::connect(page.address).await.unwrap();
    half.write_all(HALF_A_HANDSHAKE).await.unwrap();
    let closed = timeout(2 * HANDSHAKE_TIMEOUT, half.read_to_end(&mut Vec::new())).await;
    assert!(
        closed.is_ok() && started.elapsed() >= HANDSHAKE_TIMEOUT,
        "{closed:?} after {:?}",
        started.elapsed()
    );
}
