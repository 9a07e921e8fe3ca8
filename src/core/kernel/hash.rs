//! Hashes. They are stored in annotations, so the hash of an input must never change. Pure.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The first half of the SHA-256 of a child's body, as [`of_json`] gives it. Three are kept of each child, and are only compared:
/// no two bodies have the same half either. Serialises in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct BodyHash([u8; 16]);

impl BodyHash {
    /// The hash of this body.
    #[must_use]
    pub fn from_body(body: &Value) -> Self {
        let whole: [u8; 32] = sha256(body).into();
        let mut half = [0; 16];
        half.copy_from_slice(&whole[..16]);
        Self(half)
    }
}

impl fmt::Display for BodyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl From<BodyHash> for String {
    fn from(hash: BodyHash) -> Self {
        hash.to_string()
    }
}

impl TryFrom<String> for BodyHash {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        from_hex(&text).map(Self).ok_or_else(|| format!("{text:?} is no half of a SHA-256 in hexadecimal"))
    }
}

/// How a hash is stored that may be missing: as a text, which is then empty.
pub(crate) mod or_empty {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::BodyHash;

    #[expect(clippy::ref_option, reason = "serde asks for it")]
    pub(crate) fn serialize<S: Serializer>(hash: &Option<BodyHash>, to: S) -> Result<S::Ok, S::Error> {
        hash.map_or_else(String::new, String::from).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<BodyHash>, D::Error> {
        let text = String::deserialize(from)?;
        (!text.is_empty()).then(|| BodyHash::try_from(text)).transpose().map_err(D::Error::custom)
    }
}

/// The bytes of a text that [`hex`] gives for so many; `None` for any other text.
pub(super) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_ours = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
    if text.len() != 2 * N || !text.bytes().all(is_ours) {
        return None;
    }
    let mut bytes = [0; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

/// SHA-256 of a JSON value in hexadecimal, independent of the order in which its maps were built: a library
/// that starts to keep insertion order must not roll a fleet.
#[must_use]
pub fn of_json(value: &Value) -> String {
    hex(&sha256(value))
}

pub(super) fn sha256(value: &Value) -> impl AsRef<[u8]> + Into<[u8; 32]> + std::ops::Deref<Target = [u8]> {
    let mut hasher = Sha256::new();
    feed(&mut hasher, value);
    hasher.finalize()
}

/// SHA-256 of bytes in hexadecimal.
#[must_use]
pub fn of_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// SHA-256 in hexadecimal of a sequence of strings, each preceded by its length: no two different sequences
/// are hashed from the same bytes.
#[must_use]
pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        feed_sized(&mut hasher, part);
    }
    hex(&hasher.finalize())
}

fn feed_sized(hasher: &mut Sha256, text: &str) {
    hasher.update((text.len() as u64).to_be_bytes());
    hasher.update(text.as_bytes());
}

fn feed(hasher: &mut Sha256, value: &Value) {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            hasher.update(b"{");
            for (key, value) in fields {
                feed_sized(hasher, key);
                feed(hasher, value);
            }
            hasher.update(b"}");
        }
        Value::Array(items) => {
            hasher.update(b"[");
            items.iter().for_each(|item| feed(hasher, item));
            hasher.update(b"]");
        }
        Value::String(text) => {
            hasher.update(b"s");
            feed_sized(hasher, text);
        }
        Value::Number(number) => {
            hasher.update(b"n");
            feed_sized(hasher, &number.to_string());
        }
        Value::Bool(true) => hasher.update(b"t"),
        Value::Bool(false) => hasher.update(b"f"),
        Value::Null => hasher.update(b"0"),
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        for nibble in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
        }
        text
    })
}
