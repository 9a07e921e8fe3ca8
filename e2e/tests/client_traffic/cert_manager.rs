//! cert-manager's writes, one by one, for a Certificate that a cache uses: its first issuing, renewals with a new and with the
//! same key, another algorithm, and writes of metadata only. Each renewal rolls once, and nothing else does.
//!
//! The sequence is that of cert-manager v1.21.2, read in its `pkg/controller/certificates` (`keymanager`, `issuing`).

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use e2e::testing::Space;
use e2e::testing::cache::{Cache, says};
use e2e::testing::tls::{Authority, SERVER};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use rcgen::KeyPair;
use serde_json::json;

use super::with_cache;

/// Of the controller that writes the Secret of a Certificate.
const ISSUING: &str = "cert-manager-certificates-issuing";
const SECRET: &str = "cache-tls";
/// A key of another algorithm than those that are made here.
const RSA: &str = include_str!("../../../tests/exporter/pem/rsa.key");

/// A Certificate with a private authority, as cert-manager works on it.
struct Certificate<'a> {
    space: &'a Space,
    authority: Authority,
    /// `spec.secretTemplate.labels`.
    labels: BTreeMap<&'static str, &'static str>,
}

/// What cert-manager has issued.
struct Issued {
    key: KeyPair,
    certificate: String,
}

impl Certificate<'_> {
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
        let issued = Issued { certificate: self.authority.certify(&key)?, key };
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
                "cert-manager.io/alt-names": SERVER,
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
                "ca.crt": bytes(self.authority.certificate()),
            },
        });
        self.secrets().patch(SECRET, &PatchParams::apply(ISSUING).force(), &Patch::Apply(secret)).await?;
        Ok(())
    }
}

/// As the data of a Secret.
fn bytes(text: &str) -> k8s_openapi::ByteString {
    k8s_openapi::ByteString(text.as_bytes().to_vec())
}

/// Waits until the pods run what the Secret holds, and a client believes the certificate that the cache shows.
async fn served(cache: &Cache<'_>, certificate: &Certificate<'_>, templates: usize) -> Result<()> {
    let generation = i64::try_from(templates)?;
    cache
        .deployment(&format!("it has template {templates}"), |it| it.metadata.generation >= Some(generation))
        .await?;
    cache.ready().await?;
    let pod = cache.addresses(1).await?[0];
    certificate.authority.connect(pod, None).await?.set("a", b"1").await?;
    assert_eq!(cache.template_records().await?, templates);
    Ok(())
}

#[tokio::test]
async fn each_renewal_by_cert_manager_rolls_once_and_nothing_else_that_it_writes_does() -> Result<()> {
    with_cache("issued", async |cache| {
        let tls = json!({"enabled": true, "certificateSecretRef": {"name": SECRET}});
        cache.apply(&json!({"security": {"tls": tls}})).await?;
        cache.is("it waits for cert-manager", |it| says(it, "False", "SecretNotFound")).await?;
        cache.deployment("it has template 1", |it| it.metadata.generation == Some(1)).await?;
        let mut certificate = Certificate {
            space: cache.space,
            authority: Authority::create("our-authority")?,
            labels: BTreeMap::new(),
        };

        // The Deployment is there before the Secret, so this is its second template. No pod ran the first.
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
