//! A certificate, its private key and the authorities of clients, as one content that a running memcached may be given. Takes
//! the bytes of the files; gives a [`Pair`] or what is wrong. Pure; the agent calls it.
//!
//! `refresh_certs` changes the certificate in place: a pair that does not fit together ends every new handshake. So what is
//! not certainly good is refused here. What depends on the time or on what memcached serves now is not judged here, but in
//! the agent's decision: a certificate that has ended is no reason to complain while memcached serves it already.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::oid_registry::{
    OID_KEY_TYPE_EC_PUBLIC_KEY, OID_PKCS1_RSAENCRYPTION, OID_SIG_ED448, OID_SIG_ED25519,
};
use x509_parser::prelude::FromDer as _;

use super::certificates::{judge_authorities, judge_key, read_chain};
use super::plain_pem::is_plain;
use super::refusal::Refusal;
use crate::kernel::secret_finding::SecretFinding;
use crate::kernel::secret_keys::{CA, CERTIFICATE, PRIVATE_KEY};

/// The files of a certificate Secret.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    /// `tls.crt`.
    pub certificate: &'a [u8],
    /// `tls.key`.
    pub key: &'a [u8],
    /// `ca.crt`, where memcached asks clients for certificates.
    pub authorities: Option<&'a [u8]>,
}

/// A pair that fits together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Memcached's certificate and what chains it to its authority, as DER.
    pub chain: Vec<Vec<u8>>,
    /// What clients see of memcached's own certificate.
    pub leaf: Leaf,
    /// The authorities of clients, each with its subject, as DER; `None` where memcached asks for no certificates.
    pub authorities: Option<BTreeMap<Vec<u8>, Vec<u8>>>,
}

/// What a client sees of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Since when it is good.
    pub not_before: Timestamp,
    /// Until when it is good.
    pub not_after: Timestamp,
    /// The kind of its key: memcached holds one certificate of each kind, and a new one replaces only that of its own kind.
    pub key_type: KeyType,
    /// The DNS names, addresses and URIs that it is for.
    pub names: BTreeSet<String>,
}

/// The kinds of keys that OpenSSL keeps apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
pub enum KeyType {
    /// RSA of any size.
    #[strum(to_string = "RSA")]
    Rsa,
    /// Elliptic curves of NIST.
    #[strum(to_string = "ECDSA")]
    Ec,
    /// Edwards' curves.
    #[strum(to_string = "Ed25519")]
    Ed25519,
    /// Edwards' larger curve.
    #[strum(to_string = "Ed448")]
    Ed448,
    /// Something else.
    #[strum(to_string = "an unknown kind of")]
    Other,
}

/// Files that a running memcached is not given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What is wrong.
    pub refusal: Refusal,
    /// What they hold all the same, where that can be read and the key is that of the certificate: a memcached that was started
    /// with them may serve it.
    pub pair: Option<Box<Pair>>,
    /// Whether this is what is wrong: no authority in `ca.crt` has issued the certificate. That may be meant.
    pub is_not_issued: bool,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, pair: None, is_not_issued: false }
    }
}

/// The pair in these files.
///
/// # Errors
/// What is wrong with it.
pub fn read(files: Files<'_>) -> Result<Pair, Refused> {
    let pair = parse(files)?;
    let doubt = match pair.chain.first().is_some_and(|own| is_for_servers(own)) {
        true => chained(&pair).err(),
        false => Some(Doubt {
            refusal: Refusal::new(
                CERTIFICATE,
                "the certificate is not made for servers: its extended key usage lacks serverAuth; is it a client's?",
            ),
            is_not_issued: false,
        }),
    };
    match doubt {
        None => Ok(pair),
        Some(Doubt { refusal, is_not_issued }) => {
            Err(Refused { refusal, pair: Some(Box::new(pair)), is_not_issued })
        }
    }
}

/// What the files hold, where that can certainly be read, and the key is that of the certificate.
fn parse(files: Files<'_>) -> Result<Pair, Refusal> {
    let Files { certificate, key, authorities } = files;
    let all = [(CERTIFICATE, Some(certificate)), (PRIVATE_KEY, Some(key)), (CA, authorities)];
    if let Some((key, _)) = all.into_iter().find(|(_, file)| file.is_some_and(begins_with_a_mark)) {
        return Err(Refusal::new(
            key,
            "it begins with a byte order mark, behind which OpenSSL finds nothing; remove it",
        ));
    }
    let chain = read_chain(certificate)?;
    let unreadable = || Refusal::from(SecretFinding::CertificateNotJudged);
    let leaf = chain.first().and_then(|own| Leaf::from_der(own)).ok_or_else(unreadable)?;
    if let Some(finding) = judge_key(key, Some(certificate)) {
        return Err(finding.into());
    }
    let authorities = authorities.map(with_subjects).transpose()?;
    if let Some((key, _)) = all.into_iter().find(|(_, file)| file.is_some_and(|file| !is_plain(file))) {
        return Err(Refusal::new(
            key,
            "it is PEM of an odd form, which memcached may read differently (the plain one has lines of 64 letters, and \
             nothing but these between BEGIN and END): write it anew, for example with openssl",
        ));
    }
    Ok(Pair { chain, leaf, authorities })
}

/// As editors of Windows write it, in any encoding.
fn begins_with_a_mark(file: &[u8]) -> bool {
    [&b"\xef\xbb\xbf"[..], b"\xff\xfe", b"\xfe\xff"].iter().any(|mark| file.starts_with(mark))
}

