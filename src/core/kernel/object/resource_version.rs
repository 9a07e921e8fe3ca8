//! Which version of an object. Pure data.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A version of an object as the API server counts them. One is kept of each object, so a number takes nothing of the heap.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub struct ResourceVersion(VersionForm);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum VersionForm {
    /// A decimal number without a zero or a sign before it.
    Number(u64),
    /// Anything else. A `Box<Box<str>>` takes eight bytes, as a number does; a `Box<str>` takes sixteen.
    Text(Box<Box<str>>),
}

impl ResourceVersion {
    /// Whether `self` is certainly older than `other`. Versions are decimal numbers that grow; anything else
    /// is never called older, so that an unknown format costs a needless look and not a missed change.
    #[must_use]
    pub fn is_older_than(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (VersionForm::Number(ours), VersionForm::Number(theirs)) => ours < theirs,
            _ => false,
        }
    }
}

impl Default for ResourceVersion {
    fn default() -> Self {
        Self::from(String::new())
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            VersionForm::Number(number) => number.fmt(f),
            VersionForm::Text(text) => f.write_str(text),
        }
    }
}

impl From<ResourceVersion> for String {
    fn from(version: ResourceVersion) -> Self {
        version.to_string()
    }
}

impl From<String> for ResourceVersion {
    fn from(text: String) -> Self {
        // The text has to come out again as it went in.
        match text.parse::<u64>().ok().filter(|number| number.to_string() == text) {
            Some(number) => Self(VersionForm::Number(number)),
            None => Self(VersionForm::Text(Box::new(text.into()))),
        }
    }
}

impl From<&str> for ResourceVersion {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_out_as_it_went_in_and_only_numbers_are_older() {
        let above = format!("{}0", u64::MAX);
        for text in ["", "0", "7", "007", "+7", "7 ", "abc", &u64::MAX.to_string(), &above] {
            let version = ResourceVersion::from(text);
            let stored = serde_json::to_value(&version).unwrap();
            assert_eq!((version.to_string(), stored), (text.to_owned(), text.into()));
            let older = version.is_older_than(&ResourceVersion::from("8"));
            assert_eq!(older, ["0", "7"].contains(&text), "{text}");
        }
        assert_eq!(size_of::<ResourceVersion>(), 16);
    }
}
