//! cert-manager's writes, one by one, for a Certificate that a cache uses: its first issuing, renewals with a new and with the
//! same key, another algorithm, and writes of metadata only. Each renewal rolls once, and nothing else does. The Certificate is
//! that of `docs/certificates.md`, and clients believe it by the names that the page says.
//!
//! The sequence is that of cert-manager v1.21.2, read in its `pkg/controller/certificates` (`keymanager`, `issuing`).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::certs::Authority;
use e2e::testing::cache::{Cache, says};
use e2e::testing::memcached::Memcached;
use e2e::testing::{PATIENCE, Space};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::with_cache;

const PAGE: &str = include_str!("../../../docs/certificates.md");

/// Of the controller that writes the Secret of a Certificate.
const ISSUING: &str = "cert-manager-certificates-issuing";
const SECRET: &str = "cache-tls";
/// A key of another algorithm than those that are made here.
const RSA: &str = include_str!("../../../tests/exporter/pem/rsa.key");

/// A Certificate with a private authority, as cert-manager works on it.
struct Certificate<'a> {
    space: &'a Space,
    authority: Authority,
    /// `spec.dnsNames`.
    names: Vec<String>,
    /// `spec.secretTemplate.labels`.
    labels: BTreeMap<&'static str, &'static str>,
}

/// What cert-manager has issued.
struct Issued {
    key: KeyPair,
    certificate: String,
}

impl<'a> Certificate<'a> {
    fn of(cache: &Cache<'a>, names: Vec<String>) -> Result<Self> {
        let authority = Authority::create("our-authority")?;
        Ok(Self { space: cache.space, authority, names, labels: BTreeMap::new() })
    }

    fn secrets(&self) -> Api<Secret> {
        self.space.api()
    }

    /// A key for the next certificate waits in a Secret of its own while the certificate is asked for.
    async fn issue(&self, key: KeyPair) -> Result<Issued> {
        let labels =
            json!({"cert-manager.io/next-private-key": "true", "controller.cert-manager.io/fao": "true"});
        let next = json!({
            "metadata": {"generateName": "cache-", "labels": labels},
            "stringData": {"tls.key": key.serialize_pem()},
        });
        let next = self.secrets().create(&PostParams::default(), &serde_json::from_value(next)?).await?;
        let mut params = CertificateParams::new(self.names.clone())?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let issued = Issued { certificate: self.authority.certify(&key, params)?, key };
        self.write(&issued).await?;
        let name = next.metadata.name.context("a stored Secret has a name")?;
        self.secrets().delete(&name, &DeleteParams::default()).await?;
        Ok(issued)
    }

    /// The certificate, its key and the authority, in one apply; again when only `secretTemplate` changed.
    async fn write(&self, Issued { key, certificate }: &Issued) -> Result<()> {
        let mut labels = self.labels.clone();
        labels.insert("controller.cert-manager.io/fao", "true");
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {"name": SECRET, "labels": labels, "annotations": {
                "cert-manager.io/alt-names": self.names.join(","),
                "cert-manager.io/certificate-name": "cache",
                "cert-manager.io/common-name": "",
                "cert-manager.io/ip-sans": "",
                "cert-manager.io/issuer-group": "cert-manager.io",
                "cert-manager.io/issuer-kind": "Issuer",
                "cert-manager.io/issuer-name": "our-authority",
                "cert-manager.io/uri-sans": "",
            }},
            "data": {
                "tls.crt": bytes(certificate), "tls.key": bytes(&key.serialize_pem()),
                "ca.crt": bytes(&self.authority.certificate),
            },
        });
        self.secrets().patch(SECRET, &PatchParams::apply(ISSUING).force(), &Patch::Apply(secret)).await?;
        Ok(())
    }

    /// A client that trusts the authority only, and checks this name or address.
    async fn connect(&self, to: SocketAddr, name: &str) -> Result<Memcached> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.certificate.as_bytes())?)?;
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        let connecting =
            connector.connect(ServerName::try_from(name.to_owned())?, TcpStream::connect(to).await?);
        let stream =
            timeout(PATIENCE, connecting).await.with_context(|| format!("{to} does not speak TLS"))?;
        Ok(Memcached::over(stream.with_context(|| format!("with the name {name}"))?))
    }

    /// Who checks this name refuses the certificate.
    async fn is_refused(&self, to: SocketAddr, name: &str) -> Result<()> {
        let refusal = self.connect(to, name).await.err().with_context(|| format!("{name} is believed"))?;
        ensure!(format!("{refusal:#}").contains("not valid for name"), "{name}: {refusal:#}");
        Ok(())
    }
}

