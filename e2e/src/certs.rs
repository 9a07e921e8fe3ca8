//! The cluster's own certificate authority: takes the cluster's addresses, writes certificates, keys and kubeconfigs.
//! Called by `cluster` before anything starts. Nothing here outlives `down`.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde_json::json;

use crate::slot::Slot;

/// The name of the one node.
pub const NODE: &str = "node";

/// The files of the cluster's authority, in `<cluster>/pki`.
#[derive(Debug, Clone)]
pub struct Pki {
    folder: PathBuf,
}

/// Who a client certificate is for.
struct Client {
    file: &'static str,
    user: String,
    group: &'static str,
}

impl Pki {
    /// The authority's files of the cluster in `folder`.
    pub fn for_cluster(folder: &Path) -> Self {
        Self { folder: folder.join("pki") }
    }

    /// A file of this name.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The kubeconfig of a program of the cluster.
    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        self.file(&format!("{user}.kubeconfig"))
    }

    /// Makes the authority and everything it signs. `server` is the API server's URL for everybody.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn create(&self, slot: Slot, server: &str) -> Result<()> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)
            .with_context(|| format!("cannot make {}", self.folder.display()))?;
        let authority = Authority::create("memcached-operator e2e")?;
        self.write("ca.crt", &authority.certificate)?;
        let services = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let mut names: Vec<String> = services.map(str::to_owned).to_vec();
        names.extend(
            [Ipv4Addr::LOCALHOST, slot.host(), slot.api_service()].map(|address| address.to_string()),
        );
        self.sign(&authority, "kube-apiserver", names)?;
        self.sign(&authority, "etcd", vec!["localhost".into(), Ipv4Addr::LOCALHOST.to_string()])?;
        self.sign(&authority, "kubelet-server", vec![NODE.into(), slot.node().to_string()])?;
        for client in clients() {
            let (certificate, key) = authority.client(&client)?;
            self.write(&format!("{}.crt", client.file), &certificate)?;
            self.write(&format!("{}.key", client.file), &key)?;
            let kubeconfig = kubeconfig(server, &authority.certificate, &certificate, &key)?;
            self.write(&format!("{}.kubeconfig", client.file), &kubeconfig)?;
        }
        let tokens = KeyPair::generate()?;
        self.write("service-account.key", &tokens.serialize_pem())?;
        self.write("service-account.pub", &tokens.public_key_pem())
    }

    fn sign(&self, authority: &Authority, name: &str, names: Vec<String>) -> Result<()> {
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, name);
        // etcd presents its server certificate as a client too, to itself.
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let (certificate, key) = authority.sign(params)?;
        self.write(&format!("{name}.crt"), &certificate)?;
        self.write(&format!("{name}.key"), &key)
    }

    fn write(&self, name: &str, content: &str) -> Result<()> {
        let file = self.file(name);
        let mut options = fs::File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        options
            .open(&file)
            .and_then(|mut open| std::io::Write::write_all(&mut open, content.as_bytes()))
            .with_context(|| format!("cannot write {}", file.display()))
    }
}

fn clients() -> Vec<Client> {
    let client = |file, user: &str, group| Client { file, user: user.to_owned(), group };
    vec![
        client("admin", "admin", "system:masters"),
        client("kube-apiserver-client", "kube-apiserver", "system:masters"),
        client("kube-controller-manager", "system:kube-controller-manager", ""),
        client("kube-scheduler", "system:kube-scheduler", ""),
        client("kubelet", &format!("system:node:{NODE}"), "system:nodes"),
        client("kube-proxy", "system:kube-proxy", ""),
        // The role that Kubernetes ships for it lacks EndpointSlices, which it has watched for years.
        client("coredns", "coredns", "system:masters"),
    ]
}

/// A certificate authority.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// The authority's own certificate, as PEM.
    pub certificate: String,
}

impl Authority {
    /// A new authority of this name.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn create(name: &str) -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// The authority's own key, as PEM.
    pub fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    fn client(&self, client: &Client) -> Result<(String, String)> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, client.user.as_str());
        if !client.group.is_empty() {
            params.distinguished_name.push(DnType::OrganizationName, client.group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    /// A certificate and its new key, as PEM.
    ///
    /// # Errors
    /// When the parameters make no certificate.
    pub fn sign(&self, params: CertificateParams) -> Result<(String, String)> {
        let key = KeyPair::generate()?;
        Ok((self.certify(&key, params)?, key.serialize_pem()))
    }

    /// A certificate for a key, as PEM.
    ///
    /// # Errors
    /// When the parameters make no certificate.
    pub fn certify(&self, key: &KeyPair, mut params: CertificateParams) -> Result<String> {
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        Ok(params.signed_by(key, &self.issuer)?.pem())
    }
}

/// A kubeconfig that holds its certificates (authority, client, client key) itself, so that it can be copied.
fn kubeconfig(server: &str, authority: &str, certificate: &str, key: &str) -> Result<String> {
    let data = |pem: &str| ByteString(pem.as_bytes().to_vec()); // which serialises as base64
    let name = "memcached-operator-e2e";
    // JSON is YAML.
    Ok(serde_json::to_string_pretty(&json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": data(authority)}}],
        "users": [{"name": name, "user": {
            "client-certificate-data": data(certificate), "client-key-data": data(key),
        }}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }))?)
}
