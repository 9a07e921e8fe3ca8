//! What memcached, which uses OpenSSL, makes of certificates and a private key. Takes their bytes; gives findings and ends.
//! Pure; called where the operator reduces a Secret, and by [`super::pair`].
//!
//! OpenSSL takes the first certificate of `tls.crt` as memcached's own and all others as its chain, the first private key
//! of `tls.key`, and every certificate of `ca.crt`; text and other objects between them it passes over. Our libraries know
//! fewer kinds of keys and certificates than it does. So only what cannot be decoded, is not there, or certainly belongs
//! to something else is called invalid; whatever else our libraries refuse is not judged.

use jiff::Timestamp;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::{PemObject as _, SectionKind};
use x509_parser::asn1_rs::{Any, Sequence, Tag};
use x509_parser::certificate::X509Certificate;
use x509_parser::oid_registry::{OID_KEY_TYPE_EC_PUBLIC_KEY, OID_PKCS1_RSAENCRYPTION, OID_SIG_ED25519};
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::SubjectPublicKeyInfo;

use crate::kernel::secret_finding::SecretFinding;

/// What there is to say about certificates.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Certificates {
    /// What was found.
    pub finding: Option<SecretFinding>,
    /// When they end; `None` where none could be read.
    pub not_after: Option<Timestamp>,
}

/// The certificates of a PEM file in their order, as DER; at least one.
///
/// # Errors
/// What [`judge_chain`] finds where the file holds no certificates that can be read.
pub fn read_chain(file: &[u8]) -> Result<Vec<Vec<u8>>, SecretFinding> {
    match certificates(file) {
        Pem::Missing => Err(SecretFinding::CertificateMissing),
        Pem::Broken => Err(SecretFinding::CertificateBroken),
        Pem::Unknown => Err(SecretFinding::CertificateNotJudged),
        Pem::Objects(chain) => Ok(chain),
    }
}

/// The objects of a PEM file.
enum Pem {
    /// These, of the kind asked for.
    Objects(Vec<Vec<u8>>),
    /// Such an object is there and cannot be decoded.
    Broken,
    /// Something is there that may be such an object, in a form that our library does not know.
    Unknown,
    /// Nothing of the kind.
    Missing,
}

/// Memcached's own certificate and its chain. Only the end of its own counts: clients may know a way around an old
/// authority in the chain.
#[must_use]
pub fn judge_chain(file: &[u8]) -> Certificates {
    match read_chain(file) {
        Err(found) => finding(found),
        Ok(chain) => match chain.first().and_then(|own| end(own)) {
            Some(end) => {
                let is_for_clients = chain.first().is_some_and(|own| is_for_clients(own));
                let finding = (!is_for_clients).then_some(SecretFinding::CertificateNotForClients);
                Certificates { finding, not_after: Some(end) }
            }
            None => finding(SecretFinding::CertificateNotJudged),
        },
    }
}

/// Whether OpenSSL takes a certificate for a client's. One that names no purpose is for all, and `anyExtendedKeyUsage` alone is
/// not enough.
fn is_for_clients(der: &[u8]) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(der) else { return true };
    match certificate.extended_key_usage() {
        Ok(Some(usage)) => usage.value.client_auth,
        Ok(None) | Err(_) => true,
    }
}

/// The authorities of clients' certificates. The last that ends counts: bundles keep old ones.
#[must_use]
pub fn judge_authorities(file: &[u8]) -> Certificates {
    match certificates(file) {
        Pem::Missing => finding(SecretFinding::AuthorityMissing),
        Pem::Broken => finding(SecretFinding::AuthorityBroken),
        Pem::Unknown => finding(SecretFinding::AuthorityNotJudged),
        Pem::Objects(all) => {
            let ends: Vec<Option<Timestamp>> = all.iter().map(|one| end(one)).collect();
            match ends.contains(&None) {
                // It may be the one that lasts.
                true => finding(SecretFinding::AuthorityNotJudged),
                false => Certificates { finding: None, not_after: ends.into_iter().flatten().max() },
            }
        }
    }
}

/// The private key, and whether it belongs to the first certificate of `chain`.
#[must_use]
pub fn judge_key(file: &[u8], chain: Option<&[u8]>) -> Option<SecretFinding> {
    let key = match private_key(file) {
        Pem::Missing => return Some(SecretFinding::PrivateKeyMissing),
        Pem::Broken => return Some(SecretFinding::PrivateKeyBroken),
        Pem::Unknown => return Some(SecretFinding::PrivateKeyNotJudged),
        Pem::Objects(keys) => keys.into_iter().next()?,
    };
    let Some(public) = PrivateKeyDer::try_from(key.as_slice())
        .ok()
        .filter(|key| !is_of_second_version(key))
        .and_then(|key| any_supported_type(&key).ok())
        .and_then(|key| Some(key.public_key()?.into_owned()))
    else {
        return Some(SecretFinding::PrivateKeyNotJudged);
    };
    let Some(Pem::Objects(chain)) = chain.map(certificates) else { return None };
    let (_, certificate) = X509Certificate::from_der(chain.first()?).ok()?;
    let (_, public) = SubjectPublicKeyInfo::from_der(&public).ok()?;
    belongs(&public, certificate.public_key())
}

