//! The pods of one cache, and what they answer on their own port. Takes a resource; gives its pods, and pages of them. IO;
//! `agents` and `pod_figures` call it.
//!
//! The pods are listed for each question: their addresses are needed only while something is under way, and a list of one cache's
//! pods costs less than to remember the addresses of all pods. Whatever answers at a pod's address may be anything, so its
//! answer is bounded in time and length.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http::header::{CONNECTION, HOST};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use k8s_openapi::List;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::Client;
use kube::api::ListParams;
use kube::core::{DynamicObject, Resource as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::client::{CallError, call};
use super::kinds;
use crate::kernel::desired::meta::selector_text;
use crate::kernel::object::{Key, Watched};

/// How long one pod may take, from the connection to the last byte.
pub const POD_DEADLINE: Duration = Duration::from_secs(2);
/// Pods of one cache that are asked at once.
pub const AT_ONCE: usize = 8;

/// Lists the pods of a resource.
///
/// # Errors
/// Why they could not be listed, in words.
pub async fn list(client: &Client, resource: &Key) -> Result<Vec<Pod>, String> {
    let Key { namespace, name } = resource;
    let url = DynamicObject::url_path(&kinds::api_resource(Watched::Pod), Some(namespace));
    let labels = ListParams::default().labels(&selector_text(name));
    let request = kube::core::Request::new(url).list(&labels).map_err(|error| error.to_string())?;
    let listed = call(client, request, |body| serde_json::from_slice::<List<Pod>>(body)).await;
    match listed {
        Ok(Ok(pods)) => Ok(pods.items),
        Ok(Err(_)) => Err(format!("cannot list the pods of {resource}: the answer is no list of pods")),
        Err(error) => Err(format!("cannot list the pods of {resource}: {}", in_words(error))),
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

/// A pod that runs, or did when the kubelet told of it last, and has a container of one of these names.
#[must_use]
pub fn running(pod: &Pod, containers: &[&str]) -> Option<RunningPod> {
    let is_named = |it: &&Container| containers.contains(&it.name.as_str());
    let container = pod.spec.as_ref()?.containers.iter().find(is_named)?.name.clone();
    let status = pod.status.as_ref()?;
    let runs = status.phase.as_deref() == Some("Running") && pod.metadata.deletion_timestamp.is_none();
    let address = status.pod_ip.as_deref()?.parse().ok()?;
    let name = pod.metadata.name.clone().filter(|_| runs)?;
    Some(RunningPod { name, address, container })
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