/// The blocks of YAML on the page.
fn blocks() -> Result<Vec<Value>> {
    let blocks = PAGE.split("```").skip(1).step_by(2).filter_map(|it| it.strip_prefix("yaml\n"));
    blocks.map(|it| serde_saphyr::from_str(it).with_context(|| it.to_owned())).collect()
}

/// The Certificate on the page.
fn on_the_page() -> Result<Value> {
    blocks()?.into_iter().find(|it| it["kind"] == "Certificate").context("no Certificate on the page")
}

/// `dnsNames` of the Certificate on the page.
fn names() -> Result<Vec<String>> {
    Ok(serde_json::from_value(on_the_page()?["spec"]["dnsNames"].clone())?)
}

/// The line that takes the place of these for named pods.
fn names_with_pods() -> Result<Vec<String>> {
    let line = blocks()?.into_iter().find(|it| it.get("dnsNames").is_some()).context("no such line")?;
    Ok(serde_json::from_value(line["dnsNames"].clone())?)
}

/// The names in the second cell of the row of the page's table that begins so.
fn needed(client: &str) -> Result<Vec<String>> {
    let row = PAGE.lines().find_map(|line| line.strip_prefix(&format!("| {client}")));
    let cell = row.and_then(|it| it.split(" | ").nth(1)).with_context(|| format!("no row {client}"))?;
    // A ConfigMap is named there too.
    let words = cell.split('`').skip(1).step_by(2).filter(|it| *it == "cache" || it.contains('.'));
    let names: Vec<_> = words.map(str::to_owned).collect();
    ensure!(!names.is_empty(), "the row {client} names nothing");
    Ok(names)
}

/// As the data of a Secret.
fn bytes(text: &str) -> k8s_openapi::ByteString {
    k8s_openapi::ByteString(text.as_bytes().to_vec())
}

/// A cache that waits for cert-manager. Its Deployment is there before the Secret, so the first certificate is the second template.
/// No pod runs the first.
async fn wait_for_the_secret(cache: &Cache<'_>) -> Result<()> {
    let tls = json!({"enabled": true, "certificateSecretRef": {"name": SECRET}});
    cache.apply(&json!({"security": {"tls": tls}})).await?;
    cache.is("it waits for cert-manager", |it| says(it, "False", "SecretNotFound")).await?;
    cache.deployment("it has template 1", |it| it.metadata.generation == Some(1)).await?;
    Ok(())
}

/// Waits until the pods run what the Secret holds, and a client believes the certificate that the cache shows.
async fn served(cache: &Cache<'_>, certificate: &Certificate<'_>, templates: usize) -> Result<()> {
    let generation = i64::try_from(templates)?;
    cache
        .deployment(&format!("it has template {templates}"), |it| it.metadata.generation >= Some(generation))
        .await?;
    cache.ready().await?;
    let pod = cache.addresses(1).await?[0];
    certificate.connect(pod, &certificate.names[0]).await?.set("a", b"1").await?;
    assert_eq!(cache.template_records().await?, templates);
    Ok(())
}

