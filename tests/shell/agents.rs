//! Questions to the agents of pods: real agents' pages on loopback, and whatever else may answer at the address of a pod. Each
//! pod has an address of its own in 127.0.0.0/8, and all of them one port, as in a cluster.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use memcached_operator::agent::published::{AgentStatus, Published};
use memcached_operator::agent::serve::{self, Pages};
use memcached_operator::exporter::serve::Exporter;
use memcached_operator::exporter::target::{Address, Target};
use memcached_operator::kernel::agents::{AgentSays, AgentsQuestion, AgentsReply, AskedSecret, PodAnswer};
use memcached_operator::kernel::desired::secrets::{MountedKey, secret_hash};
use memcached_operator::kernel::event::PodsReply;
use memcached_operator::kernel::hash;
use memcached_operator::kernel::object::Key;
use memcached_operator::secrets::rotation_check::{Digests, RotationState};
use memcached_operator::shell::agents::{Way, ask};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::support::{Call, Calls, answer, api, ok, page, refusal};

const PASSWORDS: &[u8] = b"user:password\n";
const NONCE: [u8; 32] = [7; 32];

fn digests() -> Digests {
    BTreeMap::from([("password-file".to_owned(), hash::of_bytes(PASSWORDS))])
}

fn question() -> AgentsQuestion {
    let mounted = MountedKey { secret: "users", key: "password-file" };
    AgentsQuestion {
        resource: Key { namespace: "shop".into(), name: "sessions".into() },
        secrets: vec![AskedSecret { name: "users".into(), keys: vec!["password-file".into()] }],
        wanted: secret_hash([(mounted, hash::of_bytes(PASSWORDS).as_str())]),
    }
}

fn secret(value: &str) -> Value {
    json!({"metadata": {"name": "users", "uid": "u", "resourceVersion": "3"}, "data": {"password-file": value}})
}

fn pod(name: &str, address: IpAddr) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"containers": [{"name": "memcached"}, {"name": "agent"}]},
        "status": {"phase": "Running", "podIP": address.to_string()},
    })
}

/// An API server with this Secret and these pods.
fn cluster(secret: Value, pods: Vec<Value>) -> (Client, Calls) {
    api(move |call: Call| {
        let (secret, pods) = (secret.clone(), pods.clone());
        async move {
            match call.path.as_str() {
                "/api/v1/namespaces/shop/secrets/users" if secret.is_null() => {
                    refusal(404, "NotFound", "not found")
                }
                "/api/v1/namespaces/shop/secrets/users" => ok(&secret),
                "/api/v1/namespaces/shop/pods" => page(&pods, "7", None),
                path => answer(500, path.to_owned()),
            }
        }
    })
}

/// What stands at the address of a pod.
enum Pod {
    Agent(AgentStatus),
    /// It accepts, and says this.
    Says(Vec<u8>),
    /// It accepts, and says a byte at a time, for ever.
    Drips,
    /// It accepts, and says nothing.
    Hangs,
    Nobody,
}

/// Starts what stands at these addresses. Returns the port that all of them have.
async fn start(pods: Vec<Pod>) -> (u16, Vec<IpAddr>) {
    let mut port = 0;
    let mut addresses = Vec::new();
    for (at, pod) in pods.into_iter().enumerate() {
        let address: IpAddr = format!("127.0.7.{}", at + 1).parse().unwrap();
        addresses.push(address);
        if matches!(pod, Pod::Nobody) {
            continue;
        }
        let listener = TcpListener::bind(SocketAddr::new(address, port)).await.unwrap();
        port = listener.local_addr().unwrap().port();
        tokio::spawn(stand(listener, pod));
    }
    (port, addresses)
}

async fn stand(listener: TcpListener, pod: Pod) {
    let status = match pod {
        Pod::Agent(status) => status,
        other => return speak(listener, other).await,
    };
    let published = Arc::new(Published::default());
    published.set(status);
    let address = Address { host: "127.0.0.1".into(), port: 1 };
    let nobody = Target { address, tls: None, password_file: None, timeout: Duration::from_secs(1) };
    let pages = Pages { published, exporter: Exporter::new(nobody), is_scraped: false };
    serve::serve(listener, pages, std::future::pending()).await;
}

async fn speak(listener: TcpListener, pod: Pod) {
    let mut open = Vec::new();
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        match &pod {
            Pod::Says(bytes) => {
                let mut asked = [0; 1024];
                let _ = stream.read(&mut asked).await;
                let _ = stream.write_all(bytes).await;
            }
            Pod::Drips => {
                let _ = stream.read(&mut [0; 1024]).await;
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nx: ").await;
                while stream.write_all(b"x").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            Pod::Agent(_) | Pod::Hangs | Pod::Nobody => open.push(stream),
        }
    }
}

fn status(state: RotationState) -> AgentStatus {
    AgentStatus { files: Some(digests()), state, ..AgentStatus::default() }
}

fn way(port: u16) -> Way {
    Way { port, nonce: || Some(NONCE) }
}

fn body(text: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len()).into_bytes()
}

