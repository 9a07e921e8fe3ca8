//! Asks the memcached of one pod for its figures, through a port that the API server forwards. Takes the pod and whom
//! to ask there, gives [`Figures`]. IO, with the user's own rights; called by `gather`.

use std::time::Duration;

use http::header::HOST;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::client::Body;
use kube::{Api, Client, Error};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::view::figures_source::FiguresSource;
use crate::exporter::target;
use crate::exporter::tls::{Tls, Trust};
use crate::figures::Figures;
use crate::shell::client::explain;

/// How long all of it may take.
const DEADLINE: Duration = Duration::from_secs(5);
/// How long the reason of a broken port may take to arrive after the port broke.
const REASON: Duration = Duration::from_millis(500);
/// The most bytes of a page of metrics.
const LARGEST: usize = 4 * 1024 * 1024;
/// The pod's own loopback, where the forwarded port ends.
const LOOPBACK: &str = "127.0.0.1";

/// The figures that the pod tells.
///
/// # Errors
/// Why there are none.
pub async fn ask(client: &Client, pod: &Pod, source: FiguresSource) -> Result<Figures, String> {
    let meta = &pod.metadata;
    let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default());
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace.unwrap_or_default());
    let asked = async {
        let port = source.port();
        let forwarded = pods.portforward(name, &[port]).await;
        let mut forwarded = forwarded.map_err(|error| refusal(&error))?;
        let (Some(stream), Some(broken)) = (forwarded.take_stream(port), forwarded.take_error(port)) else {
            return Err(format!("port {port} of the pod could not be forwarded"));
        };
        match talk(stream, source).await {
            Ok(figures) => Ok(figures),
            // The kubelet knows better why nothing came.
            Err(why) => Err(match timeout(REASON, broken).await {
                Ok(Some(reason)) => reason.trim().to_owned(),
                Ok(None) | Err(_) => why,
            }),
        }
    };
    let late = |_| Err(format!("no answer within {} s", DEADLINE.as_secs()));
    timeout(DEADLINE, asked).await.unwrap_or_else(late)
}

/// Why no port is forwarded.
fn refusal(error: &Error) -> String {
    match error {
        // The API server's words name the pod: the same reason would be told once for each.
        Error::Api(status) if status.code == StatusCode::FORBIDDEN => {
            "you may not forward ports to pods here (get and create of pods/portforward)".to_owned()
        }
        error => format!("cannot forward a port: {}", explain(error)),
    }
}

/// The figures that are told on a connection to whom [`FiguresSource`] names.
///
/// # Errors
/// Why none are told.
pub async fn talk<S>(stream: S, source: FiguresSource) -> Result<Figures, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match source {
        FiguresSource::Exporter(_) => Figures::from_page(&page(stream).await?),
        FiguresSource::Plaintext(_) => of_memcached(stream).await,
        FiguresSource::Tls(_) => {
            // Nobody stands between the kubelet and the pod's own loopback, and nothing secret is said.
            let tls = Tls { trust: Trust::Anyone, server_name: None, identity: None };
            let connector = tls.connector().await.map_err(|error| error.to_string())?;
            let name = tls.name(LOOPBACK).map_err(|error| error.to_string())?;
            let stream = connector.connect(name, stream).await;
            of_memcached(stream.map_err(|error| format!("the TLS handshake failed: {error}"))?).await
        }
    }
}

async fn of_memcached<S: AsyncRead + AsyncWrite + Unpin>(stream: S) -> Result<Figures, String> {
    let stats = target::general(stream).await.map_err(|error| error.to_string())?;
    Ok(Figures::from_stats(|name| stats.server.get(name).map(String::as_str)))
}

/// The page of metrics of an exporter.
async fn page<S>(stream: S) -> Result<String, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let failed = |error: hyper::Error| format!("the exporter does not answer: {error}");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    tokio::spawn(connection);
    let request = Request::get("/metrics").header(HOST, LOOPBACK).body(Body::empty());
    let request = request.map_err(|error| error.to_string())?;
    let answer = sender.send_request(request).await.map_err(failed)?;
    let status = answer.status();
    if !status.is_success() {
        return Err(format!("the exporter answers {status}"));
    }
    let body = Limited::new(answer.into_body(), LARGEST).collect().await;
    let body = body.map_err(|error| format!("the exporter's page cannot be read: {error}"))?;
    Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
}
