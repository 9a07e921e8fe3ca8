//! What is found in Secrets, against what a memcached makes of them: it starts with everything that nothing is found in, and
//! with nothing that is called invalid.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use memcached_operator::kernel::event::SecretContent;
use memcached_operator::kernel::secret_finding::SecretFinding::{self, *};
use memcached_operator::secrets::pair::{self, Files};
use memcached_operator::shell::secrets::digest;
use rcgen::{
    BasicConstraints, CertificateParams, DnType,
    ExtendedKeyUsagePurpose::{self, *},
    IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SignatureAlgorithm,
    date_time_ymd,
};
use rstest::rstest;
use serde_json::json;

use crate::support::Memcached;

/// A Secret, as the operator reduces it.
fn reduced(data: &[(&str, &str)]) -> SecretContent {
    let values =
        data.iter().map(|(key, value)| ((*key).to_owned(), json!(ByteString(value.as_bytes().to_vec()))));
    let secret = json!({
        "metadata": {"name": "tls", "uid": "u", "resourceVersion": "1"},
        "data": values.collect::<serde_json::Map<_, _>>(),
    });
    let keys: Vec<_> = data.iter().map(|(key, _)| (*key).to_owned()).collect();
    digest(secret.to_string().as_bytes(), &keys).unwrap()
}

/// Whether memcached starts with the files of a Secret.
async fn starts(data: &[(&str, &str)]) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let mut arguments = Vec::new();
    for (key, value) in data {
        let file = folder.path().join(key);
        fs::write(&file, value).unwrap();
        let file = file.display();
        let options = match *key {
            "password-file" => vec!["-Y".to_owned(), file.to_string()],
            "tls.crt" => vec!["-Z".to_owned(), "-o".to_owned(), format!("ssl_chain_cert={file}")],
            "tls.key" => vec!["-o".to_owned(), format!("ssl_key={file}")],
            _ => vec!["-o".to_owned(), format!("ssl_ca_cert={file},ssl_verify_mode=2")],
        };
        arguments.extend(options);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Memcached::try_start(&arguments).await.is_some()
}

/// What has to be found in a Secret, and what memcached has to make of it.
async fn check(data: &[(&str, &str)], found: &[SecretFinding], is_taken: bool) {
    let findings = reduced(data).findings;
    assert_eq!(findings, found.iter().copied().collect::<BTreeSet<_>>());
    assert_eq!(starts(data).await, is_taken, "{data:?}");
}

