//! Texts of YAML or JSON documents, read as `kubectl` reads them, with the position of every field. Takes a text, gives its
//! objects and what cannot be read. Pure; called by [`super::check`].

mod node;
mod syntax;

use serde::de::IgnoredAny;

pub use self::node::{Duplicate, Node, SourcePosition};
pub use self::syntax::Unreadable;

/// Every object of a text, in order. A document that cannot be read hides none of the others. Lists are taken apart, empty
/// documents left out.
#[must_use]
pub fn read(text: &str) -> Vec<Result<Node, Unreadable>> {
    let documents = json_objects(text).unwrap_or_else(|| documents(text));
    documents.iter().flat_map(of_document).collect()
}

/// A part of a text: one document, as a rule.
struct Document<'a> {
    text: &'a str,
    /// Where it begins in the whole text.
    start: SourcePosition,
}

/// Cuts a text of JSON objects at the end of each: `kubectl` takes them one behind the other. `None` of any other text.
fn json_objects(text: &str) -> Option<Vec<Document<'_>>> {
    let is_object = |text: &str| text.trim_start().starts_with('{');
    if !is_object(text) {
        return None;
    }
    let (mut found, mut begin, mut start) = (Vec::new(), 0, SourcePosition::START);
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    while let Some(value) = values.next() {
        value.ok()?;
        let text = &text[begin..values.byte_offset()];
        if !is_object(text) {
            return None;
        }
        found.push(Document { text, start });
        (begin, start) = (values.byte_offset(), end(text, start));
    }
    Some(found)
}

/// Where a text ends that begins at `start`.
fn end(text: &str, start: SourcePosition) -> SourcePosition {
    text.chars().fold(start, |SourcePosition { line, column }, letter| match letter {
        '\n' => SourcePosition { line: line + 1, column: 1 },
        _ => SourcePosition { line, column: column + 1 },
    })
}

/// Cuts a text at the lines that begin a document. `kubectl` does so too: it reads each part alone.
fn documents(text: &str) -> Vec<Document<'_>> {
    let mut found = Vec::new();
    let (mut begin, mut start, mut at, mut begun) = (0, SourcePosition::START, 0, false);
    for (line, content) in (1..).zip(text.split_inclusive('\n')) {
        let marker = content
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if marker && begun {
            found.push(Document { text: &text[begin..at], start });
            (begin, start) = (at, SourcePosition { line, column: 1 });
        }
        // Directives (%YAML) belong to the document that follows them.
        begun |= !content.trim().is_empty() && !content.starts_with(['#', '%']);
        at += content.len();
    }
    found.push(Document { text: &text[begin..], start });
    found
}

fn of_document(document: &Document<'_>) -> Vec<Result<Node, Unreadable>> {
    let Document { text, start } = *document;
    match node::read(text) {
        Ok(nodes) => {
            let nodes = nodes.into_iter().map(|node| node.within(start));
            nodes.flat_map(Node::into_objects).map(Ok).collect()
        }
        Err(error) => {
            let Unreadable { at, message } = syntax::explain(&error, text);
            vec![Err(Unreadable { at: at.within(start), message })]
        }
    }
}

#[cfg(test)]
mod tests;
