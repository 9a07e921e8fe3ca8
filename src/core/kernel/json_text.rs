//! A JSON value as its text. Pure; the form in which an object of the API server is kept until something in it is needed.
//!
//! Most events repeat what is known. To see that, a text is hashed in one go and let go in one go, while a tree of maps is walked
//! twice: that was four fifths of the time of such an event.

use std::sync::OnceLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// A JSON value as its compact text. In the journal it stands as the value that it is.
#[derive(Clone, Debug)]
pub struct JsonText {
    text: Box<RawValue>,
    /// [`Self::tree`], once somebody has asked for it. It says nothing that the text does not say.
    tree: OnceLock<Value>,
}

impl JsonText {
    /// The text of what serialises. What does not, as a map without names, is JSON's null.
    #[must_use]
    pub fn new(value: &impl Serialize) -> Self {
        let text = to_raw_value(value).unwrap_or_else(|_no_json| RawValue::NULL.to_owned());
        Self { text, tree: OnceLock::new() }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.text.get()
    }

    /// The value.
    #[must_use]
    pub fn parse(&self) -> Value {
        serde_json::from_str(self.as_str()).unwrap_or_default()
    }

    /// The value, parsed once for all who look at it.
    #[must_use]
    pub fn tree(&self) -> &Value {
        self.tree.get_or_init(|| self.parse())
    }

    /// Takes the value that this is the text of, from whoever has it anyway.
    pub fn keep_tree(&mut self, tree: Value) {
        self.tree = tree.into();
    }

    /// Drops the value: it takes several times the memory of the text, which stays.
    pub fn let_tree_go(&mut self) {
        self.tree = OnceLock::new();
    }

    /// Changes the value.
    pub fn edit(&mut self, change: impl FnOnce(&mut Value)) {
        let mut value = self.parse();
        change(&mut value);
        *self = value.into();
    }
}

impl From<Value> for JsonText {
    fn from(value: Value) -> Self {
        Self::new(&value)
    }
}

impl PartialEq for JsonText {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for JsonText {}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(to)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    /// By way of a value, so that a text that was written in another form becomes the same compact text.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Value::deserialize(from).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_is_its_value_in_the_journal_and_when_it_is_read_back() {
        let value = json!({"b": [1, {"x": "y\"z"}], "a": null});
        let text = JsonText::new(&value);
        assert_eq!(serde_json::to_value(&text).unwrap(), value);
        assert_eq!(
            serde_json::from_str::<JsonText>("{ \"a\": null,\n\"b\":[1,{\"x\":\"y\\\"z\"}]}").unwrap(),
            text
        );
        assert_eq!(text.parse(), value);
    }

    #[test]
    fn who_looks_at_the_value_changes_nothing_and_its_memory_is_given_back() {
        let value = json!({"b": [1, 2], "a": null});
        let mut text = JsonText::new(&value);
        assert_eq!(text.tree(), &value);
        assert!(std::ptr::eq(text.tree(), text.tree()), "it is parsed once");
        assert_eq!(text, JsonText::new(&value));
        assert_eq!(serde_json::to_string(&text).unwrap(), value.to_string());
        text.let_tree_go();
        assert!(text.tree.get().is_none());
        text.keep_tree(value.clone());
        assert_eq!(text.tree.get(), Some(&value));
        text.let_tree_go();
        assert_eq!(text.tree(), &value);
    }
}
