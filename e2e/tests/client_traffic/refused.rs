//! Broken contents of Secrets, a tenth of those that `tests/agent` gives to memcached, in the pods of a cache that takes Secrets
//! in place: each is refused by name, clients notice nothing, and the next good content is taken.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::testing::cache::{Cache, condition, says};
use e2e::testing::changing_secrets::{COMMON, is_shown, lets_in};
use e2e::testing::tls::{Authority, Pair};
use e2e::testing::traffic::{Access, Keys, Traffic};
use futures::future::try_join_all;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use rcgen::KeyPair;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;
use tokio::time::Instant;

use super::with_cache;

const PODS: usize = 2;
const KEYS: usize = 1_000;

/// What the two Secrets hold.
struct Content {
    certificate: Vec<u8>,
    key: Vec<u8>,
    authority: Vec<u8>,
    passwords: Vec<u8>,
}

impl Content {
    /// A good one with a new certificate and another user beside the one of all.
    fn good(authority: &Authority, at: usize) -> Result<Self> {
        let Pair { certificate, key } = authority.pair_until(2099)?;
        let (user, password) = COMMON;
        Ok(Self {
            certificate: certificate.into(),
            key: key.into(),
            authority: authority.certificate().into(),
            passwords: format!("{user}:{password}\nuser-{at}:new\n").into(),
        })
    }

    async fn write(&self, cache: &Cache<'_>) -> Result<()> {
        let data = |bytes: &[u8]| ByteString(bytes.to_vec());
        let certificate = json!({"metadata": {"name": "certificate"}, "type": "kubernetes.io/tls", "data": {
            "tls.crt": data(&self.certificate), "tls.key": data(&self.key), "ca.crt": data(&self.authority),
        }});
        let users = json!({"metadata": {"name": "users"}, "data": {"password-file": data(&self.passwords)}});
        for secret in [certificate, users] {
            cache.space.apply::<Secret>(&serde_json::from_value(secret)?).await?;
        }
        Ok(())
    }
}

/// What becomes of a good content.
type Change = fn(&Authority, Content) -> Result<Content>;

/// A name, the words that the status says, and the change.
const BROKEN: [(&str, &str, Change); 12] = [
    ("half a certificate", "Secret certificate, tls.crt: a certificate in it cannot be parsed", |_, it| {
        Ok(Content { certificate: it.certificate[..it.certificate.len() / 2].to_vec(), ..it })
    }),
    ("DER for PEM", "Secret certificate, tls.crt: no certificate in PEM format", |_, it| {
        Ok(Content { certificate: CertificateDer::from_pem_slice(&it.certificate)?.to_vec(), ..it })
    }),
    (
        "a certificate behind a byte order mark",
        "Secret certificate, tls.crt: it begins with a byte order mark",
        |_, it| Ok(Content { certificate: [b"\xef\xbb\xbf", &it.certificate[..]].concat(), ..it }),
    ),
    (
        "700 kB of noise for a certificate",
        "Secret certificate, tls.crt: no certificate in PEM format",
        |_, it| {
            let noise = (0..700_000_u32).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[0]);
            Ok(Content { certificate: noise.collect(), ..it })
        },
    ),
    (
        "a certificate that ended",
        "Secret certificate, tls.crt: the certificate in it ended at 2020-01-01T00:00:00Z",
        |authority, it| {
            let Pair { certificate, key } = authority.pair_until(2020)?;
            Ok(Content { certificate: certificate.into(), key: key.into(), ..it })
        },
    ),
    (
        "a key of another certificate",
        "Secret certificate, tls.key: the private key in it does not belong",
        |_, it| Ok(Content { key: KeyPair::generate()?.serialize_pem().into(), ..it }),
    ),
    ("certificate and key swapped", "Secret certificate, tls.crt: no certificate in PEM format", |_, it| {
        Ok(Content { certificate: it.key, key: it.certificate, ..it })
    }),
    (
        "a pair of another authority",
        "Secret certificate, tls.crt: no authority in ca.crt has issued",
        |_, it| Ok(Content { authority: Authority::create("authority")?.certificate().into(), ..it }),
    ),
    ("an empty password file", "Secret users, password-file: it is empty", |_, it| {
        Ok(Content { passwords: Vec::new(), ..it })
    }),
    (
        "a comment in the password file",
        "Secret users, password-file: a line of it is not USER:PASSWORD",
        |_, it| Ok(Content { passwords: [b"# since May\n", &it.passwords[..]].concat(), ..it }),
    ),
    (
        "a line of 300 bytes in the password file",
        "Secret users, password-file: a line of it has more than 255 bytes",
        |_, it| {
            let line = format!("user:{}\n", "x".repeat(295));
            Ok(Content { passwords: [&it.passwords[..], line.as_bytes()].concat(), ..it })
        },
    ),
    (
        "lines of the password file that end with a carriage return only",
        "Secret users, password-file: a carriage return is in a line",
        |_, it| Ok(Content { passwords: [b"ann:one\r", &it.passwords[..]].concat(), ..it }),
    ),
];

#[tokio::test]
async fn broken_contents_are_refused_by_name_in_pods_too_and_clients_notice_nothing() -> Result<()> {
    with_cache("refused", async |cache| {
        let (user, password) = COMMON;
        let access = Arc::new(Access { authority: Authority::create("authority")?, user, password });
        Content::good(&access.authority, 0)?.write(cache).await?;
        cache
            .apply(&json!({"replicas": PODS, "security": {
                "rotation": "InPlace",
                "tls": {"enabled": true, "certificateSecretRef": {"name": "certificate"}, "enableClientCert": true},
                "sasl": {"enabled": true, "credentialsSecretRef": {"name": "users"}},
            }}))
            .await?;
        cache.ready().await?;
        let addresses = cache.addresses(PODS).await?;
        let keys: Vec<_> = addresses.iter().map(|pod| Keys { pod: *pod, count: KEYS }).collect();
        try_join_all(keys.iter().map(|keys| keys.store(&access))).await?;
        let traffic = Traffic::start(&access, &keys).await?;
        for (at, (name, words, change)) in BROKEN.into_iter().enumerate() {
            change(&access.authority, Content::good(&access.authority, at)?)?.write(cache).await?;
            let refused = |it: &memcached_operator::api::Memcached| {
                says(it, "False", "SecretInvalid")
                    && condition(it, "Ready").is_some_and(|ready| ready.message.contains(words))
            };
            let resource = cache.is("the content is refused by name", refused).await.context(name)?;
            println!("{name}: {}", condition(&resource, "Ready").context("it is there")?.message);
            let good = Content::good(&access.authority, at + 1)?;
            let written = Instant::now();
            good.write(cache).await?;
            let certificate = std::str::from_utf8(&good.certificate)?;
            is_shown(&access, &addresses, certificate).await.context(name)?;
            lets_in(&access, &addresses, at + 1).await.context(name)?;
            println!("  the good content was taken after {:.1} s", written.elapsed().as_secs_f32());
            cache.ready().await.context(name)?;
        }
        let done = traffic.finish().await?;
        ensure!(done.operations > 0 && done.connections > 0, "{done:?}");
        let found: usize = try_join_all(keys.iter().map(|keys| keys.found(&access))).await?.iter().sum();
        assert_eq!(found, KEYS * PODS, "keys are lost");
        assert_eq!(cache.template_records().await?, 1, "pods were replaced");
        Ok(())
    })
    .await
}
