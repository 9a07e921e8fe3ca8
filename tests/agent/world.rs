//! What Secrets hold: authorities, the pairs that they issue, password files.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    PKCS_ECDSA_P256_SHA256, SignatureAlgorithm, date_time_ymd,
};

/// The name by which clients know memcached.
pub(crate) const NAME: &str = "memcached.test";
/// The entry that is in every good password file.
pub(crate) const COMMON: &str = "ann:common";

/// What is mounted, by key.
#[derive(Clone)]
pub(crate) struct Content {
    pub(crate) crt: Vec<u8>,
    pub(crate) key: Vec<u8>,
    pub(crate) ca: Vec<u8>,
    pub(crate) passwords: Vec<u8>,
}

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate of these parameters and this key.
    pub(crate) fn sign(&self, params: &CertificateParams, key: &KeyPair) -> String {
        params.signed_by(key, &self.issuer).unwrap().pem()
    }

    /// A new pair.
    pub(crate) fn issue(&self) -> Pair {
        self.issue_with(&params(), &PKCS_ECDSA_P256_SHA256)
    }

    pub(crate) fn issue_with(
        &self,
        params: &CertificateParams,
        algorithm: &'static SignatureAlgorithm,
    ) -> Pair {
        let key = KeyPair::generate_for(algorithm).unwrap();
        Pair { crt: self.sign(params, &key), key: key.serialize_pem() }
    }
}

#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) crt: String,
    pub(crate) key: String,
}

/// The certificate of a memcached.
pub(crate) fn params() -> CertificateParams {
    let mut params = CertificateParams::new(vec![NAME.to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, NAME);
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2090, 1, 1));
    params
}

/// A good content: a new pair of this authority, and a new entry beside the common one.
pub(crate) fn good(authority: &Authority, at: usize) -> Content {
    let Pair { crt, key } = authority.issue();
    Content {
        crt: crt.into(),
        key: key.into(),
        ca: authority.pem.clone().into(),
        passwords: format!("{COMMON}\nbob:new-{at}\n").into(),
    }
}