/// Whether a key is written in the second version of PKCS#8, with its public half beside it (RFC 5958), as some tools write
/// Ed25519. Our libraries read that, and OpenSSL does from 3.5 on: nobody knows which one an image of memcached holds.
fn is_of_second_version(key: &PrivateKeyDer<'_>) -> bool {
    let PrivateKeyDer::Pkcs8(key) = key else { return false };
    let version = Sequence::from_der(key.secret_pkcs8_der())
        .and_then(|(_, parts)| u32::from_der(parts.content.as_ref()).map(|(_, version)| version));
    version.is_ok_and(|version| version > 0)
}

/// Whether a private key with this public half is that of a certificate.
fn belongs(public: &SubjectPublicKeyInfo<'_>, certified: &SubjectPublicKeyInfo<'_>) -> Option<SecretFinding> {
    let (algorithm, bits) = (&certified.algorithm.algorithm, &certified.subject_public_key.data);
    let same_kind = *algorithm == public.algorithm.algorithm;
    if same_kind && *bits == public.subject_public_key.data {
        return None;
    }
    let known = [OID_PKCS1_RSAENCRYPTION, OID_KEY_TYPE_EC_PUBLIC_KEY, OID_SIG_ED25519].contains(algorithm);
    // A point can be written in a short form too, which looks different.
    let comparable = *algorithm != OID_KEY_TYPE_EC_PUBLIC_KEY || bits.first() == Some(&4);
    Some(match known && (comparable || !same_kind) {
        true => SecretFinding::PrivateKeyMismatch,
        false => SecretFinding::PrivateKeyNotJudged,
    })
}

fn finding(finding: SecretFinding) -> Certificates {
    Certificates { finding: Some(finding), not_after: None }
}

/// When a certificate ends; `None` if it cannot be read.
fn end(der: &[u8]) -> Option<Timestamp> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let end = certificate.validity().not_after.timestamp();
    // The year 9999 stands for no end, and its last hours are beyond what we can write.
    Some(Timestamp::from_second(end).unwrap_or(Timestamp::MAX))
}

/// Objects of a PEM file, and how many of them OpenSSL reads.
struct Wanted {
    /// The end of the label of every form of such an object.
    name: &'static str,
    /// The labels that our library knows.
    known: &'static [(&'static str, SectionKind)],
    /// How many are read: what stands behind them does not matter.
    most: usize,
}

fn certificates(file: &[u8]) -> Pem {
    let known = &[("CERTIFICATE", SectionKind::Certificate)];
    objects(file, &Wanted { name: "CERTIFICATE", known, most: usize::MAX })
}

fn private_key(file: &[u8]) -> Pem {
    let known = &[
        ("PRIVATE KEY", SectionKind::PrivateKey),
        ("RSA PRIVATE KEY", SectionKind::RsaPrivateKey),
        ("EC PRIVATE KEY", SectionKind::EcPrivateKey),
    ];
    objects(file, &Wanted { name: "PRIVATE KEY", known, most: 1 })
}

fn objects(file: &[u8], Wanted { name, known, most }: &Wanted) -> Pem {
    let text = String::from_utf8_lossy(file);
    let label =
        |line: &'_ str| line.trim_end().strip_prefix("-----BEGIN ")?.strip_suffix("-----").map(str::to_owned);
    let is_other_form =
        |label: &String| label.ends_with(name) && !known.iter().any(|(known, _)| known == label);
    // `TRUSTED CERTIFICATE`, for example: OpenSSL may take it as the first.
    if text.lines().filter_map(label).any(|label| is_other_form(&label)) {
        return Pem::Unknown;
    }
    let mut found = Vec::new();
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(file) {
        match section {
            Ok((kind, der)) if known.iter().any(|(_, known)| *known == kind) => found.push(der),
            Ok(_) => {}
            // Encrypted keys of the old form have lines before the key that only OpenSSL understands.
            Err(_) if text.contains("Proc-Type:") => return Pem::Unknown,
            Err(_) => return Pem::Broken,
        }
        if found.len() == *most {
            break;
        }
    }
    match found.is_empty() {
        true if text.contains(&format!("{name}-----")) => Pem::Unknown,
        true => Pem::Missing,
        false if found.iter().all(|der| is_whole(der)) => Pem::Objects(found),
        false => Pem::Broken,
    }
}

/// Whether these bytes are one DER object, and not a part of one. Every certificate and every private key is a sequence.
fn is_whole(der: &[u8]) -> bool {
    Any::from_der(der).is_ok_and(|(rest, any)| rest.is_empty() && any.tag() == Tag::Sequence)
}
