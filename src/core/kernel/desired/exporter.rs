//! The exporter beside memcached: which program, with which flags, reading which files. Pure; called by
//! [`super::pod`].
//!
//! Upstream's program knows TLS and no authentication; this project's own knows both. Neither checks memcached's certificate:
//! it connects within the pod, where nobody can stand between the two, and the certificate need not name 127.0.0.1.

use k8s_openapi::api::core::v1::Container;

use super::default_images::DefaultImages;
use super::files::SecretFiles;
use super::tls::Neighbour;
use super::{contexts, ports};
use crate::api::Validated;
use crate::api::spec::{Monitoring, Rotation};
use crate::kernel::secret_keys::{CERTIFICATE, PASSWORD_FILE, PRIVATE_KEY};

/// Name of the container.
pub const NAME: &str = "exporter";

/// The program that runs as the exporter: it decides which flags are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    /// `prometheus/memcached_exporter`, or something that takes its place.
    Upstream,
    /// `memcached-operator exporter`.
    Own,
}

/// The exporter of one cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Exporter<'a> {
    spec: &'a Validated,
    monitoring: &'a Monitoring,
    image: &'a str,
    program: Program,
    neighbour: Neighbour,
}

/// Whether it shows memcached the cache's own certificate. With [`Rotation::InPlace`] the agent takes its place, and speaks
/// plaintext.
#[must_use]
pub fn shows_certificate(spec: &Validated) -> bool {
    let neighbour = Neighbour::from_tls(spec.security.tls.as_ref());
    let is_there = spec.monitoring.is_some() && spec.security.rotation != Rotation::InPlace;
    is_there && matches!(neighbour, Neighbour::Tls { certificate: true, .. })
}

impl<'a> Exporter<'a> {
    /// The exporter that the spec asks for; `None` without monitoring. `images` are those where it names none.
    #[must_use]
    pub fn from_spec(spec: &'a Validated, images: &'a DefaultImages) -> Option<Self> {
        let monitoring = spec.monitoring.as_ref()?;
        let authenticates = spec.security.sasl_secret.is_some();
        let default = if authenticates { &images.operator } else { &images.exporter };
        let image = monitoring.exporter_image.as_deref().unwrap_or(default);
        let program = if images.knows_as_own(image) { Program::Own } else { Program::Upstream };
        Some(Self {
            spec,
            monitoring,
            image,
            program,
            neighbour: Neighbour::from_tls(spec.security.tls.as_ref()),
        })
    }

    /// The Secrets that it reads: volumes of its own, as memcached's are nobody else's business.
    #[must_use]
    pub fn files(&self) -> Vec<SecretFiles<'a>> {
        self.credentials().into_iter().chain(self.certificate()).collect()
    }

    /// The container.
    #[must_use]
    pub fn container(&self) -> Container {
        let args = match self.program {
            Program::Upstream => self.upstream_args(),
            Program::Own => self.own_args(),
        };
        let mounts: Vec<_> = self.files().iter().map(SecretFiles::to_mount).collect();
        Container {
            name: NAME.to_owned(),
            image: Some(self.image.to_owned()),
            image_pull_policy: self.spec.pod.image_pull_policy.clone(),
            args: Some(args).filter(|args| !args.is_empty()),
            resources: self.monitoring.exporter_resources.clone(),
            ports: Some(vec![ports::METRICS.to_container_port()]),
            volume_mounts: Some(mounts).filter(|mounts| !mounts.is_empty()),
            security_context: Some(contexts::of_containers(self.spec)),
            ..Container::default()
        }
    }

    fn credentials(&self) -> Option<SecretFiles<'a>> {
        let secret = self.spec.security.sasl_secret.as_deref().filter(|_| self.program == Program::Own)?;
        Some(SecretFiles {
            volume: "exporter-credentials",
            directory: "/etc/memcached-exporter/sasl",
            secret,
            keys: &[PASSWORD_FILE],
        })
    }

    fn certificate(&self) -> Option<SecretFiles<'a>> {
        let Neighbour::Tls { certificate: true, .. } = self.neighbour else { return None };
        Some(SecretFiles {
            volume: "exporter-certificates",
            directory: "/etc/memcached-exporter/tls",
            secret: &self.spec.security.tls.as_ref()?.secret,
            keys: &[CERTIFICATE, PRIVATE_KEY],
        })
    }

    fn upstream_args(&self) -> Vec<String> {
        let port = match self.neighbour {
            // Its default address: a program in its place may not know the flag.
            Neighbour::Plaintext { port } if port == ports::MEMCACHED.number => return Vec::new(),
            Neighbour::Plaintext { port } | Neighbour::Tls { port, .. } => port,
        };
        let mut args = vec![format!("--memcached.address=127.0.0.1:{port}")];
        if matches!(self.neighbour, Neighbour::Tls { .. }) {
            args.extend(
                ["--memcached.tls.enable", "--memcached.tls.insecure-skip-verify"].map(str::to_owned),
            );
        }
        if let Some(files) = self.certificate() {
            args.push(format!("--memcached.tls.cert-file={}", files.path(CERTIFICATE)));
            args.push(format!("--memcached.tls.key-file={}", files.path(PRIVATE_KEY)));
        }
        args
    }

    fn own_args(&self) -> Vec<String> {
        let (Neighbour::Plaintext { port } | Neighbour::Tls { port, .. }) = self.neighbour;
        let mut args = vec!["exporter".to_owned(), format!("--memcached-address=127.0.0.1:{port}")];
        if matches!(self.neighbour, Neighbour::Tls { .. }) {
            args.extend(["--tls", "--tls-skip-verify"].map(str::to_owned));
        }
        if let Some(files) = self.certificate() {
            args.push(format!("--tls-cert-file={}", files.path(CERTIFICATE)));
            args.push(format!("--tls-key-file={}", files.path(PRIVATE_KEY)));
        }
        if let Some(files) = self.credentials() {
            args.push(format!("--password-file={}", files.path(PASSWORD_FILE)));
        }
        args
    }
}
