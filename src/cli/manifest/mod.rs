//! Texts of YAML or JSON documents, read as `kubectl` reads them, with the position of every field. Takes a text, gives its
//! objects and what cannot be read. Pure; called by [`super::check`].

mod node;
mod syntax;

pub use self::node::{Duplicate, Node, SourcePosition};
pub use self::syntax::Unreadable;

/// Every object of a text, in order. A document that cannot be read hides none of the others. Lists are taken apart, empty
/// documents left out.
#[must_use]
pub fn read(text: &str) -> Vec<Result<Node, Unreadable>> {
    documents(text).iter().flat_map(of_document).collect()
}

/// A part of a text: one document, as a rule.
struct Document<'a> {
    text: &'a str,
    /// Lines of the whole text before this one.
    lines_before: u64,
}

/// Cuts a text at the lines that begin a document. `kubectl` does so too: it reads each part alone.
fn documents(text: &str) -> Vec<Document<'_>> {
    let mut found = Vec::new();
    let (mut start, mut first_line, mut at, mut begun) = (0, 0, 0, false);
    for (line, content) in (0..).zip(text.split_inclusive('\n')) {
        let marker = content
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if marker && begun {
            found.push(Document { text: &text[start..at], lines_before: first_line });
            (start, first_line) = (at, line);
        }
        // Directives (%YAML) belong to the document that follows them.
        begun |= !content.trim().is_empty() && !content.starts_with(['#', '%']);
        at += content.len();
    }
    found.push(Document { text: &text[start..], lines_before: first_line });
    found
}

fn of_document(document: &Document<'_>) -> Vec<Result<Node, Unreadable>> {
    let Document { text, lines_before } = *document;
    match node::read(text) {
        Ok(nodes) => {
            let nodes = nodes.into_iter().map(|node| node.moved_down(lines_before));
            nodes.flat_map(Node::into_objects).map(Ok).collect()
        }
        Err(error) => {
            let Unreadable { at, message } = syntax::explain(&error, text);
            vec![Err(Unreadable { at: at.moved_down(lines_before), message })]
        }
    }
}

#[cfg(test)]
mod tests;
