//! Certificates for caches and clients, and a client that speaks TLS. Takes a namespace or an address; called by tests and by
//! the benchmark.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Secret;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::Space;
use super::memcached::Memcached;
use crate::certs;

/// The name in the caches' certificates.
pub const SERVER: &str = "cache.test";
const DEADLINE: Duration = Duration::from_secs(60);

/// An authority and what it issues: a cache's certificate, and a client's.
pub struct Authority {
    authority: certs::Authority,
    client: Pair,
    /// What the caches' certificates name.
    names: Vec<String>,
}

/// A certificate and its key, as PEM.
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

impl Authority {
    /// A new authority, and a client's certificate of it.
    ///
    /// # Errors
    /// When a key or certificate cannot be made.
    pub fn create(name: &str) -> Result<Self> {
        let authority = certs::Authority::create(name)?;
        let client = issue(&authority, &["client".to_owned()], &[ExtendedKeyUsagePurpose::ClientAuth])?;
        Ok(Self { authority, client, names: vec![SERVER.to_owned()] })
    }

    /// This authority; the caches' certificates name this too.
    #[must_use]
    pub fn naming(mut self, name: String) -> Self {
        self.names.push(name);
        self
    }

    /// The client's certificate and key.
    pub fn client(&self) -> &Pair {
        &self.client
    }

    /// The authority's own certificate, as PEM.
    pub fn certificate(&self) -> &str {
        &self.authority.certificate
    }

    /// A new pair for a cache that checks its clients, whose certificate is good until this year begins.
    ///
    /// # Errors
    /// When a key or certificate cannot be made.
    pub fn pair_until(&self, year: i32) -> Result<Pair> {
        // The exporter presents the cache's certificate to the cache: so it has to be good for both ends.
        let usages = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let mut params = params(&self.names, &usages)?;
        params.not_after = date_time_ymd(year, 1, 1);
        let (certificate, key) = self.authority.sign(params)?;
        Ok(Pair { certificate, key })
    }

    /// A new certificate of a cache for this key, as PEM.
    ///
    /// # Errors
    /// When it cannot be signed.
    pub fn certify(&self, key: &KeyPair) -> Result<String> {
        self.authority.certify(key, params(&self.names, &[ExtendedKeyUsagePurpose::ServerAuth])?)
    }

    /// Creates or changes a Secret as cert-manager fills it, with a new certificate. Gives the certificate, as PEM.
    ///
    /// # Errors
    /// What the API server answers.
    pub async fn fill(&self, space: &Space, secret: &str) -> Result<String> {
        // The exporter presents the cache's certificate to the cache: so it has to be good for both ends.
        let usages = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let Pair { certificate, key } = issue(&self.authority, &self.names, &usages)?;
        let data = json!({"tls.crt": certificate, "tls.key": key, "ca.crt": self.authority.certificate});
        let secret = json!({"metadata": {"name": secret}, "type": "kubernetes.io/tls", "stringData": data});
        space.apply::<Secret>(&serde_json::from_value(secret)?).await?;
        Ok(certificate)
    }

    /// Changes a Secret to this text for a certificate beside a key of another one.
    ///
    /// # Errors
    /// What the API server answers.
    pub async fn fill_with(&self, space: &Space, secret: &str, certificate: &str) -> Result<()> {
        let Pair { key, .. } = issue(&self.authority, &self.names, &[])?;
        let data = json!({"tls.crt": certificate, "tls.key": key, "ca.crt": self.authority.certificate});
        let secret = json!({"metadata": {"name": secret}, "type": "kubernetes.io/tls", "stringData": data});
        space.apply::<Secret>(&serde_json::from_value(secret)?).await.map(|_| ())
    }

    /// Changes a Secret to a new certificate beside the key of another one.
    ///
    /// # Errors
    /// What the API server answers.
    pub async fn fill_mismatched(&self, space: &Space, secret: &str) -> Result<()> {
        let Pair { certificate, .. } = issue(&self.authority, &self.names, &[])?;
        self.fill_with(space, secret, &certificate).await
    }

    /// Connects with TLS to a cache that this authority must have certified.
    ///
    /// # Errors
    /// When nobody answers within a minute, or somebody without such a certificate.
    pub async fn connect(&self, to: SocketAddr, identity: Option<&Pair>) -> Result<Memcached> {
        Ok(Memcached::from_stream(self.handshake(to, SERVER, identity).await?))
    }

    /// Connects with TLS, without a certificate of the client, to a cache whose certificate has to show this name.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn connect_by_name(&self, to: SocketAddr, name: &str) -> Result<Memcached> {
        Ok(Memcached::from_stream(self.handshake(to, name, None).await?))
    }

    /// Whether a cache shows this certificate, given as PEM, to who connects now.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn sees(&self, to: SocketAddr, identity: Option<&Pair>, pem: &str) -> Result<bool> {
        let stream = self.handshake(to, SERVER, identity).await?;
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        Ok(shown == Some(&CertificateDer::from_pem_slice(pem.as_bytes())?))
    }

    async fn handshake(
        &self,
        to: SocketAddr,
        name: &str,
        identity: Option<&Pair>,
    ) -> Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.certificate.as_bytes())?)?;
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(Pair { certificate, key }) => builder.with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes())?],
                PrivateKeyDer::from_pem_slice(key.as_bytes())?,
            )?,
        };
        let connecting = async {
            let stream = TcpStream::connect(to).await?;
            TlsConnector::from(Arc::new(config))
                .connect(ServerName::try_from(name.to_owned())?, stream)
                .await
                .map_err(anyhow::Error::from)
        };
        timeout(DEADLINE, connecting).await.with_context(|| format!("{to} does not speak TLS"))?
    }
}

fn issue(authority: &certs::Authority, names: &[String], usages: &[ExtendedKeyUsagePurpose]) -> Result<Pair> {
    let (certificate, key) = authority.sign(params(names, usages)?)?;
    Ok(Pair { certificate, key })
}

fn params(names: &[String], usages: &[ExtendedKeyUsagePurpose]) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, names[0].as_str());
    params.extended_key_usages = usages.to_vec();
    Ok(params)
}
