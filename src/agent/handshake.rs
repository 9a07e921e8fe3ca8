//! What memcached shows to its clients. Takes the address of a TLS port; gives the certificates that a handshake showed, and
//! the authorities from which memcached takes clients' certificates. IO; the loop ([`super::main_loop`]) calls it.
//!
//! Nothing is believed and nothing is sent: the agent compares what it is shown with its files. That memcached holds the key
//! of the certificate is checked, so a certificate with a wrong key is never shown. The agent presents no certificate of its
//! own; where memcached wants one, it ends the connection after it has shown everything.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::decide::Shown;
use crate::exporter::tls::verify_tls13;

/// How long a handshake may take.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(2);

/// What memcached shows at this address.
///
/// # Errors
/// Why it shows nothing.
pub async fn look(address: SocketAddr) -> Result<Shown, String> {
    let witness = Arc::new(Witness { provider: ring::default_provider(), seen: Mutex::default() });
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?;
    let verifier: Arc<dyn ServerCertVerifier> = Arc::<Witness>::clone(&witness);
    let resolver: Arc<dyn ResolvesClientCert> = Arc::<Witness>::clone(&witness);
    let config =
        config.dangerous().with_custom_certificate_verifier(verifier).with_client_cert_resolver(resolver);
    let shaken = async {
        let stream = TcpStream::connect(address).await?;
        TlsConnector::from(Arc::new(config)).connect(ServerName::IpAddress(address.ip().into()), stream).await
    };
    let shaken = timeout(HANDSHAKE_DEADLINE, shaken).await;
    let Seen { chain, authorities, proof } = witness.take();
    match (proof, shaken) {
        (Proof::Signed, _) => Ok(Shown { chain, authorities: authorities.into_iter().collect() }),
        (Proof::None, Ok(Err(error))) => {
            Err(format!("a TLS handshake with memcached at {address} fails: {error}"))
        }
        (Proof::None, _) => Err(format!("a TLS handshake with memcached at {address} does not end")),
    }
}

/// Whether memcached has shown that it holds the key of its certificate.
#[derive(Clone, Copy, Debug, Default)]
enum Proof {
    #[default]
    None,
    Signed,
}

#[derive(Debug, Default)]
struct Seen {
    chain: Vec<Vec<u8>>,
    authorities: Vec<Vec<u8>>,
    proof: Proof,
}

/// Writes down what is shown.
#[derive(Debug)]
struct Witness {
    provider: CryptoProvider,
    seen: Mutex<Seen>,
}

impl Witness {
    fn note(&self, write: impl FnOnce(&mut Seen)) {
        write(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn take(&self) -> Seen {
        std::mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn signed(&self, verified: &Result<HandshakeSignatureValid, rustls::Error>) {
        if verified.is_ok() {
            self.note(|seen| seen.proof = Proof::Signed);
        }
    }
}

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let chain = std::iter::once(certificate).chain(intermediates);
        self.note(|seen| seen.chain = chain.map(|certificate| certificate.to_vec()).collect());
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        let verified = verify_tls12_signature(message, certificate, signature, algorithms);
        self.signed(&verified);
        verified
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        let verified = verify_tls13(message, certificate, signature, algorithms);
        self.signed(&verified);
        verified
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl ResolvesClientCert for Witness {
    fn resolve(&self, authorities: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.note(|seen| seen.authorities = authorities.iter().map(|subject| subject.to_vec()).collect());
        None
    }

    fn has_certs(&self) -> bool {
        true
    }
}
