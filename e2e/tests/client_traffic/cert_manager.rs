//! cert-manager's own controllers issue the Certificate that a cache uses: first, renewed with a new and with the same key, with
//! another algorithm, with other names, and with writes of metadata only. Each renewal rolls once, and nothing else does. The
//! Certificate is that of `docs/certificates.md`, and clients believe it by the names that the page says.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::certs::Authority;
use e2e::testing::cache::{Cache, says};
use e2e::testing::cert_manager::{self, CertManager};
use e2e::testing::memcached::Memcached;
use e2e::testing::{LONGEST_WAIT, Space};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, ValidationDirective};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::with_cache;

const PAGE: &str = include_str!("../../../docs/certificates.md");

/// Of the Certificate, as the page calls it.
const NAME: &str = "cache";
const SECRET: &str = "cache-tls";

static INSTALLED: OnceCell<()> = OnceCell::const_new();

/// The Certificate on the page with its authority, on which cert-manager works.
struct Certificate<'a> {
    space: &'a Space,
    authority: Authority,
    _cert_manager: CertManager,
}

impl<'a> Certificate<'a> {
    /// Makes both as the page says.
    async fn create(space: &'a Space) -> Result<Self> {
        INSTALLED.get_or_try_init(async || cert_manager::install(&space.client()).await).await?;
        let certificate = on_the_page()?;
        let name = certificate["spec"]["issuerRef"]["name"].as_str().context("an issuer")?;
        let authority = Authority::create(name)?;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": {"name": name},
            "stringData": {"tls.crt": authority.certificate, "tls.key": authority.key()},
        });
        space.apply::<Secret>(&serde_json::from_value(secret)?).await?;
        let issuer = json!({
            "apiVersion": "cert-manager.io/v1", "kind": "Issuer", "metadata": {"name": name},
            "spec": {"ca": {"secretName": name}},
        });
        apply(space, "Issuer", &issuer).await?;
        apply(space, "Certificate", &certificate).await?;
        Ok(Self { space, authority, _cert_manager: CertManager::start(space)? })
    }

    fn api(&self) -> Api<DynamicObject> {
        let kind = cert_manager::resource("Certificate");
        Api::namespaced_with(self.space.client(), self.space.name(), &kind)
    }

    async fn edit(&self, spec: Value) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.api().patch(NAME, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Asks for a renewal at once, as `cmctl renew` does.
    async fn renew(&self) -> Result<()> {
        let condition = json!({
            "type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "a test asked for it",
            "lastTransitionTime": Timestamp::from_second(Timestamp::now().as_second())?,
        });
        let patch = Patch::Apply(json!({
            "apiVersion": "cert-manager.io/v1", "kind": "Certificate", "status": {"conditions": [condition]},
        }));
        self.api().patch_status(NAME, &PatchParams::apply("renew").force(), &patch).await?;
        Ok(())
    }

    /// The key that the cache uses, as PEM.
    async fn key(&self) -> Result<String> {
        let secret = self.space.api::<Secret>().get(SECRET).await?;
        let key = secret.data.unwrap_or_default().remove("tls.key").context("no key")?;
        Ok(String::from_utf8(key.0)?)
    }

    /// Has cert-manager write the Secret once more, with this label (or without it) and the same content.
    async fn label(&self, label: Option<&str>) -> Result<()> {
        self.edit(json!({"secretTemplate": {"labels": {"team": label}}})).await?;
        let written = |it: Option<&Secret>| {
            let labels = it.and_then(|it| it.metadata.labels.as_ref());
            labels.and_then(|it| it.get("team")).map(String::as_str) == label
        };
        self.space.wait(SECRET, "cert-manager wrote the labels", written).await?;
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
            timeout(LONGEST_WAIT, connecting).await.with_context(|| format!("{to} does not speak TLS"))?;
        Ok(Memcached::from_stream(stream.with_context(|| format!("with the name {name}"))?))
    }

    /// Who checks this name refuses the certificate.
    async fn is_refused(&self, to: SocketAddr, name: &str) -> Result<()> {
        let refusal = self.connect(to, name).await.err().with_context(|| format!("{name} is believed"))?;
        ensure!(format!("{refusal:#}").contains("not valid for name"), "{name}: {refusal:#}");
        Ok(())
    }
}

/// Applies an object, whose fields have to be those of the definition.
async fn apply(space: &Space, kind: &str, object: &Value) -> Result<()> {
    let objects: Api<DynamicObject> =
        Api::namespaced_with(space.client(), space.name(), &cert_manager::resource(kind));
    let name = object["metadata"]["name"].as_str().context("a name")?;
    let strictly = PatchParams {
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::apply("e2e-test").force()
    };
    objects.patch(name, &strictly, &Patch::Apply(object)).await?;
    Ok(())
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
    certificate.connect(pod, NAME).await?.set("a", b"1").await?;
    assert_eq!(cache.template_records().await?, templates);
    Ok(())
}

#[tokio::test]
async fn each_renewal_by_cert_manager_rolls_once_and_nothing_else_that_it_writes_does() -> Result<()> {
    with_cache("issued", async |cache| {
        wait_for_the_secret(cache).await?;
        let certificate = Certificate::create(cache.space).await?;
        served(cache, &certificate, 2).await?;
        certificate.label(Some("shop")).await?;

        let before = certificate.key().await?;
        certificate.renew().await?;
        served(cache, &certificate, 3).await.context("rotationPolicy Always")?;
        let key = certificate.key().await?;
        ensure!(key != before, "the key is the same");
        certificate.label(None).await?;

        certificate.edit(json!({"privateKey": {"rotationPolicy": "Never"}})).await?;
        certificate.renew().await?;
        served(cache, &certificate, 4).await.context("rotationPolicy Never")?;
        assert_eq!(certificate.key().await?, key);
        certificate.label(Some("shop")).await?;

        let rsa = json!({"algorithm": "RSA", "size": 2048, "rotationPolicy": "Always"});
        certificate.edit(json!({"privateKey": rsa})).await?;
        served(cache, &certificate, 5).await.context("another algorithm")?;
        ensure!(certificate.key().await?.contains("RSA PRIVATE KEY"), "the key is none of RSA");
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
        let certificate = Certificate::create(cache.space).await?;
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

        certificate.edit(json!({"dnsNames": names_with_pods()?})).await?;
        served(cache, &certificate, 3).await?;
        let pod = cache.addresses(1).await?[0];
        for name in told.iter().chain(&service).chain([&of_pod]) {
            certificate.connect(pod, name).await?.set("a", b"1").await?;
        }
        Ok(())
    })
    .await
}

#[test]
fn the_cache_on_the_page_uses_the_secret_of_the_certificate_on_the_page() -> Result<()> {
    let page = on_the_page()?;
    assert_eq!((&page["metadata"]["name"], &page["spec"]["secretName"]), (&json!(NAME), &json!(SECRET)));
    let caches = blocks()?.into_iter().filter(|it| it["kind"] == "Memcached");
    let secrets: Vec<_> =
        caches.map(|it| it["spec"]["security"]["tls"]["certificateSecretRef"]["name"].clone()).collect();
    assert!(!secrets.is_empty() && secrets.iter().all(|it| it == SECRET), "{secrets:?}");
    Ok(())
}
