//! An admission webhook that refuses everything: a server on loopback with a certificate of its own. Called by the tests of
//! refusals; it ends when it is dropped.

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::{Context, Result};
use e2e::certs::Authority;
use k8s_openapi::ByteString;
use rcgen::CertificateParams;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// What it says.
const WORDS: &str = "exceeded quota: a test says no";

/// A webhook that serves.
pub(crate) struct Webhook {
    port: u16,
    authority: String,
    task: JoinHandle<()>,
}

impl Webhook {
    pub(crate) async fn start() -> Result<Self> {
        let authority = Authority::create("webhook")?;
        let (certificate, key) =
            authority.sign(CertificateParams::new(vec![Ipv4Addr::LOCALHOST.to_string()])?)?;
        let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                // The API server shows an answer that does not come as another refusal.
                tokio::spawn(async move { answer(&acceptor, stream).await.ok() });
            }
        });
        Ok(Self { port, authority: authority.certificate, task })
    }

    /// How the API server reaches it.
    pub(crate) fn client_config(&self) -> Value {
        let url = format!("https://{}:{}/", Ipv4Addr::LOCALHOST, self.port);
        json!({"url": url, "caBundle": ByteString(self.authority.clone().into_bytes())})
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Answers one request, and closes the connection.
async fn answer(acceptor: &TlsAcceptor, stream: TcpStream) -> Result<()> {
    let mut stream = acceptor.accept(stream).await?;
    let mut request = Vec::new();
    let review = loop {
        let mut part = [0; 4096];
        let length = stream.read(&mut part).await?;
        request.extend_from_slice(&part[..length]);
        if let Some(review) = body(&request) {
            break review;
        }
        anyhow::ensure!(length > 0, "the request ended early");
    };
    let uid = review.pointer("/request/uid").context("a review has a uid")?;
    let response = json!({"uid": uid, "allowed": false, "status": {"code": 403, "message": WORDS}});
    let review =
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    let text = review.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(text.as_bytes()).await?;
    Ok(stream.shutdown().await?)
}

/// The body of a request, once it is complete.
fn body(request: &[u8]) -> Option<Value> {
    let head = request.windows(4).position(|it| it == b"\r\n\r\n")?;
    serde_json::from_slice(request.get(head + 4..)?).ok()
}
