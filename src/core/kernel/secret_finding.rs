//! What can be found in the content of a Secret, and the words for it. Pure data; the shell finds it where a Secret is
//! reduced to digests, the pass decides what comes of it.
//!
//! A finding is one of these words and nothing else, so no byte of a Secret can stand in it.

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantArray};

use super::secret_keys::{CA, CERTIFICATE, PASSWORD_FILE, PRIVATE_KEY};

/// Something that was found in one key of a Secret.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
pub enum SecretFinding {
    /// `tls.crt` holds no certificate.
    CertificateMissing,
    /// A certificate in `tls.crt` cannot be parsed.
    CertificateBroken,
    /// The first certificate in `tls.crt` is one that our library does not understand.
    CertificateNotJudged,
    /// The first certificate in `tls.crt` is for servers only.
    CertificateNotForClients,
    /// `tls.key` holds no private key.
    PrivateKeyMissing,
    /// The private key in `tls.key` cannot be parsed.
    PrivateKeyBroken,
    /// The private key belongs to another certificate.
    PrivateKeyMismatch,
    /// The private key is encrypted or of another curve or size, which our library does not understand, or in a form that
    /// not every OpenSSL does.
    PrivateKeyNotJudged,
    /// `ca.crt` holds no certificate.
    AuthorityMissing,
    /// A certificate in `ca.crt` cannot be parsed.
    AuthorityBroken,
    /// `ca.crt` holds a certificate that our library does not understand.
    AuthorityNotJudged,
    /// The password file is empty.
    PasswordFileEmpty,
    /// A line of the password file has no colon.
    PasswordFileMalformed,
    /// The last line of the password file does not end with a newline.
    PasswordFileNotEnded,
    /// The password file has more than eight entries.
    PasswordFileTooManyEntries,
    /// A line of the password file is longer than memcached reads at once.
    PasswordFileLineTooLong,
    /// A user or a password is empty or holds a space.
    PasswordFileEntryUnusable,
}

impl SecretFinding {
    /// The word for it: what the status remembers, and the reason of its Kubernetes Event.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The finding of this word; `None` for a word of another release.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        word.parse().ok()
    }

    /// The key of the Secret that it is about.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::CertificateMissing
            | Self::CertificateBroken
            | Self::CertificateNotJudged
            | Self::CertificateNotForClients => CERTIFICATE,
            Self::PrivateKeyMissing
            | Self::PrivateKeyBroken
            | Self::PrivateKeyMismatch
            | Self::PrivateKeyNotJudged => PRIVATE_KEY,
            Self::AuthorityMissing | Self::AuthorityBroken | Self::AuthorityNotJudged => CA,
            Self::PasswordFileEmpty
            | Self::PasswordFileMalformed
            | Self::PasswordFileNotEnded
            | Self::PasswordFileTooManyEntries
            | Self::PasswordFileLineTooLong
            | Self::PasswordFileEntryUnusable => PASSWORD_FILE,
        }
    }

    /// Whether memcached would not start with it, or no client could use the cache. Everything else only warns: what
    /// cannot be judged may be good.
    #[must_use]
    pub const fn is_invalid(self) -> bool {
        match self {
            Self::CertificateMissing
            | Self::CertificateBroken
            | Self::PrivateKeyMissing
            | Self::PrivateKeyBroken
            | Self::PrivateKeyMismatch
            | Self::AuthorityMissing
            | Self::AuthorityBroken
            | Self::PasswordFileEmpty
            | Self::PasswordFileMalformed => true,
            Self::CertificateNotJudged
            | Self::CertificateNotForClients
            | Self::PrivateKeyNotJudged
            | Self::AuthorityNotJudged
            | Self::PasswordFileNotEnded
            | Self::PasswordFileTooManyEntries
            | Self::PasswordFileLineTooLong
            | Self::PasswordFileEntryUnusable => false,
        }
    }

    /// What is wrong and what to do, to follow the name of the key.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::CertificateMissing | Self::AuthorityMissing => "no certificate in PEM format is in it",
            Self::CertificateBroken | Self::AuthorityBroken => "a certificate in it cannot be parsed",
            Self::CertificateNotJudged | Self::AuthorityNotJudged => {
                "the operator cannot read a certificate in it, and so cannot say when it ends or whether it is good; \
                 memcached may take it all the same"
            }
            Self::CertificateNotForClients => {
                "its extended key usage lacks clientAuth: the exporter shows this certificate to memcached, which refuses \
                 it, so there are no metrics; add the usage client auth"
            }
            Self::PrivateKeyMissing => "no private key in PEM format is in it",
            Self::PrivateKeyBroken => "the private key in it cannot be parsed",
            Self::PrivateKeyMismatch => {
                "the private key in it does not belong to the first certificate in tls.crt"
            }
            Self::PrivateKeyNotJudged => {
                "the operator cannot judge the private key in it (it is encrypted, of another curve or size than RSA, \
                 P-256, P-384 and Ed25519, or in version 2 of PKCS#8), and so cannot say whether it belongs to the \
                 certificate; memcached cannot use an encrypted one, and with an OpenSSL before 3.5 none of version 2: \
                 make a new key, for example with openssl"
            }
            Self::PasswordFileEmpty => "it is empty, so nobody could log in",
            Self::PasswordFileMalformed => {
                "a line of it is not USER:PASSWORD; memcached refuses blank lines and comments too"
            }
            Self::PasswordFileNotEnded => {
                "its last line does not end with a newline: some versions of memcached drop the last character of its \
                 password; end the line"
            }
            Self::PasswordFileTooManyEntries => {
                "memcached reads its first 8 lines only: nobody can log in by the others"
            }
            Self::PasswordFileLineTooLong => {
                "a line of it has more than 255 bytes: memcached cuts it there, and reads nothing after it"
            }
            Self::PasswordFileEntryUnusable => {
                "a user or a password in it is empty or holds a space: clients send both with a space between them, and \
                 cannot log in by it"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_is_known_again_by_its_word_which_is_that_of_the_journal() {
        for finding in SecretFinding::VARIANTS {
            assert_eq!(SecretFinding::from_word(finding.as_str()), Some(*finding));
            assert_eq!(serde_json::to_value(finding).unwrap(), finding.as_str());
        }
        assert_eq!(SecretFinding::from_word("Certificate"), None);
    }
}
