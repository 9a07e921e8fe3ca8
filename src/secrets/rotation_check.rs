//! The question whether a pod's memcached serves the content that its Secrets have now, and the answer. The operator asks, the
//! agent in the pod answers, both with the types of this file. Pure: time, randomness and the wire are others' business.
//!
//! ```text
//! operator: GET /rotation/NONCE/MAC            two times 64 hexadecimal digits
//! agent:    200 {"files":"other"}                                        the kubelet has not brought them yet
//!           200 {"files":"these","state":"taken","until_restart":[]}     see RotationState
//!           429                                                          too many questions; ask again in a second
//! ```
//!
//! `MAC` is HMAC-SHA256, keyed with `NONCE`, over the SHA-256 of each file that memcached reads ([`message`]). The agent
//! computes the same over its own files and says whether the two are equal. So neither a Secret's byte nor a hash that could
//! be looked up in a table crosses the network, and an answer to one question says nothing about another. One MAC covers all
//! files together: who overhears a question cannot try passwords against it where there is a private key, which nobody
//! guesses; where there is none, memcached's clients send their passwords in plain text anyway. Who asks the agent may guess a
//! few times a second at most from each address, and only all files at once.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ring::hmac;
use serde::{Deserialize, Serialize};

use super::refusal::Refusal;

/// Where the agent answers, before the nonce and the MAC.
pub const PATH: &str = "/rotation";
/// Bytes of a nonce and of a MAC.
const BYTES: usize = 32;

/// The SHA-256 of each file that memcached reads, in hexadecimal, by the key of the Secret.
pub type Digests = BTreeMap<String, String>;

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotationQuestion {
    nonce: [u8; BYTES],
    mac: [u8; BYTES],
}

/// A text that is no question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a question is {PATH}/NONCE/MAC, each of 64 hexadecimal digits")]
pub struct NoQuestion;

impl RotationQuestion {
    /// Asks for this content. The nonce has to be random, and another one for each question.
    #[must_use]
    pub fn new(nonce: [u8; BYTES], expected: &Digests) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &nonce);
        let tag = hmac::sign(&key, &message(expected));
        let mut mac = [0; BYTES];
        mac.copy_from_slice(tag.as_ref());
        Self { nonce, mac }
    }

    /// Whether the content asked for is this one. Takes the same time whatever differs.
    #[must_use]
    pub fn is_about(&self, files: &Digests) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.nonce);
        hmac::verify(&key, &message(files), &self.mac).is_ok()
    }

    /// The path that asks it.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{PATH}/{}/{}", hex(&self.nonce), hex(&self.mac))
    }

    /// Reads the two parts of a path after [`PATH`].
    ///
    /// # Errors
    /// When they are not of the form.
    pub fn from_path_parts(nonce: &str, mac: &str) -> Result<Self, NoQuestion> {
        Ok(Self { nonce: unhex(nonce).ok_or(NoQuestion)?, mac: unhex(mac).ok_or(NoQuestion)? })
    }
}

/// `tls.crt=SHA-256` and so on, a line for each file, in the order of their names.
fn message(digests: &Digests) -> Vec<u8> {
    let mut message = String::new();
    for (key, digest) in digests {
        // Writing to a text does not fail.
        let _ = writeln!(message, "{key}={digest}");
    }
    message.into_bytes()
}

/// What the agent answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "files", rename_all = "lowercase")]
pub enum AgentAnswer {
    /// The pod's files are others. Nothing is said about them.
    Other,
    /// The pod's files are those asked for.
    These(RotationState),
}

/// How far a memcached is with the content of its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum RotationState {
    /// Not there yet; the agent goes on trying.
    Taking {
        /// What it waits for or what went wrong last.
        reason: String,
    },
    /// Memcached serves the content, which was seen from outside: a handshake showed the certificate, each entry of the
    /// password file could log in.
    Taken {
        /// What of it memcached cannot do before it restarts, as sentences.
        until_restart: Vec<String>,
    },
    /// The content is good, but only a restart of memcached can bring it. Memcached serves the old.
    NeedsRestart {
        /// Why, and what it means until then.
        reason: String,
    },
    /// The content is not given to memcached, which goes on with the old.
    Refused {
        /// What is wrong, at least one.
        refusals: Vec<Refusal>,
    },
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<[u8; BYTES]> {
    if text.len() != 2 * BYTES || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; BYTES];
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn digests(of: &[(&str, &str)]) -> Digests {
        of.iter().map(|(key, digest)| ((*key).to_owned(), (*digest).to_owned())).collect()
    }

    fn read(path: &str) -> Result<RotationQuestion, NoQuestion> {
        let (nonce, mac) = path.strip_prefix("/rotation/").and_then(|it| it.split_once('/')).unwrap();
        RotationQuestion::from_path_parts(nonce, mac)
    }

    #[test]
    fn a_question_is_about_the_content_that_it_was_made_of_and_about_no_other() {
        let expected = digests(&[("tls.crt", "aa"), ("tls.key", "bb")]);
        let question = read(&RotationQuestion::new([7; 32], &expected).path()).unwrap();
        assert!(question.is_about(&expected));
        for other in [
            digests(&[("tls.crt", "aa"), ("tls.key", "bc")]),
            digests(&[("tls.crt", "aa")]),
            digests(&[("tls.crt", "aa"), ("tls.key", "bb"), ("ca.crt", "cc")]),
            digests(&[]),
        ] {
            assert!(!question.is_about(&other), "{other:?}");
        }
    }

    #[test]
    fn two_questions_about_one_content_look_different_and_neither_shows_the_digest() {
        let expected = digests(&[("password-file", "0123456789abcdef")]);
        let paths = [1, 2].map(|nonce| RotationQuestion::new([nonce; 32], &expected).path());
        assert_ne!(paths[0][75..], paths[1][75..]);
        assert!(paths.iter().all(|path| !path.contains("0123456789abcdef")));
    }

    #[test]
    fn the_answers_on_the_wire() {
        let taken = |until_restart| AgentAnswer::These(RotationState::Taken { until_restart });
        let refusals = vec![Refusal::new("tls.key", "the private key in it cannot be parsed")];
        for (answer, wire) in [
            (AgentAnswer::Other, json!({"files": "other"})),
            (taken(vec![]), json!({"files": "these", "state": "taken", "until_restart": []})),
            (
                AgentAnswer::These(RotationState::Taking { reason: "r".to_owned() }),
                json!({"files": "these", "state": "taking", "reason": "r"}),
            ),
            (
                AgentAnswer::These(RotationState::NeedsRestart { reason: "r".to_owned() }),
                json!({"files": "these", "state": "needs-restart", "reason": "r"}),
            ),
            (
                AgentAnswer::These(RotationState::Refused { refusals }),
                json!({"files": "these", "state": "refused", "refusals":
                    [{"key": "tls.key", "words": "the private key in it cannot be parsed"}]}),
            ),
        ] {
            assert_eq!(serde_json::to_value(&answer).unwrap(), wire);
            assert_eq!(serde_json::from_value::<AgentAnswer>(wire).unwrap(), answer);
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(nonce in "[0-9a-fA-Fä+x]{0,70}", mac in ".{0,70}") {
            if let Ok(question) = RotationQuestion::from_path_parts(&nonce, &mac) {
                prop_assert_eq!(read(&question.path()), Ok(question));
            }
        }
    }
}