/// The authorities in a file, each with its subject, as DER.
fn with_subjects(file: &[u8]) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Refusal> {
    if let Some(finding) = judge_authorities(file).finding {
        return Err(finding.into());
    }
    let unreadable = || Refusal::from(SecretFinding::AuthorityNotJudged);
    let mut subjects = BTreeMap::new();
    for authority in read_chain(file).map_err(|_| unreadable())? {
        let (_, parsed) = X509Certificate::from_der(&authority).map_err(|_| unreadable())?;
        subjects.insert(authority.clone(), parsed.subject().as_raw().to_vec());
    }
    Ok(subjects)
}

/// What speaks against a pair that can be read.
struct Doubt {
    refusal: Refusal,
    is_not_issued: bool,
}

impl From<SecretFinding> for Doubt {
    fn from(finding: SecretFinding) -> Self {
        Self { refusal: finding.into(), is_not_issued: false }
    }
}

/// Whether one of the authorities has issued the chain.
fn chained(Pair { chain, leaf, authorities }: &Pair) -> Result<(), Doubt> {
    let Some(authorities) = authorities else { return Ok(()) };
    let mut roots = RootCertStore::empty();
    for authority in authorities.keys() {
        let added = roots.add(CertificateDer::from(authority.as_slice()));
        added.map_err(|_| SecretFinding::AuthorityNotJudged)?;
    }
    // A self-signed certificate that memcached itself shows is its own authority.
    let is_its_own = chain.first().is_some_and(|own| authorities.contains_key(own));
    match issued_by(chain, leaf, &roots) {
        Ok(()) => Ok(()),
        Err(_) if is_its_own => Ok(()),
        Err(Error::InvalidCertificate(error)) => Err(not_chained(&error)),
        Err(_) => Err(SecretFinding::CertificateNotJudged.into()),
    }
}

/// Whether the chain leads to one of the authorities, at a time when memcached's own certificate is good.
fn issued_by(chain: &[Vec<u8>], leaf: &Leaf, roots: &RootCertStore) -> Result<(), Error> {
    let mut certificates = chain.iter().map(|der| CertificateDer::from(der.as_slice()));
    let Some(own) = certificates.next() else { return Err(CertificateError::BadEncoding.into()) };
    let others: Vec<_> = certificates.collect();
    let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(
        u64::try_from(leaf.not_before.as_second()).unwrap_or_default(),
    ));
    let algorithms = ring::default_provider().signature_verification_algorithms;
    verify_server_cert_signed_by_trust_anchor(
        &ParsedCertificate::try_from(&own)?,
        roots,
        &others,
        at,
        algorithms.all,
    )
}

fn not_chained(error: &CertificateError) -> Doubt {
    let (words, is_not_issued) = match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            let words = format!(
                "no authority in {CA} has issued the certificate; is one of the two files of another Secret? If it is meant, \
                 restart the pods"
            );
            (words, true)
        }
        CertificateError::ExpiredContext { .. }
        | CertificateError::Expired
        | CertificateError::NotValidYetContext { .. }
        | CertificateError::NotValidYet => {
            ("a certificate of its chain is not valid for as long as memcached's own is".to_owned(), false)
        }
        _ => return SecretFinding::CertificateNotJudged.into(),
    };
    Doubt { refusal: Refusal::new(CERTIFICATE, words), is_not_issued }
}

impl Leaf {
    /// Reads what stands in a certificate; `None` where it cannot be read.
    #[must_use]
    pub fn from_der(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let time = |seconds| Timestamp::from_second(seconds);
        let validity = certificate.validity();
        let algorithm = &certificate.public_key().algorithm.algorithm;
        let key_type = [
            (OID_PKCS1_RSAENCRYPTION, KeyType::Rsa),
            (OID_KEY_TYPE_EC_PUBLIC_KEY, KeyType::Ec),
            (OID_SIG_ED25519, KeyType::Ed25519),
            (OID_SIG_ED448, KeyType::Ed448),
        ];
        let known = key_type.into_iter().find(|(oid, _)| oid == algorithm);
        Some(Self {
            not_before: time(validity.not_before.timestamp()).unwrap_or(Timestamp::MIN),
            // The year 9999 stands for no end, and its last hours are beyond what we can write.
            not_after: time(validity.not_after.timestamp()).unwrap_or(Timestamp::MAX),
            key_type: known.map_or(KeyType::Other, |(_, known)| known),
            names: names(&certificate),
        })
    }
}

fn names(certificate: &X509Certificate<'_>) -> BTreeSet<String> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else { return BTreeSet::new() };
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        GeneralName::URI(uri) => Some((*uri).to_owned()),
        GeneralName::IPAddress(bytes) => match **bytes {
            [a, b, c, d] => Some(core::net::Ipv4Addr::new(a, b, c, d).to_string()),
            _ => <[u8; 16]>::try_from(*bytes).ok().map(|ip| core::net::Ipv6Addr::from(ip).to_string()),
        },
        _ => None,
    };
    extension.value.general_names.iter().filter_map(name).collect()
}

/// Whether clients that look at the purpose of a certificate take it for a server's. One that names no purpose is for all.
fn is_for_servers(der: &[u8]) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(der) else { return false };
    match certificate.extended_key_usage() {
        Ok(Some(usage)) => usage.value.server_auth || usage.value.any,
        Ok(None) => true,
        Err(_) => false,
    }
}