#[tokio::test]
async fn each_agent_is_asked_whether_its_pod_uses_what_the_secret_holds() {
    let taken = || status(RotationState::Taken { until_restart: vec!["a client is let in".into()] });
    let other = AgentStatus { files: Some(Digests::new()), ..taken() };
    let (port, addresses) = start(vec![Pod::Agent(taken()), Pod::Agent(other)]).await;
    let mut pods: Vec<_> = addresses.iter().zip(["a", "b"]).map(|(at, name)| pod(name, *at)).collect();
    // Not asked: one that goes, one that begins, one without an agent, one without an address.
    for (at, change) in [
        ("/metadata/deletionTimestamp", json!("2026-11-22T10:00:00Z")),
        ("/status/phase", json!("Pending")),
        ("/spec/containers", json!([{"name": "memcached"}])),
        ("/status/podIP", Value::Null),
    ] {
        let mut another = pod("z", addresses[0]);
        another["metadata"]["deletionTimestamp"] = Value::Null;
        *another.pointer_mut(at).unwrap() = change;
        pods.push(another);
    }
    let (client, calls) = cluster(secret("dXNlcjpwYXNzd29yZAo="), pods);
    let reply = ask(&client, &question(), way(port)).await;
    let says = |pod: &str, says| PodAnswer { pod: pod.to_owned(), says };
    let expected = vec![
        says("a", AgentSays::Taken { until_restart: vec!["a client is let in".to_owned()] }),
        says("b", AgentSays::OtherFiles),
    ];
    assert_eq!(reply, PodsReply::Agents(AgentsReply::Pods(expected)));
    let selectors: Vec<_> = calls.all().iter().map(|call| call.param("labelSelector").to_owned()).collect();
    assert!(selectors.last().unwrap().contains("app.kubernetes.io/instance=sessions"), "{selectors:?}");
    assert!(!serde_json::to_string(&reply).unwrap().contains(&hash::of_bytes(PASSWORDS)));
    // The fifth question within a second is one too many. 200 do not fit into the seconds of a machine that stands still now and then.
    let mut is_told_to_wait = false;
    for _ in 0..200 {
        let PodsReply::Agents(AgentsReply::Pods(pods)) = ask(&client, &question(), way(port)).await else {
            panic!("no answers")
        };
        is_told_to_wait |= pods[0].says == AgentSays::AskLater;
    }
    assert!(is_told_to_wait);
}

#[tokio::test]
async fn nobody_is_asked_for_a_content_that_the_secret_does_not_hold() {
    let (port, addresses) =
        start(vec![Pod::Agent(status(RotationState::Taken { until_restart: vec![] }))]).await;
    let without_key = json!({"metadata": {"name": "users", "uid": "u", "resourceVersion": "3"}, "data": {}});
    for held in [secret("b3RoZXI="), without_key, Value::Null] {
        let (client, calls) = cluster(held, vec![pod("a", addresses[0])]);
        let reply = ask(&client, &question(), way(port)).await;
        assert_eq!(reply, PodsReply::Agents(AgentsReply::OtherContent));
        assert_eq!(calls.matching(|call| call.path.ends_with("/pods")).len(), 0);
    }
    let (client, _) = api(|_| async { refusal(403, "Forbidden", "no") });
    let PodsReply::Failed(failure) = ask(&client, &question(), way(port)).await else {
        panic!("not refused")
    };
    assert!(failure.message.starts_with("cannot read Secret shop/users: 403"), "{}", failure.message);
}

#[tokio::test]
async fn whatever_answers_at_the_address_of_a_pod_takes_little_time_and_room() {
    let huge = vec![b'x'; 4 << 20];
    let pods = vec![
        Pod::Hangs,
        Pod::Drips,
        Pod::Says(body("ok")),
        Pod::Says(body(r#"{"files":"these","state":"dancing"}"#)),
        Pod::Says([body(""), huge.clone()].concat()),
        Pod::Says([b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), huge].concat()),
        Pod::Says(b"SSH-2.0-x\r\n".to_vec()),
        Pod::Says(Vec::new()),
        Pod::Nobody,
    ];
    let many = pods.len();
    let (port, addresses) = start(pods).await;
    let pods = addresses.iter().enumerate().map(|(at, address)| pod(&format!("p{at}"), *address)).collect();
    let (client, _) = cluster(secret("dXNlcjpwYXNzd29yZAo="), pods);
    let began = Instant::now();
    let PodsReply::Agents(AgentsReply::Pods(answers)) = ask(&client, &question(), way(port)).await else {
        panic!("no answers")
    };
    // Whoever sends a byte now and then would go on for hours.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(answers.len(), many);
    for (at, PodAnswer { pod, says }) in answers.iter().enumerate() {
        match (at, says) {
            (3, AgentSays::Taking { reason }) => {
                assert!(reason.contains("of a release"), "{reason}");
            }
            (0 | 1, AgentSays::Unreachable { reason }) => assert_eq!(reason, "no answer within 2 s"),
            (_, AgentSays::Unreachable { reason }) => assert!(reason.len() < 400, "{pod}: {reason}"),
            _ => panic!("{pod}: {says:?}"),
        }
    }
}
