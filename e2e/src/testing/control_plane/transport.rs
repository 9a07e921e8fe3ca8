//! The operator's connection to the API server, with an interposer in it: takes the operator's own client, gives one that
//! shows every request to an [`Interposer`]. The interposer sends the request, drops it, or answers it itself.
//! Called by [`super::operator`].
//!
//! It also confines the operator to one namespace, by asking for the lists and watches of that namespace where the
//! operator asks for all: operators of different namespaces then work side by side on one cluster.

use std::sync::Arc;

use anyhow::{Context, Result};
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tower::BoxError;

/// The answer that the operator gets.
pub type Answer = Result<Response<Body>, BoxError>;

/// What a request is meant to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// A GET of all objects of a kind.
    List,
    /// A GET that goes on.
    Watch,
    /// A GET of one object.
    Get,
    /// An apply that may only create.
    Create,
    /// An apply that may only change what is there.
    Apply,
    /// A merge patch.
    Patch,
    /// A POST.
    Post,
    /// A DELETE.
    Delete,
}

impl Verb {
    /// Whether it could change something.
    pub fn writes(self) -> bool {
        !matches!(self, Self::List | Self::Watch | Self::Get)
    }
}

/// One request.
#[derive(Clone, Debug)]
pub struct Call {
    /// What it is meant to do.
    pub verb: Verb,
    /// The plural name: `deployments`.
    pub resource: String,
    /// The object, or for an Event the object that it is about; empty for lists and watches.
    pub name: String,
}

/// A request that has not been sent.
pub struct Forward {
    client: Client,
    request: Request<Body>,
}

impl Forward {
    /// Sends the request and waits for the head of the answer; by then the API server has made the change.
    pub async fn send(self) -> Answer {
        Ok(self.client.send(self.request).await?)
    }
}

/// Decides what becomes of each request.
pub trait Interposer: Send + Sync + 'static {
    /// Answers a request, by sending it or otherwise.
    fn interpose(self: Arc<Self>, call: Call, forward: Forward) -> BoxFuture<'static, Answer>;
}

/// Lets everything pass.
pub struct Straight;

impl Interposer for Straight {
    fn interpose(self: Arc<Self>, _: Call, forward: Forward) -> BoxFuture<'static, Answer> {
        Box::pin(forward.send())
    }
}

/// A client that sees only one namespace, and whose requests go through the interposer.
pub fn confined(inner: Client, namespace: &str, interposer: Arc<dyn Interposer>) -> Client {
    let namespace = namespace.to_owned();
    let service = tower::service_fn({
        let namespace = namespace.clone();
        move |request: Request<Body>| {
            let (client, namespace) = (inner.clone(), namespace.clone());
            let interposer = Arc::clone(&interposer);
            async move {
                if request.uri().path() == "/version" {
                    return Ok(client.send(request).await?);
                }
                let (call, request) = understand(request, &namespace).await?;
                interposer.interpose(call, Forward { client, request }).await
            }
        }
    });
    Client::new(service, namespace)
}

/// Reads what a request is about, and confines the request to the namespace.
async fn understand(request: Request<Body>, namespace: &str) -> Result<(Call, Request<Body>)> {
    let (mut parts, body) = request.into_parts();
    let body = body.collect_bytes().await?;
    let path = parts.uri.path().to_owned();
    let watch = parts.uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"));
    let (resource, name) = match path.split_once("/namespaces/") {
        Some((_, below)) => {
            let mut segments = below.split('/').skip(1);
            (segments.next().unwrap_or_default().to_owned(), segments.next().unwrap_or_default().to_owned())
        }
        None => {
            let (group, plural) = path.rsplit_once('/').context("a path has a slash")?;
            let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
            parts.uri = format!("{group}/namespaces/{namespace}/{plural}{query}").parse()?;
            (plural.to_owned(), String::new())
        }
    };
    let content: Value = serde_json::from_slice(&body).unwrap_or_default();
    let creates = content.pointer("/metadata/resourceVersion").is_some_and(|version| version == "1");
    let applies =
        parts.headers.get("content-type").is_some_and(|kind| kind == "application/apply-patch+yaml");
    let verb = match parts.method {
        Method::GET if watch => Verb::Watch,
        Method::GET if name.is_empty() => Verb::List,
        Method::GET => Verb::Get,
        Method::PATCH if applies && creates => Verb::Create,
        Method::PATCH if applies => Verb::Apply,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ => Verb::Post,
    };
    let about = content.pointer("/regarding/name").and_then(Value::as_str);
    let name = about.filter(|_| verb == Verb::Post).map_or(name, str::to_owned);
    Ok((Call { verb, resource, name }, Request::from_parts(parts, Body::from(body.to_vec()))))
}
