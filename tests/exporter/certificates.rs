//! Authorities and what they issue, as files.

use std::path::{Path, PathBuf};

use memcached_operator::exporter::tls::Identity;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// An authority.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) file: PathBuf,
}

impl Authority {
    /// A new one, whose certificate is in a file of this name.
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let file = folder.join(format!("{name}.crt"));
        std::fs::write(&file, params.self_signed(&key).unwrap().pem()).unwrap();
        Self { issuer: Issuer::new(params, key), file }
    }

    /// A certificate for this DNS name, and its key.
    pub(crate) fn issue(&self, folder: &Path, name: &str) -> Identity {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let [certificate, file] = ["crt", "key"].map(|kind| folder.join(format!("{name}.{kind}")));
        std::fs::write(&certificate, params.signed_by(&key, &self.issuer).unwrap().pem()).unwrap();
        std::fs::write(&file, key.serialize_pem()).unwrap();
        Identity { certificate, key: file }
    }
}
