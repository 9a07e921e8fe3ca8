//! A path while an object is walked through. Pure; used by the rest of [`super`].

use serde_json::Value;

use crate::kernel::field_path::{Path, plain};

/// Fields that say which object it is: by them the live one was found.
pub(super) const IDENTITY: &[&str] = &["apiVersion", "kind", "metadata.name", "metadata.namespace"];

/// A path under construction: every step down is undone by [`Trail::pop`].
#[derive(Default)]
pub(super) struct Trail {
    /// The names of the fields alone, joined by dots: what the tables of lists are looked up by.
    fields: String,
    /// The path with the items of lists: what people read.
    path: String,
    /// Lengths of both strings before each step.
    steps: Vec<(usize, usize)>,
}

impl Trail {
    /// Steps into a field of a map.
    pub(super) fn field(&mut self, name: &str) {
        self.mark();
        if !self.fields.is_empty() {
            self.fields.push('.');
        }
        self.fields.push_str(name);
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-') {
            self.path.extend(["[", name, "]"]);
        } else if self.path.is_empty() {
            self.path.push_str(name);
        } else {
            self.path.extend([".", name]);
        }
    }

    /// Steps into the item of a list that has these keys.
    pub(super) fn item<'a>(&mut self, keys: impl Iterator<Item = (&'a str, Option<&'a Value>)>) {
        self.mark();
        self.path.push('[');
        for (at, (key, value)) in keys.enumerate() {
            self.path.extend([if at == 0 { "" } else { "," }, key, "="]);
            match value {
                Some(Value::String(text)) => self.path.push_str(text),
                other => self.path.push_str(&plain(other.unwrap_or(&Value::Null))),
            }
        }
        self.path.push(']');
    }

    /// Steps into an element of a list that is told from others by `text`.
    pub(super) fn element(&mut self, text: &str) {
        self.mark();
        self.path.extend(["[", text, "]"]);
    }

    /// Steps back out of the last step in.
    pub(super) fn pop(&mut self) {
        if let Some((fields, path)) = self.steps.pop() {
            self.fields.truncate(fields);
            self.path.truncate(path);
        }
    }

    /// The fields passed, without items of lists: `spec.template.spec.containers.ports`.
    pub(super) fn fields(&self) -> &str {
        &self.fields
    }

    /// Whether a field of one of these names was passed.
    pub(super) fn passes(&self, names: &[&str]) -> bool {
        self.fields.split('.').any(|field| names.contains(&field))
    }

    /// The whole, for people.
    pub(super) fn to_path(&self) -> Path {
        self.path.clone()
    }

    fn mark(&mut self) {
        self.steps.push((self.fields.len(), self.path.len()));
    }
}
