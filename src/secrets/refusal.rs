//! Why the agent does not give a content to a running memcached: which key, and what is wrong with it. Pure data.
//!
//! The words hold no byte of a Secret but what a certificate shows to everybody.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kernel::secret_finding::SecretFinding;

/// What is wrong with the value of one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The key of the Secret, which is the name of the file.
    pub key: String,
    /// What is wrong and what to do, to follow the name of the key.
    pub words: String,
}

impl Refusal {
    /// A refusal of this key.
    #[must_use]
    pub fn new(key: &str, words: impl Into<String>) -> Self {
        Self { key: key.to_owned(), words: words.into() }
    }
}

/// Every finding is a reason not to touch a running memcached. What only warns where a pod starts, because memcached may be
/// able to use it, is refused here: a mistake would end every new connection.
impl From<SecretFinding> for Refusal {
    fn from(finding: SecretFinding) -> Self {
        use SecretFinding::{AuthorityNotJudged, CertificateNotJudged, PrivateKeyNotJudged};
        let words = match finding {
            CertificateNotJudged | AuthorityNotJudged => {
                "the agent cannot read a certificate in it, and so does not risk to give it to a running memcached; \
                 restart the pods to try it"
            }
            PrivateKeyNotJudged => {
                "the agent cannot judge the private key in it (it is encrypted, of another curve or size than RSA, P-256, \
                 P-384 and Ed25519, or in version 2 of PKCS#8, which OpenSSL reads from 3.5 on), and so does not risk to \
                 give it to a running memcached; make a new key, for example with openssl"
            }
            other => other.words(),
        };
        Self::new(finding.key(), words)
    }
}

/// `tls.key: the private key in it cannot be parsed`.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, words } = self;
        write!(f, "{key}: {words}")
    }
}
