//! The whole operator against an API server on a loopback socket: from its start to its end.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use http::Response;
use jiff::SignedDuration;
use memcached_operator::cli::replay::replay;
use memcached_operator::kernel::reconciler::Settings;
use memcached_operator::shell::clock::{Clock, wall_clock};
use memcached_operator::shell::leader::{self, Election};
use memcached_operator::shell::secure_metrics::certificate::Source;
use memcached_operator::shell::{self, Ended, Options, RunError, client, journal, secure_metrics};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::support::{Frame, answer, get, get_securely, in_parts, ok, page, refusal, watch};

/// Far more than anything here takes.
const SOON: Duration = Duration::from_secs(20);

/// An API server that holds `resources` and answers a write only when it is `released`, an Event when it is `heard`.
#[derive(Default)]
struct Cluster {
    resources: Vec<Value>,
    without_crd: AtomicBool,
    /// Another operator leads, for ever.
    is_led: AtomicBool,
    /// There is a Lease, which another operator has let go.
    is_free: AtomicBool,
    /// How often the Lease was let go.
    let_go: AtomicUsize,
    released: Notify,
    /// Writes are stored; else something is there already.
    stores: AtomicBool,
    heard: Notify,
    events: Mutex<Vec<String>>,
    writes: Mutex<Vec<String>>,
    agents: Mutex<Vec<String>>,
}

async fn serve(State(cluster): State<Arc<Cluster>>, request: Request) -> Response<Body> {
    let agent = request.headers()["user-agent"].to_str().unwrap().to_owned();
    cluster.agents.lock().unwrap().push(agent);
    if request.uri().path().contains("/leases") {
        return lease(&cluster, request).await;
    }
    if request.uri().path().ends_with("reviews") {
        return ok(
            &json!({"spec": {}, "status": {"authenticated": true, "user": {"username": "eve"}, "allowed": true}}),
        );
    }
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    let ours = path.ends_with("/memcacheds");
    if request.method() == "POST" && path.ends_with("/events") {
        let body = read(request).await;
        cluster.events.lock().unwrap().push(body["note"].as_str().unwrap().to_owned());
        cluster.heard.notified().await;
        return answer(201, body.to_string());
    }
    if request.method() == "PATCH" {
        cluster.writes.lock().unwrap().push(path.to_owned());
        cluster.released.notified().await;
        if cluster.stores.load(Ordering::Relaxed) {
            let mut body = read(request).await;
            body["metadata"]["uid"] = "u-2".into();
            body["metadata"]["resourceVersion"] = "11".into();
            return answer(201, body.to_string());
        }
        return refusal(409, "Conflict", "something is there already");
    }
    if ours && cluster.without_crd.load(Ordering::Relaxed) {
        return answer(404, "404 page not found\n");
    }
    match (query.contains("watch=true"), ours) {
        (true, _) => watch(vec![Frame::Hang]),
        (false, true) => page(&cluster.resources, "10", None),
        (false, false) => page(&[], "10", None),
    }
}

async fn read(request: Request) -> Value {
    let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
    serde_json::from_slice(&body).unwrap()
}

/// There is no Lease yet, or it is free, and every write of it succeeds; or somebody else renews it with each look.
async fn lease(cluster: &Cluster, request: Request) -> Response<Body> {
    let there = |version: &str, holder: &str, seconds: u32| {
        let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": seconds});
        ok(&json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": "operators", "name": "operator", "resourceVersion": version}, "spec": spec,
        }))
    };
    if cluster.is_led.load(Ordering::Relaxed) {
        let version = cluster.agents.lock().unwrap().len().to_string();
        return there(&version, "another", 60);
    }
    if request.method() == "GET" {
        return match cluster.is_free.load(Ordering::Relaxed) {
            true => there("0", "", 1),
            false => refusal(404, "NotFound", "there is no such Lease"),
        };
    }
    let mut lease = read(request).await;
    if lease["spec"]["holderIdentity"] == "" {
        cluster.let_go.fetch_add(1, Ordering::Relaxed);
    }
    lease["metadata"]["resourceVersion"] = "1".into();
    answer(200, lease.to_string())
}

/// How an operator is started.
#[derive(Default)]
struct How {
    lease: Option<leader::Options>,
    secure_metrics: Option<secure_metrics::Options>,
    clock: Option<Clock>,
}

/// The duration of a Lease, in seconds: that of the chart, and the shortest one, for tests without a Lease, who wait for so long
/// before they lead.
const LONG: u32 = 15;
const SHORT: u32 = 2;

