//! Hashes. They are stored in annotations, so the hash of an input must never change. Pure.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// SHA-256 of a JSON value in hexadecimal, independent of the order in which its maps were built: a library
/// that starts to keep insertion order must not roll a fleet.
#[must_use]
pub fn of_json(value: &Value) -> String {
    let mut hasher = Sha256::new();
    feed(&mut hasher, value);
    hex(&hasher.finalize())
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
            let mut keys: Vec<_> = map.keys().collect();
            keys.sort_unstable();
            hasher.update(b"{");
            for key in keys {
                feed_sized(hasher, key);
                feed(hasher, &map[key]);
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

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        for nibble in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
        }
        text
    })
}
