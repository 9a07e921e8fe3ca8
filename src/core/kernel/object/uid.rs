//! Which incarnation of an object. Pure data.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// One incarnation of an object: a new object of an old name has another uid. Several are kept of each resource, so one that is
/// written as the API server writes them takes nothing of the heap.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub struct Uid(UidForm);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum UidForm {
    /// Written in lower case, with hyphens.
    Uuid(Uuid),
    /// Anything else.
    Text(Box<str>),
}

impl Default for Uid {
    fn default() -> Self {
        Self::from(String::new())
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            UidForm::Uuid(uuid) => uuid.hyphenated().fmt(f),
            UidForm::Text(text) => f.write_str(text),
        }
    }
}

impl From<Uid> for String {
    fn from(uid: Uid) -> Self {
        uid.to_string()
    }
}

impl From<String> for Uid {
    fn from(text: String) -> Self {
        let mut buffer = Uuid::encode_buffer();
        let uuid = Uuid::try_parse(&text).ok();
        // The text has to come out again as it went in.
        match uuid.filter(|uuid| *uuid.hyphenated().encode_lower(&mut buffer) == *text) {
            Some(uuid) => Self(UidForm::Uuid(uuid)),
            None => Self(UidForm::Text(text.into())),
        }
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_out_as_it_went_in() {
        let uuid = "6b2cf0b4-7f3f-4c6c-8f0e-2f6f4b8e9a01";
        let (upper, plain) = (uuid.to_uppercase(), uuid.replace('-', ""));
        for text in ["", "u", uuid, &upper, &plain, &format!("{{{uuid}}}"), &format!("urn:uuid:{uuid}")] {
            let uid = Uid::from(text);
            assert_eq!(
                (uid.to_string(), serde_json::to_value(&uid).unwrap()),
                (text.to_owned(), text.into())
            );
            assert_eq!(matches!(uid.0, UidForm::Uuid(_)), text == uuid, "{text}");
        }
        assert_ne!(Uid::from(uuid), Uid::from(upper));
    }
}
