//! A text that is nearly always one of a few: the status and the reason of a condition, the kind of an owner. Pure data.

use std::fmt;
use std::ops::Deref;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize, Serializer};

use super::reason::{Reason, STATUSES, Type};

/// How our own resource is named where it owns something: its kind, and its API version in each version that is served.
const OWNER: [&str; 3] = ["Memcached", "memcached.c5c3.io/v1beta1", "memcached.c5c3.io/v1alpha1"];

/// The texts that are known.
static KNOWN: LazyLock<Box<[&'static str]>> = LazyLock::new(|| {
    let types = Type::ALL.iter().map(|it| it.as_str());
    let reasons = Reason::ALL.iter().map(|it| it.as_str());
    STATUSES.into_iter().chain(types).chain(reasons).chain(OWNER).collect()
});

/// A text. One that is known takes nothing of the heap: a dozen are kept of each resource.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Word(WordForm);

#[derive(Clone, PartialEq, Eq)]
enum WordForm {
    /// The first place of the text in [`KNOWN`]. A `&str` would take twice as much.
    Known(u8),
    /// Anything else.
    Other(Box<str>),
}

fn known(text: &str) -> Option<WordForm> {
    let place = KNOWN.iter().position(|it| *it == text)?;
    u8::try_from(place).ok().map(WordForm::Known)
}

impl From<&str> for Word {
    fn from(text: &str) -> Self {
        Self(known(text).unwrap_or_else(|| WordForm::Other(text.into())))
    }
}

impl From<String> for Word {
    fn from(text: String) -> Self {
        Self(known(&text).unwrap_or_else(|| WordForm::Other(text.into())))
    }
}

impl From<Type> for Word {
    fn from(of: Type) -> Self {
        Self::from(of.as_str())
    }
}

impl From<Reason> for Word {
    fn from(reason: Reason) -> Self {
        Self::from(reason.as_str())
    }
}

impl Word {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            // Each place is one of the table: `known` alone makes them.
            WordForm::Known(place) => KNOWN.get(usize::from(*place)).copied().unwrap_or_default(),
            WordForm::Other(text) => text,
        }
    }
}

impl Deref for Word {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq<str> for Word {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Word {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<Word> for &str {
    fn eq(&self, other: &Word) -> bool {
        *self == other.as_str()
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_word_is_not_copied_and_any_other_is_kept_as_it_is() {
        for (text, is_known) in [
            ("True", true),
            ("Ready", true),
            ("MemcachedReady", true),
            ("Memcached", true),
            ("ready", false),
            ("", false),
        ] {
            for word in [Word::from(text), Word::from(text.to_owned())] {
                assert_eq!(matches!(word.0, WordForm::Known(_)), is_known, "{text}");
                assert_eq!(
                    (word.to_string(), serde_json::to_value(&word).unwrap()),
                    (text.to_owned(), text.into())
                );
            }
        }
        assert_eq!(size_of::<Word>(), 16);
    }

    #[test]
    fn a_type_and_a_reason_are_their_texts() {
        for of in Type::ALL {
            assert_eq!(Word::from(*of), Word::from(of.as_str()));
        }
        for reason in Reason::ALL {
            assert_eq!(Word::from(*reason), Word::from(reason.as_str()));
        }
    }

    #[test]
    fn the_owner_is_named_as_the_resource_is() {
        let served = crate::api::VERSIONS.map(|version| format!("{}/{version}", crate::api::GROUP));
        let names: Vec<_> = std::iter::once(crate::api::KIND.to_owned()).chain(served).collect();
        assert_eq!(names, OWNER);
    }
}