struct Pair {
    certificate: String,
    key: String,
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn pair(algorithm: &'static SignatureAlgorithm) -> Pair {
    let key = KeyPair::generate_for(algorithm).unwrap();
    let certificate = params("memcached.test").self_signed(&key).unwrap().pem();
    Pair { certificate, key: key.serialize_pem() }
}

fn fixture(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exporter/pem").join(name)).unwrap()
}

/// The text with one letter of its middle changed into something that is no base64.
fn broken(pem: &str) -> String {
    let middle = pem.len() / 2;
    format!("{}!{}", &pem[..middle], &pem[middle + 1..])
}

/// The first lines of the base64 between the two marks.
fn cut(pem: &str) -> String {
    let lines: Vec<&str> = pem.lines().collect();
    [lines[0], lines[1], lines[lines.len() - 1], ""].join("\n")
}

#[rstest]
#[case::p256(&PKCS_ECDSA_P256_SHA256)]
#[case::p384(&PKCS_ECDSA_P384_SHA384)]
#[tokio::test]
async fn a_pair_is_good_and_the_key_of_another_one_is_not(#[case] algorithm: &'static SignatureAlgorithm) {
    let (Pair { certificate, key }, other) = (pair(algorithm), pair(algorithm));
    check(&[("tls.crt", &certificate), ("tls.key", &key)], &[], true).await;
    let mismatch = [PrivateKeyMismatch];
    check(&[("tls.crt", &certificate), ("tls.key", &other.key)], &mismatch, false).await;
    check(&[("tls.crt", &certificate), ("tls.key", &fixture("rsa.key"))], &mismatch, false).await;
    check(&[("tls.crt", &fixture("rsa.crt")), ("tls.key", &key)], &mismatch, false).await;
    check(&[("tls.crt", &fixture("p521.crt")), ("tls.key", &key)], &mismatch, false).await;
}

/// Memcached starts with each: it asks only clients for their purpose, of which the exporter is one.
#[rstest]
#[case::for_all(&[], &[])]
#[case::for_both(&[ServerAuth, ClientAuth], &[])]
#[case::for_clients(&[ClientAuth], &[])]
#[case::for_servers(&[ServerAuth], &[CertificateNotForClients])]
#[case::for_any_purpose(&[Any], &[CertificateNotForClients])]
#[tokio::test]
async fn a_certificate_that_is_not_for_clients_is_told(
    #[case] usages: &[ExtendedKeyUsagePurpose],
    #[case] found: &[SecretFinding],
) {
    let key = KeyPair::generate().unwrap();
    let mut params = params("memcached.test");
    params.extended_key_usages = usages.to_vec();
    let certificate = params.self_signed(&key).unwrap().pem();
    let key = key.serialize_pem();
    let data = [("tls.crt", certificate.as_str()), ("tls.key", &key), ("ca.crt", &certificate)];
    check(&data, found, true).await;
}

#[rstest]
#[case::rsa("rsa.crt", "rsa.key", &[], true)]
#[case::rsa_in_the_older_form("rsa.crt", "rsa-pkcs1.key", &[], true)]
#[case::ed25519("ed25519.crt", "ed25519.key", &[], true)]
#[case::ed25519_of_another_certificate("rsa.crt", "ed25519.key", &[PrivateKeyMismatch], false)]
#[case::behind_parameters("with-parameters.crt", "with-parameters.key", &[], true)]
#[case::of_an_unknown_curve("p521.crt", "p521.key", &[PrivateKeyNotJudged], true)]
#[case::of_an_unknown_curve_and_of_another_certificate("rsa.crt", "p521.key", &[PrivateKeyNotJudged], false)]
#[case::in_the_short_form("compressed.crt", "compressed.key", &[PrivateKeyNotJudged], true)]
#[case::encrypted("rsa.crt", "encrypted.key", &[PrivateKeyNotJudged], false)]
#[case::encrypted_in_the_older_form("rsa.crt", "encrypted-pkcs1.key", &[PrivateKeyNotJudged], false)]
#[case::no_key("rsa.crt", "rsa.crt", &[PrivateKeyMissing], false)]
#[case::no_certificate("rsa.key", "rsa.key", &[CertificateMissing], false)]
#[tokio::test]
async fn a_key_that_our_library_does_not_know_is_not_judged(
    #[case] certificate: &str,
    #[case] key: &str,
    #[case] found: &[SecretFinding],
    #[case] is_taken: bool,
) {
    let (certificate, key) = (fixture(certificate), fixture(key));
    check(&[("tls.crt", &certificate), ("tls.key", &key)], found, is_taken).await;
}

#[tokio::test]
async fn what_cannot_be_parsed_is_invalid_wherever_it_stands() {
    let Pair { certificate, key } = pair(&PKCS_ECDSA_P256_SHA256);
    let no_end = certificate.replace("-----END CERTIFICATE-----", "");
    let bad_chain = format!("{certificate}{}", cut(&certificate));
    for bad in [broken(&certificate), cut(&certificate), no_end, bad_chain] {
        check(&[("tls.crt", &bad), ("tls.key", &key)], &[CertificateBroken], false).await;
    }
    for bad in [broken(&key), cut(&key)] {
        check(&[("tls.crt", &certificate), ("tls.key", &bad)], &[PrivateKeyBroken], false).await;
    }
    for nothing in ["", "not yet\n"] {
        check(&[("tls.crt", nothing), ("tls.key", &key)], &[CertificateMissing], false).await;
        check(&[("tls.crt", &certificate), ("tls.key", nothing)], &[PrivateKeyMissing], false).await;
    }
}

/// rcgen writes Ed25519 in version 2 of PKCS#8, and openssl in version 1. What comes of version 2 is up to memcached's OpenSSL,
/// so that the operator warns and the agent waits.
#[tokio::test]
async fn a_key_in_version_2_of_pkcs8_is_not_called_good() {
    let Pair { certificate, key } = pair(&PKCS_ED25519);
    let data = [("tls.crt", certificate.as_str()), ("tls.key", &key)];
    assert_eq!(reduced(&data).findings, BTreeSet::from([PrivateKeyNotJudged]));
    println!("memcached starts with it: {}", starts(&data).await);
    let files = Files { certificate: certificate.as_bytes(), key: key.as_bytes(), authorities: None };
    let refused = pair::read(files).unwrap_err().refusal;
    assert_eq!(refused.key, "tls.key");
    assert!(refused.words.contains("make a new key"), "{refused}");
}

#[tokio::test]
async fn only_the_first_key_is_read_and_a_certificate_of_another_form_may_be_the_first() {
    let Pair { certificate, key } = pair(&PKCS_ECDSA_P256_SHA256);
    let authority = pair(&PKCS_ECDSA_P256_SHA256).certificate;
    let keys = format!("{key}{}", broken(&key));
    check(&[("tls.crt", &certificate), ("tls.key", &keys)], &[], true).await;
    for form in ["X509 CERTIFICATE-----", "TRUSTED CERTIFICATE-----"] {
        let chain = format!("{}{authority}", certificate.replace("CERTIFICATE-----", form));
        check(&[("tls.crt", &chain), ("tls.key", &key)], &[CertificateNotJudged], true).await;
    }
}

#[tokio::test]
async fn what_stands_around_a_pair_does_no_harm() {
    let Pair { certificate, key } = pair(&PKCS_ECDSA_P256_SHA256);
    let authority = pair(&PKCS_ECDSA_P256_SHA256).certificate;
    let windows = |text: &str| text.replace('\n', "\r\n");
    let others = [
        (format!("Subject: memcached\n{certificate}Issuer: ours\n{authority}"), key.clone()),
        (windows(&certificate), windows(&key)),
        (certificate.trim_end().to_owned(), key.trim_end().to_owned()),
        (format!("{key}{certificate}"), format!("{certificate}{key}")),
    ];
    for (certificate, key) in others {
        check(&[("tls.crt", &certificate), ("tls.key", &key)], &[], true).await;
    }
    // The first certificate is memcached's own.
    let (crt, found) = (format!("{authority}{certificate}"), [PrivateKeyMismatch]);
    check(&[("tls.crt", &crt), ("tls.key", &key)], &found, false).await;
}

#[tokio::test]
async fn authorities_are_certificates() {
    let Pair { certificate, key } = pair(&PKCS_ECDSA_P256_SHA256);
    let [one, other] = [(); 2].map(|()| pair(&PKCS_ECDSA_P256_SHA256).certificate);
    let bundle = format!("# one\n{one}# other\n{other}");
    let cases = [
        (bundle.as_str(), None),
        ("", Some(AuthorityMissing)),
        (key.as_str(), Some(AuthorityMissing)),
        (&cut(&one), Some(AuthorityBroken)),
        (&format!("{one}{}", broken(&other)), Some(AuthorityBroken)),
    ];
    for (ca, found) in cases {
        let data = [("tls.crt", certificate.as_str()), ("tls.key", &key), ("ca.crt", ca)];
        check(&data, found.as_slice(), found.is_none()).await;
    }
}

#[test]
fn the_end_is_that_of_memcacheds_own_certificate_and_of_the_last_authority() {
    let key = KeyPair::generate().unwrap();
    let until = |year| {
        let mut params = params("memcached.test");
        params.not_after = date_time_ymd(year, 1, 1);
        params
    };
    let of = |year| until(year).self_signed(&key).unwrap().pem();
    let mut authority = until(2031);
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = Issuer::new(authority, &key);
    let own = until(2030).signed_by(&key, &issuer).unwrap().pem();
    let crt = format!("{own}{}", of(2020));
    let content = reduced(&[("tls.crt", &crt), ("ca.crt", &format!("{}{}", of(2029), of(2028)))]);
    let ends: Vec<_> = content.not_after.iter().map(|(key, end)| (key.as_str(), end.to_string())).collect();
    assert_eq!(
        ends,
        [("ca.crt", "2029-01-01T00:00:00Z".to_owned()), ("tls.crt", "2030-01-01T00:00:00Z".to_owned())]
    );
    let endless = reduced(&[("tls.crt", &of(9999).replace("\r", ""))]);
    assert!(endless.not_after["tls.crt"] > "9998-12-31T00:00:00Z".parse::<Timestamp>().unwrap());
}

#[tokio::test]
async fn an_expired_certificate_is_taken_by_memcached_and_only_its_end_is_said() {
    let key = KeyPair::generate().unwrap();
    let mut params = params("memcached.test");
    params.not_after = date_time_ymd(2001, 1, 1);
    params.not_before = date_time_ymd(2000, 1, 1);
    let certificate = params.self_signed(&key).unwrap().pem();
    check(&[("tls.crt", &certificate), ("tls.key", &key.serialize_pem())], &[], true).await;
}

#[rstest]
#[case::one("user:password\n", &[], true)]
#[case::of_windows("user:password\r\nother:password\r\n", &[], true)]
#[case::eight_and_a_broken_one("a:1\nb:1\nc:1\nd:1\ne:1\nf:1\ng:1\nh:1\nbroken\n", &[PasswordFileTooManyEntries], true)]
// Memcached starts, and nobody can log in.
#[case::empty("", &[PasswordFileEmpty], true)]
#[case::open("user:password", &[PasswordFileNotEnded], true)]
#[case::blank_line("user:password\n\n", &[PasswordFileMalformed], false)]
#[case::comment("# ours\nuser:password\n", &[PasswordFileMalformed], false)]
#[case::no_colon("password\n", &[PasswordFileMalformed], false)]
#[case::space("a user:pass word\n", &[PasswordFileEntryUnusable], true)]
#[case::no_password("user:\n", &[PasswordFileEntryUnusable], true)]
#[tokio::test]
async fn a_password_file_is_judged_as_memcached_takes_it(
    #[case] file: &str,
    #[case] found: &[SecretFinding],
    #[case] is_taken: bool,
) {
    check(&[("password-file", file)], found, is_taken).await;
}

#[rstest]
#[case::fits(254, "broken\n", &[PasswordFileMalformed], false)]
#[case::hides_a_broken_line(255, "broken\n", &[PasswordFileLineTooLong], true)]
#[case::fits_as_the_last(255, "", &[], true)]
#[case::is_cut(256, "", &[PasswordFileLineTooLong], true)]
#[tokio::test]
async fn memcached_reads_255_bytes_of_a_line(
    #[case] bytes: usize,
    #[case] next: &str,
    #[case] found: &[SecretFinding],
    #[case] is_taken: bool,
) {
    let file = format!("u:{}\n{next}", "x".repeat(bytes - 2));
    check(&[("password-file", &file)], found, is_taken).await;
}