#[tokio::test]
async fn each_renewal_by_cert_manager_rolls_once_and_nothing_else_that_it_writes_does() -> Result<()> {
    with_cache("issued", async |cache| {
        wait_for_the_secret(cache).await?;
        let mut certificate = Certificate::of(cache, names()?)?;

        let issued = certificate.issue(KeyPair::generate()?).await?;
        served(cache, &certificate, 2).await?;
        certificate.labels.insert("team", "shop");
        certificate.write(&issued).await?;

        let issued = certificate.issue(KeyPair::generate()?).await.context("rotationPolicy Always")?;
        served(cache, &certificate, 3).await?;
        certificate.write(&issued).await?;

        let issued = certificate.issue(issued.key).await.context("rotationPolicy Never")?;
        served(cache, &certificate, 4).await?;
        certificate.labels.clear();
        certificate.write(&issued).await?;

        certificate.issue(KeyPair::from_pem(RSA)?).await.context("another algorithm")?;
        served(cache, &certificate, 5).await?;
        // A Deployment's generation counts each write of its spec.
        let deployment = cache.deployment("it is there", |_| true).await?;
        assert_eq!(deployment.metadata.generation, Some(5));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn clients_believe_the_pages_certificates_by_the_names_in_its_table_and_by_no_other() -> Result<()> {
    with_cache("believed", async |cache| {
        wait_for_the_secret(cache).await?;
        let mut certificate = Certificate::of(cache, names()?)?;
        certificate.issue(KeyPair::generate()?).await?;
        served(cache, &certificate, 2).await?;
        let pod = cache.addresses(1).await?[0];
        let (told, service) =
            (needed("is told the name to check")?, needed("connects to the Service's name")?);
        for name in told.iter().chain(&service) {
            certificate.connect(pod, name).await?.set("a", b"1").await?;
        }
        // What the table says of the pod's address and of a forwarded port: no authority has signed these.
        let address = pod.ip().to_string();
        let of_pod = needed("connects to the names of [named pods]")?.concat().replace('*', "cache-0");
        for name in [address.as_str(), "localhost", "127.0.0.1", &of_pod] {
            certificate.is_refused(pod, name).await?;
        }

        certificate.names = names_with_pods()?;
        certificate.issue(KeyPair::generate()?).await?;
        served(cache, &certificate, 3).await?;
        let pod = cache.addresses(1).await?[0];
        for name in told.iter().chain(&service).chain([&of_pod]) {
            certificate.connect(pod, name).await?.set("a", b"1").await?;
        }
        Ok(())
    })
    .await
}

/// Fields of a Certificate, of its private key and of the reference to its issuer. They are from cert-manager's own types
/// (`CertificateSpec` and `CertificatePrivateKey` in its `pkg/apis/certmanager/v1/types_certificate.go`, and the `ObjectReference`
/// there); those that the page does not use are left out.
const FIELDS: [(&str, &[&str]); 3] = [
    ("/spec", &["secretName", "dnsNames", "duration", "renewBefore", "privateKey", "usages", "issuerRef"]),
    ("/spec/privateKey", &["algorithm", "size", "rotationPolicy"]),
    ("/spec/issuerRef", &["kind", "name"]),
];

#[test]
fn every_field_of_the_certificate_on_the_page_is_one_that_cert_manager_knows() -> Result<()> {
    let page = on_the_page()?;
    assert_eq!(page["apiVersion"], "cert-manager.io/v1");
    for (pointer, known) in FIELDS {
        let fields = page.pointer(pointer).and_then(Value::as_object).context(pointer)?;
        let unknown: Vec<_> = fields.keys().filter(|it| !known.contains(&it.as_str())).collect();
        assert!(unknown.is_empty(), "{pointer}: {unknown:?}");
    }
    // What the tests play, and what the cache of the page mounts.
    let caches = blocks()?.into_iter().filter(|it| it["kind"] == "Memcached");
    for cache in caches {
        assert_eq!(cache["spec"]["security"]["tls"]["certificateSecretRef"]["name"], SECRET);
    }
    assert_eq!(page["spec"]["secretName"], SECRET);
    assert_eq!(page["spec"]["issuerRef"]["name"], "our-authority");
    assert_eq!(page["spec"]["usages"], json!(["server auth"]));
    Ok(())
}
