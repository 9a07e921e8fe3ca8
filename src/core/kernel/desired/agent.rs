//! The agent beside memcached, which has it take changed Secrets: its arguments and its container. Pure; called by
//! [`super::pod`] for pods whose Secrets are taken in place.
//!
//! It is this project's own program. Where the cache is monitored it serves the exporter's metrics too, so that a pod has no
//! third container.

use k8s_openapi::api::core::v1::Container;

use super::default_images::DefaultImages;
use super::files::{self, SecretFiles};
use super::tls::LOCAL_PLAINTEXT_PORT;
use super::{contexts, ports};
use crate::api::Validated;
use crate::api::spec::Rotation;
use crate::kernel::secret_keys::{CA, CERTIFICATE, PASSWORD_FILE, PRIVATE_KEY};

/// Name of the container.
pub const NAME: &str = "agent";
/// The flag by which the agent serves memcached's metrics too.
pub const EXPORTER: &str = "--exporter";

/// The agent of one cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent<'a> {
    spec: &'a Validated,
    image: &'a str,
}

impl<'a> Agent<'a> {
    /// The agent that the spec asks for; `None` where pods restart for a changed Secret, or mount none. An exporter's image
    /// counts where it is this project's.
    #[must_use]
    pub fn from_spec(spec: &'a Validated, images: &'a DefaultImages) -> Option<Self> {
        let mounts = !files::of_memcached(spec).is_empty();
        let named = spec.monitoring.as_ref().and_then(|it| it.exporter_image.as_deref());
        let image = named.filter(|image| images.knows_as_own(image)).unwrap_or(&images.operator);
        (spec.security.rotation == Rotation::InPlace && mounts).then_some(Self { spec, image })
    }

    /// Whether it has to signal memcached, for which it has to see memcached's process.
    #[must_use]
    pub const fn signals(&self) -> bool {
        self.spec.security.sasl_secret.is_some()
    }

    /// The container. It reads memcached's own volumes: what it checks is what memcached reads.
    #[must_use]
    pub fn container(&self) -> Container {
        let mounts = files::of_memcached(self.spec).iter().map(SecretFiles::to_mount).collect();
        let monitoring = self.spec.monitoring.as_ref();
        Container {
            name: NAME.to_owned(),
            image: Some(self.image.to_owned()),
            image_pull_policy: self.spec.pod.image_pull_policy.clone(),
            args: Some(self.args()),
            resources: monitoring.and_then(|it| it.exporter_resources.clone()),
            ports: Some(vec![ports::METRICS.to_container_port()]),
            volume_mounts: Some(mounts),
            security_context: Some(contexts::of_containers(self.spec)),
            ..Container::default()
        }
    }

    fn args(&self) -> Vec<String> {
        let tls = self.spec.security.tls.as_ref();
        let plain = if tls.is_some() { LOCAL_PLAINTEXT_PORT } else { ports::MEMCACHED.number };
        let mut args = vec!["agent".to_owned(), format!("--memcached-address=127.0.0.1:{plain}")];
        if let Some(tls) = tls {
            let files = files::certificates(tls);
            args.push(format!("--memcached-tls-address=127.0.0.1:{}", ports::MEMCACHED_TLS.number));
            args.push(format!("--tls-cert-file={}", files.path(CERTIFICATE)));
            args.push(format!("--tls-key-file={}", files.path(PRIVATE_KEY)));
            args.extend(tls.client_certificates.then(|| format!("--tls-ca-file={}", files.path(CA))));
        }
        let credentials = files::credentials(self.spec);
        args.extend(credentials.map(|files| format!("--password-file={}", files.path(PASSWORD_FILE))));
        args.extend(self.spec.monitoring.as_ref().map(|_| EXPORTER.to_owned()));
        args
    }
}
