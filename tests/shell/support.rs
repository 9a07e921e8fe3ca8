//! An API server in a closure, for the tests of the shell: requests in, answers out, no socket.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::stream::{self, StreamExt as _};
use http::Response;
use kube::Client;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A request as the API server gets it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) content_type: String,
    pub(crate) accept: String,
    pub(crate) body: Value,
}

impl Call {
    pub(crate) fn is_watch(&self) -> bool {
        self.query.contains_key("watch")
    }

    pub(crate) fn param(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }
}

/// Every request so far.
#[derive(Clone, Default)]
pub(crate) struct Calls(Arc<Mutex<Vec<Call>>>);

impl Calls {
    pub(crate) fn all(&self) -> Vec<Call> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn matching(&self, select: impl Fn(&Call) -> bool) -> Vec<Call> {
        self.all().into_iter().filter(select).collect()
    }
}

/// A client whose requests are answered by `answer`, and a record of them.
pub(crate) fn api<F>(answer: impl Fn(Call) -> F + Send + Sync + 'static) -> (Client, Calls)
where
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let calls = Calls::default();
    let (record, answer) = (calls.clone(), Arc::new(answer));
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (record, answer) = (record.clone(), Arc::clone(&answer));
        async move {
            let call = read(request).await;
            record.0.lock().unwrap().push(call.clone());
            Ok::<_, std::convert::Infallible>(answer(call).await)
        }
    });
    (Client::new(service, "default"), calls)
}

async fn read(request: http::Request<kube::client::Body>) -> Call {
    let (head, body) = request.into_parts();
    let header = |name| head.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    let body = body.collect_bytes().await.unwrap();
    Call {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: pairs(head.uri.query().unwrap_or_default()),
        content_type: header("content-type"),
        accept: header("accept"),
        body: if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() },
    }
}

fn pairs(query: &str) -> BTreeMap<String, String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.replace("%2F", "/").replace("%3D", "="))).collect()
}

pub(crate) fn answer(code: u16, body: impl Into<Body>) -> Response<Body> {
    Response::builder().status(code).body(body.into()).unwrap()
}

pub(crate) fn ok(object: &Value) -> Response<Body> {
    answer(200, object.to_string())
}

/// A refusal as the API server words it.
pub(crate) fn refusal(code: u16, reason: &str, message: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
    });
    answer(code, status.to_string())
}

/// A page of a list.
pub(crate) fn page(items: &[Value], resource_version: &str, next: Option<&str>) -> Response<Body> {
    ok(&json!({
        "apiVersion": "v1",
        "kind": "List",
        "metadata": {"resourceVersion": resource_version, "continue": next},
        "items": items,
    }))
}

/// What a watch sends, one after the other.
#[derive(Clone, Debug)]
pub(crate) enum Frame {
    /// A line, as it is.
    Line(String),
    /// Nothing for a while.
    Wait(Duration),
    /// Nothing any more, with the connection open.
    Hang,
}

pub(crate) fn event(kind: &str, object: &Value) -> Frame {
    Frame::Line(json!({"type": kind, "object": object}).to_string())
}

pub(crate) fn bookmark(resource_version: &str) -> Frame {
    event(
        "BOOKMARK",
        &json!({"apiVersion": "v1", "kind": "Any", "metadata": {"resourceVersion": resource_version}}),
    )
}

/// A watch that sends these and then ends in good order.
pub(crate) fn watch(frames: Vec<Frame>) -> Response<Body> {
    let lines = stream::iter(frames).filter_map(|frame| async move {
        match frame {
            Frame::Line(line) => Some(Ok::<_, std::io::Error>(Bytes::from(line + "\n"))),
            Frame::Wait(time) => {
                tokio::time::sleep(time).await;
                None
            }
            Frame::Hang => std::future::pending().await,
        }
    });
    answer(200, Body::from_stream(lines))
}

/// GET over a socket of its own: status and body.
pub(crate) async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: operator\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}
