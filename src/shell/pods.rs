//! The pods of one cache, and what they answer on their own port. Takes a resource; gives its pods, and pages of them. IO;
//! `agents` and `pod_figures` call it.
//!
//! The pods are listed for each question: their addresses are needed only while something is under way, and a list of one cache's
//! pods costs less than to remember the addresses of all pods. Of the list no more is held than who is to be asked. Whatever
//! answers at a pod's address may be anything, so its answer is bounded in time and length.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http::header::{CONNECTION, HOST};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::api::ListParams;
use kube::core::{DynamicObject, ObjectMeta, Resource as _};
use kube::runtime::watcher;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::client::{CallError, DEADLINE, explain};
use super::kinds;
use super::watches::page::{Item, Page, Part};
use crate::kernel::desired::meta::selector_text;
use crate::kernel::object::{Key, Watched};

/// How long one pod may take, from the connection to the last byte.
pub const POD_DEADLINE: Duration = Duration::from_secs(2);
/// Pods of one cache that are asked at once.
pub const AT_ONCE: usize = 8;
/// Pods of one page of their list.
const PODS_OF_A_PAGE: u32 = 100;
/// More pods than a cache has: whoever may make pods may give them its labels.
const MOST_PODS: usize = 5_000;

/// The pods of a resource that run, or did when the kubelet told of it last, and have a container of one of these names.
///
/// # Errors
/// Why they could not be listed, in words.
pub async fn running(
    client: &Client,
    resource: &Key,
    containers: &[&str],
) -> Result<Vec<RunningPod>, String> {
    let listed = match timeout(DEADLINE, list(client, resource, containers)).await {
        Ok(listed) => listed,
        Err(_elapsed) => Err(format!("no answer within {} s", DEADLINE.as_secs())),
    };
    listed.map_err(|why| format!("cannot list the pods of {resource}: {why}"))
}

async fn list(client: &Client, resource: &Key, containers: &[&str]) -> Result<Vec<RunningPod>, String> {
    let Key { namespace, name } = resource;
    let url = DynamicObject::url_path(&kinds::api_resource(Watched::Pod), Some(namespace));
    // Pods that have ended may stay by the thousand.
    let wanted = ListParams::default().labels(&selector_text(name)).fields("status.phase=Running");
    let mut wanted = wanted.limit(PODS_OF_A_PAGE);
    let mut found = Vec::new();
    loop {
        let request = kube::core::Request::new(&url).list(&wanted).map_err(|error| error.to_string())?;
        let mut page = Page::<ListedPod>::ask(client, request).await.map_err(|error| explain(&error))?;
        let head = loop {
            match page.next().await.map_err(cut_off)? {
                Part::Object(pod) => found.extend(pod.running(containers)),
                Part::End(head) => break head,
            }
            if found.len() > MOST_PODS {
                return Err(format!("more than {MOST_PODS} pods have its labels"));
            }
        };
        if head.next.is_empty() {
            return Ok(found);
        }
        wanted = wanted.continue_token(&head.next);
    }
}

fn cut_off(error: watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(why) => explain(&why),
        other => other.to_string(),
    }
}

/// An error of a request to the API server, in its words.
#[must_use]
pub fn in_words(error: CallError) -> String {
    match error {
        CallError::Refused(status) => super::client::said(&status),
        CallError::Lost(why) => why,
    }
}

/// A pod that runs.
#[derive(Debug)]
pub struct RunningPod {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: IpAddr,
    /// The name of the container that was looked for.
    pub container: String,
}

/// What is read of a pod. Somebody may have given the labels to pods of a megabyte.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ListedPod {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    deletion_timestamp: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    containers: Vec<Container>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Container {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
}

impl Item for ListedPod {
    fn bare(metadata: ObjectMeta) -> Self {
        let metadata = Metadata { name: metadata.name, ..Metadata::default() };
        Self { metadata, ..Self::default() }
    }
}

impl ListedPod {
    fn running(self, containers: &[&str]) -> Option<RunningPod> {
        let Self { metadata, spec, status } = self;
        let is_named = |it: &Container| containers.contains(&it.name.as_str());
        let container = spec.containers.into_iter().find(is_named)?.name;
        let runs = status.phase.as_deref() == Some("Running") && metadata.deletion_timestamp.is_none();
        let address = status.pod_ip?.parse().ok()?;
        let name = metadata.name.filter(|_| runs)?;
        Some(RunningPod { name, address, container })
    }
}

/// Gets a page of at most `largest` bytes.
///
/// # Errors
/// Why there is none, in words.
pub async fn get(address: SocketAddr, path: &str, largest: usize) -> Result<(StatusCode, Bytes), String> {
    match timeout(POD_DEADLINE, converse(address, path, largest)).await {
        Ok(ended) => ended,
        Err(_elapsed) => Err(format!("no answer within {} s", POD_DEADLINE.as_secs())),
    }
}

async fn converse(address: SocketAddr, path: &str, largest: usize) -> Result<(StatusCode, Bytes), String> {
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let request = Request::get(path).header(HOST, address.to_string()).header(CONNECTION, "close");
    let request = request.body(Empty::<Bytes>::new()).map_err(|error| error.to_string())?;
    let answer = async {
        let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), largest).collect().await;
        let body = body.map_err(|error| format!("no whole answer: {error}"))?;
        Ok((status, body.to_bytes()))
    };
    // The connection ends with this function, whatever the other side does.
    tokio::pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        ended = connection => match ended {
            // What was read before the end may be a whole answer.
            Ok(()) => answer.await,
            Err(error) => Err(error.to_string()),
        },
    }
}