fn lease_options(seconds: u32) -> leader::Options {
    let (name, namespace, pod) = ("operator".into(), Some("operators".into()), "pod".into());
    leader::Options { name, namespace, seconds, pod }
}

/// A running operator.
struct Operator {
    admin: SocketAddr,
    signals: mpsc::Sender<()>,
    ended: JoinHandle<Result<Ended, RunError>>,
    directory: TempDir,
}

impl Operator {
    async fn start(cluster: &Arc<Cluster>) -> Self {
        Self::against(serving(cluster).await, How::default()).await
    }

    async fn electing(cluster: &Arc<Cluster>, seconds: u32) -> Self {
        let lease = Some(lease_options(seconds));
        Self::against(serving(cluster).await, How { lease, ..How::default() }).await
    }

    async fn against(server: SocketAddr, How { lease, secure_metrics, clock }: How) -> Self {
        let directory = TempDir::new().unwrap();
        let kubeconfig = directory.path().join("kubeconfig");
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": format!("http://{server}")}}],
            "users": [{"name": "test", "user": {}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        });
        std::fs::write(&kubeconfig, config.to_string()).unwrap();
        let journal = journal::Options { path: directory.path().join("journal"), max_bytes: u64::MAX };
        let election = match lease {
            Some(lease) => Some(Election::connect(Some(&kubeconfig), lease).await.unwrap()),
            None => None,
        };
        let options = Options {
            journal: Some(journal),
            journal_page: None,
            secure_metrics,
            election,
            clock: clock.unwrap_or_else(Clock::start),
            settings: Settings::default(),
        };
        let client = client::connect(Some(&kubeconfig)).await.unwrap();
        let listener = shell::listen((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
        let admin = listener.local_addr().unwrap();
        let (signals, inbox) = mpsc::channel(2);
        let ended = tokio::spawn(shell::run(listener, client, options, inbox));
        Self { admin, signals, ended, directory }
    }

    async fn signal(&self) {
        self.signals.send(()).await.unwrap();
    }

    async fn end(self) -> (Ended, TempDir) {
        (timeout(SOON, self.ended).await.expect("it ends").unwrap().unwrap(), self.directory)
    }

    /// Awaits a page that satisfies.
    async fn page(&self, path: &str, good: impl Fn(u16, &str) -> bool) -> String {
        let asked = async {
            loop {
                let (status, body) = get(self.admin, path).await;
                if good(status, &body) {
                    return body;
                }
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(SOON, asked).await.unwrap_or_else(|_| panic!("{path} never was as expected"))
    }
}

/// Serves the cluster on a socket of its own.
async fn serving(cluster: &Arc<Cluster>) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let server = listener.local_addr().unwrap();
    let router = Router::new().fallback(serve).with_state(Arc::clone(cluster));
    tokio::spawn(async move { axum::serve(listener, router).await });
    server
}

async fn until(what: &str, true_now: impl Fn() -> bool) {
    let asked = async {
        while !true_now() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, asked).await.unwrap_or_else(|_| panic!("never: {what}"));
}

fn one_resource() -> Arc<Cluster> {
    let resource = json!({
        "apiVersion": "memcached.c5c3.io/v1beta1",
        "kind": "Memcached",
        "metadata": {"namespace": "shop", "name": "sessions", "uid": "u-1", "resourceVersion": "1", "generation": 1},
        "spec": {},
    });
    Arc::new(Cluster { resources: vec![resource], ..Cluster::default() })
}

#[tokio::test]
async fn it_is_ready_once_it_has_seen_everything_and_ends_cleanly() {
    let cluster = Arc::new(Cluster::default());
    let operator = Operator::start(&cluster).await;
    operator.page("/readyz", |status, _| status == 200).await;
    operator.page("/metrics", |_, body| body.contains("\nmemcached_operator_leader 1\n")).await;

    operator.signal().await;
    let (ended, directory) = operator.end().await;
    assert_eq!(ended, Ended::Cleanly);
    let journal = std::fs::read(directory.path().join("journal")).unwrap();
    assert!(replay(&journal[..]).unwrap().steps > 10, "two steps a list, and both changes of leadership");
    for agent in cluster.agents.lock().unwrap().iter() {
        assert_eq!(agent, concat!("memcached-operator/", env!("CARGO_PKG_VERSION")));
    }
}

#[tokio::test]
async fn a_clock_that_is_set_back_far_ends_it_so_that_a_new_process_has_the_right_time() {
    static IS_AHEAD: AtomicBool = AtomicBool::new(true);
    let wall = || match IS_AHEAD.load(Ordering::Relaxed) {
        true => wall_clock() + SignedDuration::from_hours(24 * 120),
        false => wall_clock(),
    };
    let how = How { clock: Some(Clock::new(wall)), ..How::default() };
    let operator = Operator::against(serving(&Arc::default()).await, how).await;
    operator.page("/readyz", |status, _| status == 200).await;

    IS_AHEAD.store(false, Ordering::Relaxed);
    // The next event of any kind; its answer may not come.
    let admin = operator.admin;
    tokio::spawn(async move { get(admin, "/livez").await });
    let ended = timeout(SOON, operator.ended).await.expect("it ends").unwrap();
    assert!(matches!(ended, Err(RunError::ClockSetBack)), "{ended:?}");
}

#[tokio::test]
async fn without_the_crd_it_is_alive_and_not_ready_until_it_is_served() {
    let cluster = Arc::new(Cluster::default());
    cluster.without_crd.store(true, Ordering::Relaxed);
    let operator = Operator::start(&cluster).await;
    operator.page("/readyz", |status, body| status == 503 && body.contains("apply the CustomResource")).await;
    operator.page("/livez", |status, _| status == 200).await;

    cluster.without_crd.store(false, Ordering::Relaxed);
    operator.page("/readyz", |status, _| status == 200).await;
}

#[tokio::test]
async fn with_the_api_server_away_it_is_alive() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap();
    let operator = Operator::against(free, How::default()).await;
    operator.page("/readyz", |_, body| body.contains("cannot list and watch services: ")).await;
    assert_eq!(get(operator.admin, "/livez").await, (200, "ok\n".into()));

    operator.signal().await;
    assert_eq!(operator.end().await.0, Ended::Cleanly);
}

#[tokio::test]
async fn a_signal_lets_requests_under_way_finish_and_begins_no_others() {
    let cluster = one_resource();
    let operator = Operator::start(&cluster).await;
    until("a write", || !cluster.writes.lock().unwrap().is_empty()).await;
    operator.signal().await;
    operator.page("/metrics", |_, body| body.contains("\nmemcached_operator_leader 0\n")).await;
    assert!(!operator.ended.is_finished());
    let begun = cluster.writes.lock().unwrap().len();

    (0..begun).for_each(|_| cluster.released.notify_one());
    let (ended, directory) = operator.end().await;
    assert_eq!(ended, Ended::Cleanly);
    assert_eq!(cluster.writes.lock().unwrap().len(), begun);
    let journal = std::fs::read_to_string(directory.path().join("journal")).unwrap();
    assert_eq!(journal.matches("{\"Done\":").count(), begun);
    replay(journal.as_bytes()).unwrap();
}

/// Asks an operator to end in the midst of its writes, and answers these: how many there were. The Events of them wait then.
async fn waits_for_its_events(cluster: &Cluster, operator: &mut Operator) -> usize {
    until("a write", || !cluster.writes.lock().unwrap().is_empty()).await;
    operator.signal().await;
    operator.page("/metrics", |_, body| body.contains("\nmemcached_operator_leader 0\n")).await;
    let begun = cluster.writes.lock().unwrap().len();
    (0..begun).for_each(|_| cluster.released.notify_one());

    until("an Event", || !cluster.events.lock().unwrap().is_empty()).await;
    let ends = timeout(Duration::from_millis(500), &mut operator.ended).await;
    assert!(ends.is_err(), "it ended while an Event was not answered");
    begun
}

/// As above; then the Events are heard one after the other.
async fn ends_after_its_events(cluster: &Cluster, mut operator: Operator) {
    let begun = waits_for_its_events(cluster, &mut operator).await;
    for told in 1..=begun {
        until("each Event", || cluster.events.lock().unwrap().len() == told).await;
        assert_eq!(cluster.let_go.load(Ordering::Relaxed), 0, "the Lease was let go before Event {told}");
        cluster.heard.notify_one();
    }
    assert_eq!(operator.end().await.0, Ended::Cleanly);
    let events = cluster.events.lock().unwrap();
    assert!(events.iter().all(|note| note.starts_with("Created ")) && events.len() == begun, "{events:?}");
}

#[tokio::test]
async fn a_signal_lets_the_events_of_what_was_done_be_published() {
    let cluster = one_resource();
    cluster.stores.store(true, Ordering::Relaxed);
    let operator = Operator::start(&cluster).await;
    ends_after_its_events(&cluster, operator).await;
}

#[tokio::test]
async fn a_leader_publishes_the_events_of_what_was_done_before_it_lets_the_lease_go() {
    let cluster = one_resource();
    cluster.stores.store(true, Ordering::Relaxed);
    cluster.is_free.store(true, Ordering::Relaxed);
    let operator = Operator::electing(&cluster, LONG).await;
    ends_after_its_events(&cluster, operator).await;
    assert_eq!(cluster.let_go.load(Ordering::Relaxed), 1);
}

/// Of three writes one hangs.
#[tokio::test]
async fn events_give_way_to_a_write_that_is_under_way() {
    let cluster = one_resource();
    cluster.stores.store(true, Ordering::Relaxed);
    let _operator = Operator::start(&cluster).await;
    until("three writes", || cluster.writes.lock().unwrap().len() == 3).await;
    let begun = Instant::now();
    (0..2).for_each(|_| cluster.released.notify_one());
    for told in 1..=2 {
        until("an Event", || cluster.events.lock().unwrap().len() == told).await;
        cluster.heard.notify_one();
    }
    assert!(begun.elapsed() >= Duration::from_millis(100), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn requests_of_watches_of_the_election_and_of_the_leader_are_counted() {
    let cluster = one_resource();
    let operator = Operator::electing(&cluster, SHORT).await;
    until("a write", || !cluster.writes.lock().unwrap().is_empty()).await;
    cluster.released.notify_one();
    for (verb, code) in [("list", "200"), ("watch", "200"), ("update", "200"), ("patch", "409")] {
        let series = format!("\nmemcached_operator_api_requests_total{{code=\"{code}\",verb=\"{verb}\"}} ");
        let counted = |body: &str| body.contains(&series) && !body.contains(&format!("{series}0\n"));
        operator.page("/metrics", |_, body| counted(body)).await;
    }
}

#[tokio::test]
async fn a_follower_too_serves_secure_metrics_beside_plain_probes() {
    let cluster = Arc::new(Cluster::default());
    cluster.is_led.store(true, Ordering::Relaxed);
    // The port is free again when it is taken. Of an address of its own, where nobody else takes it.
    let listen = TcpListener::bind("127.0.0.5:0").await.unwrap().local_addr().unwrap();
    let secure_metrics = Some(secure_metrics::Options { listen, certificate: Source::SelfMade });
    let how = How { lease: Some(lease_options(SHORT)), secure_metrics, ..How::default() };
    let operator = Operator::against(serving(&cluster).await, how).await;
    operator.page("/readyz", |status, _| status == 200).await;
    assert_eq!(get(operator.admin, "/metrics").await.0, 404);
    let (status, metrics) = in_parts(&get_securely(listen, Some("token")).await.unwrap());
    assert!(status == 200 && metrics.contains("\nmemcached_operator_leader 0\n"), "{status} {metrics}");
    let reviews = "\nmemcached_operator_api_requests_total{code=\"200\",verb=\"create\"} 2\n";
    assert!(metrics.contains(reviews), "they are counted: {metrics}");
}

#[tokio::test]
async fn an_address_of_secure_metrics_that_is_taken_is_named() {
    let listener = TcpListener::bind("127.0.0.5:0").await.unwrap();
    let listen = listener.local_addr().unwrap();
    let secure_metrics = Some(secure_metrics::Options { listen, certificate: Source::SelfMade });
    let cluster = Arc::new(Cluster::default());
    let operator = Operator::against(serving(&cluster).await, How { secure_metrics, ..How::default() }).await;
    let error = timeout(SOON, operator.ended).await.unwrap().unwrap().unwrap_err();
    let expected =
        format!("cannot serve metrics on {listen}: choose another address with --secure-metrics-listen");
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let cluster = one_resource();
    let operator = Operator::start(&cluster).await;
    until("a write", || !cluster.writes.lock().unwrap().is_empty()).await;
    operator.signal().await;
    operator.signal().await;
    assert_eq!(operator.end().await.0, Ended::AtOnce);
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once_also_while_events_wait() {
    let cluster = one_resource();
    cluster.stores.store(true, Ordering::Relaxed);
    let mut operator = Operator::start(&cluster).await;
    waits_for_its_events(&cluster, &mut operator).await;
    operator.signal().await;
    assert_eq!(operator.end().await.0, Ended::AtOnce);
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap();
    let _first = shell::listen(taken).await.unwrap();
    let error = shell::listen(taken).await.unwrap_err();
    let expected =
        format!("cannot serve metrics and probes on {taken}: choose another address with --listen");
    assert_eq!(error.to_string(), expected);
}
