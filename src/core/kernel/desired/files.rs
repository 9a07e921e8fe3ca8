//! Secrets as files in a container: the volume, the mount, and where each key ends up. Pure; used by the containers
//! of [`super::pod`], and by [`super::secrets`] to know what is mounted.

use k8s_openapi::api::core::v1::{KeyToPath, SecretVolumeSource, Volume, VolumeMount};

use crate::api::Validated;
use crate::api::spec::Tls;
use crate::kernel::secret_keys::{CA, CERTIFICATE, PASSWORD_FILE, PRIVATE_KEY};

/// Keys of one Secret as files in one directory of one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretFiles<'a> {
    /// Name of the volume.
    pub volume: &'static str,
    /// The folder at which the Secret is mounted.
    pub directory: &'static str,
    /// Name of the Secret.
    pub secret: &'a str,
    /// The keys of the Secret, which are the names of the files too.
    pub keys: &'static [&'static str],
}

/// What memcached reads.
#[must_use]
pub fn of_memcached(spec: &Validated) -> Vec<SecretFiles<'_>> {
    let certificates = spec.security.tls.as_ref().map(certificates);
    credentials(spec).into_iter().chain(certificates).collect()
}

/// The credentials Secret, if clients have to log in.
#[must_use]
pub fn credentials(spec: &Validated) -> Option<SecretFiles<'_>> {
    spec.security.sasl_secret.as_deref().map(|secret| SecretFiles {
        volume: "sasl-credentials",
        directory: "/etc/memcached/sasl",
        secret,
        keys: &[PASSWORD_FILE],
    })
}

/// Memcached's certificate, and the CA of its clients if they need certificates.
#[must_use]
pub fn certificates(tls: &Tls) -> SecretFiles<'_> {
    let keys: &[_] =
        if tls.client_certificates { &[CERTIFICATE, PRIVATE_KEY, CA] } else { &[CERTIFICATE, PRIVATE_KEY] };
    SecretFiles { volume: "tls-certificates", directory: "/etc/memcached/tls", secret: &tls.secret, keys }
}

impl SecretFiles<'_> {
    /// The file that holds `key`.
    #[must_use]
    pub fn path(&self, key: &str) -> String {
        format!("{}/{key}", self.directory)
    }

    /// Only the keys that are used, as the files are readable by every process of the container (mode 0644).
    #[must_use]
    pub fn to_volume(&self) -> Volume {
        let items = self.keys.iter().map(|key| KeyToPath {
            key: (*key).to_owned(),
            path: (*key).to_owned(),
            mode: None,
        });
        Volume {
            name: self.volume.to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(self.secret.to_owned()),
                items: Some(items.collect()),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        }
    }

    /// The volume in a container.
    #[must_use]
    pub fn to_mount(&self) -> VolumeMount {
        VolumeMount {
            name: self.volume.to_owned(),
            mount_path: self.directory.to_owned(),
            read_only: Some(true),
            ..VolumeMount::default()
        }
    }
}
