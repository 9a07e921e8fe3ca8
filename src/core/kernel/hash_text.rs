//! A text that is nearly always a SHA-256 in hexadecimal, such as the hash of a template in an annotation. Pure data.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::hash;

/// A text. One that is a SHA-256 as we write it takes half of its length, and nothing of the heap: two are kept of each resource.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub struct HashText(HashForm);

#[derive(Clone, PartialEq, Eq)]
enum HashForm {
    /// 64 digits, in lower case.
    Sha256([u8; 32]),
    /// Anything else: anybody may edit an annotation.
    Text(Box<str>),
}

impl HashText {
    /// The hash of a JSON value, as [`hash::of_json`] gives it.
    #[must_use]
    pub fn of_json(value: &Value) -> Self {
        Self(HashForm::Sha256(hash::sha256(value).into()))
    }
}

impl From<&str> for HashText {
    fn from(text: &str) -> Self {
        Self(hash::from_hex(text).map_or_else(|| HashForm::Text(text.into()), HashForm::Sha256))
    }
}

impl From<String> for HashText {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<HashText> for String {
    fn from(text: HashText) -> Self {
        text.to_string()
    }
}

impl fmt::Display for HashText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            HashForm::Sha256(bytes) => f.write_str(&hash::hex(bytes)),
            HashForm::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for HashText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_out_as_it_went_in() {
        let value = Value::from("body");
        let ours = hash::of_json(&value);
        let (upper, shorter, longer) = (ours.to_uppercase(), &ours[1..], format!("{ours}0"));
        let of_many_bytes = "\u{e9}".repeat(32);
        for text in ["", "another", &ours, &upper, shorter, &longer, &of_many_bytes] {
            let kept = HashText::from(text);
            let written = serde_json::to_value(&kept).unwrap();
            assert_eq!((kept.to_string(), written), (text.to_owned(), text.into()));
            assert_eq!(matches!(kept.0, HashForm::Sha256(_)), text == ours, "{text}");
        }
        assert_eq!(HashText::of_json(&value), HashText::from(ours));
    }
}
