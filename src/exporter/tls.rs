//! TLS towards memcached. Takes the names of PEM files; gives a connector. IO: the files are read at each scrape, so
//! that renewed certificates need no restart. `target` calls it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
    verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_rustls::TlsConnector;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

/// How to speak TLS.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Which certificates of memcached are good.
    pub trust: Trust,
    /// The name or address that memcached's certificate must carry, where it is not the one connected to.
    pub server_name: Option<String>,
    /// What is presented to a memcached that wants a certificate.
    pub identity: Option<Identity>,
}

/// Which certificates of memcached are good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Certificates that an authority in this PEM file issued.
    Authorities(PathBuf),
    /// All: whoever answers is believed to be memcached, and is told the password.
    Anyone,
}

/// The exporter's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// PEM file of the certificate and what chains it to its authority.
    pub certificate: PathBuf,
    /// PEM file of its private key.
    pub key: PathBuf,
}

/// Why there is no connector.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A file is not what it should be.
    #[error("there is no {what} in PEM format in {}", path.display())]
    Pem {
        /// What should be in it.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: pem::Error,
    },
    /// An authority's certificate cannot be used.
    #[error("cannot trust what is in {}", path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: rustls::Error,
    },
    /// Our certificate and its key cannot be used.
    #[error("cannot present the certificate in {}", path.display())]
    Identity {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: rustls::Error,
    },
    /// The name cannot be that of a server.
    #[error("{0:?} is neither a DNS name nor an IP address: no certificate can carry it")]
    Name(String),
    /// Our own choice of protocols is impossible, which would be a defect.
    #[error("TLS cannot be set up")]
    Setup(#[source] rustls::Error),
}

impl Tls {
    /// Makes a connector of what is in the files now.
    ///
    /// # Errors
    /// When the files are not what they should be.
    pub async fn connector(&self) -> Result<TlsConnector, TlsError> {
        let Self { trust, server_name: _, identity } = self;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Setup)?;
        let builder = match trust {
            Trust::Authorities(path) => {
                let roots = Arc::new(roots(path).await?);
                let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
                let verifier = verifier.map_err(|error| TlsError::Authorities {
                    path: path.clone(),
                    source: rustls::Error::General(error.to_string()),
                })?;
                builder.with_webpki_verifier(verifier)
            }
            Trust::Anyone => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone(provider))),
        };
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(Identity { certificate, key }) => {
                let chain = certificates(certificate).await?;
                let private = PrivateKeyDer::from_pem_slice(&read(key).await?);
                let private = private.map_err(pem_error("private key", key))?;
                builder
                    .with_client_auth_cert(chain, private)
                    .map_err(|source| TlsError::Identity { path: certificate.clone(), source })?
            }
        };
        Ok(TlsConnector::from(Arc::new(config)))
    }

    /// The name that memcached's certificate must carry, by the host connected to.
    ///
    /// # Errors
    /// When the text cannot be the name of a server.
    pub fn name(&self, host: &str) -> Result<ServerName<'static>, TlsError> {
        let name = self.server_name.as_deref().unwrap_or(host);
        ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name(name.to_owned()))
    }
}

async fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path).await? {
        let added = roots.add(certificate);
        added.map_err(|source| TlsError::Authorities { path: path.to_owned(), source })?;
    }
    Ok(roots)
}

/// The certificates in a PEM file, at least one.
async fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(path).await?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let all = all.and_then(|all| if all.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(all) });
    all.map_err(pem_error("certificate", path))
}

fn pem_error(what: &'static str, path: &Path) -> impl FnOnce(pem::Error) -> TlsError {
    move |source| TlsError::Pem { what, path: path.to_owned(), source }
}

async fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    tokio::fs::read(path).await.map_err(|source| TlsError::File { path: path.to_owned(), source })
}

/// Whether the holder of a certificate signed the handshake, for who believes every certificate: only its key counts. Rustls
/// alone would refuse all certificates but those of version 3, and OpenSSL, which memcached uses, serves others too.
///
/// # Errors
/// Where somebody else signed it.
pub fn verify_tls13(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, rustls::Error> {
    match X509Certificate::from_der(certificate) {
        Ok((_, parsed)) => {
            let key = SubjectPublicKeyInfoDer::from(parsed.public_key().raw);
            verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
        }
        Err(_) => verify_tls13_signature(message, certificate, signature, algorithms),
    }
}

/// Believes every certificate. That its holder signed the handshake is still checked.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
