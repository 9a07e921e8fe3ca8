//! The certificate of the metrics. Takes where it comes from; gives what TLS is set up with, again when its files change. IO;
//! `mod` runs it beside the server.

use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::sync::watch;
use tokio::time::sleep;

/// How often files are read.
pub const PERIOD: Duration = Duration::from_secs(10);
/// Files of a folder, named as in a Secret of the type `kubernetes.io/tls`.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
/// The name in a certificate that is made here. Nobody can verify it.
const SELF_MADE_NAME: &str = "memcached-operator";

/// Where the certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// It is made at the start, with a key that never leaves this process. A client can only take it as it is.
    SelfMade,
    /// From the files `tls.crt` and `tls.key` of this folder.
    Folder(PathBuf),
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
enum CertificateError {
    #[error("cannot read {file}: {source}")]
    File { file: &'static str, source: std::io::Error },
    #[error("there is no {what} in PEM format in {file}")]
    Pem { what: &'static str, file: &'static str },
    #[error("certificate and key cannot be used: {0}")]
    Tls(#[from] rustls::Error),
    #[error("cannot make a certificate: {0}")]
    SelfMade(#[from] rcgen::Error),
}

/// What is in the two files.
#[derive(PartialEq, Eq)]
struct Pem {
    chain: Vec<u8>,
    key: Vec<u8>,
}

/// Gives the newest certificate to `newest`, for ever. One that cannot be used changes nothing: connections get the one before,
/// and wait while there has never been one.
pub(super) async fn keep_current(source: Source, newest: watch::Sender<Option<Arc<ServerConfig>>>) {
    match source {
        Source::SelfMade => {
            match self_made() {
                Ok(config) => {
                    newest.send_replace(Some(Arc::new(config)));
                }
                Err(error) => {
                    tracing::warn!("no certificate for /metrics, everything else goes on: {error}");
                }
            }
            pending::<()>().await;
        }
        Source::Folder(folder) => follow(&folder, &newest).await,
    }
}

/// Polls, as controller-runtime does: a mounted Secret is a link that changes its target, and a look at two small files costs
/// nothing.
async fn follow(folder: &Path, newest: &watch::Sender<Option<Arc<ServerConfig>>>) {
    let mut last = None;
    loop {
        let read = read(folder).await.map_err(|error| error.to_string());
        if last.as_ref() != Some(&read) {
            let made = match &read {
                Ok(pem) => from_pem(pem).map_err(|error| error.to_string()),
                Err(why) => Err(why.clone()),
            };
            match made {
                Ok(config) => {
                    newest.send_replace(Some(Arc::new(config)));
                    tracing::info!(folder = %folder.display(), "the certificate of /metrics was read");
                }
                Err(why) => tracing::warn!(
                    folder = %folder.display(),
                    "no new certificate for /metrics, everything else goes on: {why}"
                ),
            }
            last = Some(read);
        }
        sleep(PERIOD).await;
    }
}

async fn read(folder: &Path) -> Result<Pem, CertificateError> {
    let read = async |file: &'static str| {
        let content = tokio::fs::read(folder.join(file)).await;
        content.map_err(|source| CertificateError::File { file, source })
    };
    Ok(Pem { chain: read(CERTIFICATE).await?, key: read(KEY).await? })
}

fn from_pem(Pem { chain, key }: &Pem) -> Result<ServerConfig, CertificateError> {
    let chain: Option<Vec<_>> = CertificateDer::pem_slice_iter(chain).map(Result::ok).collect();
    let chain = chain.filter(|chain| !chain.is_empty());
    let chain = chain.ok_or(CertificateError::Pem { what: "certificate", file: CERTIFICATE })?;
    let key = PrivateKeyDer::from_pem_slice(key);
    let key = key.map_err(|_| CertificateError::Pem { what: "private key", file: KEY })?;
    with(chain, key)
}

fn self_made() -> Result<ServerConfig, CertificateError> {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed([SELF_MADE_NAME.to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    with(vec![cert.into()], key.into())
}

fn with(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, CertificateError> {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?.with_no_client_auth();
    let mut config = builder.with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{CertificateParams, KeyPair};
    use tempfile::TempDir;
    use tokio::time::timeout;

    use super::*;

    /// A certificate and its key, as PEM.
    struct KeyPairPem {
        certificate: String,
        key: String,
    }

    fn made() -> KeyPairPem {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(["operator".to_owned()]).unwrap().self_signed(&key).unwrap();
        KeyPairPem { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    fn write(folder: &Path, KeyPairPem { certificate, key }: &KeyPairPem) {
        fs::write(folder.join(CERTIFICATE), certificate).unwrap();
        fs::write(folder.join(KEY), key).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_certificate_is_taken_and_one_that_is_no_use_changes_nothing() {
        let folder = TempDir::new().unwrap();
        let (sender, mut newest) = watch::channel(None);
        tokio::spawn(keep_current(Source::Folder(folder.path().to_owned()), sender));
        let mut replaced = async || timeout(3 * PERIOD, newest.changed()).await.is_ok();
        assert!(!replaced().await, "there is none");

        write(folder.path(), &made());
        assert!(replaced().await, "the first one");
        assert!(!replaced().await, "it is the same");

        let (foreign, next) = (made(), made());
        for unusable in [&foreign.key, "", "no PEM"] {
            let certificate = next.certificate.clone();
            write(folder.path(), &KeyPairPem { certificate, key: unusable.to_owned() });
            assert!(!replaced().await, "{unusable}");
        }
        fs::remove_file(folder.path().join(KEY)).unwrap();
        assert!(!replaced().await, "half of it is gone");

        write(folder.path(), &next);
        assert!(replaced().await, "the next one");
        assert!(newest.borrow().is_some());
    }

    #[tokio::test]
    async fn without_a_folder_one_is_made() {
        let (sender, mut newest) = watch::channel(None);
        tokio::spawn(keep_current(Source::SelfMade, sender));
        newest.changed().await.unwrap();
        assert!(newest.borrow().is_some());
    }

    #[test]
    fn what_is_missing_or_does_not_fit_is_named() {
        let (KeyPairPem { certificate, key }, foreign) = (made(), made());
        let said = |chain: &str, key: &str| {
            let pem = Pem { chain: chain.into(), key: key.into() };
            from_pem(&pem).map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(said(&certificate, &key), Ok(()));
        assert_eq!(said("", &key).unwrap_err(), "there is no certificate in PEM format in tls.crt");
        assert_eq!(said(&key, &key).unwrap_err(), "there is no certificate in PEM format in tls.crt");
        assert_eq!(said(&certificate, "").unwrap_err(), "there is no private key in PEM format in tls.key");
        let unfit = said(&certificate, &foreign.key).unwrap_err();
        assert!(unfit.starts_with("certificate and key cannot be used: "), "{unfit}");
    }
}
